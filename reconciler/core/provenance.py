"""Tell where each value of a merged tree comes from, by sending marked values through the very same merge.

A merge looks at the type of mappings and lists, and at scalars only to compare them. So a scalar that also knows its
layer and its place there passes through like itself, and what comes out says of each field which layer set it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from reconciler.core.compose import RENDERED, Layers, compose_layers, layer_of, setting_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.core.field_path import FieldPath
    from reconciler.model import Manifest

    Naming = Callable[[FieldPath], str]
    """Writes a path within a layer as the name of the setting in the file that holds the layer."""


_RANKS = {RENDERED: 0, "global": 1, "task": 3}
_RANK_OF_CONTEXT = 2


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """A scalar that knows its layer and its place in it. It is equal to its value, and hashes, reads and tests so."""

    value: Any
    layer: str
    path: FieldPath
    naming: Naming

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, Marked) else other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer that has the last word on a field, and the setting's name in that layer's file."""

    layer: str
    setting: str


def mark(tree: Any, layer: str, naming: Naming, path: FieldPath = ()) -> Any:
    """Return a copy of JSON whose scalars are marked; null stays null, since a merge asks for it by identity."""
    if isinstance(tree, dict):
        return {key: mark(item, layer, naming, (*path, key)) for key, item in tree.items()}
    if isinstance(tree, list):
        return [mark(item, layer, naming, (*path, index)) for index, item in enumerate(tree)]
    return None if tree is None else Marked(tree, layer, path, naming)


def mark_layers(layers: Layers, root: str) -> Layers:
    """Return layers of settings whose scalars are marked; `root` is the key in the settings that they stand under."""
    return [(layer, mark(content, layer, partial(setting_name, layer, root))) for layer, content in layers]


def leaves(tree: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield each scalar with its path, in order; an empty mapping or list counts as one."""
    if isinstance(tree, dict | list) and tree:
        steps = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for step, item in steps:
            yield from leaves(item, (*path, step))
    else:
        yield path, tree


def origin_of(tree: Any, path: FieldPath) -> Origin | None:
    """Return where a field comes from; for one that is not there or empty, where the nearest part around it does.

    What is made of several layers belongs to the last one of them. None for what no layer has brought.
    """
    node, known = tree, 0
    for step in path:
        inside = step in node if isinstance(node, dict) else isinstance(node, list) and step in range(len(node))
        if not inside or node[step] in ({}, []):
            break
        node, known = node[step], known + 1
    marked = [(below, leaf) for below, leaf in leaves(node) if isinstance(leaf, Marked)]
    if not marked:
        return None
    below, leaf = max(marked, key=lambda entry: _RANKS.get(entry[1].layer, _RANK_OF_CONTEXT))
    own = leaf.path[: len(leaf.path) - len(below)]
    return Origin(leaf.layer, leaf.naming((*own, *path[known:])))


class Origins:
    """Tells where the fields of a merged pod come from; the layers are merged once more when somebody first asks."""

    def __init__(self, layers: Layers, rendered: Manifest) -> None:
        self._layers = layers
        self._rendered = rendered
        self._marked: Manifest | None = None

    def __call__(self, path: FieldPath) -> Origin:
        """Return the layer of settings with the last word on a field; one that has cleared it leaves no other trace."""
        if self._marked is None:
            self._marked, _ = compose_layers(mark_layers(self._layers, "pod_config"), "", onto=self._rendered)
        origin = origin_of(self._marked, path)
        if origin is not None:
            return origin
        layer = layer_of(self._layers, path)
        return Origin(layer, setting_name(layer, "pod_config", tuple(takewhile(lambda s: isinstance(s, str), path))))
