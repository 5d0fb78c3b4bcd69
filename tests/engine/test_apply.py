"""How a plan is carried out: its order, and what happens when objects move under our hands."""

from __future__ import annotations

import time
from typing import Any

import pytest
from faulty_cluster import FaultyCluster, action, class_manifest, job_manifest

from reconciler.engine.apply import Clock, apply, skip
from reconciler.errors import ClusterUnreachable, Conflict, Forbidden, Invalid, WebhookFailed
from reconciler.model import Manifest, Result, Verb


def test_classes_come_first_then_what_frees_room_then_what_takes_it_then_prunes(cluster: FaultyCluster) -> None:
    """The order is that of need, whatever the order of the plan; classes among themselves keep theirs."""
    leaving, old = cluster.create(job_manifest("leaving-1")), cluster.create(job_manifest("old-1", script="true"))
    unused = cluster.create(class_manifest("unused"))
    cluster.calls.clear()
    plan = [
        action(Verb.PRUNE, live=unused),
        action(Verb.PRUNE, live=old),
        action(Verb.CREATE, job_manifest("new-1")),
        action(Verb.CANCEL, live=leaving),
        action(Verb.CREATE, class_manifest("second")),
        action(Verb.CREATE, class_manifest("first")),
    ]

    results = apply(cluster, plan)

    assert [r.result for r in results] == [Result.DONE] * 6
    assert list(dict.fromkeys(cluster.done("create", "delete"))) == [
        "create PriorityClass/second",
        "create PriorityClass/first",
        "delete Job/leaving-1",
        "create Job/new-1",
        "delete Job/old-1",
        "delete PriorityClass/unused",
    ]


def test_one_failure_is_that_actions_result_and_the_rest_goes_on(cluster: FaultyCluster) -> None:
    """A pass is as good as it can be: what fails is named, needs attention, and stops nobody else."""

    def forbid(manifest: Manifest, **_: Any) -> None:
        if manifest["metadata"]["name"] == "a-1":
            raise Forbidden("Job/default/a-1: exceeded quota")

    cluster.before["create"] = forbid
    first, second = apply(cluster, [action(Verb.CREATE, job_manifest(n)) for n in ("a-1", "b-1")])

    assert (first.result, first.reason, first.needs_attention) == (
        Result.FAILED,
        "Job/default/a-1: exceeded quota",
        True,
    )
    assert second.result is Result.DONE


def test_a_server_that_is_away_is_asked_once(cluster: FaultyCluster) -> None:
    """Each call is patient by itself: a thousand of them in a row would take hours to say the same."""

    def unreachable(*_: Any, **__: Any) -> None:
        raise ClusterUnreachable("no answer")

    cluster.before["create"] = unreachable
    results = apply(cluster, [action(Verb.CREATE, job_manifest(n)) for n in ("a-1", "b-1", "c-1")])

    assert [(r.result, r.reason) for r in results] == [(Result.FAILED, "no answer")] * 3
    assert cluster.done("create") == ["create Job/a-1"]


def test_what_a_webhook_keeps_from_being_written_is_asked_once(cluster: FaultyCluster) -> None:
    """Only that kind waits, since the cluster answers; deleting goes without the webhook."""
    live = cluster.create(job_manifest("old-1"))
    cluster.calls.clear()

    def without_webhook(manifest: Manifest, **_: Any) -> None:
        if manifest["kind"] == "Job":
            raise WebhookFailed("failed calling webhook")

    cluster.before["create"] = cluster.before["dry-run"] = without_webhook
    jobs = [action(Verb.CREATE, job_manifest(name)) for name in ("a-1", "b-1")]
    results = apply(cluster, [*jobs, action(Verb.CANCEL, live=live), action(Verb.CREATE, class_manifest("low"))])

    assert [r.result for r in results] == [Result.FAILED, Result.FAILED, Result.DONE, Result.DONE]
    assert cluster.done("dry-run", "create", "delete") == [
        "create PriorityClass/low",
        "delete Job/old-1",
        "dry-run Job/a-1",
    ]


@pytest.mark.parametrize(
    ("existing", "verb", "result", "reason"),
    [
        pytest.param({}, Verb.CREATE, Result.DONE, "another pass created it", id="the-same-run"),
        pytest.param({"task_hash": "other"}, Verb.HOLD, Result.SKIPPED, "another version", id="another-version"),
        pytest.param({"owner": "them"}, Verb.CONFLICT, Result.SKIPPED, "is not ours", id="not-ours"),
    ],
)
def test_a_name_that_is_taken_is_success_only_for_the_very_same_run(
    cluster: FaultyCluster, existing: dict[str, str], verb: Verb, result: Result, reason: str
) -> None:
    """AlreadyExists is looked at: it may be this run made by a pass that died, or somebody else's object."""
    there = cluster.create(job_manifest("train-1", **existing))

    (done,) = apply(cluster, [action(Verb.CREATE, job_manifest("train-1"))])

    assert (done.verb, done.result) == (verb, result)
    assert reason in done.reason
    assert cluster.get("Job", "train-1", namespace="default")["metadata"]["uid"] == there["metadata"]["uid"]


def test_a_successor_whose_name_is_taken_leaves_the_predecessor_running(cluster: FaultyCluster) -> None:
    """What is not ours is never touched, and nothing ends for a successor that can't come."""
    old = cluster.create(job_manifest("train-1"))
    cluster.create(job_manifest("train-2", owner="them"))

    (done,) = apply(cluster, [action(Verb.REPLACE, job_manifest("train-2", task_hash="new"), live=old)])

    assert (done.verb, done.result, done.needs_attention, done.deleted) == (Verb.CONFLICT, Result.SKIPPED, True, False)
    assert cluster.done("delete") == []


def test_a_successor_that_the_server_refuses_leaves_the_predecessor_running(cluster: FaultyCluster) -> None:
    """Look before you delete: a bad new version costs nothing."""
    old = cluster.create(job_manifest("train-1"))

    def refuse(manifest: Manifest, **_: Any) -> None:
        raise Invalid(f"{manifest['metadata']['name']}: no such field")

    cluster.before["dry-run"] = refuse
    (done,) = apply(cluster, [action(Verb.REPLACE, job_manifest("train-2", task_hash="new"), live=old)])

    assert (done.result, done.deleted) == (Result.FAILED, False)
    assert done.reason == "Job/default/train-1 goes on, its successor was refused: train-2: no such field"
    assert cluster.done("delete") == []


def test_a_successor_starts_when_the_predecessor_is_gone(cluster: FaultyCluster) -> None:
    """Two runs of one job never overlap."""
    old = cluster.create(job_manifest("train-1", script="trap 'sleep 0.3; exit' TERM; sleep 60 & wait"))
    while not any(p["status"].get("phase") == "Running" for p in cluster.list("Pod")):
        time.sleep(0.05)

    (done,) = apply(cluster, [action(Verb.REPLACE, job_manifest("train-2", task_hash="new"), live=old)])

    assert (done.verb, done.result, done.deleted) == (Verb.REPLACE, Result.DONE, True)
    assert [job["metadata"]["name"] for job in cluster.list("Job")] == ["train-2"]


def test_a_predecessor_that_will_not_end_is_held_and_known_to_be_deleted(cluster: FaultyCluster) -> None:
    """The wait is bounded; the next pass goes on where this one stopped."""
    old = cluster.create(job_manifest("train-1", script="trap '' TERM; while true; do sleep 0.1; done"))
    while not any(p["status"].get("phase") == "Running" for p in cluster.list("Pod")):
        time.sleep(0.05)
    times = iter([0.0, 0.0, 1_000.0])

    (done,) = apply(
        cluster,
        [action(Verb.REPLACE, job_manifest("train-2", task_hash="new"), live=old)],
        Clock(monotonic=lambda: next(times), sleep=lambda _: None),
    )

    assert (done.verb, done.result, done.deleted) == (Verb.HOLD, Result.SKIPPED, True)
    assert done.reason == "Job/default/train-1 is still ending: train-2 is created by the next pass"


def test_a_deletion_that_meets_a_newer_state_takes_that_one(cluster: FaultyCluster) -> None:
    """The resourceVersion guards the count: what is recorded is the object as it was when it was deleted."""
    stale = cluster.create(job_manifest("train-1"))
    cluster.patch(stale, {"metadata": {"annotations": {"touched": "yes"}}})

    (done,) = apply(cluster, [action(Verb.CANCEL, live=stale)])

    assert done.result is Result.DONE
    assert done.live is not None
    assert done.live["metadata"]["annotations"]["touched"] == "yes"


def test_an_object_that_is_another_one_by_now_is_left_alone(cluster: FaultyCluster) -> None:
    """A name is not an identity: deletions go by uid."""
    gone = cluster.create(job_manifest("train-1"))
    cluster.delete(gone)
    while any(job["metadata"]["name"] == "train-1" for job in cluster.list("Job")):
        time.sleep(0.05)
    cluster.create(job_manifest("train-1", owner="them"))

    (done,) = apply(cluster, [action(Verb.CANCEL, live=gone)])

    assert done.result is Result.DONE
    assert [job["metadata"]["labels"]["job-reconciler/owner"] for job in cluster.list("Job")] == ["them"]


def test_an_object_that_never_rests_is_a_failure_with_a_name(cluster: FaultyCluster) -> None:
    """Trying again is bounded."""
    live = cluster.create(job_manifest("train-1"))

    def conflict(*_: Any, **__: Any) -> None:
        raise Conflict("it changed")

    cluster.before["delete"] = conflict
    (done,) = apply(cluster, [action(Verb.CANCEL, live=live)])

    assert (done.result, done.deleted) == (Result.FAILED, False)
    assert done.reason == "Job/default/train-1 keeps changing: the next pass tries again"


def test_a_stale_default_is_waited_for(cluster: FaultyCluster) -> None:
    """The admission plugin reads a cache: a refusal right after the old default ended heals by itself."""
    refusals = iter([True, True, False])
    slept: list[float] = []

    def stale(manifest: Manifest, **_: Any) -> None:
        if next(refusals):
            raise Forbidden(f"PriorityClass old is already marked as default ({manifest['metadata']['name']})")

    cluster.before["create"] = stale
    (done,) = apply(cluster, [action(Verb.CREATE, class_manifest("new", default=True))], Clock(sleep=slept.append))

    assert done.result is Result.DONE
    assert slept == [0.2, 0.4]


def test_a_class_that_is_there_already_is_fine_when_it_is_the_same(cluster: FaultyCluster) -> None:
    """Another pass, or our own request whose answer was lost, made it; one with another value is a failure."""
    cluster.create(class_manifest("same", value=5))
    cluster.create(class_manifest("other", value=6))

    same, other = apply(cluster, [action(Verb.CREATE, class_manifest(name, value=5)) for name in ("same", "other")])

    assert (same.result, other.result) == (Result.DONE, Result.FAILED)
    assert "already exists" in other.reason


def test_predecessors_end_side_by_side(cluster: FaultyCluster) -> None:
    """All are told to stop before the first successor is waited for, and new jobs wait for none of them."""
    old = [cluster.create(job_manifest(f"{name}-1")) for name in "ab"]
    cluster.calls.clear()
    plan = [
        action(Verb.REPLACE, job_manifest(f"{n}-2", task_hash="new"), live=o) for n, o in zip("ab", old, strict=True)
    ]

    results = apply(cluster, [*plan, action(Verb.CREATE, job_manifest("c-1"))])

    assert [r.result for r in results] == [Result.DONE] * 3
    assert [call for call in dict.fromkeys(cluster.done("create", "delete")) if "c-1" not in call][:2] == [
        "delete Job/a-1",
        "delete Job/b-1",
    ]
    assert next(call for call in cluster.done("create")) == "create Job/c-1"


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.REPLACE])
def test_a_server_that_drops_the_success_policy_gets_no_job(cluster: FaultyCluster, verb: Verb) -> None:
    """Such a server would run a finished job again: nothing is created there, and nothing deleted for it."""
    real = cluster.cluster.create
    old = cluster.create(job_manifest("train-1"))

    class Forgetful:
        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

        def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
            made = real(manifest, dry_run=dry_run)
            return {**made, "spec": {k: v for k, v in made["spec"].items() if k != "successPolicy"}}

    live = old if verb is Verb.REPLACE else None
    (done,) = apply(Forgetful(), [action(verb, job_manifest("train-2", task_hash="new"), live=live)])

    assert (done.result, done.deleted) == (Result.FAILED, False)
    assert "successPolicy" in done.reason
    assert [job["metadata"]["name"] for job in cluster.list("Job")] == ["train-1"]


def test_many_creations_all_happen_once(cluster: FaultyCluster) -> None:
    """Beyond a few, creations go in parallel; each has its own result."""
    names = [f"job{i}-1" for i in range(40)]
    manifests = [job_manifest(name) for name in names]
    for manifest in manifests:
        manifest["spec"]["suspend"] = True

    results = apply(cluster, [action(Verb.CREATE, manifest) for manifest in manifests])

    assert [r.name for r in results] == names
    assert {r.result for r in results} == {Result.DONE}
    assert sorted(j["metadata"]["name"] for j in cluster.list("Job")) == sorted(names)


def test_a_refused_pass_carries_out_nothing_and_says_so(cluster: FaultyCluster) -> None:
    """What a guard stops is skipped, what would have stayed is kept."""
    live = cluster.create(job_manifest("train-1"))
    plan = [action(Verb.CANCEL, live=live), action(Verb.KEEP, live=live), action(Verb.HOLD, live=live)]

    assert [r.result for r in skip(plan)] == [Result.SKIPPED, Result.DONE, Result.SKIPPED]
    assert cluster.done("delete") == []


@pytest.mark.parametrize("grace", [pytest.param(0, id="gone at once"), pytest.param(30, id="on its way out")])
def test_a_deletion_whose_answer_was_lost_is_ours(cluster: FaultyCluster, grace: int) -> None:
    """It was accepted: the record must not take it for somebody else's, whose run would be LOST."""
    manifest = job_manifest("train-1", script="trap '' TERM; sleep 60 & wait; wait")
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    live = cluster.create(manifest)

    def lose_the_answer(manifest: Manifest, **options: Any) -> None:
        cluster.cluster.delete(manifest, **options)
        raise ClusterUnreachable("500")

    cluster.before["delete"] = lose_the_answer
    (ended,) = apply(cluster, [action(Verb.CANCEL, live=live)])

    assert (ended.result, ended.deleted) == (Result.DONE, True)


def test_a_deletion_that_was_not_heard_is_a_failure(cluster: FaultyCluster) -> None:
    """Nothing was accepted, and the next pass tries again."""
    live = cluster.create(job_manifest("train-1"))

    def unreachable(*_: Any, **__: Any) -> None:
        raise ClusterUnreachable("500")

    cluster.before["delete"] = unreachable
    (ended,) = apply(cluster, [action(Verb.CANCEL, live=live)])

    assert (ended.result, ended.deleted, ended.reason) == (Result.FAILED, False, "500")
