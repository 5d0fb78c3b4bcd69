"""Check a layer of pod_config for what can't work in any merge: the rest shows when the layers are together.

The same checks serve a task, `.sky.yaml` and its contexts, so each problem names the file where it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import field_name
from reconciler.core.schema.fields import Fields, Shape, refused, shown, taken
from reconciler.core.schema.metadata import check_metadata
from reconciler.core.schema.name_rules import OUR_VARIABLES, is_dns_subdomain
from reconciler.core.schema.pod_schema import check_part
from reconciler.model import MAIN_CONTAINER

if TYPE_CHECKING:
    from reconciler.core.field_path import FieldPath
    from reconciler.core.schema.fields import Reader

MAIN_ALIASES = frozenset({MAIN_CONTAINER, "ray-node", "skypilot-node"})  # what SkyPilot calls its main container
_MOST_FACTOR = 1000

POD_CONFIG: Fields = {
    "metadata": taken("labels and annotations of the pods", Shape.MAPPING),
    "spec": taken("a Kubernetes PodSpec, or parts of one", Shape.MAPPING),
    "apiVersion": refused("pod_config is a part of a pod, not an object; leave it out"),
    "kind": refused("pod_config is a part of a pod, not an object; leave it out"),
    "status": refused("the cluster writes it; leave it out"),
}
METADATA: Fields = {
    "labels": taken("labels", Shape.MAPPING),
    "annotations": taken("annotations", Shape.MAPPING),
    "name": refused("the pods of a run are named by Kubernetes; leave it out"),
    "namespace": refused("write config.kubernetes.namespace in a task, kubernetes.namespace in .sky.yaml"),
}
REFUSED_SPEC: Fields = {
    "activeDeadlineSeconds": refused(
        "an expired pod would look interrupted and come back; write job-reconciler/timeout"
    ),
    "priority": refused("the cluster computes it; write priorityClassName"),
    "preemptionPolicy": refused("it comes from the PriorityClass; write it there"),
}


def check_pod_config(reader: Reader, path: FieldPath, pod_config: dict[str, Any]) -> None:
    """Note what stops a layer. Null stays legal where it clears what a lower layer says."""
    parts = reader.section(path, pod_config, POD_CONFIG)
    check_metadata(reader, (*path, "metadata"), parts.get("metadata", {}), METADATA)
    if spec := parts.get("spec"):
        for fault in check_part({"spec": spec}):
            place = (*path, *fault.path)
            reader.error(place, fault.code, f"{field_name(place)} {fault.text}")
        _check_spec(reader, (*path, "spec"), spec)


def check_priority_class(reader: Reader, path: FieldPath, name: str) -> bool:
    """Check the name of a PriorityClass that a job may have; that it exists is for others to see."""
    if name.startswith("system-"):
        message = f"{field_name(path)}: {shown(name)} is for the cluster's own pods: name a class of yours"
    elif not is_dns_subdomain(name):
        message = f"{field_name(path)}: {shown(name)} can't name a PriorityClass: write a-z, 0-9, '-' and '.'"
    else:
        return True
    reader.error(path, "invalid-value", message)
    return False


def read_limits_factor(reader: Reader, path: FieldPath, value: bool | float) -> float:  # noqa: FBT001 - as in YAML
    """Read `set_pod_resource_limits`: limits are so many times the requests; 0 means that there are none."""
    if isinstance(value, bool):
        return 1.0 if value else 0.0
    if not 1 <= value <= _MOST_FACTOR:
        reader.error(path, "invalid-value", f"{field_name(path)} must be true, false or a number from 1 on")
    return float(value)


def _check_spec(reader: Reader, path: FieldPath, spec: dict[str, Any]) -> None:
    reader.section(path, {key: value for key, value in spec.items() if key in REFUSED_SPEC}, REFUSED_SPEC)
    if spec.get("restartPolicy", "Never") != "Never":  # null counts: it would clear ours
        place = (*path, "restartPolicy")
        message = f"{field_name(place)} must be Never: the Job starts a new pod where one is needed; leave it out"
        reader.error(place, "unsupported-field", message)
    name = spec.get("priorityClassName")
    if isinstance(name, str) and name:
        check_priority_class(reader, (*path, "priorityClassName"), name)
    containers = spec.get("containers")
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        if isinstance(container, dict):
            _check_container(reader, (*path, "containers", index), container)


def _check_container(reader: Reader, path: FieldPath, container: dict[str, Any]) -> None:
    name = container.get("name")
    if name is not None and not (isinstance(name, str) and name in MAIN_ALIASES):
        return
    env = container.get("env")
    for index, variable in enumerate(env if isinstance(env, list) else ()):
        if isinstance(variable, dict) and variable.get("name") in list(OUR_VARIABLES):
            place = (*path, "env", index)
            message = f"{field_name(place)}: {variable['name']} is ours, and tells our supervisor about the run"
            reader.error(place, "reserved", f"{message}: choose another name")
    for key in ("command", "args"):  # null counts here too; a container without a name is the first one, ours
        if key in container:
            place = (*path, key)
            message = (
                f"{field_name(place)}: what starts in the main container watches over the job; write setup and run"
            )
            reader.error(place, "unsupported-field", message)
