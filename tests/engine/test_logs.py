"""What is said of a run that has no output."""

from __future__ import annotations

import itertools
import time

import pytest
from faulty_cluster import FaultyCluster, job_manifest

from reconciler.engine import logs
from reconciler.engine.logs import stream_logs
from reconciler.errors import ClusterUnreachable, UsageError
from reconciler.model import Manifest


def said(cluster: FaultyCluster, job: str) -> list[str]:
    told: list[str] = []
    assert list(stream_logs(cluster, "us", job, home="default", follow=False, say=told.append)) == []
    return told


def suspended(name: str) -> Manifest:
    manifest = job_manifest(name)
    manifest["spec"]["suspend"] = True
    return manifest


def test_a_suspended_run(cluster: FaultyCluster) -> None:
    cluster.create(suspended("train-2"))

    assert said(cluster, "train") == ["train-2 has no output: SUSPENDED, until its file takes `suspend` away"]


def test_following_a_run_that_waits(cluster: FaultyCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows learns once what there is to wait for."""
    cluster.create(suspended("train-2"))
    told: list[str] = []
    looks = itertools.count()

    def away_after_some_looks(*_: object, **__: object) -> None:
        if next(looks) > 8:
            raise ClusterUnreachable("enough")

    monkeypatch.setattr(logs, "SECONDS_BETWEEN_LOOKS", 0.01)
    cluster.before["list"] = away_after_some_looks
    with pytest.raises(ClusterUnreachable):
        list(stream_logs(cluster, "us", "train", home="default", follow=True, say=told.append))
    assert told == ["train-2 has no output: SUSPENDED, until its file takes `suspend` away"]


def test_following_a_run_whose_output_can_not_be_read_yet(
    cluster: FaultyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node does not answer the server: that is said once, and it is tried until it does."""
    cluster.create(job_manifest("train-1", script="echo hello; sleep 1"))
    told: list[str] = []
    tries = itertools.count()

    def away_at_first(*_: object, **__: object) -> None:
        if next(tries) < 3:
            raise ClusterUnreachable("could not read the log: 500")

    monkeypatch.setattr(logs, "SECONDS_BETWEEN_LOOKS", 0.01)
    cluster.before["logs"] = away_at_first
    output = stream_logs(cluster, "us", "train", home="default", follow=True, say=told.append)

    assert b"".join(output) == b"hello\n"
    assert [line for line in told if "500" in line] == ["waits for its output: could not read the log: 500"]


def test_a_run_that_was_replaced(cluster: FaultyCluster) -> None:
    """Its output went with its Job; what is left of it is on record."""
    cluster.create(suspended("train-2"))
    with pytest.raises(UsageError) as refused:
        said(cluster, "train-1")

    assert str(refused.value) == (
        "local has no Job train-1, and its output went with it; the newest run there is train-2, and "
        "`reconcile show train` tells of earlier ones"
    )


def test_a_run_whose_pods_are_gone(cluster: FaultyCluster) -> None:
    cluster.create(job_manifest("train-1", script="true"))
    while not cluster.list("Job")[0].get("status", {}).get("completionTime"):
        time.sleep(0.05)
    (pod,) = cluster.list("Pod")  # only now: until then its controller still had something to write
    cluster.cluster.delete(pod)
    while cluster.list("Pod"):
        time.sleep(0.05)

    assert said(cluster, "train") == ["train-1 has ended (SUCCEEDED), and its output went with its pods"]
