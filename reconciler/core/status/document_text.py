"""Read documents of the status branch back, whatever has become of them there."""

from __future__ import annotations

from reconciler.core.yaml import load_own
from reconciler.model import SCHEMA_VERSION, Document


def load(text: str) -> Document:
    """Return a document of any kind. Raises ValueError for what is none, or is of a later release."""
    document = load_own(text)
    if not isinstance(document, dict):
        raise ValueError(f"is no mapping but {type(document).__name__}")  # noqa: TRY004 - a value of the file
    if document.get("schema_version") != SCHEMA_VERSION:
        found = repr(document.get("schema_version"))[:40]
        raise ValueError(f"has schema_version {found}, and this release knows {SCHEMA_VERSION}: upgrade it")
    return document
