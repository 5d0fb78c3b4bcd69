"""Resolve `any_of` and `ordered`: a job has one cluster, so the first alternative that can run on Kubernetes is it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.schema.fields import Shape, listed
from reconciler.core.schema.infra import PLACE_FIELDS, Infra, parse_infra
from reconciler.core.schema.task_fields import ALTERNATIVE, RESOURCES

if TYPE_CHECKING:
    from reconciler.core.schema.fields import Reader

_LISTS = ("any_of", "ordered")


class Entry(NamedTuple):
    """A value, and where it stands: in `resources`, or in the alternative that was taken."""

    path: FieldPath
    value: Any


Entries = dict[str, Entry]


def choose(reader: Reader, path: FieldPath, resources: dict[str, Any]) -> Entries:
    """Return the fields of `resources`, overlaid with those of the first alternative on Kubernetes.

    The others are named in one warning. That an alternative is for another cloud is no error, unless all are.
    """
    base = reader.section(path, resources, RESOURCES)
    entries = {key: Entry((*path, key), value) for key, value in base.items() if key not in _LISTS}
    lists = [name for name in _LISTS if name in base]
    if len(lists) > 1:
        reader.error((*path, "ordered"), "conflict", "resources has both any_of and ordered: write one list")
    if not lists:
        return entries
    place = (*path, lists[0])
    if isinstance(base.get("accelerators"), list):
        at = (*path, "accelerators")
        message = f"{field_name(at)} is a list of alternatives, and so is {lists[0]}: write one list"
        reader.error(at, "conflict", message)
    usable, dropped = _sort_out(reader, place, base[lists[0]], base)
    if not usable:
        if dropped or not base[lists[0]]:
            reader.error(place, "not-kubernetes", _none_left(place, dropped))
        return entries
    first, *others = usable
    unused = [f"[{index}]" for index in others] + [f"[{index}] ({infra.written})" for index, infra in dropped.items()]
    if unused:
        message = f"{field_name((*place, first))} is taken, the first on Kubernetes; not used: {listed(unused)}"
        reader.warning(place, "alternative-dropped", message)
    chosen = reader.section((*place, first), base[lists[0]][first], ALTERNATIVE)
    return _overlay(entries, (*place, first), chosen)


def _sort_out(
    reader: Reader, place: FieldPath, items: list[Any], base: dict[str, Any]
) -> tuple[list[int], dict[int, Infra]]:
    """Return the indexes of the alternatives on Kubernetes, and where the others would run."""
    usable: list[int] = []
    dropped: dict[int, Infra] = {}
    for index, item in enumerate(items):
        if not reader.has_shape((*place, index), item, Shape.MAPPING):
            continue
        known = {key: value for key, value in item.items() if value is not None}
        own = any(name in known for name in PLACE_FIELDS)
        infra = _infra(reader, (*place, index), known if own else base)
        if infra is None:
            continue
        if infra.is_kubernetes:
            usable.append(index)
        else:
            dropped[index] = infra
        if usable != [index]:  # the one that is taken is read in full later
            known = reader.known((*place, index), item, ALTERNATIVE)
            reader.section((*place, index), {name: known[name] for name in _LISTS if name in known}, ALTERNATIVE)
    return usable, dropped


def _infra(reader: Reader, place: FieldPath, resources: dict[str, Any]) -> Infra | None:
    try:
        return parse_infra({name: text for name in PLACE_FIELDS if isinstance(text := resources.get(name), str)})
    except ValueError as error:
        reader.error(place, "invalid-value", f"{field_name(place)}: {error}")
        return None


def _none_left(place: FieldPath, dropped: dict[int, Infra]) -> str:
    places = listed([f"[{index}] {infra.written}" for index, infra in dropped.items()]) or "it is empty"
    return f"no alternative in {field_name(place)} is on Kubernetes ({places}): add one with infra: k8s"


def _overlay(entries: Entries, place: FieldPath, chosen: dict[str, Any]) -> Entries:
    own = {key: Entry((*place, key), value) for key, value in chosen.items()}
    if any(name in own for name in PLACE_FIELDS):
        entries = {key: entry for key, entry in entries.items() if key not in PLACE_FIELDS}
    if "labels" in own and "labels" in entries:
        own["labels"] = Entry(own["labels"].path, {**entries["labels"].value, **own["labels"].value})
    return {**entries, **own}
