"""Compare a PriorityClass of a file with the one on the cluster, as the API server fills it in."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model import OWNER_LABEL, Manifest, PriorityClass

_DEFAULTS = {"value": 0, "preemptionPolicy": "PreemptLowerPriority", "globalDefault": False, "description": ""}


def class_patch(wanted: PriorityClass, live: Manifest) -> Manifest:
    """Return the merge patch that would make the class on the cluster what its file says; empty when it is.

    Labels and annotations that the file doesn't name are somebody else's business.
    """
    content = {
        "value": wanted.value,
        "preemptionPolicy": wanted.preemption_policy,
        "globalDefault": wanted.global_default,
        "description": wanted.description,
    }
    patch: Manifest = {name: value for name, value in content.items() if value != live.get(name, _DEFAULTS[name])}
    metadata = {}
    for kind in ("labels", "annotations"):
        declared = (wanted.manifest.get("metadata") or {}).get(kind) or {}
        present = (live.get("metadata") or {}).get(kind) or {}
        if missing := {key: value for key, value in declared.items() if present.get(key) != value}:
            metadata[kind] = missing
    return patch | ({"metadata": metadata} if metadata else {})


def is_owned(live: Manifest, owner: str) -> bool:
    """Whether this repository made the object: nothing else of a cluster is ever changed or deleted."""
    labels: Mapping[str, str] = (live.get("metadata") or {}).get("labels") or {}
    return labels.get(OWNER_LABEL) == owner
