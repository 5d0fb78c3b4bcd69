"""Ask who would fit, and whom that would preempt, for the jobs that wait already and those that a plan creates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.cluster.interface import Cluster
from reconciler.core.encoding import nodes, pod_template
from reconciler.core.indexes import COMPLETION_INDEX
from reconciler.core.jobset import UID_LABEL
from reconciler.core.preview import Room, place_in, survey, with_placement
from reconciler.core.ranks import index_of
from reconciler.engine.read import UNFINISHED_PODS
from reconciler.errors import ClusterError
from reconciler.model import JOB_LABEL, RUN_KINDS, Action, Manifest, Placement, Verb, Verdict

_WORST_FIRST = (Verdict.NEVER, Verdict.WAITS, Verdict.PREEMPTS, Verdict.FITS)


@dataclass(frozen=True, slots=True)
class Preview:
    """What the scheduler would do with a job's pods. `victims` are `namespace/name` of pods.

    Of several nodes the one that fares worst has the word; those after one that finds no place are not looked at.
    """

    job: str
    verdict: Verdict
    victims: tuple[str, ...]
    reason: str


def preview_jobs(
    cluster: Cluster, actions: Sequence[Action], waiting: Iterable[Manifest] = ()
) -> tuple[list[Preview], list[str]]:
    """Preview the jobs that wait and then the planned ones, each after those before it; and say why when none can be.

    `waiting` are pods without a node, which the scheduler tries in the order of their priority; those that the plan
    ends or suspends are left out. A job that the server would refuse has no preview: what it asks for can't be read.

    Nodes and pods of all namespaces are needed: a reader without that right gets no preview, and the reason.
    """
    leaving = _leaving(actions)
    asking = _by_job(pod for pod in waiting if not _owners(pod) & leaving)
    planned = [
        a for a in actions if a.kind in RUN_KINDS and a.verb in (Verb.CREATE, Verb.REPLACE) and not a.needs_attention
    ]
    jobs = [(a.job or a.name, a.manifest) for a in planned if a.manifest and not a.manifest["spec"].get("suspend")]
    if not jobs and not asking:
        return [], []
    try:
        live_nodes, pods = cluster.list("Node"), cluster.list("Pod", fields=UNFINISHED_PODS)
        live_classes = cluster.list("PriorityClass")
    except ClusterError as error:
        return [], [f"no preview of preemption: {error}"]
    classes = _classes_after(live_classes, actions)
    judged = {pod["metadata"]["uid"] for of_job in asking.values() for pod in of_job}
    staying = [pod for pod in pods if not _owners(pod) & leaving and pod["metadata"]["uid"] not in judged]
    rooms = survey(live_nodes, staying)
    previews = []
    for name, of_job in (*asking.items(), *((name, _pods_of(manifest, classes)) for name, manifest in jobs)):
        placements, rooms = _place_all(rooms, of_job)
        previews.append(_preview(name, of_job, placements))
    return previews, []


def _leaving(actions: Sequence[Action]) -> set[str]:
    """Return the uids of the runs whose pods the plan ends."""
    return {
        action.live["metadata"]["uid"]
        for action in actions
        if action.live
        and (
            action.verb in (Verb.CANCEL, Verb.REPLACE)
            or (action.verb is Verb.UPDATE and ((action.manifest or {}).get("spec") or {}).get("suspend"))
        )
    }


def _by_job(waiting: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    """Sort pods as the scheduler's queue does, and by the jobs that they are of."""
    by_job: dict[str, list[Manifest]] = defaultdict(list)
    for pod in sorted(waiting, key=lambda pod: (-_priority_of(pod), pod["metadata"]["creationTimestamp"])):
        by_job[pod["metadata"]["labels"][JOB_LABEL]].append(pod)
    return by_job


def _pods_of(manifest: Manifest, classes: dict[str, Manifest]) -> list[Manifest]:
    """Return the pods that a planned run will have."""
    template = pod_template(manifest)["spec"]
    priority, policy = _priority(template.get("priorityClassName"), classes)
    spec = {"preemptionPolicy": policy, **template, "priority": priority}
    metadata = manifest["metadata"]
    return [
        {
            "metadata": {
                **metadata,
                "name": f"{metadata['name']}-{rank}",
                "annotations": {COMPLETION_INDEX: str(rank)},
            },
            "spec": spec,
        }
        for rank in range(nodes(manifest))
    ]


def _priority_of(pod: Manifest) -> int:
    return int(pod["spec"].get("priority") or 0)


def _place_all(rooms: tuple[Room, ...], pods: Sequence[Manifest]) -> tuple[list[Placement], tuple[Room, ...]]:
    """Place the pods of a run one after another, until one finds no place; return the nodes as they are then."""
    placements = []
    for pod in pods:
        placement = place_in(rooms, pod["spec"], _priority_of(pod))
        rooms = with_placement(rooms, placement, pod)
        placements.append(placement)
        if placement.verdict in (Verdict.NEVER, Verdict.WAITS):
            break
    return placements, rooms


def _preview(job: str, pods: Sequence[Manifest], placements: Sequence[Placement]) -> Preview:
    worst = min(placements, key=lambda placement: _WORST_FIRST.index(placement.verdict))
    victims = tuple(dict.fromkeys(victim for placement in placements for victim in placement.victims))
    reason = worst.reason
    if len(placements) > 1:
        fine = worst.verdict is Verdict.FITS
        rank = index_of(pods[placements.index(worst)])
        reason = f"{len(placements)} pods; the first {reason}" if fine else f"rank {rank}: {reason}"
    return Preview(job, worst.verdict, victims, reason)


def _owners(pod: Manifest) -> set[str]:
    """Return the uids of what a pod goes away with: its owners, and the JobSet above them."""
    metadata = pod["metadata"]
    jobset = (metadata.get("labels") or {}).get(UID_LABEL)
    return {owner["uid"] for owner in metadata.get("ownerReferences") or ()} | ({jobset} if jobset else set())


def _classes_after(live: Sequence[Manifest], actions: Sequence[Action]) -> dict[str, Manifest]:
    """Return the classes by name as they will be when the plan is carried out."""
    classes = {manifest["metadata"]["name"]: manifest for manifest in live}
    for action in actions:
        if action.kind == "PriorityClass" and action.manifest:
            classes[action.name] = {**classes.get(action.name, {}), **action.manifest}
    return classes


def _priority(name: str | None, classes: dict[str, Manifest]) -> tuple[int, str]:
    """Return the priority and policy that admission would give: the class's, the default's, or 0."""
    defaults = sorted((c for c in classes.values() if c.get("globalDefault")), key=lambda c: int(c["value"]))
    manifest = classes.get(name) if name else next(iter(defaults), None)
    if manifest is None:
        return 0, "PreemptLowerPriority"
    return int(manifest["value"]), manifest.get("preemptionPolicy", "PreemptLowerPriority")
