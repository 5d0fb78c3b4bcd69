"""The queue as rows of text, in the columns and the spelling that SkyPilot's users know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

from reconciler.core.status.times import seconds_between
from reconciler.model import TERMINAL_STATES, Document, State

COLUMNS = ("ID", "NAME", "RESOURCES", "SUBMITTED", "TOT. DURATION", "JOB DURATION", "#RECOVERIES", "STATUS")

_WITHOUT_CLOCK = TERMINAL_STATES | {State.LOST, State.INVALID}
_UNITS = (("w", 7 * 24 * 3600), ("d", 24 * 3600), ("h", 3600), ("m", 60), ("s", 1))
_AGES = (("week", 7 * 24 * 3600), ("day", 24 * 3600), ("hr", 3600), ("min", 60), ("sec", 1))
_A_FEW = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One job of the queue; the fields are COLUMNS, in their order."""

    id: str
    name: str
    resources: str
    submitted: str
    total: str
    job: str
    recoveries: str
    status: str

    def cells(self) -> tuple[str, ...]:
        """Return the fields in the order of COLUMNS."""
        return astuple(self)


STUCK = (State.LOST, State.INVALID)


def rows(documents: Iterable[Document], now: datetime) -> list[Row]:
    """Return the queue at a moment: what goes on first, then what ended, the newest first."""
    shown = list(documents)
    return [_row(document, now) for document in (*unfinished(shown), *ended(shown))]


def is_current(document: Document) -> bool:
    """Whether a job belongs into the queue: it has a file, or no end yet."""
    return document["file"] is not None or document["state"] not in TERMINAL_STATES


def summary(documents: Iterable[Document]) -> str:
    """Return what goes on and what needs a person, in one line."""
    states = Counter(State(document["state"]) for document in documents)
    going_on = [state for state in State if states[state] and state not in (*TERMINAL_STATES, *STUCK)]
    stuck = [state for state in STUCK if states[state]]
    parts = []
    if going_on:
        parts.append("In progress: " + ", ".join(f"{states[state]} {state}" for state in going_on))
    if stuck:
        parts.append("Needs a person: " + ", ".join(f"{states[state]} {state}" for state in stuck))
    return ". ".join(parts or ["No jobs in progress"]) + "."


def unfinished(documents: Iterable[Document]) -> list[Document]:
    """Return the jobs that have no end yet, the last submitted first and those that never ran last."""
    return _newest_first((d for d in documents if d["state"] not in TERMINAL_STATES), "submitted_at")


def ended(documents: Iterable[Document]) -> list[Document]:
    """Return the jobs that ended, the last to end first and those whose end nobody saw last."""
    return _newest_first((d for d in documents if d["state"] in TERMINAL_STATES), "ended_at")


def run_id(document: Document) -> str:
    """Return what people call a run: `train-3`, or `-` for a file that never ran."""
    return f"{document['job']}-{document['run']['number']}" if document["run"] else "-"


def duration_text(seconds: float | None) -> str:
    """Return `1h 1m 1s`, `60` as `1m`, less than a second as `< 1s`; `-` for nothing, and for what isn't known."""
    if seconds is None or seconds <= 0:
        return "-"
    if seconds < 1:
        return "< 1s"
    parts, rest = [], int(seconds)
    for unit, size in _UNITS:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number}{unit}")
    return " ".join(parts)


def age_text(seconds: float | None) -> str:
    """Return how long ago something was, in one unit: `2 hrs ago`; `-` for what isn't known."""
    if seconds is None:
        return "-"
    if seconds < _A_FEW:
        return "a few secs ago"
    unit, size = next((unit, size) for unit, size in _AGES if seconds >= size)
    number = int(seconds // size)
    return f"{number} {unit}{'s' if number > 1 else ''} ago"


def _row(document: Document, now: datetime) -> Row:
    moment = now.isoformat()
    end = document["ended_at"] or (None if document["state"] in _WITHOUT_CLOCK else moment)
    return Row(
        id=run_id(document),
        name=document["job"],
        resources=document["resources"] or "-",
        submitted=age_text(seconds_between(document["submitted_at"], moment)),
        total=duration_text(seconds_between(document["submitted_at"], end)),
        job=duration_text(_ran(document, moment)),
        recoveries=str(document["recoveries"]),
        status=document["state"],
    )


def _ran(document: Document, moment: str) -> int | None:
    """Return how long a run has run, recovering left out: up to its last transition, and from then while it runs."""
    if document["state"] != State.RUNNING or document["run_seconds"] is None or not document["attempts"]:
        return document["run_seconds"]  # type: ignore[no-any-return]
    return int(document["run_seconds"]) + (seconds_between(document["attempts"][-1]["started_at"], moment) or 0)


def _newest_first(documents: Iterable[Document], key: str) -> list[Document]:
    by_name: Sequence[Document] = sorted(documents, key=lambda document: str(document["job"]))
    return sorted(by_name, key=lambda document: document[key] or "", reverse=True)
