"""Read the Events that explain what no object tells any more: why a pod can't be made, and what ended one that is gone.

They are asked for only where something is unexplained: a pass that finds nothing new sends no request for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from reconciler.cluster.interface import Cluster
from reconciler.core.document import is_unfinished, runs_as_jobset
from reconciler.core.encoding import is_jobset, nodes, outcome
from reconciler.core.jobset import UID_LABEL
from reconciler.errors import Forbidden
from reconciler.model import Document, Manifest, State


def refusals(cluster: Cluster, jobs: list[Manifest], pods: list[Manifest]) -> list[Manifest]:
    """List the warnings about Jobs and JobSets in the namespaces where one waits for a pod that is not made."""
    made = Counter(owner.get("uid") for pod in pods for owner in pod["metadata"].get("ownerReferences", ()))
    made.update(pod["metadata"].get("labels", {}).get(UID_LABEL) for pod in pods)
    waiting = [job for job in jobs if made[job["metadata"]["uid"]] < nodes(job) and _wants_pod(job)]
    found = _list(cluster, (job["metadata"]["namespace"] for job in waiting), "involvedObject.kind=Job,type=Warning")
    wide = (job["metadata"]["namespace"] for job in waiting if is_jobset(job))
    return found + _list(cluster, wide, "involvedObject.kind=JobSet,type=Warning")


def preempted_pods(
    cluster: Cluster, documents: Iterable[Document], pods: Iterable[Manifest], forbidden: Iterable[str]
) -> frozenset[str]:
    """Name the pods that were preempted, where an attempt on record is gone and nobody saw why.

    Those on several nodes have no pod by which to look for it.
    """
    there = {pod["metadata"]["name"] for pod in pods}
    namespaces = {
        document["namespace"]
        for document in documents
        if is_unfinished(document, cluster.context) and document["state"] != State.SUSPENDED
        if not runs_as_jobset(document)
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
