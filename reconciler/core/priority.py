"""Turn one file under `priorities/` into PriorityClasses, or into all its problems; then compare the files.

The rules are those of the API server (pkg/apis/scheduling/validation), checked before anything is sent, and two that it
does not have: a value must be written, because it would silently be 0, and two files can't declare one class.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.schema.fields import (
    Fields,
    Reader,
    Shape,
    did_you_mean,
    ignored,
    kind,
    listed,
    refused,
    shown,
    taken,
    with_yaml_problems,
)
from reconciler.core.schema.metadata import check_metadata
from reconciler.core.schema.name_rules import is_dns_subdomain
from reconciler.core.yaml import parse_documents
from reconciler.model import ANNOTATION_PREFIX, PriorityClass, PriorityFile, Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

API_VERSION = "scheduling.k8s.io/v1"
KIND = "PriorityClass"
HIGHEST = 1_000_000_000
LOWEST = -(2**31)
REPLACE = ANNOTATION_PREFIX + "replace"
_LISTS = {"PriorityClassList": API_VERSION, "List": "v1"}
_POLICIES = ("PreemptLowerPriority", "Never")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")

_SERVER = ignored("the cluster writes it")
_FIXED = refused("classes are named and kept by this repository; leave it out")
CLASS: Fields = {
    "apiVersion": taken(f"always {API_VERSION}", Shape.TEXT),
    "kind": taken(f"always {KIND}", Shape.TEXT),
    "metadata": taken("its name, labels and annotations", Shape.MAPPING),
    "value": taken(f"a plain integer up to {HIGHEST}; the higher goes first", Shape.INTEGER),
    "globalDefault": taken("whether pods without a class get this one; of one class at most", Shape.BOOLEAN),
    "preemptionPolicy": taken("PreemptLowerPriority, the default, or Never", Shape.TEXT),
    "description": taken("for people", Shape.TEXT),
}
METADATA: Fields = {
    "name": taken("the name of the class", Shape.TEXT),
    "labels": taken("labels", Shape.MAPPING),
    "annotations": taken(f'annotations; {REPLACE}: "true" lets value and policy change', Shape.MAPPING),
    "namespace": ignored("a PriorityClass is for the whole cluster"),
    **dict.fromkeys(
        ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"), _SERVER
    ),
    **dict.fromkeys(("finalizers", "generateName", "ownerReferences", "deletionTimestamp"), _FIXED),
}
LIST: Fields = {
    "apiVersion": taken("as the kind has it", Shape.TEXT),
    "kind": taken("PriorityClassList or List", Shape.TEXT),
    "items": taken("the classes", Shape.LIST),
    "metadata": taken("of a list, which has nothing in it", Shape.MAPPING),
}


def parse_priority_file(path: str, data: bytes) -> PriorityFile:
    """Parse one file of one or more documents, each a class or a list of classes.

    A class without an error is returned even when its neighbour has one, but none from a file that is not sound YAML.
    Warnings are among the problems.
    """
    documents, broken = parse_documents(data, path)
    classes: list[PriorityClass] = []
    problems: list[Problem] = []
    for document in documents:
        shell = Reader(document, path)
        for place, item in _items(shell, document.value):
            reader = Reader(document, path)
            declared = _read_class(reader, path, place, item)
            if declared and not broken:
                classes.append(declared)
            problems += reader.problems
        problems += shell.problems
    return PriorityFile(path, tuple(classes), with_yaml_problems(broken, problems))


def check_priority_files(files: Sequence[PriorityFile]) -> list[Problem]:
    """Return what is wrong between classes, within files and across: one name twice, more than one global default.

    Each class that is part of it gets a problem that names the others, because none of them is more right.
    """
    by_name: defaultdict[str, list[PriorityClass]] = defaultdict(list)
    for declared in (declared for file in files for declared in file.classes):
        by_name[declared.name].append(declared)
    defaults = [declared for same in by_name.values() for declared in same if declared.global_default]
    problems = []
    for same in by_name.values():
        what = f"PriorityClass {same[0].name!r} is declared more than once, also"
        problems += _name_each_other(same, "duplicate-name", what, "metadata.name")
    what = "there can be one globalDefault, and it is claimed also"
    problems += _name_each_other(defaults, "second-default", what, "globalDefault")
    return sorted(problems, key=lambda problem: (problem.path, problem.line or 0))


def _name_each_other(classes: list[PriorityClass], code: str, what: str, field: str) -> list[Problem]:
    problems = []
    for declared in classes if len(classes) > 1 else []:
        others = listed([f"by {o.name!r} in {o.path}, line {o.line}" for o in classes if o is not declared])
        message = f"{what} {others}: leave one"
        problems.append(Problem(Severity.ERROR, code, declared.path, message, declared.line, field=field))
    return problems


def _items(reader: Reader, value: Any) -> list[tuple[FieldPath, Any]]:
    """Return the places of the classes in a document, and what stands there."""
    if not isinstance(value, dict) or value.get("kind") not in tuple(_LISTS):
        return [((), value)]
    expected = _LISTS[value["kind"]]
    if value.get("apiVersion") != expected:
        message = f"apiVersion of a {value['kind']} is {expected}, not {shown(value.get('apiVersion'))}"
        reader.error(("apiVersion",), "invalid-value", message)
    items = reader.section((), value, LIST).get("items", [])
    kinds = {"apiVersion": API_VERSION, "kind": KIND} if value["kind"] == "PriorityClassList" else {}
    return [
        (("items", index), {**kinds, **item} if isinstance(item, dict) else item) for index, item in enumerate(items)
    ]


def _read_class(reader: Reader, file: str, place: FieldPath, item: Any) -> PriorityClass | None:
    if not isinstance(item, dict):
        reader.error(place, "wrong-type", f"a PriorityClass is a mapping, not {kind(item)}")
        return None
    if not _is_class(reader, place, item):
        return None
    fields = reader.section(place, {key: found for key, found in item.items() if key != "value"}, CLASS)
    value = _value(reader, (*place, "value"), item.get("value"))
    metadata = _metadata(reader, (*place, "metadata"), fields.get("metadata", {}))
    policy = fields.get("preemptionPolicy", _POLICIES[0])
    if policy not in _POLICIES:
        message = f"preemptionPolicy must be {' or '.join(_POLICIES)}, not {shown(policy)}"
        reader.error((*place, "preemptionPolicy"), "invalid-value", message + did_you_mean(policy, _POLICIES))
    if reader.failed:
        return None
    rest = {
        "value": value,
        "globalDefault": fields.get("globalDefault", False),
        "preemptionPolicy": policy,
        "description": fields.get("description", ""),
    }
    return PriorityClass(
        path=file,
        line=reader.document.position((*place, "metadata", "name"))[0],
        name=metadata["name"],
        value=value,
        global_default=rest["globalDefault"],
        preemption_policy=policy,
        description=rest["description"],
        manifest={"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, **rest},
    )


def _is_class(reader: Reader, place: FieldPath, item: dict[str, Any]) -> bool:
    """Tell whether the item is meant to be a PriorityClass; of another kind nothing else matters."""
    for name, expected in (("kind", KIND), ("apiVersion", API_VERSION)):
        found = item.get(name)
        if found != expected:
            what = "is missing" if found is None else f"is {shown(found)}"
            message = f"{field_name((*place, name))} {what}: only {KIND} of {API_VERSION} belongs here"
            reader.error((*place, name), "wrong-kind", message)
            if name == "kind" and "value" not in item:
                return False
    return True


def _value(reader: Reader, place: FieldPath, value: Any) -> int:
    text = reader.document.source(place)
    if value is None:
        message = f"{field_name(place)} is missing: write a plain integer; the API would take 0 without a word"
        reader.error(place, "missing-value", message)
    elif not isinstance(value, int) or isinstance(value, bool) or not _PLAIN_INTEGER.fullmatch(text or ""):
        reader.error(place, "invalid-value", _no_integer(place, text, value))
    elif not LOWEST <= value <= HIGHEST:
        message = f"{field_name(place)} must be from {LOWEST} to {HIGHEST}, the highest that is not Kubernetes' own"
        reader.error(place, "invalid-value", f"{message}; it is {value}")
    return value if isinstance(value, int) else 0


def _no_integer(place: FieldPath, text: str | None, value: Any) -> str:
    hint = ""
    if text and _PLAIN_INTEGER.fullmatch(text):
        hint = f" without quotes, up to {HIGHEST}"
    elif isinstance(value, float):
        hint = "; tools that render templates write large numbers so"
    found = kind(value) if text is None else shown(text)
    return f"{field_name(place)} must be a plain integer such as 1000, not {found}{hint}"


def _metadata(reader: Reader, place: FieldPath, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that is sent; the wish that the class be replaced is not."""
    annotations = metadata.get("annotations")
    ours: dict[str, Any] = {}
    if isinstance(annotations, dict):
        ours = {key: value for key, value in annotations.items() if key.startswith(ANNOTATION_PREFIX)}
        metadata = {**metadata, "annotations": {key: annotations[key] for key in annotations if key not in ours}}
    check_metadata(reader, place, metadata, METADATA)
    name = metadata.get("name")
    if name is None:
        reader.error((*place, "name"), "missing-value", f"{field_name((*place, 'name'))} is missing: name the class")
    elif isinstance(name, str):
        _check_name(reader, (*place, "name"), name)
    texts = {
        key: {name: text for name, text in metadata[key].items() if text is not None}
        for key in ("labels", "annotations")
        if isinstance(metadata.get(key), dict)
    }
    sent = {"name": name} | {key: mapping for key, mapping in texts.items() if mapping}
    _check_ours(reader, (*place, "annotations"), ours)
    return sent


def _check_name(reader: Reader, place: FieldPath, name: str) -> None:
    if name.startswith("system-"):
        message = f"{field_name(place)}: {shown(name)} begins with system-, which is kept for Kubernetes: rename it"
        reader.error(place, "reserved", message)
    elif not is_dns_subdomain(name):
        message = f"{field_name(place)}: {shown(name)} must be at most 253 of a-z, 0-9, '-' and '.'"
        reader.error(place, "invalid-value", f"{message}, with a letter or digit at both ends")


def _check_ours(reader: Reader, place: FieldPath, ours: dict[str, Any]) -> None:
    for key in ours:
        if key != REPLACE:
            message = f"there is no annotation {shown(key)} for a PriorityClass{did_you_mean(key, [REPLACE])}"
            reader.error((*place, key), "unknown-field", message)
    text = reader.document.source((*place, REPLACE))
    if REPLACE in ours and text not in {"true", "false"}:
        reader.error((*place, REPLACE), "invalid-value", f'{REPLACE} must be "true" or "false", not {shown(text)}')
    if text == "true":
        message = "classes are not replaced yet: a changed value is held; rename the class, or delete it by hand"
        reader.warning((*place, REPLACE), "not-supported-yet", message)
