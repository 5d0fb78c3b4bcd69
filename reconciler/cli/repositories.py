"""Open the repository that `--repo` names."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.source.repository import Repository


def open_repository(place: str) -> AbstractContextManager[Repository]:
    """Open a folder's repository, or a URL by way of a private clone in the user's cache. Raises SourceError."""
    from reconciler.source.clone import open_repository as open_place

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return open_place(place, cache / "job-reconciler")
