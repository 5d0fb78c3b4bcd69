"""The Job's form, and its counts and outcome: what a real Job controller wrote, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.encoding import check_echo, counts, job_form, outcome
from reconciler.model import Manifest, State
from reconciler.runs import Counts, Outcome

PAST = "2026-03-01T10:00:00Z"


def condition(kind: str, reason: str, *, status: str = "True", at: str = PAST, message: str = "") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def failed(reason: str) -> list[Manifest]:
    return [condition("FailureTarget", reason), condition("Failed", reason, at="2026-03-01T10:00:05Z")]


COMPLETE = [condition("SuccessCriteriaMet", "SuccessPolicy"), condition("Complete", "SuccessPolicy")]


def form(restarts: int = 0, **more: Any) -> Manifest:
    options = {"max_recoveries": 1000, "recover_on_exit_codes": (), "main_container": "main", **more}
    return job_form(max_restarts_on_errors=restarts, **options)


def job(restarts: int = 0, **status: Any) -> Manifest:
    return {"spec": {**form(restarts), "template": {}}, "status": status}


def test_the_default_form() -> None:
    """A disruption burns an index, so that the next attempt starts at once; any error ends the Job."""
    assert form(recover_on_exit_codes=(42, 7, 42)) == {
        "completionMode": "Indexed",
        "parallelism": 1,
        "completions": 1002,
        "maxFailedIndexes": 1000,
        "backoffLimitPerIndex": 1_000_000,
        "podReplacementPolicy": "Failed",
        "successPolicy": {"rules": [{"succeededCount": 1}]},
        "podFailurePolicy": {
            "rules": [
                {"action": "FailIndex", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    "action": "Count",
                    "onExitCodes": {"containerName": "main", "operator": "In", "values": [7, 42, 217, 255]},
                },
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
            ]
        },
    }


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_clone_that_was_interrupted_is_counted(restarts: int) -> None:
    """Before the rule that any other exit code is an error."""
    rules = form(restarts, clone_containers=("clone-a", "clone-b"))["podFailurePolicy"]["rules"]

    assert rules[2:-1] == [
        {"action": "Count", "onExitCodes": {"containerName": name, "operator": "In", "values": [75, 217, 255]}}
        for name in ("clone-a", "clone-b")
    ]
    assert (rules[1]["onExitCodes"]["containerName"], rules[-1]["onExitCodes"]["operator"]) == ("main", "NotIn")


@pytest.mark.parametrize("restarts", [1, 3])
def test_the_form_with_restarts_on_errors(restarts: int) -> None:
    """An error burns an index; a disruption is repeated at the same one."""
    got = form(restarts)

    assert (got["completions"], got["maxFailedIndexes"]) == (restarts + 2, restarts)
    assert [rule["action"] for rule in got["podFailurePolicy"]["rules"]] == ["Count", "Count", "FailIndex"]
    assert got["podFailurePolicy"]["rules"][1:] != []
    assert got["podFailurePolicy"]["rules"][2]["onExitCodes"] == {"operator": "NotIn", "values": [0]}


@pytest.mark.parametrize(
    ("codes", "values"),
    [
        pytest.param((), [217, 255], id="none"),
        pytest.param((33,), [33, 217, 255], id="one"),
        pytest.param((0, 1, 217, 218, 219, 255), [1, 217, 255], id="never seen: 0, and what the supervisor keeps back"),
    ],
)
def test_recover_codes(codes: tuple[int, ...], values: list[int]) -> None:
    """The API wants them sorted, each once, and no 0."""
    assert form(recover_on_exit_codes=codes)["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"] == values


def test_the_policy_names_the_container_that_the_codes_are_of() -> None:
    assert form(main_container="x")["podFailurePolicy"]["rules"][1]["onExitCodes"]["containerName"] == "x"


UNCOUNTED = {"failed": ["uid-1"]}


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        pytest.param({"spec": form()}, Counts(0, 0), id="no status yet"),
        pytest.param(job(), Counts(0, 0), id="nothing happened"),
        pytest.param(job(active=1, ready=1), Counts(0, 0), id="runs"),
        pytest.param(job(failed=1, conditions=failed("PodFailurePolicy")), Counts(0, 0), id="exit 3"),
        pytest.param(job(failed=1, conditions=failed("PodFailurePolicy")[:1]), Counts(0, 0), id="exit 3, pod stopping"),
        pytest.param(
            job(uncountedTerminatedPods=UNCOUNTED, conditions=failed("PodFailurePolicy")[:1]),
            Counts(0, 0),
            id="exit 3, not yet counted",
        ),
        pytest.param(
            job(failed=1, failedIndexes="0", succeeded=1, conditions=COMPLETE), Counts(1, 0), id="preempted once"
        ),
        pytest.param(
            job(failed=2, failedIndexes="0", conditions=failed("PodFailurePolicy")),
            Counts(1, 0),
            id="preempted, exit 7",
        ),
        pytest.param(
            job(failed=4, failedIndexes="0-1,3", active=1), Counts(4, 0), id="preempt, evict, delete, preempt"
        ),
        pytest.param(
            job(failed=3, failedIndexes="0-2", uncountedTerminatedPods=UNCOUNTED),
            Counts(4, 0),
            id="the last not yet counted",
        ),
        pytest.param(job(failed=5, active=1), Counts(5, 0), id="a recover code in a loop"),
        pytest.param(
            job(failed=3, failedIndexes="0-2", conditions=failed("MaxFailedIndexesExceeded")),
            Counts(2, 0),
            id="one disruption too many was not recovered from",
        ),
        pytest.param(
            job(failed=1, failedIndexes="0", conditions=[condition("Suspended", "JobSuspended")]),
            Counts(1, 0),
            id="suspended after a recovery",
        ),
        pytest.param(
            job(failed=2, failedIndexes="0-1", conditions=[condition("Failed", "PodFailurePolicy", status="False")]),
            Counts(2, 0),
            id="a condition that doesn't hold",
        ),
        pytest.param(
            job(failed=2, conditions=failed("DeadlineExceeded")),
            Counts(1, 0, inexact="DeadlineExceeded ended the Job, which counts the pod that it stops as failed"),
            id="a deadline that somebody set",
        ),
        pytest.param(
            {"spec": {"completions": 1}, "status": {"failed": 2}},
            Counts(
                2,
                0,
                inexact="the Job's podFailurePolicy is not the one that it was created with: "
                "errors may count as recoveries",
            ),
            id="not our form",
        ),
    ],
)
def test_counts_of_the_default_form(live: Manifest, expected: Counts) -> None:
    assert counts(live) == expected


def errors(restarts: int, number: int, **status: Any) -> Manifest:
    names = {0: "", 1: "0", 2: "0-1", 3: "0-2", 4: "0-3"}
    return job(restarts, failedIndexes=names[number], **status)


EXCEEDED = failed("MaxFailedIndexesExceeded")


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        pytest.param(errors(1, 2, failed=2, conditions=EXCEEDED), Counts(0, 1), id="N=1, exit 3"),
        pytest.param(errors(3, 4, failed=4, conditions=EXCEEDED), Counts(0, 3), id="N=3, exit 3"),
        pytest.param(errors(2, 3, failed=3, conditions=EXCEEDED), Counts(0, 2), id="N=2: three errors, two restarts"),
        pytest.param(errors(1, 0, failed=1, succeeded=1, conditions=COMPLETE), Counts(1, 0), id="preempted once"),
        pytest.param(errors(1, 2, failed=3, conditions=EXCEEDED), Counts(1, 1), id="N=1, preempted, exit 7"),
        pytest.param(errors(3, 4, failed=5, conditions=EXCEEDED), Counts(1, 3), id="N=3, preempted, exit 7"),
        pytest.param(errors(1, 0, failed=4, active=1), Counts(4, 0), id="preempt, evict, delete, preempt"),
        pytest.param(errors(3, 1, failed=1, active=1), Counts(0, 1), id="first error, and on"),
        pytest.param(errors(3, 2, failed=4, succeeded=1, conditions=COMPLETE), Counts(2, 2), id="both, then success"),
        pytest.param(job(9, failedIndexes="0,2-4,11", failed=7, active=1), Counts(2, 5), id="intervals"),
        pytest.param(
            errors(1, 1, failed=3, conditions=failed("DeadlineExceeded")),
            Counts(1, 1, inexact="DeadlineExceeded ended the Job, which counts the pod that it stops as failed"),
            id="a deadline that somebody set",
        ),
    ],
)
def test_counts_with_restarts_on_errors(live: Manifest, expected: Counts) -> None:
    """A user's error is never a recovery, a preemption never an error."""
    assert counts(live) == expected


def test_the_form_is_told_by_the_policy_of_the_live_job() -> None:
    """Not by what its file says by now, nor by an annotation."""
    live = job(2, failedIndexes="0", failed=2)
    del live["spec"]["completions"]

    assert counts(live) == Counts(1, 1)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param(None, None, id="no status yet"),
        pytest.param([], None, id="none"),
        pytest.param([condition("Suspended", "JobSuspended")], None, id="suspended"),
        pytest.param([condition("Failed", "PodFailurePolicy", status="False")], None, id="False"),
        pytest.param([condition("Complete", "SuccessPolicy", status="Unknown")], None, id="Unknown"),
        pytest.param([condition("Novelty", "Unheard")], None, id="a type that we don't know"),
        pytest.param(
            [condition("SuccessCriteriaMet", "SuccessPolicy", message="Matched rules at index 0")],
            Outcome(State.SUCCEEDED, "SuccessPolicy", "Matched rules at index 0", PAST),
            id="SuccessCriteriaMet is success",
        ),
        pytest.param(
            [condition("Complete", "CompletionsReached")],
            Outcome(State.SUCCEEDED, "CompletionsReached", "", PAST),
            id="Complete alone",
        ),
        pytest.param(
            failed("PodFailurePolicy")[:1],
            Outcome(State.FAILED, "PodFailurePolicy", "", PAST),
            id="FailureTarget is failure",
        ),
        pytest.param(
            failed("PodFailurePolicy")[::-1],
            Outcome(State.FAILED, "PodFailurePolicy", "", PAST),
            id="Failed later moves no time",
        ),
        pytest.param(
            [condition("Suspended", "JobResumed", status="False"), *EXCEEDED],
            Outcome(State.FAILED, "MaxFailedIndexesExceeded", "", PAST),
            id="resumed, then failed",
        ),
        pytest.param([{"type": "Failed", "status": "True"}], Outcome(State.FAILED, "Failed", "", None), id="bare"),
    ],
)
def test_outcome(conditions: list[Manifest] | None, expected: Outcome | None) -> None:
    """FailureTarget and SuccessCriteriaMet decide already; a condition counts only with status "True"."""
    assert outcome({} if conditions is None else {"status": {"conditions": conditions}}) == expected


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        pytest.param((), None, id="keeps all"),
        pytest.param(
            ("successPolicy",),
            "this server drops spec.successPolicy of a Job, so it would run a finished job again; "
            "Kubernetes 1.31 or newer is needed",
            id="no success policy",
        ),
        pytest.param(
            ("backoffLimitPerIndex", "maxFailedIndexes"),
            "this server drops spec.backoffLimitPerIndex, spec.maxFailedIndexes of a Job, "
            "so it could not count recoveries; Kubernetes 1.31 or newer is needed",
            id="no limits per index",
        ),
    ],
)
def test_what_a_server_loses_of_a_job(lost: tuple[str, ...], expected: str | None) -> None:
    """An old server drops what it doesn't know without a word: its dry run shows it before anything is deleted."""
    spec = {name: value for name, value in form().items() if name not in lost}

    assert check_echo({"spec": {**spec, "template": {}, "selector": {}}}) == expected
