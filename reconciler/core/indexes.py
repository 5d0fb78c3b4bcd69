"""Read the indexes of a Job as its status writes them: `0,2-4`."""

from __future__ import annotations


def index_ranges(text: object) -> tuple[range, ...]:
    """Return the intervals of a list of indexes; what is none is left out."""
    parts = [part.partition("-") for part in str(text or "").split(",")]
    return tuple(
        range(int(first), int(last or first) + 1)
        for first, _, last in parts
        if first.isdecimal() and (not last or last.isdecimal())
    )
