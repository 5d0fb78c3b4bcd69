"""The files of a commit, or of the work tree as they would be committed: listed when asked for, read when needed."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.core.git_tree import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK
from reconciler.model import TreeEntry
from reconciler.source.objects import list_tree, read_blobs
from reconciler.source.remote import normalise_url

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from reconciler.source.repository import Repository

_SCP_LIKE = re.compile(r"[^@/:]+@[^@/:]+:")


class CommittedTree:
    """The files of one commit."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self.commit = commit

    def leaves(self, paths: Iterable[str]) -> list[TreeEntry]:
        """List the leaves at and below some paths, `""` for all, in git's order. Raises SourceError."""
        wanted = sorted(set(paths))
        return list_tree(self._repository, self.commit, *([] if "" in wanted else wanted)) if wanted else []

    def read(self, entries: Iterable[TreeEntry]) -> dict[str, bytes]:
        """Return contents by hash. Raises SourceError when one is missing."""
        wanted = {entry.sha: entry for entry in entries}
        contents = read_blobs(self._repository, wanted.values())
        return {sha: contents[entry.path] for sha, entry in wanted.items()}


class WorkTree:
    """The files of a work tree that git knows or would add. A path stands for its hash: nothing is hashed."""

    commit = "0" * 40

    def __init__(self, repository: Repository, root: Path) -> None:
        self._repository = repository
        self._root = root

    def leaves(self, paths: Iterable[str]) -> list[TreeEntry]:
        """List what is there at and below some paths; links are not followed. Raises SourceError."""
        wanted = sorted(set(paths))
        if not wanted:
            return []
        options = ("--cached", "--others", "--exclude-standard", "--full-name")
        where = [] if "" in wanted else wanted
        listing = self._repository.run("ls-files", "-z", *options, "--", *where).split(b"\0")
        return [entry for path in sorted({*listing} - {b""}) if (entry := self._entry(path.rstrip(b"/")))]

    def read(self, entries: Iterable[TreeEntry]) -> dict[str, bytes]:
        """Return where links lead, by what stands for their hash."""
        return {entry.sha: os.fsencode(self._place(entry.path).readlink()) for entry in entries}

    def _place(self, path: bytes) -> Path:
        return self._root / os.fsdecode(path)

    def _entry(self, path: bytes) -> TreeEntry | None:
        try:
            status = self._place(path).lstat()
        except OSError:  # deleted, and not yet committed
            return None
        sha = path.decode("latin-1")
        if stat.S_ISDIR(status.st_mode):
            return TreeEntry(SUBMODULE, sha, 0, path)
        if stat.S_ISLNK(status.st_mode):
            return TreeEntry(SYMLINK, sha, status.st_size, path)
        return TreeEntry(EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR, sha, status.st_size, path)


def clone_url(repository: Repository, remote: str | None) -> str | None:
    """Return the https URL by which a pod could clone this repository, without credentials; None if there is none.

    Of an ssh remote it is the one that hosts usually have beside it, as in SkyPilot.
    """
    url = repository.config.get(f"remote.{remote}.url", "") if remote else ""
    parts = urlsplit(url)
    if parts.scheme in {"http", "https"} and parts.hostname:
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.scheme == "ssh" and parts.hostname:
        return f"https://{parts.hostname}{parts.path}"
    if _SCP_LIKE.match(url):
        return f"https://{normalise_url(url)}"
    return None
