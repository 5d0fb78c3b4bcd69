"""The indexes of an Indexed Job: where a pod says its own, and how a Job's status writes several: `0,2-4`."""

from __future__ import annotations

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation of a pod, and its label, with its index."""


def index_ranges(text: object) -> tuple[range, ...]:
    """Return the intervals of a list of indexes; what is none is left out."""
    parts = [part.partition("-") for part in str(text or "").split(",")]
    return tuple(
        range(int(first), int(last or first) + 1)
        for first, _, last in parts
        if first.isdecimal() and (not last or last.isdecimal())
    )
