"""Ask who would fit, and whom that would preempt, for the jobs that a plan creates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.cluster.interface import Cluster
from reconciler.core.preview import place_in, survey, with_placement
from reconciler.engine.read import UNFINISHED_PODS
from reconciler.errors import ClusterError
from reconciler.model import Action, Manifest, Verb, Verdict


@dataclass(frozen=True, slots=True)
class Preview:
    """What the scheduler would do with a job's pod. `victims` are `namespace/name` of pods."""

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
        a for a in actions if a.kind == "Job" and a.verb in (Verb.CREATE, Verb.REPLACE) and not a.needs_attention
    ]
    jobs = [(a.job or a.name, a.manifest) for a in planned if a.manifest and not a.manifest["spec"].get("suspend")]
    if not jobs:
        return [], []
    try:
        nodes, pods = cluster.list("Node"), cluster.list("Pod", fields=UNFINISHED_PODS)
        live_classes = cluster.list("PriorityClass")
    except ClusterError as error:
        return [], [f"no preview of preemption: {error}"]
    classes = _classes_after(live_classes, actions)
    leaving = {a.live["metadata"]["uid"] for a in actions if a.verb in (Verb.CANCEL, Verb.REPLACE) and a.live}
    rooms = survey(nodes, [pod for pod in pods if not _owners(pod) & leaving])
    previews = []
    for name, manifest in jobs:
        template = manifest["spec"]["template"]["spec"]
        priority, policy = _priority(template.get("priorityClassName"), classes)
        spec = {"preemptionPolicy": policy, **template, "priority": priority}
        placement = place_in(rooms, spec, priority)
        previews.append(Preview(name, placement.verdict, placement.victims, placement.reason))
        rooms = with_placement(rooms, placement, {"metadata": manifest["metadata"], "spec": spec})
    return previews, []


def _owners(pod: Manifest) -> set[str]:
    return {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}


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
