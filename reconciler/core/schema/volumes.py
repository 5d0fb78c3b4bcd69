"""Volumes of a task: what to mount, by the path in the main container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.schema.environment import filled_in
from reconciler.core.schema.fields import Shape, did_you_mean, listed, shown
from reconciler.core.schema.metadata import read_labels
from reconciler.core.schema.name_rules import is_dns_subdomain
from reconciler.core.schema.sizes import parse_disk
from reconciler.core.schema.task_fields import VOLUME, VOLUME_CONFIG
from reconciler.model import Manifest, Volume

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.core.schema.fields import Reader

_SUB_PATH = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._/-]*")
_ACCESS_MODES = ("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany")
_CLAIM_TYPE = "k8s-pvc"


def read_volumes(
    reader: Reader, path: FieldPath, volumes: dict[str, Any], env: Mapping[str, str]
) -> tuple[Volume, ...]:
    """Return what is to be mounted; `$NAME` and `${NAME}` in paths and names are filled in from `env`."""
    found = []
    for key, value in volumes.items():
        place, mount_path = (*path, key), filled_in(key, env)
        if not _is_mount_path(mount_path):
            message = f"{field_name(place)}: {shown(mount_path)} is no path in a container: begin it with /"
            reader.error(place, "invalid-value", message)
        elif isinstance(value, str):
            found.append(Volume(mount_path, _claim(reader, place, filled_in(value, env))))
        elif value is not None and reader.has_shape(place, value, Shape.TEXT, Shape.MAPPING):
            found += _read(reader, place, mount_path, value, env)
    return tuple(found)


def _read(
    reader: Reader, place: FieldPath, mount_path: str, value: dict[str, Any], env: Mapping[str, str]
) -> list[Volume]:
    fields = reader.section(place, value, VOLUME)
    named, sized = "name" in fields, "size" in fields
    if named and sized:
        at = (*place, "size")
        message = (
            f"{field_name(at)} stands beside a name: leave out size for a claim that exists, or name for a new one"
        )
        reader.error(at, "conflict", message)
        return []
    if not named and not sized:
        if not value.keys() & {"host_path", "mode"}:  # those are refused for themselves
            message = f"{field_name(place)} must have a name, of a PersistentVolumeClaim, or a size, of a new volume"
            reader.error(place, "missing-value", message)
        return []
    if sized:
        return [Volume(mount_path, _ephemeral(reader, place, fields))]
    sub_path = fields.get("sub_path")
    if sub_path is not None:
        sub_path = filled_in(sub_path, env)
        if not _SUB_PATH.fullmatch(sub_path) or ".." in sub_path.split("/"):
            at = (*place, "sub_path")
            reader.error(at, "invalid-value", f"{field_name(at)}: {shown(sub_path)} is no path within the volume")
    return [Volume(mount_path, _claim(reader, (*place, "name"), filled_in(fields["name"], env)), sub_path)]


def _claim(reader: Reader, place: FieldPath, name: str) -> Manifest:
    if not is_dns_subdomain(name):
        message = f"{field_name(place)}: {shown(name)} can't name a PersistentVolumeClaim: a-z, 0-9, '-' and '.'"
        reader.error(place, "invalid-value", message)
    return {"persistentVolumeClaim": {"claimName": name}}


def _ephemeral(reader: Reader, place: FieldPath, fields: dict[str, Any]) -> Manifest:
    """Return a volume that is made with the pod and goes with it; SkyPilot's goes with the job."""
    kind = fields.get("type", _CLAIM_TYPE)
    if kind.lower() != _CLAIM_TYPE:
        at = (*place, "type")
        reader.error(
            at, "invalid-value", f"{field_name(at)}: {shown(kind)} can't be made with a pod; write {_CLAIM_TYPE}"
        )
    size = 1
    try:
        size = parse_disk(fields["size"])
    except ValueError as error:
        reader.error((*place, "size"), "invalid-value", f"{field_name((*place, 'size'))}: {error}")
    config = reader.section((*place, "config"), fields.get("config", {}), VOLUME_CONFIG)
    mode = config.get("access_mode", _ACCESS_MODES[0])
    if mode not in _ACCESS_MODES:
        at = (*place, "config", "access_mode")
        message = f"{field_name(at)} must be one of {listed(_ACCESS_MODES)}, not {shown(mode)}"
        reader.error(at, "invalid-value", message + did_you_mean(mode, _ACCESS_MODES))
    spec: Manifest = {"accessModes": [mode], "resources": {"requests": {"storage": f"{size}Gi"}}}
    if "storage_class_name" in config:
        spec["storageClassName"] = config["storage_class_name"]
    template: Manifest = {"spec": spec}
    if labels := read_labels(reader, (*place, "labels"), fields.get("labels", {})):
        template = {"metadata": {"labels": labels}} | template
    return {"ephemeral": {"volumeClaimTemplate": template}}


def _is_mount_path(path: str) -> bool:
    return path.startswith("/") and path != "/" and ":" not in path and ".." not in path.split("/")
