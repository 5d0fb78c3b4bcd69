"""Ask who would fit, and whom that would preempt, for the jobs that a plan creates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.cluster.interface import Cluster
from reconciler.core.encoding import nodes, pod_template
from reconciler.core.jobset import UID_LABEL
from reconciler.core.preview import Room, place_in, survey, with_placement
from reconciler.engine.read import UNFINISHED_PODS
from reconciler.errors import ClusterError
from reconciler.model import RUN_KINDS, Action, Manifest, Placement, Verb, Verdict

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


def preview_jobs(cluster: Cluster, actions: Sequence[Action]) -> tuple[list[Preview], list[str]]:
    """Preview the planned jobs in their order, each after those before it; and say why when that can't be told.

    A job that the server would refuse has no preview: what it asks for can't be read.

    Nodes and pods of all namespaces are needed: a reader without that right gets no preview, and the reason.
    """
    planned = [
        a for a in actions if a.kind in RUN_KINDS and a.verb in (Verb.CREATE, Verb.REPLACE) and not a.needs_attention
    ]
    jobs = [(a.job or a.name, a.manifest) for a in planned if a.manifest and not a.manifest["spec"].get("suspend")]
    if not jobs:
        return [], []
    try:
        live_nodes, pods = cluster.list("Node"), cluster.list("Pod", fields=UNFINISHED_PODS)
        live_classes = cluster.list("PriorityClass")
    except ClusterError as error:
        return [], [f"no preview of preemption: {error}"]
    classes = _classes_after(live_classes, actions)
    leaving = {a.live["metadata"]["uid"] for a in actions if a.verb in (Verb.CANCEL, Verb.REPLACE) and a.live}
    rooms = survey(live_nodes, [pod for pod in pods if not _owners(pod) & leaving])
    previews = []
    for name, manifest in jobs:
        template = pod_template(manifest)["spec"]
        priority, policy = _priority(template.get("priorityClassName"), classes)
        spec = {"preemptionPolicy": policy, **template, "priority": priority}
        placements, rooms = _place_all(rooms, manifest, spec, priority)
        previews.append(_preview(name, placements))
    return previews, []


def _place_all(
    rooms: tuple[Room, ...], manifest: Manifest, spec: Manifest, priority: int
) -> tuple[list[Placement], tuple[Room, ...]]:
    """Place the pods of a run one after another, until one finds no place; return the nodes as they are then."""
    placements = []
    for rank in range(nodes(manifest)):
        placement = place_in(rooms, spec, priority)
        metadata = {**manifest["metadata"], "name": f"{manifest['metadata']['name']}-{rank}"}
        rooms = with_placement(rooms, placement, {"metadata": metadata, "spec": spec})
        placements.append(placement)
        if placement.verdict in (Verdict.NEVER, Verdict.WAITS):
            break
    return placements, rooms


def _preview(job: str, placements: Sequence[Placement]) -> Preview:
    worst = min(placements, key=lambda placement: _WORST_FIRST.index(placement.verdict))
    victims = tuple(dict.fromkeys(victim for placement in placements for victim in placement.victims))
    reason = worst.reason
    if len(placements) > 1:
        fine = worst.verdict is Verdict.FITS
        reason = f"{len(placements)} pods; the first {reason}" if fine else f"rank {placements.index(worst)}: {reason}"
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
