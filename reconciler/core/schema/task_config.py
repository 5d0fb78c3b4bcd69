"""The settings of one task: `config`, of which `config.kubernetes` is what counts here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.schema.controls import Controls, read_controls
from reconciler.core.schema.fields import shown
from reconciler.core.schema.metadata import check_metadata
from reconciler.core.schema.name_rules import is_dns_label
from reconciler.core.schema.pod_config import check_pod_config, read_limits_factor
from reconciler.core.schema.task_fields import CONFIG, CUSTOM_METADATA, KUBERNETES
from reconciler.model import ANNOTATION_PREFIX, Manifest

if TYPE_CHECKING:
    from reconciler.core.schema.fields import Reader


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """What `config` says. `limits_factor` is 0 where limits are switched off, None where the file says nothing."""

    pod_config: Manifest
    custom_metadata: Manifest
    controls: Controls
    namespace: str | None
    limits_factor: float | None


def read_task_config(reader: Reader, path: FieldPath, config: dict[str, Any]) -> TaskConfig:
    """Read `config`; our own annotations leave custom_metadata for `controls`."""
    place = (*path, "kubernetes")
    fields = reader.section(place, reader.section(path, config, CONFIG).get("kubernetes", {}), KUBERNETES)
    pod_config = fields.get("pod_config", {})
    check_pod_config(reader, (*place, "pod_config"), pod_config)
    custom_metadata, ours = _without_ours(fields.get("custom_metadata", {}))
    check_metadata(reader, (*place, "custom_metadata"), custom_metadata, CUSTOM_METADATA)
    factor = fields.get("set_pod_resource_limits")
    return TaskConfig(
        pod_config=pod_config,
        custom_metadata=custom_metadata,
        controls=read_controls(reader, (*place, "custom_metadata", "annotations"), ours),
        namespace=_namespace(reader, (*place, "namespace"), fields.get("namespace")),
        limits_factor=None
        if factor is None
        else read_limits_factor(reader, (*place, "set_pod_resource_limits"), factor),
    )


def _without_ours(metadata: Manifest) -> tuple[Manifest, dict[str, Any]]:
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return metadata, {}
    ours = {key: value for key, value in annotations.items() if key.startswith(ANNOTATION_PREFIX)}
    if not ours:
        return metadata, {}
    theirs = {key: value for key, value in annotations.items() if key not in ours}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return rest | ({"annotations": theirs} if theirs else {}), ours


def _namespace(reader: Reader, path: FieldPath, namespace: str | None) -> str | None:
    if namespace is not None and not is_dns_label(namespace):
        message = f"{field_name(path)}: {shown(namespace)} can't name a namespace: at most 63 of a-z, 0-9 and '-'"
        reader.error(path, "invalid-value", message)
    return namespace
