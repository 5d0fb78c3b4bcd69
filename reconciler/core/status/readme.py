"""The queue as the front page of the status branch, which any git host shows.

It has no clock: nothing on it is an age, and a duration moves with a transition only. Else each pass would be a commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reconciler.core.status.queue import COLUMNS, STUCK, duration_text, ended, run_id, summary, unfinished
from reconciler.core.status.times import seconds_between
from reconciler.model import Document, Severity, State

_MOST_ENDED = 50
_MARKUP = re.compile(r"[\\`*<>|]|(?<=\])\(")
_INTRODUCTION = (
    "What became of the jobs of this repository. Written by `reconcile`; each job's own page tells its attempts, "
    "its problems and its earlier runs. Times are UTC; durations are as of the last change."
)


def readme(documents: Sequence[Document]) -> str:
    """Return README.md: what goes on, what needs a person, and the last 50 jobs that ended."""
    going_on, over = unfinished(documents), ended(documents)
    blocks = ["# Jobs", _INTRODUCTION, summary(documents)]
    if going_on:
        blocks.append(_table(going_on))
    if attention := [line for document in (*going_on, *over) if (line := _attention(document))]:
        blocks += ["## Needs a person", "\n".join(attention)]
    if over:
        blocks += ["## Ended", _table(over[:_MOST_ENDED])]
    return "\n\n".join(blocks) + "\n"


def _table(documents: Sequence[Document]) -> str:
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(_cells(document) for document in documents)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(document: Document) -> tuple[str, ...]:
    return (
        f"[{run_id(document)}](jobs/{document['job']}.yaml)",
        document["job"],
        _escape(document["resources"] or "-"),
        (document["submitted_at"] or "-").replace("T", " ").removesuffix("Z"),
        duration_text(seconds_between(document["submitted_at"], document["ended_at"])),
        duration_text(document["run_seconds"]),
        str(document["recoveries"]),
        document["state"],
    )


def _attention(document: Document) -> str | None:
    errors = [problem["message"] for problem in document["problems"] if problem["severity"] == Severity.ERROR]
    if document["state"] not in STUCK and not errors:
        return None
    subject = run_id(document) if document["run"] else document["file"]
    message = document["message"] if document["state"] == State.LOST or not errors else errors[0]
    return f"- **{_escape(str(subject))}** {document['state']}: {_escape(message or '-')}"


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))
