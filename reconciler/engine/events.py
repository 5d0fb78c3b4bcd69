"""Read the Events that explain what no object tells any more: why a pod can't be made, and what ended one that is gone.

They are asked for only where something is unexplained: a pass that finds nothing new sends no request for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.cluster.interface import Cluster
from reconciler.core.document import is_unfinished
from reconciler.core.encoding import outcome
from reconciler.errors import Forbidden
from reconciler.model import Document, Manifest, State


def refusals(cluster: Cluster, jobs: list[Manifest], pods: list[Manifest]) -> list[Manifest]:
    """List the warnings about Jobs in the namespaces where one waits for a pod that is not made."""
    with_pod = {owner.get("uid") for pod in pods for owner in pod["metadata"].get("ownerReferences", ())}
    waiting = [job for job in jobs if job["metadata"]["uid"] not in with_pod and _wants_pod(job)]
    return _list(cluster, (job["metadata"]["namespace"] for job in waiting), "involvedObject.kind=Job,type=Warning")


def preempted_pods(
    cluster: Cluster, documents: Iterable[Document], pods: Iterable[Manifest], forbidden: Iterable[str]
) -> frozenset[str]:
    """Name the pods that were preempted, where an attempt on record is gone and nobody saw why."""
    there = {pod["metadata"]["name"] for pod in pods}
    namespaces = {
        document["namespace"]
        for document in documents
        if is_unfinished(document, cluster.context) and document["state"] != State.SUSPENDED
        for attempt in document["attempts"]
        if attempt["reason"] is None and attempt["ended_at"] is None and attempt["pod"] not in there
    }
    wanted = filter(None, namespaces - set(forbidden))
    events = _list(cluster, wanted, "involvedObject.kind=Pod,reason=Preempted")
    return frozenset(str(event["involvedObject"].get("name")) for event in events)


def _wants_pod(job: Manifest) -> bool:
    return not job["spec"].get("suspend") and outcome(job) is None


def _list(cluster: Cluster, namespaces: Iterable[str], fields: str) -> list[Manifest]:
    try:
        return [
            e for namespace in sorted({*namespaces}) for e in cluster.list("Event", namespace=namespace, fields=fields)
        ]
    except Forbidden:
        return []  # they only explain
