"""The queue on a terminal, and as the front page of the status branch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.core.document import KEYS
from reconciler.core.status.queue import COLUMNS, age_text, duration_text, is_current, rows, summary
from reconciler.core.status.readme import readme
from reconciler.model import Document

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def document(job: str, state: str = "RUNNING", **changes: Any) -> Document:
    fields: Document = dict.fromkeys(KEYS) | {
        "job": job,
        "file": f"jobs/{job}.yaml",
        "run": {"number": 3, "task_hash": "H", "uid": f"uid-{job}"},
        "state": state,
        "resources": "1x[CPU:4]",
        "recoveries": 0,
        "submitted_at": "2026-03-01T10:00:00Z",
        "attempts": [],
        "runs": [],
        "problems": [],
    }
    return fields | changes


RUNNING = document(
    "train",
    started_at="2026-03-01T10:05:00Z",
    run_seconds=600,
    recoveries=1,
    attempts=[{"started_at": "2026-03-01T10:05:00Z"}, {"started_at": "2026-03-01T11:58:59Z"}],
)
RECOVERING = document("bert", "RECOVERING", run_seconds=3661, recoveries=2, submitted_at="2026-03-01T09:00:00Z")
PENDING = document("llama", "PENDING", resources="2x[H100:8]", submitted_at="2026-03-01T11:59:55Z")
DONE = document("eval", "SUCCEEDED", ended_at="2026-03-01T11:00:00Z", run_seconds=3000)
FAILED = document("big", "FAILED", ended_at="2026-03-01T11:30:00Z", run_seconds=None)
GONE = document("old", "CANCELLED", file=None, message="its file is gone")
LOST = document("lost", "LOST", message="Job lost-3 is gone from the cluster", run_seconds=60)
ERROR = {"severity": "error", "message": "resources.cpu is not a field: write `cpus` | <b>"}
INVALID = document("typo", "INVALID", run=None, resources=None, submitted_at=None, problems=[ERROR])
ALL = [GONE, DONE, RUNNING, INVALID, FAILED, PENDING, LOST, RECOVERING]


def test_rows() -> None:
    """What goes on comes first, then what ended; recovering is in the total but not in the job's duration."""
    assert [row.cells() for row in rows(filter(is_current, ALL), NOW)] == [
        ("llama-3", "llama", "2x[H100:8]", "a few secs ago", "5s", "-", "0", "PENDING"),
        ("lost-3", "lost", "1x[CPU:4]", "2 hrs ago", "-", "1m", "0", "LOST"),
        ("train-3", "train", "1x[CPU:4]", "2 hrs ago", "2h", "11m 1s", "1", "RUNNING"),
        ("bert-3", "bert", "1x[CPU:4]", "3 hrs ago", "3h", "1h 1m 1s", "2", "RECOVERING"),
        ("-", "typo", "-", "-", "-", "-", "0", "INVALID"),
        ("big-3", "big", "1x[CPU:4]", "2 hrs ago", "1h 30m", "-", "0", "FAILED"),
        ("eval-3", "eval", "1x[CPU:4]", "2 hrs ago", "1h", "50m", "0", "SUCCEEDED"),
    ]
    assert len(COLUMNS) == len(rows(ALL, NOW)[0].cells())


def test_an_ended_job_whose_file_is_gone_is_not_current() -> None:
    """A job that still runs is current in any case."""
    assert [row.id for row in rows(ALL, NOW)][-1] == "old-3"
    assert [d["job"] for d in ALL if not is_current(d)] == ["old"]
    assert is_current(RUNNING | {"file": None})


def test_summary() -> None:
    """What goes on is one thing, what waits for a person another."""
    assert summary(ALL) == "In progress: 1 PENDING, 1 RUNNING, 1 RECOVERING. Needs a person: 1 LOST, 1 INVALID."
    assert summary([]) == "No jobs in progress."


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, "-"),
        (-1, "-"),
        (0, "-"),
        (0.4, "< 1s"),
        (59, "59s"),
        (60, "1m"),
        (61, "1m 1s"),
        (3661, "1h 1m 1s"),
        (90061, "1d 1h 1m 1s"),
        (691205, "1w 1d 5s"),
    ],
)
def test_duration_is_spelled_as_skypilot_does(seconds: float | None, expected: str) -> None:
    assert duration_text(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, "-"),
        (0, "a few secs ago"),
        (59, "59 secs ago"),
        (60, "1 min ago"),
        (7200, "2 hrs ago"),
        (86400, "1 day ago"),
        (1209600, "2 weeks ago"),
    ],
)
def test_age(seconds: float | None, expected: str) -> None:
    assert age_text(seconds) == expected


def test_readme(golden: Callable[[str, str], None]) -> None:
    golden("document/README.md", readme(ALL))


def test_readme_without_jobs() -> None:
    assert readme([]).splitlines()[-1] == "No jobs in progress."


def test_readme_doesn_t_depend_on_the_order_of_files() -> None:
    assert readme(ALL[::-1]) == readme(ALL)


def test_readme_shows_the_last_fifty_that_ended() -> None:
    ended = [document(f"job-{n:03}", "SUCCEEDED", ended_at=f"2026-03-01T10:{n % 60:02}:00Z") for n in range(60)]
    lines = [line for line in readme(ended).splitlines() if "SUCCEEDED" in line]

    assert len(lines) == 50
    assert lines[0].startswith("| [job-059-3](jobs/job-059.yaml) |")
