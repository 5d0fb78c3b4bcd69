"""Reach into a manifest whose parts may be absent, null or of another type than Kubernetes wants."""

from __future__ import annotations

from typing import Any

from reconciler.model import Manifest


def mapping(value: object) -> Manifest:
    """Return a JSON object as it is, and anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Manifest]:
    """Return the JSON objects of a list, and nothing of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def title(manifest: Manifest) -> str:
    """Name an object for people: `Job/default/train-1`."""
    return f"{manifest['kind']}/{manifest['metadata'].get('namespace')}/{manifest['metadata']['name']}"


def integer(value: object) -> int | None:
    """Return a whole number as it is, and None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def without_nulls(value: Any) -> Any:
    """Copy JSON, sharing nothing, without the fields that are null: the API reads them as absent."""
    kind = type(value)
    if kind is dict:
        return {
            key: item if type(item) is str else without_nulls(item) for key, item in value.items() if item is not None
        }
    return [without_nulls(item) for item in value] if kind is list else value
