"""Open a repository, wherever it is: a folder, or a URL of which a private bare clone is kept in a cache.

A clone belongs to one process at a time. Its lock is held through a descriptor that every git child inherits, so who
gets it knows that no child of a killed predecessor is still at work, and may clear away the lock files that it left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.source.remote import url_hash
from reconciler.source.repository import Git, Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

_FETCH_TIMEOUT = 600.0


@contextlib.contextmanager
def open_repository(place: str, cache: Path) -> Iterator[Repository]:
    """Open the repository around a folder, or an up-to-date clone of a URL under the folder `cache`.

    The HEAD of a clone is the remote's default branch. Raises SourceError when there is no repository or the URL can't
    be fetched: an old clone is never passed off as new.
    """
    if not is_url(place):
        with Repository(place) as repository:
            yield repository
        return
    with _locked_folder(cache, url_hash(place)) as (folder, lock):
        _prepare(folder, lock, place)
        with _Clone(folder, inherited=(lock,), env=_named(folder)) as clone:
            clone.fetch()
            yield clone


def is_url(place: str) -> bool:
    """Tell a URL, also in scp's form `host:path`, from the path of a folder."""
    return "://" in place or (re.match(r"[^/]+:", place) is not None and not Path(place).exists())


@contextlib.contextmanager
def _locked_folder(cache: Path, name: str) -> Iterator[tuple[Path, int]]:
    """Lock a clone's folder: the first that no other process has."""
    cache.mkdir(parents=True, exist_ok=True)
    for number in count():
        folder = cache / f"{name}-{number}.git"
        lock = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        try:
            yield folder, lock
        finally:
            os.close(lock)
        return


def _prepare(folder: Path, lock: int, url: str) -> None:
    """Make the clone if there is none, and clear away what a killed process left in it."""
    folder.mkdir(mode=0o700, exist_ok=True)  # the URL that it keeps may hold credentials
    for left_behind in folder.rglob("*.lock"):
        left_behind.unlink()
    with Git(folder, inherited=(lock,), env=_named(folder)) as git:
        git.run("init", "--quiet", "--bare", "--template=", ".")
        git.run("config", "remote.origin.url", url)


def _named(folder: Path) -> dict[str, str]:
    """Name the repository: with `safe.bareRepository` git doesn't find bare ones by itself."""
    return {"GIT_DIR": str(folder)}


class _Clone(Repository):
    """A copy that nobody but this process uses. Just fetched, it is up to date for the first who asks."""

    _just_fetched = False

    def refresh(self) -> None:
        if not self._just_fetched:
            self.fetch()
        self._just_fetched = False

    def fetch(self) -> None:
        self.run(
            *("fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance", "--prune", "--no-tags"),
            *("--no-recurse-submodules", "--", "origin"),
            *("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"),
            timeout=_FETCH_TIMEOUT,
        )
        head = self.run("ls-remote", "--symref", "--", "origin", "HEAD").decode("utf-8", "surrogateescape")
        if head.startswith("ref: refs/heads/"):
            self._point_head_to("refs/remotes/origin/" + head.partition("\t")[0].removeprefix("ref: refs/heads/"))
        self.run("-c", "gc.auto=6700", "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet", timeout=_FETCH_TIMEOUT)
        self._just_fetched = True

    def _point_head_to(self, ref: str) -> None:
        """Write HEAD only when it changes: whoever watches it is woken by each write."""
        if self.execute("symbolic-ref", "HEAD").stdout.decode("utf-8", "surrogateescape").strip() != ref:
            self.run("symbolic-ref", "HEAD", ref)
