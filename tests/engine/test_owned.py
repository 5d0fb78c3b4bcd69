"""How a run gets what it needs besides its Job, wherever a pass dies and whoever else is at it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from weakref import ref

import pytest
from faulty_cluster import FaultyCluster, action, job_manifest

from reconciler.core.decide import is_incomplete
from reconciler.engine.apply import apply
from reconciler.engine.owned import Owned
from reconciler.errors import ClusterUnreachable, Forbidden, NotFound, SourceError
from reconciler.model import INCOMPLETE, OWNER_LABEL, Action, Manifest, Result, Verb


def needed(kind: str, name: str, **content: Any) -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": {OWNER_LABEL: "us"}}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


OWNED = (needed("ConfigMap", "a-1-files", data={"file-0": "x"}), needed("Secret", "a-1-secrets", data={"T": "eA=="}))

OLD = [{"apiVersion": "batch/v1", "kind": "Job", "name": "a-1", "uid": "of-the-one-before"}]


def creation(**changes: Any) -> Action:
    return replace(action(Verb.CREATE, job_manifest("a-1")), **{"owned": lambda: OWNED, **changes})


def completion(cluster: FaultyCluster) -> Action:
    """Return what the next pass decides about an incomplete Job."""
    live = cluster.cluster.get("Job", "a-1", namespace="default")
    assert is_incomplete(live)
    patch = {"metadata": {"annotations": {INCOMPLETE: None}}, "spec": {"suspend": False}}
    return replace(action(Verb.UPDATE, live=live), manifest=patch, owned=lambda: OWNED)


def check_whole(cluster: FaultyCluster) -> None:
    """See that the Job goes, and that what it needs is there once and goes with it."""
    job = cluster.cluster.get("Job", "a-1", namespace="default")
    assert not is_incomplete(job)
    assert job["spec"]["suspend"] is False
    for kind, name in (("ConfigMap", "a-1-files"), ("Secret", "a-1-secrets")):
        (found,) = cluster.cluster.list(kind)
        (owner,) = found["metadata"]["ownerReferences"]
        assert (found["metadata"]["name"], owner["uid"]) == (name, job["metadata"]["uid"])
    cluster.cluster.delete(cluster.cluster.get("Job", "a-1", namespace="default"))
    assert [*cluster.cluster.list("ConfigMap"), *cluster.cluster.list("Secret")] == []


def test_the_job_comes_suspended_then_what_it_needs_then_it_goes(cluster: FaultyCluster) -> None:
    (result,) = apply(cluster, [creation()])

    assert result.result is Result.DONE
    assert cluster.done("dry-run", "create", "patch") == [
        "dry-run Job/a-1",
        "dry-run ConfigMap/a-1-files",
        "dry-run Secret/a-1-secrets",
        "create Job/a-1",
        "create ConfigMap/a-1-files",
        "create Secret/a-1-secrets",
        "patch Job/a-1",
    ]
    check_whole(cluster)


def test_the_contents_of_one_run_are_gone_before_those_of_the_next_are_made(cluster: FaultyCluster) -> None:
    """Else all files of all new runs would be in memory together."""

    class Tracked(dict[str, Any]):
        """One that tells whether it is still there."""

    there: list[ref[Tracked]] = []
    counts = []

    def make(name: str) -> tuple[Manifest, ...]:
        counts.append(sum(each() is not None for each in there))
        made = Tracked(needed("ConfigMap", f"{name}-files", data={"file-0": "x"}))
        there.append(ref(made))
        return (made,)

    manifests = [job_manifest(f"{name}-1") for name in "abc"]
    plan = [replace(action(Verb.CREATE, each), owned=partial(make, each["metadata"]["name"])) for each in manifests]
    results = apply(cluster, plan)

    assert [result.result for result in results] == [Result.DONE] * 3
    assert counts == [0, 0, 0]


def test_contents_that_git_lacks_fail_their_job_alone(cluster: FaultyCluster) -> None:
    """Nothing is made of it, and the other jobs go on."""

    def missing() -> tuple[Manifest, ...]:
        raise SourceError("partial: git lacks the contents of train/a")

    failed, other = apply(cluster, [creation(owned=missing), action(Verb.CREATE, job_manifest("b-1"))])

    assert (failed.result, failed.reason) == (Result.FAILED, "partial: git lacks the contents of train/a")
    assert other.result is Result.DONE
    assert [job["metadata"]["name"] for job in cluster.cluster.list("Job")] == ["b-1"]


def test_a_file_that_suspends_its_job_keeps_it_suspended(cluster: FaultyCluster) -> None:
    manifest = job_manifest("a-1")
    suspended = manifest | {"spec": {"suspend": True, **manifest["spec"]}}
    (result,) = apply(cluster, [replace(creation(), manifest=suspended)])
    live = cluster.cluster.get("Job", "a-1", namespace="default")

    assert (result.result, live["spec"]["suspend"], is_incomplete(live)) == (Result.DONE, True, False)


@pytest.mark.parametrize("call", ["create ConfigMap", "create Secret", "patch Job"])
def test_a_pass_that_dies_in_between_leaves_a_job_that_waits_and_the_next_one_completes_it(
    cluster: FaultyCluster, call: str
) -> None:
    """Nothing runs without its files, and no object is left without an owner."""
    word, kind = call.split()

    def die(manifest: Manifest, *_: Any, **__: Any) -> None:
        if manifest["kind"] == kind:
            raise ClusterUnreachable("gone")

    cluster.before[word] = die
    (first,) = apply(cluster, [creation()])
    assert (first.result, first.reason) == (Result.FAILED, "gone")
    cluster.before.clear()
    assert cluster.cluster.get("Job", "a-1", namespace="default")["spec"]["suspend"] is True
    (second,) = apply(cluster, [completion(cluster)])

    assert second.result is Result.DONE
    check_whole(cluster)


@pytest.mark.parametrize("call", ["create", "patch"])
def test_two_passes_at_once_make_one_run(cluster: FaultyCluster, call: str) -> None:
    """The other one is through with it between any two of our calls."""
    once: list[str] = []

    def other(manifest: Manifest, *_: Any, **__: Any) -> None:
        if call == "patch" or manifest["kind"] == "ConfigMap":
            cluster.before.clear()
            once.append(str(apply(cluster, [creation()])[0].result))

    cluster.before[call] = other
    (result,) = apply(cluster, [creation()])

    assert (result.result, once) == (Result.DONE, ["done"])
    check_whole(cluster)


def test_our_own_creation_whose_answer_was_lost_is_completed(cluster: FaultyCluster) -> None:
    """A repeated POST finds the Job that the first one made: nobody else will complete it in this pass."""

    def lose(manifest: Manifest, *_: Any, **__: Any) -> None:
        if manifest["kind"] == "Job":
            cluster.before.clear()
            cluster.cluster.create(manifest)

    cluster.before["create"] = lose
    (result,) = apply(cluster, [creation()])

    assert result.result is Result.DONE
    check_whole(cluster)


@pytest.mark.parametrize(
    ("metadata", "verb", "reason"),
    [
        pytest.param({"labels": {}}, Verb.CONFLICT, "ConfigMap/default/a-1-files exists and is not ours", id="foreign"),
        pytest.param({}, Verb.CONFLICT, "a-1-files exists and belongs to no run", id="restored from a backup"),
        pytest.param({"ownerReferences": OLD}, Verb.HOLD, "is still being deleted", id="of an earlier run"),
    ],
)
def test_a_name_that_is_taken_is_seen_before_anything_is_done(
    cluster: FaultyCluster, metadata: dict[str, Any], verb: Verb, reason: str
) -> None:
    """Neither is the Job made, nor a predecessor ended, nor is the plan silent about it."""
    old = cluster.create(job_manifest("a-0"))
    cluster.create({**OWNED[0], "metadata": {**OWNED[0]["metadata"], **metadata}})
    plan = [creation(), creation(verb=Verb.REPLACE, live=old)]
    planned = [Owned(cluster).refusal(each, OWNED) for each in plan]
    results = apply(cluster, plan)

    assert [a.verb for a in (*planned, *results) if a] == [verb] * 4
    assert all(action and reason in action.reason for action in (*planned, *results))
    assert [job["metadata"]["name"] for job in cluster.cluster.list("Job")] == ["a-0"]


def test_a_missing_right_matters_only_to_jobs_that_need_it(cluster: FaultyCluster) -> None:
    """It is the job's own reason, and nothing is made; a predecessor goes on."""
    old = cluster.create(job_manifest("a-0"))

    def forbid(manifest: Manifest, **_: Any) -> None:
        if manifest["kind"] == "Secret":
            raise Forbidden("cannot create resource secrets")

    cluster.before["dry-run"] = forbid
    plan = [creation(), creation(verb=Verb.REPLACE, live=old), action(Verb.CREATE, job_manifest("b-1"))]
    failed, kept, other = apply(cluster, plan)

    assert (failed.result, failed.reason) == (Result.FAILED, "cannot create resource secrets")
    assert kept.reason == "Job/default/a-0 goes on, its successor was refused: cannot create resource secrets"
    assert other.result is Result.DONE
    assert sorted(job["metadata"]["name"] for job in cluster.cluster.list("Job")) == ["a-0", "b-1"]


def test_an_object_that_comes_in_the_way_keeps_the_job_waiting(cluster: FaultyCluster) -> None:
    """After the dry run somebody takes the name: the Job must not run with what they put there."""

    def squat(manifest: Manifest, **_: Any) -> None:
        if manifest["kind"] == "ConfigMap":
            cluster.before.clear()
            cluster.cluster.create(OWNED[0] | {"data": {"file-0": "theirs"}})

    cluster.before["create"] = squat
    (result,) = apply(cluster, [creation()])
    job = cluster.cluster.get("Job", "a-1", namespace="default")

    assert (result.result, result.needs_attention, job["spec"]["suspend"]) == (Result.FAILED, True, True)
    assert "ConfigMap/default/a-1-files exists and is not this run's: a-1 waits, suspended" in result.reason


def test_nothing_of_a_secret_is_read(cluster: FaultyCluster) -> None:
    apply(cluster, [creation()])
    found = cluster.cluster.get("Secret", "a-1-secrets", namespace="default", metadata_only=True)

    assert found.keys() == {"metadata"}
    with pytest.raises(NotFound):
        cluster.cluster.get("Secret", "a-2-secrets", namespace="default", metadata_only=True)
