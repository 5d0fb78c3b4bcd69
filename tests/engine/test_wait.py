"""What `--wait` waits for, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reconciler.engine import wait
from reconciler.engine.report import Report
from reconciler.errors import ClusterUnreachable, ExitCode
from reconciler.model import Action, Document, Problem, Result, Severity, State, Verb


def document(
    state: State,
    *,
    file: str | None = "jobs/a.yaml",
    ran: bool = True,
    reason: str | None = None,
    message: str | None = None,
) -> Document:
    """Make the part of a status document that a wait looks at."""
    started = "2026-01-01T00:00:00Z" if ran and state is not State.PENDING else None
    run = {"number": 1, "task_hash": "h", "uid": "u"} if ran else None
    return {"file": file, "state": state.value, "run": run, "started_at": started, "reason": reason, "message": message}


def report(**documents: Document) -> Report:
    """Make the report of a pass that leaves these documents."""
    return Report("c0ffee", "local", documents=documents)


def passes(*reports: Report | Exception) -> tuple[Callable[[str | None], Report], list[str | None]]:
    """Make passes that return these reports one after another, the last for ever, and note the commits asked for."""
    asked: list[str | None] = []
    left: Iterator[Report | Exception] = iter(reports)
    last: list[Report | Exception] = []

    def one_pass(commit: str | None) -> Report:
        asked.append(commit)
        last[:] = [next(left, *last)]
        if isinstance(last[0], Exception):
            raise last[0]
        return last[0]

    return one_pass, asked


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "SECONDS_BETWEEN_PASSES", 0.01)


def wait_for(goal: str, one_pass: Callable[[str | None], Report], **options: Any) -> Report:
    """Wait without showing progress."""
    return wait.wait_for(
        goal,
        one_pass,
        timeout=options.get("timeout", 10),
        progress=lambda _: None,
        complain=options.get("complain", lambda _: None),
    )


@pytest.mark.parametrize(
    ("goal", "settled"),
    [
        pytest.param("started", document(State.RUNNING), id="started-runs"),
        pytest.param("started", document(State.RECOVERING), id="started-once-and-lost-its-place"),
        pytest.param("started", document(State.FAILED_SETUP), id="started-ended"),
        pytest.param("started", document(State.INVALID, ran=False), id="nothing-to-start"),
        pytest.param("finished", document(State.SUCCEEDED), id="finished"),
        pytest.param("finished", document(State.RUNNING, file=None), id="no-file-asks-for-it"),
    ],
)
def test_it_ends_at_once_when_every_job_is_there(goal: str, settled: Document) -> None:
    """One pass is enough when there is nothing to wait for."""
    one_pass, asked = passes(report(a=settled))

    assert wait_for(goal, one_pass).exit_code is ExitCode.FINE
    assert asked == [None]


def test_later_passes_stay_at_the_commit_of_the_first() -> None:
    """A push in the meantime is another pass's business."""
    one_pass, asked = passes(
        report(a=document(State.PENDING)), report(a=document(State.RUNNING)), report(a=document(State.SUCCEEDED))
    )

    assert wait_for("finished", one_pass).documents["a"]["state"] == "SUCCEEDED"
    assert asked == [None, "c0ffee", "c0ffee"]


def test_a_time_out_says_for_whom_it_waited() -> None:
    """The jobs go on; the person learns which ones, and why."""
    one_pass, _ = passes(
        report(a=document(State.PENDING, reason="Unschedulable", message="0/1 nodes"), b=document(State.RUNNING))
    )
    ended = wait_for("started", one_pass, timeout=0.1)

    assert ended.exit_code is ExitCode.FAILED
    assert ended.timed_out is not None
    assert ended.timed_out.message.startswith("not started in time: a PENDING (Unschedulable: 0/1 nodes); they go on")


def test_jobs_that_need_a_person_are_not_waited_for() -> None:
    """Waiting for what never heals by itself would be for ever."""
    held = Action(Verb.HOLD, "Job", "default", "a-1", "a", "LOST", result=Result.SKIPPED, needs_attention=True)
    one_pass, asked = passes(Report("c", "local", actions=(held,), documents={"a": document(State.LOST)}))

    assert wait_for("finished", one_pass).exit_code is ExitCode.PARTLY
    assert len(asked) == 1


def test_an_undelivered_status_ends_the_wait() -> None:
    """What will not heal is reported, not looped on."""
    refused = Problem(Severity.ERROR, "status-not-pushed", "", "declined by a hook")
    one_pass, asked = passes(Report("c", "local", documents={"a": document(State.RUNNING)}, undelivered=refused))

    assert wait_for("finished", one_pass).exit_code is ExitCode.STATUS_NOT_PUSHED
    assert len(asked) == 1


def test_an_outage_in_between_is_told_and_survived() -> None:
    """Unknown is neither failed nor finished."""
    told: list[str] = []
    one_pass, _ = passes(
        report(a=document(State.RUNNING)), ClusterUnreachable("no answer"), report(a=document(State.SUCCEEDED))
    )

    assert wait_for("finished", one_pass, complain=told.append).exit_code is ExitCode.FINE
    assert told == ["no answer"]


def test_the_actions_reported_are_those_of_the_first_pass() -> None:
    """The later ones only look; the last status commit is the one that stands."""
    created = Action(Verb.CREATE, "Job", "default", "a-1", "a", "new", result=Result.DONE)
    first = Report("c", "local", actions=(created,), documents={"a": document(State.PENDING)}, status_commit="1")
    last = Report("c", "local", documents={"a": document(State.SUCCEEDED)}, status_commit="2")
    ended = wait_for("finished", passes(first, last)[0])

    assert (ended.actions, ended.status_commit) == ((created,), "2")
