"""A run on several nodes is observed as one: where the least of its ranks is, and which of them ended it."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.observe import live_runs, observe
from reconciler.model import JOB_LABEL, OWNER_LABEL, RUN_LABEL, Manifest, State
from tests.core.test_jobset import WHEN, ended, jobset

RESTART = "jobset.sigs.k8s.io/restart-attempt"
INDEX = "batch.kubernetes.io/job-completion-index"
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}


def clock(minute: int | None) -> str | None:
    return None if minute is None else f"2026-03-01T10:{minute:02}:00Z"


def pod(rank: int, restart: int = 0, **status: Any) -> Manifest:
    """Build a rank's pod in this status, made in the minute of its attempt."""
    return {
        "metadata": {
            "name": f"train-1-r-0-{rank}-{restart}",
            "namespace": "default",
            "creationTimestamp": clock(10 * restart),
            "annotations": {INDEX: str(rank), RESTART: str(restart)},
            "labels": {"jobset.sigs.k8s.io/jobset-uid": "u-1"},
            "ownerReferences": [{"uid": "child", "controller": True}],
        },
        "spec": {"nodeName": f"node-{rank}"},
        "status": {"phase": "Running", **status},
    }


def unbound(rank: int, restart: int = 0, message: str | None = "0/2 nodes are available") -> Manifest:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(rank, restart, phase="Pending", conditions=[waits] if message else []) | {"spec": {}}


def running(rank: int, restart: int = 0, *, at: int = 1) -> Manifest:
    state = {"running": {"startedAt": clock(10 * restart + at)}}
    return pod(rank, restart, containerStatuses=[{"name": "main", "state": state}])


def over(rank: int, code: int, restart: int = 0, *, at: int = 5, cause: Manifest | None = None) -> Manifest:
    """Build a rank that ended with this code, by something from outside if there is a cause."""
    state = {
        "terminated": {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": clock(10 * restart + 1),
            "finishedAt": clock(10 * restart + at),
        }
    }
    conditions = [cause] if cause else []
    phase = "Failed" if code else "Succeeded"
    return pod(rank, restart, phase=phase, conditions=conditions, containerStatuses=[{"name": "main", "state": state}])


FAILED = {"restarts": 0} | ended("Failed", reason="ReachedMaxRestarts")
PREEMPTION = (over(1, 217, at=4, cause=PREEMPTED), over(0, 217, at=5))
READY = {"restarts": 0, "replicatedJobsStatus": [{"name": "r", "ready": 1}]}
WAITS = "0/2 nodes are available"


@pytest.mark.parametrize(
    ("status", "pods", "expected"),
    [
        pytest.param(None, (), (State.PENDING, None, None), id="no pods yet"),
        pytest.param(None, (running(0),), (State.PENDING, None, None), id="one pod is not made"),
        pytest.param(
            None, (running(0), unbound(1)), (State.PENDING, "Unschedulable", f"rank 1: {WAITS}"), id="one waits"
        ),
        pytest.param(None, (running(0), pod(1, phase="Pending")), (State.STARTING, None, None), id="one is bound"),
        pytest.param(None, (running(0), running(1)), (State.RUNNING, None, None), id="both run"),
        pytest.param(None, (over(0, 0), running(1)), (State.RUNNING, None, None), id="one is ready"),
        pytest.param(
            None, (over(0, 0, at=5), over(1, 0, at=6)), (State.RUNNING, "Completed", None), id="both are ready"
        ),
        pytest.param({"restarts": 0} | ended("Completed"), (), (State.SUCCEEDED, None, None), id="completed"),
        pytest.param(
            None, PREEMPTION, (State.RECOVERING, "PreemptionByScheduler", "rank 1: preempted"), id="preempted"
        ),
        pytest.param(
            {"restarts": 1},
            (*PREEMPTION, running(0, 1), unbound(1, 1)),
            (State.RECOVERING, "PreemptionByScheduler", f"rank 1: preempted; next attempt: rank 1: {WAITS}"),
            id="waits for its place",
        ),
        pytest.param({"restarts": 1}, (running(0, 1), running(1, 1)), (State.RUNNING, None, None), id="runs again"),
        pytest.param(READY, (running(0),), (State.RECOVERING, "Deleted", "rank 1: its pod is gone"), id="one is gone"),
        pytest.param(READY, (), (State.RECOVERING, None, None), id="all are gone"),
        pytest.param({"restarts": 1}, (), (State.RECOVERING, None, None), id="restarted, no pods seen"),
        pytest.param(
            None, (over(0, 3), running(1)), (State.RUNNING, "Error", "rank 0: exit code 3"), id="failed, not yet told"
        ),
        pytest.param(
            FAILED, (over(0, 217), over(1, 3)), (State.FAILED, "Error", "rank 1: exit code 3"), id="rank 1 failed"
        ),
        pytest.param(
            FAILED, (over(0, 219), over(1, 217)), (State.FAILED_SETUP, "Error", "rank 0: exit code 219"), id="setup"
        ),
        pytest.param(FAILED, (), (State.FAILED, "ReachedMaxRestarts", "so"), id="failed, pods gone"),
        pytest.param(
            {"restarts": 0},
            (over(0, 218, at=3), over(1, 217, at=5, cause=PREEMPTED)),
            (State.RECOVERING, "PreemptionByScheduler", "rank 1: preempted"),
            id="who lost a peer does not explain it",
        ),
    ],
)
def test_states(status: Manifest | None, pods: tuple[Manifest, ...], expected: tuple[State, str, str]) -> None:
    seen = observe(jobset(status), pods)

    assert (seen.state, seen.reason, seen.message) == expected


def test_an_error_with_restarts_left_is_a_recovery() -> None:
    """The same pods of a JobSet that may restart on errors are no end."""
    seen = observe(jobset({"restarts": 0}, errors=1), (over(0, 3), over(1, 217)))

    assert (seen.state, seen.message) == (State.RECOVERING, "rank 0: exit code 3")


def test_all_ranks_together_are_an_attempt() -> None:
    """It starts with the last of them and is over with the first that is lost; the newest pod of a rank counts."""
    pods = (*PREEMPTION, running(0, 1, at=1), running(1, 1, at=3))
    seen = observe(jobset({"restarts": 1}), pods)
    keys = ("pod", "node", "started_at", "ended_at", "reason", "exit_code")

    assert [tuple(getattr(attempt, key) for key in keys) for attempt in seen.attempts] == [
        ("train-1 restart 0", "node-0, node-1", clock(1), clock(4), "PreemptionByScheduler", 217),
        ("train-1 restart 1", "node-0, node-1", clock(13), None, None, None),
    ]
    assert seen.started_at == clock(1)


def test_an_error_beside_a_peer_that_was_being_stopped_is_in_doubt() -> None:
    """The rank may have failed for want of its peer: the count says so, once the run has failed."""
    pods = (over(0, 3, at=5), over(1, 217, at=6, cause=PREEMPTED))

    assert observe(jobset(FAILED), pods).counts.inexact == (
        "rank 1 was being stopped (PreemptionByScheduler) when another one failed, which may be why it did"
    )
    assert observe(jobset(FAILED), (*PREEMPTION, over(0, 3, 1), over(1, 217, 1))).counts.inexact is None


def test_pods_and_events_are_told_by_the_jobset() -> None:
    """The pods belong to its child Job, whose uid nobody knows, and so do the Events about pods that can't be made."""
    labels = {JOB_LABEL: "train", RUN_LABEL: "1", OWNER_LABEL: "us"}
    metadata = {"name": "train-1", "namespace": "default", "uid": "u-1", "labels": labels, "creationTimestamp": WHEN}
    subject = {"kind": "Job", "namespace": "default", "name": "train-1-r-0", "uid": "child"}
    event = {"reason": "FailedCreate", "message": "exceeded quota: gpus", "involvedObject": subject}
    (run,) = live_runs([jobset() | {"metadata": metadata}], [running(0)], [event])

    assert (run.observation.state, run.observation.message) == (State.PENDING, "exceeded quota: gpus")
    assert [attempt.pod for attempt in run.observation.attempts] == ["train-1 restart 0"]
