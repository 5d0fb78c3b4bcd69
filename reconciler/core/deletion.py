"""Tell of an object on its way out whether it will go by itself, or what keeps it."""

from __future__ import annotations

from reconciler.core.encoding import is_jobset, pod_template
from reconciler.core.jobset import NAME_LABEL
from reconciler.core.manifest import mapping
from reconciler.core.status.times import seconds_between
from reconciler.model import DEFAULT_GRACE, Manifest

PATIENCE_BEYOND_GRACE = 300  # seconds: a node that is away is given up by Kubernetes itself in that time
_BY_KUBERNETES = "foregroundDeletion"


def going(manifest: Manifest, now: str) -> tuple[str, bool]:
    """Return why an object that is being deleted is held, and whether a person must look.

    It must be long overdue for that. The text says the same at each look.
    """
    metadata = mapping(manifest.get("metadata"))
    age = seconds_between(metadata.get("deletionTimestamp"), now)
    grace = mapping(pod_template(manifest).get("spec")).get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    if age is None or age <= grace + PATIENCE_BEYOND_GRACE:
        return "is being deleted; the next pass looks again", False
    return f"is being deleted since {metadata['deletionTimestamp']}, and {_keeper(manifest)}", True


def foreign_finalizers(manifest: Manifest) -> list[str]:
    """Return the finalizers of others, which a deletion waits for; the garbage collector's own is none of them."""
    finalizers = mapping(manifest.get("metadata")).get("finalizers") or []
    return [str(name) for name in finalizers if name != _BY_KUBERNETES]


def _keeper(manifest: Manifest) -> str:
    metadata = mapping(manifest.get("metadata"))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    where = f" -n {namespace}" if namespace else ""
    if others := foreign_finalizers(manifest):
        kind = str(manifest.get("kind", "Job")).lower()
        return (
            f"waits for its finalizers {', '.join(others)}: mend what should take them away, or do it by hand: "
            f"kubectl edit {kind} {name}{where}"
        )
    label = NAME_LABEL if is_jobset(manifest) else "batch.kubernetes.io/job-name"
    return (
        f"its pods do not end: kubectl get pods{where} -l {label}={name}; of a node that is gone for good, "
        "kubectl delete pod --force"
    )
