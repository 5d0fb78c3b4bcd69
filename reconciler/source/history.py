"""Tell the history of the status branch."""

from __future__ import annotations

from reconciler.source.repository import Repository


def history(repository: Repository, tip: str | None, path: str) -> tuple[tuple[str, str, str], ...]:
    """Return each commit that changed the file: short hash and time, subject, body; the newest first.

    A shallow clone knows only as far back as it was fetched.
    """
    if tip is None:
        return ()
    form = "%h %ad%x01%s%x01%b"
    log = repository.run("log", "-z", "--no-color", "--date=iso-strict", f"--format={form}", tip, "--", path)
    commits = (commit.split("\x01", 2) for commit in log.decode("utf-8", "replace").split("\0") if commit)
    return tuple((head, subject, body) for head, subject, body in commits)


def commit_time(repository: Repository, commit: str) -> str:
    """Return when a commit was made, in UTC: `2026-01-31 12:00:00 UTC`."""
    shown = repository.run(
        "show", "--no-patch", "--date=format-local:%Y-%m-%d %H:%M:%S UTC", "--format=%cd", commit, env={"TZ": "UTC0"}
    )
    return shown.decode().strip()
