"""What `git log` of the status branch tells."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.status.commit_message import commit_message, lines_about
from reconciler.model import Action, Document, Result, Verb

SHA = "5" * 40


def document(job: str = "train", state: str = "RUNNING", *, number: int | None = 3, **changes: Any) -> Document:
    run = {"number": number, "uid": f"uid-{number}"} if number is not None else None
    return {"job": job, "state": state, "run": run, "reason": None, "message": None, "recoveries": 0} | changes


def message(before: list[Document], after: list[Document], actions: tuple[Action, ...] = ()) -> str:
    return commit_message(
        {d["job"]: d for d in before}, {d["job"]: d for d in after}, actions=actions, source_commit=SHA
    )


@pytest.mark.parametrize(
    ("before", "after", "headline"),
    [
        pytest.param(None, document(state="PENDING"), "train-3 created", id="created"),
        pytest.param(None, document(), "train-3 created, RUNNING", id="created, runs already"),
        pytest.param(document(number=2), document(), "train-3 created, RUNNING", id="next run"),
        pytest.param(document(), document(state="RECOVERING"), "train-3 RUNNING -> RECOVERING", id="transition"),
        pytest.param(document(), document(recoveries=2), "train-3 recoveries 0 -> 2", id="recovered between two looks"),
        pytest.param(None, document(state="INVALID", number=None), "train INVALID", id="invalid"),
        pytest.param(
            document(state="PENDING"),
            document(state="PENDING", reason="Unschedulable", message="0/1 nodes"),
            "train-3 PENDING, Unschedulable",
            id="why it waits",
        ),
        pytest.param(document(), document(commit="x"), "Update details", id="details"),
    ],
)
def test_headline(before: Document | None, after: Document, headline: str) -> None:
    """The first line tells the story of each job in a few words."""
    assert message([before] if before else [], [after]).splitlines()[0] == headline


def test_whole_message() -> None:
    """What went wrong comes first; classes and pruned Jobs are told by what was done."""
    before = [document(), document("bert"), document("eval")]
    after = [
        document(state="RECOVERING", reason="PreemptionByScheduler", message="preempting to accommodate another pod"),
        document("bert", "FAILED", reason="Error", message="exit code 3"),
        document("eval", "SUCCEEDED"),
        document("urgent", "PENDING", number=1, reason="Unschedulable"),
    ]
    actions = (
        Action(Verb.UPDATE, "PriorityClass", None, "low", None, "description as in the file", Result.DONE),
        Action(Verb.CREATE, "PriorityClass", None, "high", None, "is new", Result.FAILED),
        Action(Verb.PRUNE, "Job", "team-a", "eval-1", "eval", "ended", Result.DONE),
        Action(Verb.CREATE, "Job", "team-a", "urgent-1", "urgent", "is new", Result.DONE),
    )

    assert message(before, after, actions) == (
        "bert-3 RUNNING -> FAILED, train-3 RUNNING -> RECOVERING and 4 more\n"
        "\n"
        "- bert-3 RUNNING -> FAILED: exit code 3\n"
        "- train-3 RUNNING -> RECOVERING: preempting to accommodate another pod\n"
        "- eval-3 RUNNING -> SUCCEEDED\n"
        "- urgent-1 created: Unschedulable\n"
        "- PriorityClass low updated: description as in the file\n"
        "- eval-1 pruned: ended\n"
        "\n"
        f"Source-Commit: {SHA}\n"
    )


def test_a_replaced_run() -> None:
    """Both are told, the new one and the end of the old one, and why."""
    runs = [{"number": 3, "uid": "uid-3", "state": "CANCELLED"}]
    why = "a new version of jobs/train.yaml, in the place of train-3"
    action = Action(Verb.REPLACE, "Job", "team-a", "train-4", "train", why, Result.DONE)
    text = message([document()], [document(state="PENDING", number=4, runs=runs)], (action,))

    assert text.splitlines()[2:4] == ["- train-4 created", f"- train-3 RUNNING -> CANCELLED: {why}"]
    assert text.startswith("train-4 created, train-3 RUNNING -> CANCELLED\n")


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        pytest.param("- a-1 created\n- b-2 RUNNING -> FAILED: no\n", ["b-2 RUNNING -> FAILED: no"], id="its run"),
        pytest.param("- b INVALID: no\n- bb-1 created\n- b-x-1 created\n", ["b INVALID: no"], id="no run, and others"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_lines_about_a_job(body: str, lines: list[str]) -> None:
    assert lines_about("b", body) == lines


def test_many_transitions_stay_short() -> None:
    after = [document(f"job-{index:04}", "PENDING", number=1) for index in range(1000)]
    lines = message([], after).splitlines()

    assert lines[0] == "job-0000-1 created, job-0001-1 created, job-0002-1 created and 997 more"
    assert lines[-3] == "- and 900 more"
    assert lines[-1] == f"Source-Commit: {SHA}"
    assert len(lines) == 105


def test_removed_document() -> None:
    removed = commit_message({"typo": document("typo")}, {"typo": None}, actions=(), source_commit=SHA)

    assert removed.splitlines()[0] == "typo removed"
