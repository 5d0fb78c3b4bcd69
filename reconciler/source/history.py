"""Tell the history of the status branch."""

from __future__ import annotations

from reconciler.source.repository import Repository


def history(repository: Repository, tip: str | None, path: str) -> tuple[str, ...]:
    """Return a line a commit that changed the file: short hash, time, subject; the newest first.

    A shallow clone knows only as far back as it was fetched.
    """
    if tip is None:
        return ()
    log = repository.run("log", "--no-color", "--date=iso-strict", "--format=%h %ad %s", tip, "--", path)
    return tuple(log.decode("utf-8", "replace").splitlines())


def commit_time(repository: Repository, commit: str) -> str:
    """Return when a commit was made, in UTC: `2026-01-31 12:00:00 UTC`."""
    shown = repository.run(
        "show", "--no-patch", "--date=format-local:%Y-%m-%d %H:%M:%S UTC", "--format=%cd", commit, env={"TZ": "UTC0"}
    )
    return shown.decode().strip()
