"""Check a pod, or the part of one that a layer of pod_config is, against the schema of the Kubernetes API: offline.

`pod.json` beside this is that schema, of a PodTemplateSpec. Null is absence, as for the API server. What no schema can
say (that a class exists, that names fit together) is left to the server's dry run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reconciler.core.manifest import without_nulls
from reconciler.core.schema.fields import did_you_mean, kind, listed, shown

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

    from reconciler.core.field_path import FieldPath
    from reconciler.model import Manifest

_TYPES = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field of a pod; `text` goes on from the field's name: `must be text, not a list`."""

    path: FieldPath
    code: str
    text: str


def check_part(part: Manifest) -> list[Fault]:
    """Return what no pod could have: what one needs may come from another layer."""
    return _faults(without_nulls(part), whole=False)


def check_pod(pod: Manifest) -> list[Fault]:
    """Return what is wrong with a whole pod template without nulls, what it lacks included."""
    return _faults(pod, whole=True)


def _faults(pod: Manifest, *, whole: bool) -> list[Fault]:
    return [fault for error in _validator(whole=whole).iter_errors(pod) for fault in _describe(error)]


@cache
def _schema() -> Any:
    return json.loads(files("reconciler.core.schema").joinpath("pod.json").read_text(encoding="utf-8"))


@cache
def _validator(*, whole: bool) -> Validator:
    from jsonschema_rs import validator_for

    schema = _schema()
    if not whole:
        parts = {name: {k: v for k, v in each.items() if k != "required"} for name, each in schema["$defs"].items()}
        schema = schema | {"$defs": parts}
    return validator_for(schema)


def _describe(error: ValidationError) -> list[Fault]:
    """Put an error into our words; a value is shown only where it can't be a secret."""
    path: FieldPath = tuple(error.instance_path)
    said: dict[str, Any] = error.kind.as_dict()
    match error.kind.name:
        case "additionalProperties":
            names = _field_names(path)
            unknown = f"is no field of {_schema()['$comment'].rpartition('.')[0]}"
            return [Fault((*path, n), "unknown-field", unknown + did_you_mean(n, names)) for n in said["unexpected"]]
        case "required":
            return [Fault((*path, said["property"]), "missing-value", "is missing")]
        case "type":
            return [Fault(path, "wrong-type", _wrong_type(said["types"], error.instance))]
        case "pattern":
            text = f"is no quantity: {shown(error.instance)}; write such as 500m, 4 or 16Gi"
            return [Fault(path, "invalid-value", text)]
        case "enum":
            options = listed([option for option in said["options"] if option])
            return [Fault(path, "invalid-value", f"must be one of {options}, not {shown(error.instance)}")]
        case _:
            return [Fault(path, "invalid-value", f"is out of range: {shown(error.instance)}")]


def _wrong_type(types: list[str], found: object) -> str:
    expected = " or ".join(name for key, name in _TYPES.items() if key in types)
    quotes = ": write it in quotes" if types == ["string"] and isinstance(found, bool | int | float) else ""
    return f"must be {expected}, not {kind(found)}{quotes}"


def _field_names(path: FieldPath) -> list[str]:
    """Name the fields that there can be at a path of the schema."""
    definitions, node = _schema()["$defs"], _schema()
    for step in path:
        node = _resolved(node, definitions)
        if isinstance(step, int):
            node = node["items"]
        else:
            node = node.get("properties", {}).get(step) or node["additionalProperties"]
    return list(_resolved(node, definitions).get("properties", {}))


def _resolved(node: Any, definitions: dict[str, Any]) -> Any:
    while "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    return node
