"""Merge layers of pod_config exactly as SkyPilot 0.14.1 does (`sky.utils.config_utils.merge_k8s_configs`).

The rule for a key that both sides have: null clears whatever was there · mappings merge · a list replaces, appends or
merges its items by a key, as the *name* of the field decides, at any depth · a scalar replaces a scalar or null · any
other pair of types is an error, a mapping or list onto null too. Items keep the order of the base, and new ones follow;
a container without a name merges into the first one of the layer below.

Its corners are kept, since people's files rely on them: `[]` and `{}` clear nothing (but replaced lists), tolerations
pile up, a value and a valueFrom can meet. What that can break is looked for after the merge, never changed in it. Only
upstream's side effects are kept out: no argument changes, and the result shares nothing with any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepmerge import STRATEGY_END, Merger

from reconciler.core.field_path import FieldPath, field_name
from reconciler.model import Manifest, Problem, Severity

Layers = Sequence[tuple[str, Manifest]]
"""Named layers, the lowest first: `global`, `context NAME`, `task`."""

_ITEM_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "resourceClaims": "name",
    "env": "name",
    "claims": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
_REPLACED_LISTS = frozenset({"args", "command", "imagePullSecrets"})

RENDERED = "rendered pod"
"""What a task's own fields make of a pod: what all layers go onto."""


class MergeConflict(ValueError):  # noqa: N818 - it names the situation, as the API's own reasons do
    """Two layers give one field what can't be merged: `given` was to go onto `met`, at `path` in the upper layer."""

    def __init__(self, path: Sequence[str | int], met: object, given: object) -> None:
        self.path: FieldPath = tuple(path)
        self.met, self.given = _kind(met), _kind(given)
        super().__init__(f"{field_name(self.path)}: {self.given} can't be merged onto {self.met}")


def merge_pod_config(base: Manifest, override: Manifest) -> Manifest:
    """Return `base` with `override` merged into it, sharing nothing with either. Raises MergeConflict."""
    copied: Manifest = _copy(base or override)
    return _MERGER.merge(copied, _copy(override)) if base and override else copied


def compose_layers(
    layers: Layers, path: str, *, root: str = "pod_config", onto: Manifest | None = None
) -> tuple[Manifest, list[Problem]]:
    """Merge layers with each other, lowest first, and then the result onto the rendered `onto`.

    NB: these are two phases: an unnamed container of an upper layer patches the first container *of the lower layers*,
    and only when they have none does it come to patch the rendered one.

    The layers are called `global`, `context NAME` and `task`; `root` is the key in the settings that they stand under.
    A layer in conflict is a problem of the file `path` and is left out, so that all the others' are found too.
    """
    merged: Manifest = {}
    problems = []
    for number, (layer, content) in enumerate(layers):
        try:
            merged = merge_pod_config(merged, content) if content else merged
        except MergeConflict as conflict:
            below = layer_of(layers[:number], conflict.path)
            problems.append(_problem(conflict, layer, below, path, root))
    if onto is None or problems:
        return merged, problems
    try:
        return merge_pod_config(onto, merged), problems
    except MergeConflict as conflict:
        layer, conflict = _culprit(layers, onto, conflict)
        return merged, [_problem(conflict, layer, RENDERED, path, root)]


def layer_of(layers: Layers, path: FieldPath) -> str:
    """Name the highest layer that says something at a path, items of a list not told apart; else the lowest."""
    return next((layer for layer, content in reversed(layers) if _says(content, path)), layers[0][0])


def setting_name(layer: str, root: str, path: FieldPath) -> str:
    """Write the full name that a path in a layer has in the file that holds the layer."""
    kind, _, context = layer.partition(" ")
    above: FieldPath = ("config", "kubernetes") if kind == "task" else ("kubernetes",)
    if context:
        above = (*above, "context_configs", context)
    return field_name((*above, root, *path))


def layer_title(layer: str) -> str:
    """Name a layer for people, with its file where that is not the task's own."""
    if layer == RENDERED:
        return f"the {layer}"
    return "layer task" if layer == "task" else f"layer {layer} (.sky.yaml)"


def _problem(conflict: MergeConflict, layer: str, below: str, path: str, root: str) -> Problem:
    message = f"{layer_title(layer)} gives {conflict.given} where {layer_title(below)} has {conflict.met}"
    advice = "take that null out" if conflict.met == "null" else "give the same type in both, or null to clear it"
    field = setting_name(layer, root, conflict.path)
    return Problem(Severity.ERROR, "pod-config-conflict", path, f"{message}: {advice}", field=field)


def _culprit(layers: Layers, onto: Manifest, conflict: MergeConflict) -> tuple[str, MergeConflict]:
    """Find the layer whose own content is in conflict with the rendered pod, and the conflict in its own numbering."""
    for layer, content in reversed(layers):
        try:
            merge_pod_config(onto, content)
        except MergeConflict as own:
            return layer, own
    return layer_of(layers, conflict.path), conflict


def _says(value: object, path: FieldPath) -> bool:
    if not path:
        return True
    if isinstance(value, list):
        return any(_says(item, path[1:]) for item in value)
    return isinstance(value, dict) and path[0] in value and _says(value[path[0]], path[1:])


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}.get(type(value), "a number")


def _copy(value: Any) -> Any:
    """Copy JSON. NB: `copy.deepcopy` would keep what a YAML anchor shares shared, and a merge would change both."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) is str else _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if kind is list else value


def _replace_list(_merger: Merger, path: list[Any], _base: list[Any], override: list[Any]) -> Any:
    return override if path[-1] in _REPLACED_LISTS else STRATEGY_END


def _merge_items(merger: Merger, path: list[Any], base: list[Any], override: list[Any]) -> Any:
    key = _ITEM_KEYS.get(path[-1])
    if key is None:
        return STRATEGY_END
    for number, item in enumerate(override):
        here = [*path, number]
        at = _index(base, key, item, here)
        if at is None and path[-1] == "containers" and base and item.get(key) is None:
            at = 0
        if at is None:
            base.append(item)
        elif item:  # upstream accepts nothing onto anything
            base[at] = merger.value_strategy(here, base[at], item)
    return base


def _index(base: list[Any], key: str, item: Any, path: list[Any]) -> int | None:
    """Return where the first item with the same key stands. Upstream raises for one that is no mapping, as met."""
    if not isinstance(item, dict):
        raise MergeConflict(path, {}, item)
    if item.get(key) is None:
        return None
    for at, candidate in enumerate(base):
        if not isinstance(candidate, dict):
            raise MergeConflict(path, candidate, item)
        if candidate.get(key) == item[key]:
            return at
    return None


def _settle(_merger: Merger, path: list[Any], base: Any, override: Any) -> Any:
    if override is None or (isinstance(override, list) and path[-1] in _REPLACED_LISTS):
        return override
    if isinstance(base, dict | list) or isinstance(override, dict | list):
        raise MergeConflict(path, base, override)
    return override


_MERGER = Merger([(list, [_replace_list, _merge_items, "append"]), (dict, "merge")], ["override"], [_settle])
