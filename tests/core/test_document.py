"""The status document of a job: what it keeps, what it takes from the cluster, and what it never changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.core.document import (
    KEYS,
    Cancellation,
    Known,
    job_document,
    recorded_runs,
    resources_text,
    runs_as_jobset,
)
from reconciler.core.status.document_text import load
from reconciler.core.yaml_output import dump
from reconciler.model import (
    TERMINAL_STATES,
    Accelerators,
    Document,
    Problem,
    Resources,
    Severity,
    State,
    Task,
    TaskFile,
)
from reconciler.runs import Attempt, Counts, LiveRun, RecordedRun

COMMIT = "c" * 40
NOON = Cancellation("2026-03-01T12:00:00Z", "no file asks for it any more")
BROKEN = Problem(
    Severity.ERROR, "unknown-field", "jobs/train.yaml", "resources.cpu is not a field", 3, 5, "resources.cpu"
)
EVICTED = Problem(Severity.WARNING, "evicted-for-own-limit", "jobs/train.yaml", "train-3-0-x was evicted")

Write = Callable[..., Document]
Live = Callable[..., LiveRun]
MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def write(task_file: Callable[..., TaskFile]) -> Write:
    """Write the document of `train` from what is known, and check that writing it again changes nothing."""

    def build(*live: LiveRun, previous: Document | None = None, gone: bool = False, **changes: Any) -> Document:
        known: dict[str, Any] = {
            "file": None if gone else task_file(),
            "commit": COMMIT,
            "live": live,
            "context": "kind",
            "cancelled": {},
        }
        facts = Known(**(known | changes))
        document = job_document("train", facts, previous)
        assert document is not None
        assert job_document("train", facts, document) == document
        assert load(dump(document)) == document
        assert tuple(document) == KEYS
        return document

    return build


def pick(document: Document, *keys: str) -> tuple[Any, ...]:
    return tuple(document[key] for key in keys)


def test_life_of_a_run(write: Write, live_run: Live, attempt: MakeAttempt, golden: Callable[[str, str], None]) -> None:
    """Waits, runs, is preempted, recovers, succeeds; pods go away in between, and what they said stays."""
    document = write(live_run(3, state=State.PENDING, reason="Unschedulable", message="0/1 nodes: 1 Insufficient cpu"))
    assert pick(document, "state", "started_at", "queued_seconds", "run_seconds") == ("PENDING", None, None, None)
    assert document["attempts_complete"] is True

    first = attempt("train-3-0-aaaaa", 5)
    document = write(live_run(3, attempts=(first,)), previous=document)
    assert pick(document, "state", "reason", "queued_seconds", "run_seconds") == ("RUNNING", None, 300, 0)

    lost = attempt("train-3-0-aaaaa", 5, 15, reason="PreemptionByScheduler", exit_code=0)
    document = write(live_run(3, state=State.RECOVERING, attempts=(lost,)), previous=document)
    assert pick(document, "state", "recoveries", "run_seconds", "recovering_seconds") == ("RECOVERING", 0, 600, 0)
    assert document["attempts_complete"] is True

    document = write(live_run(3, state=State.RECOVERING, counts=Counts(1, 0)), previous=document)
    assert pick(document, "recoveries", "run_seconds", "attempts_complete") == (1, 600, True)

    second = attempt("train-3-1-bbbbb", 18, node="node-2")
    document = write(live_run(3, counts=Counts(1, 0), attempts=(second,)), previous=document)
    assert pick(document, "run_seconds", "recovering_seconds", "attempts_complete") == (600, 180, True)

    second = attempt("train-3-1-bbbbb", 18, 30, node="node-2", reason="Completed", exit_code=0)
    document = write(live_run(3, state=State.SUCCEEDED, counts=Counts(1, 0), attempts=(second,)), previous=document)
    assert pick(document, "run_seconds", "recovering_seconds") == (1320, 180)

    document = write(live_run(3, state=State.SUCCEEDED, counts=Counts(1, 0)), previous=document)
    golden("document/recovered.yaml", dump(document))


def test_an_end_that_nobody_saw_is_when_the_successor_was_made(
    write: Write, live_run: Live, attempt: MakeAttempt
) -> None:
    """A preempted pod is gone at once: the next attempt's pod, made when it had ended, tells when that was."""
    document = write(live_run(3, attempts=(attempt("train-3-0-aaaaa", 5),)))
    second = attempt("train-3-1-bbbbb", None, created_at="2026-03-01T10:15:00Z")
    document = write(live_run(3, state=State.RECOVERING, counts=Counts(1, 0), attempts=(second,)), previous=document)

    assert [entry["ended_at"] for entry in document["attempts"]] == ["2026-03-01T10:15:00Z", None]
    assert pick(document, "run_seconds", "attempts_complete") == (600, True)


def test_suspension_ends_an_attempt_when_it_began(write: Write, live_run: Live, attempt: MakeAttempt) -> None:
    """The Job knows since when it is suspended: that is the end, though the pod is gone; resuming moves nothing."""
    document = write(live_run(3, attempts=(attempt("train-3-0-aaaaa", 5),)))
    stopped = attempt("train-3-0-aaaaa", 5, reason="Deleted")
    document = write(live_run(3, state=State.SUSPENDED, attempts=(stopped,)), previous=document)
    assert [pick(entry, "ended_at", "reason") for entry in document["attempts"]] == [(None, "Suspended")]

    document = write(live_run(3, state=State.SUSPENDED, suspended_at="2026-03-01T10:12:30Z"), previous=document)
    assert pick(document, "run_seconds", "attempts_complete") == (450, True)

    second = attempt("train-3-1-bbbbb", 50, created_at="2026-03-01T10:45:00Z")
    for _ in range(2):
        document = write(live_run(3, attempts=(second,)), previous=document)
    assert [pick(entry, "ended_at", "reason") for entry in document["attempts"]] == [
        ("2026-03-01T10:12:30Z", "Suspended"),
        (None, None),
    ]
    assert pick(document, "started_at", "run_seconds", "recovering_seconds") == ("2026-03-01T10:05:00Z", 450, 0)


def test_an_end_by_suspension_that_nobody_saw_is_not_guessed(
    write: Write, live_run: Live, attempt: MakeAttempt
) -> None:
    """The next attempt was made when the run was resumed, which says nothing of the end of the one before."""
    document = write(live_run(3, attempts=(attempt("train-3-0-aaaaa", 5),)))
    document = write(live_run(3, state=State.SUSPENDED), previous=document)
    second = attempt("train-3-1-bbbbb", 50, created_at="2026-03-01T10:45:00Z")
    for _ in range(2):
        document = write(live_run(3, attempts=(second,)), previous=document)

    assert [pick(entry, "ended_at", "reason") for entry in document["attempts"]] == [(None, "Suspended"), (None, None)]
    assert document["run_seconds"] is None


def test_a_resumed_jobset_has_another_attempt(write: Write, live_run: Live, attempt: MakeAttempt) -> None:
    """It goes on without a restart, so its attempt has the same name; that one's start and end stay."""
    first = attempt("train-3 restart 0", 5, created_at="2026-03-01T10:00:00Z")
    document = write(live_run(3, attempts=(first,)))
    document = write(live_run(3, state=State.SUSPENDED, suspended_at="2026-03-01T10:15:00Z"), previous=document)
    again = attempt("train-3 restart 0", 50, created_at="2026-03-01T10:45:00Z")
    for _ in range(2):
        document = write(live_run(3, attempts=(again,)), previous=document)

    assert [pick(entry, "pod", "ended_at") for entry in document["attempts"]] == [
        ("train-3 restart 0", "2026-03-01T10:15:00Z"),
        ("train-3 restart 0, resumed 1", None),
    ]
    assert pick(document, "started_at", "run_seconds") == ("2026-03-01T10:05:00Z", 600)


def test_suspending_what_had_lost_its_place_is_not_its_end(write: Write, live_run: Live, attempt: MakeAttempt) -> None:
    lost = attempt("train-3-0-aaaaa", 5, 15, reason="PreemptionByScheduler")
    document = write(live_run(3, state=State.RECOVERING, attempts=(lost,)))
    document = write(live_run(3, state=State.SUSPENDED, suspended_at="2026-03-01T10:30:00Z"), previous=document)

    assert pick(document["attempts"][0], "ended_at", "reason") == ("2026-03-01T10:15:00Z", "PreemptionByScheduler")


def test_first_look_at_an_ended_run(write: Write, live_run: Live) -> None:
    """After days without an observer the count is right; the attempts that nobody saw are said to be missing."""
    document = write(live_run(3, state=State.SUCCEEDED, counts=Counts(7, 0)))

    assert pick(document, "state", "recoveries", "exact") == ("SUCCEEDED", 7, True)
    assert pick(document, "attempts", "attempts_complete", "run_seconds", "recovering_seconds") == (
        [],
        False,
        None,
        None,
    )


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.FAILED_SETUP, State.CANCELLED])
def test_terminal_state_is_final(write: Write, live_run: Live, state: State) -> None:
    """Whatever the Job of an ended run says later, its end, its cause and its numbers stay."""
    end = {"reason": "Error", "message": "exit code 3", "ended_at": "2026-03-01T11:00:00Z"}
    ended = write(live_run(3, state=state, counts=Counts(2, 0), **end))
    for later in (State.RUNNING, State.CANCELLING, State.SUCCEEDED, State.FAILED):
        again = write(live_run(3, state=later, counts=Counts(3, 1), message="other"), previous=ended)

        assert again == ended
    assert write(previous=ended) == ended


def test_recoveries_never_fall_for_one_uid(write: Write, live_run: Live) -> None:
    before = write(live_run(3, counts=Counts(5, 1)))

    assert pick(write(live_run(3, counts=Counts(4, 0)), previous=before), "recoveries", "restarts_on_error") == (5, 1)
    assert write(live_run(3, counts=Counts(6, 1)), previous=before)["recoveries"] == 6
    assert write(live_run(4, counts=Counts(0, 0)), previous=before)["recoveries"] == 0


def test_inexact_count_says_why(write: Write, live_run: Live) -> None:
    document = write(live_run(3, message="note", counts=Counts(1, 0, inexact="the policy was changed")))

    assert pick(document, "exact", "message") == (False, "note; the count is not exact: the policy was changed")


def test_message_that_differs_in_numbers_only_stays(write: Write, live_run: Live) -> None:
    """A busy cluster's "3 Insufficient cpu" goes up and down for ever; that is no news."""
    waits = {"state": State.PENDING, "reason": "Unschedulable"}
    before = write(live_run(3, message="0/9 nodes are available: 3 Insufficient cpu", **waits))

    same = write(live_run(3, message="0/9 nodes are available: 4 Insufficient cpu", **waits), previous=before)
    other = write(live_run(3, message="0/9 nodes are available: 4 Insufficient memory", **waits), previous=before)
    failed = write(live_run(3, state=State.FAILED, reason="Error", message="exit code 4"), previous=before)

    assert same == before
    assert other["message"] == "0/9 nodes are available: 4 Insufficient memory"
    assert failed["message"] == "exit code 4"


def test_exit_code_is_news(write: Write, live_run: Live) -> None:
    """Numbers are dropped only where a run waits: of an error the number is the message."""
    before = write(live_run(3, state=State.RECOVERING, reason="Error", message="exit code 42"))
    after = write(live_run(3, state=State.RECOVERING, reason="Error", message="exit code 43"), previous=before)

    assert after["message"] == "exit code 43"


def test_own_cancellation(write: Write, live_run: Live) -> None:
    """What we deleted is CANCELLED with its last count, though its pod still takes its time to stop."""
    cancelled = write(live_run(3, counts=Counts(2, 0)), gone=True, cancelled={"uid-3": NOON})

    assert pick(cancelled, "file", "state", "reason", "message") == (
        None,
        "CANCELLED",
        "Cancelled",
        "no file asks for it any more",
    )
    assert pick(cancelled, "ended_at", "recoveries", "exact") == ("2026-03-01T12:00:00Z", 2, True)
    stopping = live_run(3, state=State.CANCELLING, counts=Counts(3, 0), deleting=True)
    assert write(stopping, previous=cancelled, gone=True) == cancelled
    assert write(previous=cancelled, gone=True) == cancelled


def test_own_cancellation_of_a_job_that_is_gone_at_once(write: Write, live_run: Live) -> None:
    running = write(live_run(3, counts=Counts(2, 0)))
    cancelled = write(previous=running, gone=True, cancelled={"uid-3": NOON})

    assert pick(cancelled, "state", "ended_at", "recoveries", "exact") == ("CANCELLED", NOON.at, 2, True)


def test_cancelling_what_ended_meanwhile_keeps_the_end(write: Write, live_run: Live) -> None:
    assert write(live_run(3, state=State.SUCCEEDED), cancelled={"uid-3": NOON})["state"] == "SUCCEEDED"


def test_lost(write: Write, live_run: Live) -> None:
    """Somebody deleted the Job under its file: the last count stays, and is not said to be exact."""
    running = write(live_run(3, counts=Counts(2, 0)))
    lost = write(previous=running)

    assert pick(lost, "state", "reason", "recoveries", "exact", "ended_at") == ("LOST", "JobDeleted", 2, False, None)
    assert lost["message"] == "Job train-3 is gone from the cluster and its end was not seen: somebody deleted it"
    assert write(live_run(3, counts=Counts(2, 0)), previous=lost) == running


def test_file_and_job_gone_unseen(write: Write, live_run: Live) -> None:
    """A pass that died between delete and publish leaves this: cancelled, and the count may be short."""
    gone = write(previous=write(live_run(3, counts=Counts(2, 0))), gone=True)

    assert pick(gone, "file", "commit", "state", "recoveries", "exact") == (None, COMMIT, "CANCELLED", 2, False)
    assert gone["message"] == (
        "its file is gone, and Job train-3 too; how far it came was not seen, the last count stands"
    )


def test_new_run_moves_the_old_one(write: Write, live_run: Live, golden: Callable[[str, str], None]) -> None:
    """Earlier runs are kept for good, the newest first, each with its end."""
    document = write(live_run(1, "F", State.FAILED, counts=Counts(4, 0)))
    document = write(live_run(2, "G", counts=Counts(1, 0)), live_run(1, "F", State.FAILED), previous=document)
    document = write(live_run(3, "H"), previous=document, cancelled={"uid-2": NOON}, problems=(BROKEN,))

    assert [(run["number"], run["state"], run["recoveries"], run["ended_at"]) for run in document["runs"]] == [
        (2, "CANCELLED", 1, "2026-03-01T12:00:00Z"),
        (1, "FAILED", 4, "2026-03-01T11:00:00Z"),
    ]
    golden("document/third_run.yaml", dump(document))


@pytest.mark.parametrize(
    ("next_hash", "state"),
    [pytest.param("H", "CANCELLED", id="another version"), pytest.param("G", "LOST", id="the same version")],
)
def test_old_run_without_a_known_end(write: Write, live_run: Live, next_hash: str, state: str) -> None:
    """Another version took its place, as a dying pass leaves it; the same version is made again only after a loss."""
    running = write(live_run(2, "G"))
    [old] = write(live_run(3, next_hash), previous=running)["runs"]

    assert (old["number"], old["state"], old["ended_at"]) == (2, state, None)


def test_old_run_that_is_still_there(write: Write, live_run: Live) -> None:
    """Of a predecessor on its way out its own Job tells, until it is gone."""
    running = write(live_run(2, "G"))
    stopping = live_run(2, "G", State.CANCELLING, deleting=True)
    both = write(live_run(3, "H"), stopping, previous=running)
    later = write(live_run(3, "H"), previous=both)

    assert [run["state"] for run in both["runs"]] == ["CANCELLING"]
    assert [run["state"] for run in later["runs"]] == ["CANCELLED"]


def test_run_of_that_number_with_another_uid(write: Write, live_run: Live) -> None:
    """A Job of the same name that somebody made anew is another run: its count starts at 0."""
    before = write(live_run(3, counts=Counts(5, 0)))
    after = write(live_run(3, uid="other"), previous=before)

    assert pick(after, "recoveries", "run") == (
        0,
        {"number": 3, "task_hash": "H", "uid": "other", "kind": "Job"},
    )
    assert [(run["uid"], run["state"]) for run in after["runs"]] == [("uid-3", "LOST")]


def test_older_job_does_not_come_back(write: Write, live_run: Live) -> None:
    """The Job of an earlier run that is still kept doesn't take the place of a lost one."""
    before = write(live_run(3, "H"), live_run(2, "G", State.SUCCEEDED))
    after = write(live_run(2, "G", State.SUCCEEDED), previous=before)

    assert pick(after, "state", "run") == ("LOST", before["run"])


@pytest.mark.parametrize(
    ("kind", "resources", "expected"),
    [
        pytest.param("JobSet", None, True, id="first seen when its file had changed or gone"),
        pytest.param("JobSet", "1x[CPU:4]", True, id="kind before text"),
        pytest.param("Job", "2x[CPU:4]", False, id="no JobSet"),
        pytest.param(None, "2x[CPU:4]", True, id="written before the kind was recorded"),
        pytest.param(None, "1x[CPU:4]", False, id="of one node, before"),
        pytest.param(None, None, False, id="nothing known"),
    ],
)
def test_what_a_run_is_on_the_cluster(
    write: Write, live_run: Live, kind: str | None, resources: str | None, *, expected: bool
) -> None:
    """The kind is taken from the object: what its file asks for may be another version, or gone."""
    run = live_run(3)
    run.manifest["kind"] = kind or "Job"
    document = write(run, gone=True) | {"resources": resources}
    if kind is None:
        del document["run"]["kind"]

    assert runs_as_jobset(document) is expected


STEP = st.tuples(
    st.integers(1, 3),
    st.sampled_from([s for s in State if s not in (State.LOST, State.INVALID)]),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(STEP, max_size=8))
def test_whatever_comes(write: Write, live_run: Live, attempt: MakeAttempt, steps: list[tuple[Any, ...]]) -> None:
    """An end stays the end, a count never falls, no run is forgotten, and the same twice is the same."""
    document: Document | None = None
    known: dict[str, RecordedRun] = {}
    for number, state, recoveries, there, gone in steps:
        attempts = tuple(attempt(f"train-{number}-{index}", index) for index in range(recoveries))
        run = live_run(number, f"H{number}", state, counts=Counts(recoveries, 0), attempts=attempts)
        if document is None and not there:
            continue
        cancelled = {run.uid: NOON} if gone else {}
        document = write(*([run] if there else []), previous=document, gone=gone, cancelled=cancelled)
        now = {recorded.uid: recorded for recorded in recorded_runs(document)}
        assert known.keys() <= now.keys()
        for uid, before in known.items():
            assert now[uid].recoveries >= before.recoveries
            assert before.state not in TERMINAL_STATES or now[uid].state == before.state
        known = now


@pytest.mark.parametrize("name", ["train", None])
def test_invalid_file_without_a_run(task_file: Callable[..., TaskFile], write: Write, name: str | None) -> None:
    document = write(file=task_file(name=name, problems=(BROKEN,)))

    assert pick(document, "file", "run", "state", "reason") == ("jobs/train.yaml", None, "INVALID", "unknown-field")
    assert document["message"] == "jobs/train.yaml:3:5: resources.cpu is not a field"
    assert document["problems"] == [
        {
            "severity": "error",
            "code": "unknown-field",
            "path": "jobs/train.yaml",
            "line": 3,
            "column": 5,
            "field": "resources.cpu",
            "message": "resources.cpu is not a field",
        }
    ]


def test_invalid_file_keeps_the_state_of_its_run(
    task_file: Callable[..., TaskFile], write: Write, live_run: Live
) -> None:
    """A typo kills nothing, in the document either."""
    running = write(live_run(3, counts=Counts(1, 0)))
    typo = write(live_run(3, counts=Counts(1, 0)), previous=running, file=task_file(problems=(BROKEN,)))

    assert {key for key in KEYS if typo[key] != running[key]} == {"problems"}
    assert [problem["code"] for problem in typo["problems"]] == ["unknown-field"]


def test_valid_file_that_waits_for_its_first_run(write: Write) -> None:
    document = write(waits_for="needs JobSet for its 2 nodes")

    assert pick(document, "state", "message", "run") == ("PENDING", "needs JobSet for its 2 nodes", None)
    assert pick(document, "resources", "priority") == ("1x[CPU:4]", {"class": "low", "value": None})


def test_file_that_the_cluster_refuses(write: Write) -> None:
    """What a valid file meets on its way to its first run is an error of the file as well."""
    refused = Problem(Severity.ERROR, "refused", "jobs/train.yaml", "spec.tolerations: Invalid value")

    assert pick(write(problems=(refused,)), "state", "message") == (
        "INVALID",
        "jobs/train.yaml: spec.tolerations: Invalid value",
    )


def test_nothing_to_say() -> None:
    """The document of a file that never ran goes with it."""
    assert job_document("train", Known(None, None, (), "kind", {}), None) is None


def test_document_of_a_file_that_never_ran_is_removed(write: Write) -> None:
    assert job_document("train", Known(None, None, (), "kind", {}), write(waits_for="x")) is None


def test_other_context_is_left_alone(task_file: Callable[..., TaskFile], write: Write, live_run: Live) -> None:
    """A pass that doesn't look at a cluster knows nothing of its jobs: neither lost nor cancelled."""
    there = write(live_run(3), context="prod")
    here = Known(task_file(), COMMIT, (), "kind", {})
    elsewhere = Known(task_file(context="prod"), COMMIT, (), "kind", {})
    older_here = Known(task_file(), COMMIT, (live_run(2, "G", State.SUCCEEDED),), "kind", {})

    assert job_document("train", here, there) == there
    assert job_document("train", older_here, there) == there
    assert job_document("train", elsewhere, None) is None


def test_priority_number_outlives_the_pods(write: Write, live_run: Live) -> None:
    before = write(live_run(3, priority_value=100))
    after = write(live_run(3, priority_value=None), previous=before)

    assert after["priority"] == {"class": "low", "value": 100}


def test_resources_are_those_of_the_run(task_file: Callable[..., TaskFile], write: Write, live_run: Live) -> None:
    """A changed file asks for something else; the run that goes on has what it was made with."""
    before = write(live_run(3))
    changed = task_file(task_hash="I", resources=Resources(cpus="8", memory="16Gi"))

    assert write(live_run(3), previous=before, file=changed)["resources"] == "1x[CPU:4]"
    assert write(live_run(3), file=changed)["resources"] is None


def test_problems_of_a_run_stay_with_it(write: Write, live_run: Live) -> None:
    """The pod that showed a problem is soon gone."""
    before = write(live_run(3, problems=(EVICTED,)))
    after = write(live_run(3), previous=before)
    next_run = write(live_run(4), previous=after)

    assert [problem["code"] for problem in after["problems"]] == ["evicted-for-own-limit"]
    assert next_run["problems"] == []


def test_warnings_of_the_file_are_problems(task_file: Callable[..., TaskFile], write: Write, live_run: Live) -> None:
    warning = Problem(Severity.WARNING, "inline-secret", "jobs/train.yaml", "is in git")
    document = write(live_run(3), file=task_file(warnings=(warning,)), problems=(warning,))

    assert [problem["code"] for problem in document["problems"]] == ["inline-secret"]


@pytest.mark.parametrize(
    ("state", "counts", "pods", "complete"),
    [
        pytest.param(State.PENDING, Counts(0, 0), 0, True, id="no pod yet"),
        pytest.param(State.RUNNING, Counts(0, 0), 1, True, id="first"),
        pytest.param(State.RUNNING, Counts(0, 0), 0, False, id="runs, not seen"),
        pytest.param(State.RUNNING, Counts(2, 1), 4, True, id="recoveries and restarts"),
        pytest.param(State.RUNNING, Counts(2, 1), 3, False, id="one missed"),
        pytest.param(State.RECOVERING, Counts(1, 0), 1, True, id="lost, not replaced"),
        pytest.param(State.RECOVERING, Counts(1, 0), 0, False, id="lost, not seen"),
        pytest.param(State.FAILED, Counts(0, 0), 1, True, id="failed at once"),
        pytest.param(State.SUCCEEDED, Counts(60, 0), 61, False, id="more than are kept"),
    ],
)
def test_attempts_complete(
    write: Write, live_run: Live, attempt: MakeAttempt, state: State, counts: Counts, *, pods: int, complete: bool
) -> None:
    """A reader can tell whether the attempts are all there are."""
    attempts = tuple(attempt(f"train-3-{index}-x", 0, 1) for index in range(pods))
    document = write(live_run(3, state=state, counts=counts, attempts=attempts))

    assert document["attempts_complete"] is complete
    assert len(document["attempts"]) == min(pods, 50)


def test_old_pods_of_a_full_record_stay_away(write: Write, live_run: Live, attempt: MakeAttempt) -> None:
    """Pods that are older than all that the record keeps would else come back as the newest, again and again."""
    pods = [attempt(f"train-3-{index}-x", 0, 1) for index in range(61)]
    before = write(live_run(3, counts=Counts(59, 0), attempts=tuple(pods[:60])))
    after = write(live_run(3, counts=Counts(60, 0), attempts=tuple(pods)), previous=before)

    assert [entry["pod"] for entry in after["attempts"]] == [f"train-3-{index}-x" for index in range(11, 61)]


def test_attempts_keep_the_newest(write: Write, live_run: Live, attempt: MakeAttempt) -> None:
    document = None
    for index in range(60):
        run = live_run(3, counts=Counts(index, 0), attempts=(attempt(f"train-3-{index}-x", 0),))
        document = write(run, previous=document)

    assert document is not None
    assert [entry["pod"] for entry in document["attempts"]] == [f"train-3-{index}-x" for index in range(10, 60)]


def test_seen_attempt_keeps_what_was_known(write: Write, live_run: Live, attempt: MakeAttempt) -> None:
    """The kubelet loses the times of a container that went with its node; a stale disruption is taken back."""
    ended = attempt("p", 0, 5, reason="PreemptionByScheduler", exit_code=0)
    known = write(live_run(3, attempts=(ended,)))
    poorer = write(live_run(3, attempts=(Attempt("p"),)), previous=known)
    suspected = write(live_run(3, attempts=(attempt("q", 0, reason="PreemptionByScheduler"),)))
    cleared = write(live_run(3, attempts=(attempt("q", 0),)), previous=suspected)

    assert poorer["attempts"] == known["attempts"]
    assert cleared["attempts"][0]["reason"] is None


def test_events_tell_what_ended_a_pod_that_is_gone(write: Write, live_run: Live, attempt: MakeAttempt) -> None:
    """Its condition went with it; what its own status once said counts more."""
    known = write(live_run(3, attempts=(attempt("gone", 0), attempt("seen", 1, 2, reason="Evicted"))))
    after = write(live_run(3), previous=known, preempted_pods={"gone", "seen", "other"})

    assert [entry["reason"] for entry in after["attempts"]] == ["PreemptionByScheduler", "Evicted"]


@pytest.mark.parametrize(
    ("spans", "state", "ran", "recovered"),
    [
        pytest.param([(0, None)], State.RUNNING, 0, 0, id="the first one runs"),
        pytest.param([(0, 10), (12, None)], State.RUNNING, 600, 120, id="recovered once"),
        pytest.param([(0, 10), (None, None)], State.RECOVERING, 600, 0, id="the next one waits"),
        pytest.param([(0, 10), (None, 11), (12, 20)], State.SUCCEEDED, 1080, 120, id="one was lost before it ran"),
        pytest.param([(0, None), (12, None)], State.RUNNING, None, None, id="an end nobody saw"),
        pytest.param([(0, 10), (9, 20)], State.SUCCEEDED, 1260, 0, id="clocks of two nodes"),
        pytest.param([(0, None)], State.SUCCEEDED, 3600, 0, id="the last end is the run's"),
        pytest.param([], State.PENDING, None, None, id="nothing ran"),
    ],
)
def test_durations(
    write: Write,
    live_run: Live,
    attempt: MakeAttempt,
    spans: Any,
    state: State,
    *,
    ran: int | None,
    recovered: int | None,
) -> None:
    """Durations are as of the last transition; unknown is null, never a guess."""
    attempts = tuple(attempt(f"p-{index}", *span) for index, span in enumerate(spans))
    document = write(live_run(3, state=state, counts=Counts(max(0, len(spans) - 1), 0), attempts=attempts))

    assert pick(document, "run_seconds", "recovering_seconds") == (ran, recovered)


def test_recorded_runs(write: Write, live_run: Live, recorded_run: Callable[..., RecordedRun]) -> None:
    first = write(live_run(1, "F", State.FAILED, counts=Counts(4, 0)))
    document = write(live_run(2, "G", counts=Counts(1, 0)), previous=first)

    assert recorded_runs(document) == (
        recorded_run(2, "G", State.RUNNING, recoveries=1),
        recorded_run(1, "F", State.FAILED, recoveries=4, ended_at="2026-03-01T11:00:00Z"),
    )
    assert recorded_runs(write(waits_for="x")) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, "1x[CPU:4]", id="cpus"),
        pytest.param({"cpus": "500m"}, "1x[CPU:500m]", id="part of a cpu"),
        pytest.param({"accelerators": Accelerators(("H100",), 8)}, "1x[H100:8]", id="gpus"),
        pytest.param({"accelerators": Accelerators(("A100", "H100"), 1)}, "1x[A100:1|H100:1]", id="either gpu"),
        pytest.param({"use_spot": True}, "1x[CPU:4][Spot]", id="spot"),
    ],
)
def test_resources_text(task: Callable[..., Task], changes: dict[str, Any], expected: str) -> None:
    fields: dict[str, Any] = {"cpus": "4", "memory": "16Gi"}

    assert resources_text(task(resources=Resources(**(fields | changes)))) == expected
    assert resources_text(task(num_nodes=2, resources=Resources(**(fields | changes)))) == f"2{expected[1:]}"
