"""The state of a run, from its Job, its pods and its Events."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from reconciler.core.encoding import job_form
from reconciler.core.observe import live_runs, observe
from reconciler.model import FILE, JOB_LABEL, OWNER_LABEL, RUN_LABEL, TASK_HASH, Manifest, State
from reconciler.runs import Counts, Observation

CREATED, DECIDED = "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"
LABELS = {JOB_LABEL: "train", OWNER_LABEL: "us", RUN_LABEL: "3"}


def job(
    *conditions: tuple[str, str] | Manifest,
    restarts: int = 0,
    suspend: bool = False,
    deleted: bool = False,
    **status: Any,
) -> Manifest:
    form = job_form(
        max_restarts_on_errors=restarts,
        max_recoveries=1000,
        recover_on_exit_codes=(42,),
        main_container="main",
        clone_containers=("clone-workdir",),
    )
    built = [
        c
        if isinstance(c, dict)
        else {"type": c[0], "status": c[1], "reason": "", "message": "", "lastTransitionTime": DECIDED}
        for c in conditions
    ]
    return {
        "metadata": {
            "name": "train-3",
            "namespace": "team-a",
            "uid": "uid-3",
            "creationTimestamp": CREATED,
            "labels": LABELS,
            "annotations": {TASK_HASH: "H", FILE: "jobs/train.yaml"},
            **({"deletionTimestamp": DECIDED} if deleted else {}),
        },
        "spec": {**form, "suspend": suspend, "template": {"spec": {"priorityClassName": "low"}}},
        "status": {**status, "conditions": built},
    }


def failed(reason: str = "PodFailurePolicy", message: str = "") -> Manifest:
    return {"type": "Failed", "status": "True", "reason": reason, "message": message, "lastTransitionTime": DECIDED}


def pod(
    index: int = 0,
    phase: str = "Running",
    *,
    node: str | None = "node-1",
    deleted: bool = False,
    exit_code: int | None = None,
    conditions: tuple[Manifest, ...] = (),
    said: Any = None,
    **state: Any,
) -> Manifest:
    if phase == "Running":
        state = {"running": {"startedAt": f"2026-03-01T10:{index:02}:10Z"}} | state
    if exit_code is not None:
        times = {"startedAt": f"2026-03-01T10:{index:02}:10Z", "finishedAt": f"2026-03-01T10:{index:02}:40Z"}
        state = {"terminated": {"exitCode": exit_code, "reason": "Error", **times, "message": json.dumps(said or {})}}
    return {
        "metadata": {
            "name": f"train-3-{index}-abcde",
            "uid": f"pod-{index}",
            "creationTimestamp": f"2026-03-01T10:{index:02}:00Z",
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [{"uid": "uid-3", "controller": True}],
            **({"deletionTimestamp": DECIDED} if deleted else {}),
        },
        "spec": {"priority": 100, "priorityClassName": "low", **({"nodeName": node} if node else {})},
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "containerStatuses": [{"name": "main", "state": state}],
        },
    }


PREEMPTED: Manifest = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "preempting to accommodate a higher priority pod",
}
UNSCHEDULABLE: Manifest = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
}
WAITING = pod(1, "Pending", node=None, conditions=(UNSCHEDULABLE,))
LOST = pod(0, "Failed", exit_code=217, conditions=(PREEMPTED,))


def clone_ended(code: int, *, deleted: bool = False) -> Manifest:
    """Return a pod whose clone ended so, before there was a main container."""
    ended = {"exitCode": code, "reason": "Error", "message": "could not clone: no such host (https://a at main)"}
    made = pod(0, "Failed", deleted=deleted, waiting={"reason": "PodInitializing"})
    made["status"]["initContainerStatuses"] = [{"name": "clone-workdir", "state": {"terminated": ended}}]
    return made


@pytest.mark.parametrize(
    ("code", "state", "reason"),
    [
        pytest.param(75, State.RECOVERING, "Init:Error", id="its host is away"),
        pytest.param(217, State.RECOVERING, "Deleted", id="the pod was deleted"),
        pytest.param(255, State.RECOVERING, "Init:Error", id="a reboot took it"),
        pytest.param(1, State.RUNNING, "Init:Error", id="not to be had: over, and not yet on record"),
        pytest.param(137, State.RUNNING, "Init:Error", id="its memory is too small"),
    ],
)
def test_what_becomes_of_a_run_whose_clone_ended(code: int, state: State, reason: str) -> None:
    """Interrupted it is made again; what can't be had ends the run."""
    observation = observe(job(failed=1), [clone_ended(code, deleted=reason == "Deleted")])

    assert (observation.state, observation.reason) == (state, reason)
    assert reason == "Deleted" or "could not clone: no such host" in (observation.message or "")


def test_a_clone_that_failed_is_the_reason() -> None:
    why = "Container clone-workdir for pod a/b failed with exit code 1 matching FailJob rule at index 3"
    observation = observe(job(failed(message=why), failed=1), [clone_ended(1)])

    assert (told(observation)[:2], observation.counts) == (("FAILED", "Init:Error"), Counts(0, 0))
    assert "could not clone: no such host" in (observation.message or "")


def told(observation: Observation) -> tuple[str, str | None, str | None]:
    return observation.state.value, observation.reason, observation.message


def test_every_combination_of_conditions() -> None:
    """kubernetes#132144: a condition counts by its status, an unknown one not at all, the outcome first."""
    types = ("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed", "Suspended")
    for statuses in itertools.product((None, "True", "False", "Unknown"), repeat=len(types)):
        conditions = [(kind, status) for kind, status in zip(types, statuses, strict=True) if status]
        true = {kind for kind, status in conditions if status == "True"}
        for deleted, suspend in itertools.product((False, True), repeat=2):
            if true & {"SuccessCriteriaMet", "Complete"}:
                expected = State.SUCCEEDED
            elif true & {"FailureTarget", "Failed"}:
                expected = State.FAILED
            elif deleted:
                expected = State.CANCELLING
            else:
                expected = State.SUSPENDED if suspend else State.PENDING
            manifest = job(("Novelty", "True"), *conditions, deleted=deleted, suspend=suspend)

            assert observe(manifest, []).state is expected, (conditions, deleted, suspend)


@pytest.mark.parametrize(
    ("manifest", "pods", "expected"),
    [
        pytest.param(job(), [], ("PENDING", None, None), id="no pod yet"),
        pytest.param(
            job(active=1),
            [pod(0, "Pending", node=None, conditions=(UNSCHEDULABLE,))],
            ("PENDING", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."),
            id="no room",
        ),
        pytest.param(
            job(active=1),
            [pod(0, "Pending", waiting={"reason": "ContainerCreating"})],
            ("STARTING", "ContainerCreating", None),
            id="bound",
        ),
        pytest.param(job(active=1), [pod()], ("RUNNING", None, None), id="runs"),
        pytest.param(job(("Suspended", "False"), active=1), [pod()], ("RUNNING", None, None), id="resumed"),
        pytest.param(job(suspend=True), [pod(deleted=True)], ("SUSPENDED", None, None), id="suspended, pod still ends"),
        pytest.param(
            job(active=1, terminating=1),
            [pod(deleted=True, conditions=(PREEMPTED,))],
            ("RECOVERING", "PreemptionByScheduler", "preempting to accommodate a higher priority pod"),
            id="being preempted",
        ),
        pytest.param(
            job(terminating=1),
            [pod(deleted=True)],
            ("RECOVERING", "Deleted", f"pod train-3-0-abcde on node node-1 has until {DECIDED} to end"),
            id="terminating is not running",
        ),
        pytest.param(
            job(),
            [LOST],
            ("RECOVERING", "PreemptionByScheduler", "preempting to accommodate a higher priority pod"),
            id="preempted, not counted, not replaced",
        ),
        pytest.param(
            job(failed=1, failedIndexes="0", active=1),
            [LOST, WAITING],
            (
                "RECOVERING",
                "PreemptionByScheduler",
                f"{PREEMPTED['message']}; next attempt: {UNSCHEDULABLE['message']}",
            ),
            id="preempted, the next one waits",
        ),
        pytest.param(
            job(failed=1, failedIndexes="0", active=1),
            [WAITING],
            ("RECOVERING", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."),
            id="the lost pod is gone already",
        ),
        pytest.param(job(failed=1, failedIndexes="0"), [], ("RECOVERING", None, None), id="no pod at all"),
        pytest.param(
            job(failed=1, failedIndexes="0", active=1),
            [LOST, pod(1, "Pending", waiting={"reason": "ContainerCreating"})],
            (
                "RECOVERING",
                "PreemptionByScheduler",
                "preempting to accommodate a higher priority pod; next attempt: ContainerCreating",
            ),
            id="the next one starts",
        ),
        pytest.param(
            job(failed=1, failedIndexes="0", active=1), [LOST, pod(1)], ("RUNNING", None, None), id="recovered"
        ),
        pytest.param(
            job(failed=1, failedIndexes="0", restarts=1),
            [],
            ("RECOVERING", None, None),
            id="restarts on an error",
        ),
        pytest.param(
            job(),
            [pod(0, "Failed", exit_code=3, said={"phase": "run", "exit_code": 3})],
            ("RUNNING", "Error", "exit code 3"),
            id="failed, the Job hasn't said so yet",
        ),
        pytest.param(
            job(restarts=1),
            [pod(0, "Failed", exit_code=3)],
            ("RECOVERING", "Error", "exit code 3"),
            id="failed, and is restarted",
        ),
        pytest.param(
            job(restarts=1, failed=1, failedIndexes="0"),
            [pod(1, "Failed", exit_code=3)],
            ("RUNNING", "Error", "exit code 3"),
            id="failed once more than it may",
        ),
        pytest.param(
            job(),
            [pod(0, "Failed", exit_code=42)],
            ("RECOVERING", "Error", "exit code 42"),
            id="recover code",
        ),
        pytest.param(
            job(),
            [pod(0, "Succeeded", exit_code=0)],
            ("RUNNING", "Completed", None),
            id="done, not yet said",
        ),
        pytest.param(
            job(deleted=True),
            [pod(deleted=True)],
            ("CANCELLING", None, f"pod train-3-0-abcde on node node-1 has until {DECIDED} to end"),
            id="being deleted",
        ),
        pytest.param(
            job(("SuccessCriteriaMet", "True"), deleted=True),
            [pod(deleted=True)],
            ("SUCCEEDED", None, None),
            id="succeeded",
        ),
    ],
)
def test_state(manifest: Manifest, pods: list[Manifest], expected: tuple[str, str | None, str | None]) -> None:
    """The Job decides what ended; the pods tell what goes on; a lost attempt is RECOVERING until the next one runs."""
    assert told(observe(manifest, pods)) == expected


@pytest.mark.parametrize(
    ("condition", "pods", "expected"),
    [
        pytest.param(
            failed(),
            [pod(0, "Failed", exit_code=3, said={"phase": "run", "exit_code": 3})],
            ("FAILED", "Error", "exit code 3"),
            id="error",
        ),
        pytest.param(
            failed(),
            [pod(0, "Failed", exit_code=219, said={"phase": "setup", "exit_code": 2})],
            ("FAILED_SETUP", "Error", "setup failed with exit code 2"),
            id="setup",
        ),
        pytest.param(
            failed(),
            [pod(0, "Failed", exit_code=137, said={"phase": "setup", "exit_code": None})],
            ("FAILED_SETUP", "Error", "setup failed with exit code 137"),
            id="killed in setup",
        ),
        pytest.param(
            failed(
                message="Container main for pod team-a/train-3-0-x failed with exit code 219 matching FailJob rule at 2"
            ),
            [],
            ("FAILED_SETUP", "Error", "setup failed"),
            id="setup, pod collected",
        ),
        pytest.param(
            failed(
                message="Container main for pod team-a/train-3-0-x failed with exit code 137 matching FailJob rule at 2"
            ),
            [],
            ("FAILED", "Error", "exit code 137"),
            id="error, pod collected",
        ),
        pytest.param(
            failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"),
            [LOST],
            ("FAILED", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"),
            id="recovered too often",
        ),
        pytest.param(
            failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"),
            [pod(0, "Failed", exit_code=1), pod(1, "Failed", exit_code=3)],
            ("FAILED", "Error", "exit code 3"),
            id="failed too often: the last error",
        ),
        pytest.param(
            failed("DeadlineExceeded", "Job was active longer than specified deadline"),
            [],
            ("FAILED", "DeadlineExceeded", "Job was active longer than specified deadline"),
            id="other reasons",
        ),
    ],
)
def test_failure(condition: Manifest, pods: list[Manifest], expected: tuple[str, str, str]) -> None:
    """A failure is told by the attempt that ended the run while its pod is there, else by what the Job kept of it."""
    observation = observe(job(condition), pods)

    assert told(observation) == expected
    assert observation.ended_at == DECIDED


def event(message: str, at: str, reason: str = "FailedCreate") -> Manifest:
    return {"involvedObject": {"uid": "uid-3"}, "reason": reason, "message": message, "lastTimestamp": at}


QUOTA = 'Error creating: pods "train-3-0-{}" is forbidden: exceeded quota: gpus, requested: cpu=4, used: cpu=8'
CLASS = 'Error creating: pods "train-3-0-{}" is forbidden: no PriorityClass with name urgent was found'


@pytest.mark.parametrize(
    ("manifest", "pods", "events", "expected"),
    [
        pytest.param(
            job(),
            [],
            [event(CLASS.format("a1b2c"), "10:00"), event("Created pod", "10:09", "SuccessfulCreate")],
            ("PENDING", "FailedCreate", "no PriorityClass with name urgent was found"),
            id="class missing",
        ),
        pytest.param(
            job(),
            [],
            [event(QUOTA.format("zzzzz"), "10:05"), event(CLASS.format("a1b2c"), "10:00")],
            ("PENDING", "FailedCreate", "exceeded quota: gpus, requested: cpu=4, used: cpu=8"),
            id="the newest one",
        ),
        pytest.param(
            job(active=1), [pod()], [event(QUOTA.format("a"), "10:05")], ("RUNNING", None, None), id="old news"
        ),
        pytest.param(
            job(failed=1, failedIndexes="0"),
            [],
            [event(CLASS.format("a1b2c"), "10:00")],
            ("RECOVERING", "FailedCreate", "no PriorityClass with name urgent was found"),
            id="class deleted under a running job",
        ),
    ],
)
def test_refused_pods(
    manifest: Manifest, pods: list[Manifest], events: list[Manifest], expected: tuple[Any, ...]
) -> None:
    """A quota or a missing class refuses the pod, not the Job: only an Event says so. It waits, it hasn't failed."""
    assert told(observe(manifest, pods, events)) == expected


def test_message_doesn_t_carry_the_name_of_a_pod_that_never_was() -> None:
    """Each retry makes up another name; a status that shows it would change for ever."""
    first, second = (observe(job(), [], [event(QUOTA.format(name), "10:00")]) for name in ("a1b2c", "d3e4f"))

    assert first == second


def test_attempts_come_in_the_order_of_their_making() -> None:
    """Within one second the index tells: a burnt one is followed by the next."""
    pods = [pod(2), pod(10, "Pending"), pod(0, "Failed", exit_code=217)]
    pods[1]["metadata"]["creationTimestamp"] = pods[0]["metadata"]["creationTimestamp"]
    observation = observe(job(failed=2), pods)

    assert [attempt.pod for attempt in observation.attempts] == [
        "train-3-0-abcde",
        "train-3-2-abcde",
        "train-3-10-abcde",
    ]
    assert observation.submitted_at == CREATED
    assert observation.started_at == "2026-03-01T10:00:10Z"


def test_priority_is_the_pod_s_own_number() -> None:
    """kubernetes#99205: after a class was made anew with another value, the name doesn't tell the number any more."""
    older, newer = pod(0, "Failed", exit_code=217), pod(1)
    newer["spec"]["priority"] = 2000
    observation = observe(job(failed=1), [newer, older])

    assert (observation.priority_class, observation.priority_value) == ("low", 2000)
    assert (observe(job(), []).priority_class, observe(job(), []).priority_value) == ("low", None)


def test_own_limit_is_a_problem() -> None:
    """kubernetes#120182: an eviction for the pod's own limit looks like an interruption and comes again and again."""
    evicted = pod(0, "Failed", exit_code=217)
    evicted["status"] |= {"reason": "Evicted", "message": "Usage of EmptyDir volume exceeds the limit"}
    [problem] = observe(job(failed=1), [evicted]).problems

    assert (problem.code, problem.path, problem.severity.value) == (
        "evicted-for-own-limit",
        "jobs/train.yaml",
        "warning",
    )
    assert problem.message == (
        "train-3-0-abcde was evicted for a limit of its own: "
        "Usage of EmptyDir volume exceeds the limit; raise that limit"
    )
    evicted["status"]["conditions"] = [PREEMPTED]
    assert observe(job(failed=1), [evicted]).problems == ()


@pytest.mark.parametrize(
    ("recoveries", "minute", "often"), [(4, 20, False), (5, 20, True), (5, 50, False), (6, 59, True)]
)
def test_many_recoveries_in_a_short_time_are_a_problem(recoveries: int, minute: int, *, often: bool) -> None:
    """Told from times alone: looking again later doesn't change it."""
    observation = observe(job(failed=recoveries), [pod(minute)])

    assert observation.counts == Counts(recoveries, 0)
    assert [problem.code for problem in observation.problems] == (["recovers-often"] if often else [])


def test_live_runs_groups_pods_and_events_by_job() -> None:
    """Names come again, uids don't: a pod belongs to the Job that owns it."""
    other = job(("Complete", "True"))
    other["metadata"] |= {"name": "train-2", "uid": "uid-2", "labels": LABELS | {RUN_LABEL: "2"}}
    stranger = pod(5)
    stranger["metadata"]["ownerReferences"] = [{"uid": "uid-9", "controller": True}]
    by_label = pod(1)
    del by_label["metadata"]["ownerReferences"]
    by_label["metadata"]["labels"] = {"batch.kubernetes.io/controller-uid": "uid-3"}
    first, second = live_runs([other, job(failed=1)], [stranger, LOST, by_label])

    assert (first.number, first.finished, first.observation.attempts) == (2, True, ())
    assert (second.job, second.number, second.task_hash, second.uid) == ("train", 3, "H", "uid-3")
    assert (second.namespace, second.deleting, second.finished) == ("team-a", False, False)
    assert [attempt.pod for attempt in second.observation.attempts] == ["train-3-0-abcde", "train-3-1-abcde"]


def test_a_job_that_is_no_run_is_left_out() -> None:
    """Who a Job is has its own table, in test_identity.py."""
    assert live_runs([{"metadata": None}], []) == ()
