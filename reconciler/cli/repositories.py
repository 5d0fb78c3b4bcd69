"""Open the repository that `--repo` names."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.source.repository import Repository


def open_repository(place: str) -> AbstractContextManager[Repository]:
    """Open a folder's repository, or a URL by way of a private clone in the user's cache. Raises SourceError."""
    from reconciler.source.clone import is_url
    from reconciler.source.clone import open_repository as open_place

    return open_place(place, _cache() if is_url(place) else Path())


def _cache() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "job-reconciler"
    except RuntimeError as error:
        raise UsageError("there is no home folder to keep a clone in: set HOME or XDG_CACHE_HOME") from error


def job_argument(repository: Repository, job: str) -> str:
    """Return the path of a job's file from the top of its repository; a job's name stays as it is."""
    root = repository.work_tree
    if not job.endswith((".yaml", ".yml")) or root is None:
        return job
    for start in (Path.cwd(), root):
        path = (start / job).resolve()
        if path.is_file() and path.is_relative_to(root.resolve()):
            return path.relative_to(root.resolve()).as_posix()
    return job.removeprefix("./")
