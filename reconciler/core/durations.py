"""Durations as people write them: `30s`, `5m`, `2h`, `3d`; a bare number is seconds."""

from __future__ import annotations

import re

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s?([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Return seconds. Raises ValueError with what was expected; a negative duration is none."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text[:40]!r} is not a duration: write 30s, 5m, 2h, 3d or a number of seconds")
    return float(match[1]) * _SECONDS[match[2]]
