"""Labels and annotations: text, well formed, and ours only where we read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import field_name
from reconciler.core.schema.fields import shown
from reconciler.core.schema.name_rules import MAX_LABEL, is_label_key, is_label_value
from reconciler.model import ANNOTATION_PREFIX

if TYPE_CHECKING:
    from reconciler.core.field_path import FieldPath
    from reconciler.core.schema.fields import Fields, Reader


def check_metadata(reader: Reader, path: FieldPath, metadata: dict[str, Any], fields: Fields) -> None:
    """Check a mapping that becomes part of an object's metadata; null stays legal, as it clears a lower layer's."""
    parts = reader.section(path, metadata, fields)
    for what, mapping in parts.items():
        place = (*path, what)
        if what == "labels":
            read_labels(reader, place, mapping)
        elif what == "annotations":
            _read(reader, place, mapping, what)


def read_labels(reader: Reader, path: FieldPath, labels: Any) -> dict[str, str]:
    """Return labels that the API will take; note the others."""
    result = _read(reader, path, labels, "labels")
    for key, value in result.items():
        if not is_label_value(value):
            place = (*path, key)
            message = f"{field_name(place)}: a label is at most {MAX_LABEL} letters, digits, '-', '_' and '.'"
            reader.error(place, "invalid-value", f"{message}, not {shown(value)}")
    return result


def _read(reader: Reader, path: FieldPath, mapping: Any, what: str) -> dict[str, str]:
    result = reader.texts(path, mapping, what)
    for key in result:
        if key.startswith(ANNOTATION_PREFIX):
            message = (
                f"{field_name((*path, key))} is ours and means nothing here: {ANNOTATION_PREFIX} keys are read from "
                "config.kubernetes.custom_metadata.annotations of a task and from annotations of a PriorityClass"
            )
            reader.error((*path, key), "reserved", message)
        elif not is_label_key(key):
            message = f"{field_name((*path, key))}: a key of {what} is [domain/]name of letters, digits, '-', '_', '.'"
            reader.error((*path, key), "invalid-value", message)
    return result
