"""Ask who would fit, and whom that would preempt, for the jobs that a plan creates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.cluster.interface import Cluster
from reconciler.core.preview import place
from reconciler.errors import ClusterError
from reconciler.model import Action, Manifest, Verb, Verdict

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Preview:
    """What the scheduler would do with a job's pod. `victims` are `namespace/name` of pods."""

    job: str
    verdict: Verdict
    victims: tuple[str, ...]
    reason: str


def preview_jobs(cluster: Cluster, actions: Sequence[Action]) -> tuple[list[Preview], list[str]]:
    """Preview the planned jobs in their order, each after those before it; and say why when that can't be told.

    Nodes and pods of all namespaces are needed: a reader without that right gets no preview, and the reason.
    """
    planned = [
        (a.job or a.name, a.manifest) for a in actions if a.verb in (Verb.CREATE, Verb.REPLACE) and a.kind == "Job"
    ]
    jobs = [(name, manifest) for name, manifest in planned if manifest and not manifest["spec"].get("suspend")]
    if not jobs:
        return [], []
    try:
        nodes, pods = cluster.list("Node"), cluster.list("Pod", fields=UNFINISHED)
        live_classes = cluster.list("PriorityClass")
    except ClusterError as error:
        return [], [f"no preview of preemption: {error}"]
    classes = _classes_after(live_classes, actions)
    previews = []
    for name, manifest in jobs:
        template = manifest["spec"]["template"]["spec"]
        priority, policy = _priority(template.get("priorityClassName"), classes)
        placement = place({"preemptionPolicy": policy, **template}, priority, nodes, pods)
        previews.append(Preview(name, placement.verdict, placement.victims, placement.reason))
        pods = _after(pods, placement.victims, manifest, placement.node, priority)
    return previews, []


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


def _after(
    pods: Sequence[Manifest], victims: Sequence[str], manifest: Manifest, node: str | None, priority: int
) -> list[Manifest]:
    """Return the pods as they are once this job has its place: the next one is judged against that."""
    gone = set(victims)
    left = [pod for pod in pods if f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}" not in gone]
    if node is None:
        return left
    metadata = {"namespace": manifest["metadata"]["namespace"], "name": f"{manifest['metadata']['name']}-0"}
    spec = {**manifest["spec"]["template"]["spec"], "nodeName": node, "priority": priority}
    return [*left, {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}]
