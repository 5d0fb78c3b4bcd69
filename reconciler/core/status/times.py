"""Times as Kubernetes writes them, RFC 3339 in UTC: text until two of them are compared."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Return a time as Kubernetes writes it, in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_between(start: object, end: object) -> int | None:
    """Return the whole seconds from one time to another, at least 0; None if either is missing or is no time."""
    try:
        elapsed = datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))
    except (ValueError, TypeError):
        return None
    return max(0, int(elapsed.total_seconds()))
