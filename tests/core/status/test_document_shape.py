"""What a document must look like, and that one which doesn't stops nobody."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.cli.show import print_document
from reconciler.core.document import Known, is_unfinished, job_document, problem_of, recorded_runs
from reconciler.core.identity import recorded_identities
from reconciler.core.status.commit_message import commit_message
from reconciler.core.status.document_shape import DOCUMENT, check_document
from reconciler.core.status.queue import is_current, rows, summary
from reconciler.core.status.readme import readme
from reconciler.model import Document, TaskFile
from reconciler.runs import LiveRun

RUN = {"number": 3, "task_hash": "H", "uid": "uid-3", "kind": "Job"}
TIME = "2026-03-01T10:00:00Z"
WRITTEN: Document = {
    **dict.fromkeys(DOCUMENT),
    **dict.fromkeys(("recoveries", "restarts_on_error", "evictions"), 1),
    **dict.fromkeys(("exact", "attempts_complete"), True),
    "schema_version": 1,
    "job": "train",
    "run": RUN,
    "state": "RUNNING",
    "priority": {"class": "low", "value": 100},
    "context": "kind",
    "attempts": [
        {"started_at": TIME, "ended_at": None, "node": "a", "reason": None, "exit_code": None, "pod": "train-3-0-x"}
    ],
    "runs": [{**RUN, "number": 2, "uid": "uid-2", "state": "FAILED", "recoveries": 0, "ended_at": TIME}],
    "problems": [
        {"severity": "error", "code": "x", "path": "p", "line": 1, "column": None, "field": None, "message": "m"}
    ],
}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            {"state": "DONE"}, "has text as state, which is one of CANCELLED, CANCELLING, FAILED,", id="state"
        ),
        pytest.param({"runs": None}, "has nothing as runs, which is a list", id="runs"),
        pytest.param({"runs": ["train-2"]}, "has text as runs[0], which is a mapping", id="a run"),
        pytest.param({"run": {"number": 3}}, "lacks run.task_hash, run.uid", id="run"),
        pytest.param({"run": {**RUN, "number": "3"}}, "has text as run.number, which is an integer", id="number"),
        pytest.param({"run": {**RUN, "number": True}}, "has true or false as run.number, which is", id="no number"),
        pytest.param({"run": {**RUN, "kind": "Pod"}}, "has text as run.kind, which is one of Job, JobSet", id="kind"),
        pytest.param({"message": 3}, "has an integer as message, which is text or null", id="number for a text"),
        pytest.param({"attempts": [{"pod": "x"}]}, "lacks attempts[0].started_at, attempts[0].ended_at", id="attempt"),
        pytest.param(
            {"problems": [{**WRITTEN["problems"][0], "severity": "fatal"}]}, "problems[0].severity", id="word"
        ),
        pytest.param({"job": "other"}, "speaks of job 'other'", id="another job"),
    ],
)
def test_damaged_document(damage: Document, message: str) -> None:
    """A record that can't be read must not pass for an empty one: its job would run again. The place is named."""
    check_document(WRITTEN, "train")
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is looked at below
        check_document(WRITTEN | damage, "train")

    assert message in str(error.value)


def test_keys_that_somebody_added_are_left_alone() -> None:
    """A later release may know more."""
    check_document(WRITTEN | {"more": 1, "run": {**RUN, "more": 1}}, "train")


def test_keys_that_a_later_release_added_may_be_missing() -> None:
    """Whoever takes the new release finds documents that the old one wrote."""
    run = {key: value for key, value in RUN.items() if key != "kind"}
    earlier = {key: value for key, value in WRITTEN["runs"][0].items() if key != "kind"}
    check_document(WRITTEN | {"run": run, "runs": [earlier]}, "train")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([TIME, "FAILED"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["pod", "uid", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
NESTED = ("run", "priority", "attempts", "runs", "problems")


@st.composite
def edited(draw: st.DrawFn) -> Document:
    """Put anything under some key of a document, or of one of its entries."""
    document = dict(WRITTEN)
    for key in draw(st.lists(st.sampled_from([*DOCUMENT, *NESTED]), min_size=1, max_size=3)):
        value = WRITTEN[key]
        if key in NESTED and draw(st.booleans()):
            entry: Any = value if isinstance(value, dict) else value[0]
            changed = {**entry, draw(st.sampled_from([*entry])): draw(ANY)}
            document[key] = changed if isinstance(value, dict) else [changed]
        else:
            document[key] = draw(ANY)
    return document


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(document=edited())
def test_nothing_behind_the_check_has_to_expect_anything_else(
    document: Document, live_run: Callable[..., LiveRun], task_file: Callable[..., TaskFile]
) -> None:
    """Whatever somebody wrote into a document: it is named, or it is shown, judged and written anew."""
    try:
        check_document(document, "train")
    except ValueError:
        return
    recorded_identities([document])
    recorded_runs(document)
    is_unfinished(document, "kind")
    rows([document], datetime.now(UTC))
    summary([document])
    is_current(document)
    readme([document])
    with contextlib.redirect_stdout(io.StringIO()):
        print_document(document)
    for entry in document["problems"]:
        problem_of(entry)
    for live in ((), (live_run(3),), (live_run(4),)):
        for file in (task_file(), None):
            after = job_document("train", Known(file, "c", live, "kind", {}), document)
            commit_message({"train": document}, {"train": after}, actions=(), source_commit="c")
