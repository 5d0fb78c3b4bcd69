"""Make the schema of pods, `pod.json`, from the one that Kubernetes publishes; run as a program, write it.

What a PodTemplateSpec needs is kept, without descriptions. Null is absence here, so no type names it. The published
schema says little of texts; what the API server checks of the ones that people get wrong most often is added.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

VERSION = "1.37.0"
POD_SCHEMA = Path(__file__).parents[3] / "reconciler" / "core" / "schema" / "pod.json"
ROOT = "PodTemplateSpec"
QUANTITY = {
    "type": ["string", "number"],
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
NO_PORT_TOO = PORT | {"minimum": 0}
PULL_POLICY = ["Always", "IfNotPresent", "Never", ""]
MESSAGE_POLICY = ["File", "FallbackToLogsOnError", ""]
PROFILE = ["Localhost", "RuntimeDefault", "Unconfined"]
NODE_POLICY = ["Honor", "Ignore"]
ADDED: dict[str, dict[str, Any]] = {
    "AppArmorProfile": {"type": PROFILE},
    "Container": {"imagePullPolicy": PULL_POLICY, "terminationMessagePolicy": MESSAGE_POLICY},
    "ContainerPort": {"containerPort": PORT, "hostPort": NO_PORT_TOO, "protocol": ["TCP", "UDP", "SCTP", ""]},
    "ContainerResizePolicy": {"restartPolicy": ["NotRequired", "RestartContainer"]},
    "ContainerRestartRuleOnExitCodes": {"operator": ["In", "NotIn"]},
    "HTTPGetAction": {"scheme": ["HTTP", "HTTPS", ""]},
    "HostPathVolumeSource": {
        "type": ["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice", ""]
    },
    "ImageVolumeSource": {"pullPolicy": PULL_POLICY},
    "LabelSelectorRequirement": {"operator": ["In", "NotIn", "Exists", "DoesNotExist"]},
    "NodeSelectorRequirement": {"operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]},
    "PersistentVolumeClaimSpec": {"volumeMode": ["Block", "Filesystem", ""]},
    "PodSecurityContext": {
        "fsGroupChangePolicy": ["Always", "OnRootMismatch"],
        "seLinuxChangePolicy": ["MountOption", "Recursive"],
        "supplementalGroupsPolicy": ["Merge", "Strict"],
    },
    "PodSpec": {
        "dnsPolicy": ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None", ""],
        "preemptionPolicy": ["Never", "PreemptLowerPriority"],
    },
    "SeccompProfile": {"type": PROFILE},
    "SecurityContext": {"procMount": ["Default", "Unmasked"]},
    "Toleration": {
        "effect": ["NoSchedule", "PreferNoSchedule", "NoExecute", ""],
        "operator": ["Exists", "Equal", "Lt", "Gt", ""],
    },
    "TopologySpreadConstraint": {
        "nodeAffinityPolicy": NODE_POLICY,
        "nodeTaintsPolicy": NODE_POLICY,
        "whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway"],
    },
    "VolumeMount": {
        "mountPropagation": ["None", "HostToContainer", "Bidirectional"],
        "recursiveReadOnly": ["Disabled", "IfPossible", "Enabled"],
    },
}


def pod_schema() -> dict[str, Any]:
    """Return the schema of a pod template, with the definitions that it needs under their short names."""
    published = (
        files("kubernetes_validate") / "kubernetes-json-schema" / f"v{VERSION}-local-strict" / "_definitions.json"
    )
    full = {
        name.rpartition(".")[2]: schema for name, schema in _pods(json.loads(published.read_text())["$defs"]).items()
    }
    definitions = {name: _compact(schema) for name, schema in sorted(full.items())}
    definitions["Quantity"] = QUANTITY
    for name, fields in ADDED.items():
        for field, rule in fields.items():
            definitions[name]["properties"][field] = {"enum": rule} if isinstance(rule, list) else rule
    return {"$comment": f"Kubernetes {VERSION}", "$ref": f"#/$defs/{ROOT}", "$defs": definitions}


def _pods(published: dict[str, Any]) -> dict[str, Any]:
    wanted = [name for name in published if name.endswith(f".{ROOT}")]
    found: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = published[name]
            wanted += _references(published[name])
    return found


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
    return own + [name for item in schema.values() for name in _references(item)]


def _compact(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": "#/$defs/" + schema["$ref"].rpartition(".")[2]}
    if "oneOf" in schema:
        return {"type": [name for choice in schema["oneOf"] for name in _types(choice) if name != "null"]}
    types = [name for name in _types(schema) if name != "null"]
    compact: dict[str, Any] = {"type": types[0]} if types else {}
    for key in ("required", "additionalProperties"):
        if key in schema:
            compact[key] = _compact(schema[key]) if isinstance(schema[key], dict) else schema[key]
    if "items" in schema:
        compact["items"] = _compact(schema["items"])
    if "properties" in schema:
        compact["properties"] = {name: _compact(field) for name, field in sorted(schema["properties"].items())}
    return compact


def _types(schema: dict[str, Any]) -> list[str]:
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


def text() -> str:
    """Return the file, one definition a line, so that a diff shows what a release changed."""
    schema = pod_schema()
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in schema.pop("$defs").items()]
    head = json.dumps(schema)[:-1]
    return head + ', "$defs": {\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    POD_SCHEMA.write_text(text(), encoding="utf-8")
