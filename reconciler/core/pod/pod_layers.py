"""Collect the layers of pod_config and custom_metadata that meet in a run, and warn of what they hardly mean.

The main container is `main` here; layers written for SkyPilot may call it by SkyPilot's names, old and new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.core.compose import layer_title, setting_name
from reconciler.core.manifest import mapping, objects
from reconciler.core.schema.pod_config import MAIN_ALIASES
from reconciler.model import ANNOTATION_PREFIX, MAIN_CONTAINER, Manifest, Problem, Severity, Site, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.core.compose import Layers
    from reconciler.core.field_path import FieldPath

_CONTAINERS: FieldPath = ("spec", "containers")


def pod_config_layers(task: Task, site: Site, context: str) -> Layers:
    """Return the layers of pod_config, the lowest first, with the main container under its name here."""
    of_context = site.contexts.get(context, {}).get("pod_config") or {}
    layers = (("global", site.pod_config), (f"context {context}", of_context), ("task", task.pod_config))
    return [(layer, _with_main(content)) for layer, content in layers]


def custom_metadata_layers(task: Task, site: Site, context: str) -> Layers:
    """Return the layers of custom_metadata, the lowest first."""
    of_context = site.contexts.get(context, {}).get("custom_metadata") or {}
    return [("global", site.custom_metadata), (f"context {context}", of_context), ("task", task.custom_metadata)]


def check_layers(pod_config: Layers, custom_metadata: Layers, own_variables: Sequence[str], path: str) -> list[Problem]:
    """Refuse labels and annotations that are ours, and warn where a layer does other than its writer seems to think."""
    reserved = [
        *_reserved([(layer, mapping(content.get("metadata"))) for layer, content in pod_config], path, "pod_config"),
        *_reserved(custom_metadata, path, "custom_metadata"),
    ]
    doubts = [*_patched_sidecars(pod_config), *_overridden(pod_config, own_variables)]
    return reserved + [
        Problem(
            Severity.WARNING,
            code,
            path,
            f"{layer_title(layer)}: {text}",
            field=setting_name(layer, "pod_config", field),
        )
        for layer, field, code, text in doubts
    ]


def _with_main(layer: Manifest) -> Manifest:
    if not any(_is_main(container) for container in _containers(layer)):
        return layer
    containers = [item | {"name": MAIN_CONTAINER} if _is_main(item) else item for item in layer["spec"]["containers"]]
    return layer | {"spec": layer["spec"] | {"containers": containers}}


def _is_main(container: Any) -> bool:
    return isinstance(container, dict) and container.get("name") in list(MAIN_ALIASES)


def _containers(layer: Manifest) -> list[Manifest]:
    """Return the containers of a layer that are mappings; about others the merge complains."""
    return objects(mapping(layer.get("spec")).get("containers"))


def _reserved(layers: Layers, path: str, root: str) -> Iterator[Problem]:
    above: FieldPath = ("metadata",) if root == "pod_config" else ()
    for layer, metadata in layers:
        for kind in ("labels", "annotations"):
            for key in mapping(metadata.get(kind)):
                if key.startswith(ANNOTATION_PREFIX):
                    message = f"{layer_title(layer)}: {key} is written by us, and can't be set; leave it out"
                    field = setting_name(layer, root, (*above, kind, key))
                    yield Problem(Severity.ERROR, "reserved", path, message, field=field)


def _patched_sidecars(layers: Layers) -> Iterator[tuple[str, FieldPath, str, str]]:
    """Yield where a container without a name patches the first one of the layers below, and that isn't the job's."""
    first = None
    for layer, content in layers:
        containers = _containers(content)
        if first not in (None, MAIN_CONTAINER) and any(item.get("name") is None for item in containers):
            message = (
                f"the container without a name changes {first!r}, the first one of the layers below, "
                f"and not the job's: write name: {MAIN_CONTAINER}"
            )
            yield layer, _CONTAINERS, "patches-sidecar", message
        if first is None and containers:
            first = containers[0].get("name")


def _overridden(layers: Layers, own_variables: Sequence[str]) -> Iterator[tuple[str, FieldPath, str, str]]:
    """Yield the variables that a task sets in two places; over a layer of the site it is meant to win."""
    layer, content = layers[-1]
    for container in _containers(content):
        env = container.get("env")
        if container.get("name") not in (None, MAIN_CONTAINER) or not isinstance(env, list):
            continue
        for name in own_variables:
            if any(isinstance(item, dict) and item.get("name") == name for item in env):
                message = (
                    f"variable {name} is set outside pod_config too, in envs, secrets or by us, and that one counts"
                )
                yield layer, _CONTAINERS, "overridden", message
