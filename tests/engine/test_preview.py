"""Who would fit, and who would have to leave, for the jobs that a plan creates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faulty_cluster import FaultyCluster, action, class_manifest, job_manifest

from reconciler.core.jobset import jobset_form
from reconciler.engine.preview import Preview, preview_jobs
from reconciler.errors import Forbidden
from reconciler.model import Action, Manifest, Verb, Verdict


def planned(name: str, *, cpus: int, priority_class: str | None = None) -> Action:
    """Plan a job of this size."""
    manifest = job_manifest(f"{name}-1")
    pod = manifest["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"requests": {"cpu": str(cpus)}}
    if priority_class:
        pod["priorityClassName"] = priority_class
    return action(Verb.CREATE, manifest)


def verdicts(previews: list[Preview]) -> list[tuple[str, Verdict, tuple[str, ...]]]:
    """Leave the reasons out."""
    return [(preview.job, preview.verdict, preview.victims) for preview in previews]


@pytest.fixture
def victim(cluster: FaultyCluster) -> str:
    """Fill the node of 4 CPUs with a low-priority job, and return its pod's name."""
    cluster.create(class_manifest("low", value=1))
    low = planned("low", cpus=4, priority_class="low").manifest
    assert low is not None
    cluster.create(low)
    (pod,) = cluster.list("Pod")
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def test_each_job_is_judged_after_those_before_it(cluster: FaultyCluster) -> None:
    """Two that fit alone don't fit together."""
    previews, why_not = preview_jobs(cluster, [planned("a", cpus=3), planned("b", cpus=3), planned("c", cpus=5)])

    assert verdicts(previews) == [("a", Verdict.FITS, ()), ("b", Verdict.WAITS, ()), ("c", Verdict.NEVER, ())]
    assert why_not == []


@pytest.mark.parametrize(
    ("ranks", "cpus", "verdict", "reason"),
    [
        pytest.param(2, 2, Verdict.FITS, "2 pods; the first fits now on local", id="all fit"),
        pytest.param(3, 2, Verdict.WAITS, "rank 2: 0/1 nodes are available", id="not all at once"),
        pytest.param(2, 5, Verdict.NEVER, "0/1 nodes can hold it, whoever leaves", id="none ever"),
    ],
)
def test_all_nodes_of_a_job_are_placed(
    cluster: FaultyCluster, ranks: int, cpus: int, verdict: Verdict, reason: str
) -> None:
    """The rank that fares worst has the word, since none can do without the others; the next job finds the rest."""
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpus)}}}]}}
    options: Manifest = {"max_restarts_on_errors": 0, "recover_on_exit_codes": (), "main_container": "main"}
    form = jobset_form(template, name="wide-1", nodes=ranks, **options)
    wide = {"apiVersion": "x", "kind": "JobSet", "metadata": {"name": "wide-1", "namespace": "default"}, "spec": form}
    (first, second), _ = preview_jobs(cluster, [action(Verb.CREATE, wide), planned("plain", cpus=4)])

    assert (first.verdict, first.reason.startswith(reason)) == (verdict, True), first.reason
    assert second.verdict is (Verdict.FITS if verdict is Verdict.NEVER else Verdict.WAITS)


def test_a_class_that_the_same_plan_creates_counts(cluster: FaultyCluster, victim: str) -> None:
    """The preview is of the cluster as the plan leaves it: the urgent class is not there yet, its job preempts."""
    plan = [
        action(Verb.CREATE, class_manifest("high", value=9)),
        planned("urgent", cpus=4, priority_class="high"),
        planned("next", cpus=4, priority_class="high"),
    ]
    previews, _ = preview_jobs(cluster, plan)

    assert verdicts(previews) == [("urgent", Verdict.PREEMPTS, (victim,)), ("next", Verdict.WAITS, ())]


def test_a_job_without_class_gets_the_default_that_the_plan_makes(cluster: FaultyCluster, victim: str) -> None:
    """As admission would do it."""
    plan = [action(Verb.CREATE, class_manifest("default", value=5, default=True)), planned("a", cpus=4)]
    previews, _ = preview_jobs(cluster, plan)

    assert verdicts(previews) == [("a", Verdict.PREEMPTS, (victim,))]


def test_who_may_not_see_the_cluster_gets_no_preview_and_the_reason(cluster: FaultyCluster) -> None:
    """A missing right never looks like a free cluster."""

    class Blind:
        def list(self, kind: str, **_: str) -> list[Manifest]:
            raise Forbidden(f"may not list {kind}")

    assert preview_jobs(Blind(), [planned("a", cpus=1)]) == ([], ["no preview of preemption: may not list Node"])  # type: ignore[arg-type]


def test_a_successor_is_judged_without_its_predecessor(cluster: FaultyCluster, victim: str) -> None:
    """What the plan ends makes room for what it creates."""
    (old,) = cluster.list("Job")
    successor = planned("low", cpus=4)
    previews, _ = preview_jobs(cluster, [replace(successor, verb=Verb.REPLACE, live=old)])

    assert verdicts(previews) == [("low", Verdict.FITS, ())]


def test_what_starts_nothing_is_not_previewed(cluster: FaultyCluster) -> None:
    """A suspended job asks for no place."""
    suspended = planned("a", cpus=1)
    assert suspended.manifest is not None
    suspended = replace(
        suspended, manifest={**suspended.manifest, "spec": {**suspended.manifest["spec"], "suspend": True}}
    )

    assert preview_jobs(cluster, [suspended]) == ([], [])


def waiting_pod(job: str, *, cpus: int, priority: int) -> Manifest:
    """Make a pod as it waits for a node."""
    manifest = planned(job, cpus=cpus).manifest
    assert manifest is not None
    metadata = {
        "name": f"{job}-1-0-abcde",
        "uid": f"uid of {job}",
        "creationTimestamp": "2026-03-01T10:00:00Z",
        "labels": manifest["metadata"]["labels"],
        "ownerReferences": [{"uid": f"uid of {job}-1"}],
    }
    return {"metadata": metadata, "spec": manifest["spec"]["template"]["spec"] | {"priority": priority}}


def test_what_waits_already_is_judged_first(cluster: FaultyCluster, victim: str) -> None:
    """A waiting job has the verdict of its own pod, the most urgent first; what the plan ends has none."""
    sizes = {"late": (4, 1), "huge": (5, 0), "ended": (1, 5), "urgent": (4, 9)}
    waiting = [waiting_pod(job, cpus=cpus, priority=priority) for job, (cpus, priority) in sizes.items()]
    ended = job_manifest("ended-1")
    ended["metadata"]["uid"] = "uid of ended-1"
    previews, _ = preview_jobs(cluster, [action(Verb.CANCEL, live=ended), planned("next", cpus=1)], waiting)

    assert verdicts(previews) == [
        ("urgent", Verdict.PREEMPTS, (victim,)),
        ("late", Verdict.WAITS, ()),
        ("huge", Verdict.NEVER, ()),
        ("next", Verdict.WAITS, ()),
    ]
