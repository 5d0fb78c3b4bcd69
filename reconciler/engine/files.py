"""Find the files that tasks take from their repository: listed once a pass, and read only when a run is made.

Runs are made by several threads, one by one in each of them. So much of what was read last is kept that equal workdirs
are read once, and not so much that memory would grow with the number of jobs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import Protocol

from reconciler.core.git_tree import SYMLINK
from reconciler.core.limits import check_clone
from reconciler.core.pod.delivery import RunFiles, is_cloned, is_packed, needs_objects, owned_objects
from reconciler.core.repository_files import FileSet, choose_files, mounts_of, needs_files
from reconciler.core.schema.fields import bounded
from reconciler.model import FileMount, Limits, Manifest, Problem, Severity, Site, Task, TreeEntry

_PATH = attrgetter("path")
_MANY = 500  # paths: beyond, git is sooner done with all files
_LONG = 64 * 1024  # characters of all paths: a command line may not hold many more
_KEPT = 16  # workdirs, each of 1 MiB at most


class Tree(Protocol):
    """Where files are: a commit, or the work tree."""

    @property
    def commit(self) -> str:
        """The commit, or zeros."""
        ...

    def leaves(self, paths: Iterable[str]) -> list[TreeEntry]:
        """List what is there at and below some paths."""
        ...

    def read(self, entries: Iterable[TreeEntry]) -> dict[str, bytes]:
        """Return contents by hash."""
        ...


@dataclass(slots=True)
class Files:
    """The files of some tasks. Nothing is asked of git before one of them needs any.

    `url` is where pods could clone them from; each of `limits` holds for the image that does it.
    """

    tree: Tree
    tasks: Sequence[Task]
    url: str | None
    site: Site
    limits: Sequence[Limits]
    _chosen: dict[tuple[FileMount, ...], tuple[FileSet, list[tuple[str, str]]]] = field(default_factory=dict)
    _targets: dict[str, bytes] = field(default_factory=dict)
    _listing: list[TreeEntry] | None = None
    _contents: dict[str, dict[str, bytes]] = field(default_factory=dict)
    _reading: Lock = field(default_factory=Lock)

    def of(self, task: Task) -> tuple[RunFiles | None, list[Problem]]:
        """Return the files of a task, None when it takes none, and what is wrong with them. Raises SourceError."""
        if not needs_files(task):
            return None, []
        self._list()
        mounts = mounts_of(task)
        if mounts not in self._chosen:  # many tasks may have one workdir
            self._chosen[mounts] = choose_files(mounts, self.tree.commit, self._at, self._targets)
        chosen, wrong = self._chosen[mounts]
        problems = [Problem(Severity.ERROR, "files", task.path, message, field=place) for place, message in wrong]
        files = RunFiles(chosen, self.url)
        refused = check_clone(task, self.limits, self.site)
        if refused and is_cloned(task, files):
            problems += refused
        return files, [*bounded(problems)]

    def maker(self, task: Task, job: Manifest) -> Callable[[], tuple[Manifest, ...]] | None:
        """Return what makes the objects that go with a task's Job, None when there are none. No contents are read."""
        return partial(self.objects, task, job) if needs_objects(task, self.of(task)[0]) else None

    def objects(self, task: Task, job: Manifest) -> tuple[Manifest, ...]:
        """Make what goes with a task's Job; any thread may. Raises SourceError when git lacks contents."""
        files, _ = self.of(task)
        contents = self._read(files.chosen) if files and is_packed(task, files) else {}
        return owned_objects(task, job, files, contents)

    def _read(self, chosen: FileSet) -> dict[str, bytes]:
        with self._reading:
            contents = self._contents.pop(chosen.digest, None) or self.tree.read(chosen.blobs)
            self._contents[chosen.digest] = contents  # as the newest
            if len(self._contents) > _KEPT:
                del self._contents[next(iter(self._contents))]
        return contents

    def _list(self) -> None:
        if self._listing is None:
            sources = {mount.source for task in self.tasks for mount in mounts_of(task)}
            few = len(sources) <= _MANY and sum(map(len, sources)) <= _LONG
            self._listing = sorted(self.tree.leaves(sources if few else [""]), key=_PATH)
            links = [entry for entry in self._listing if entry.mode == SYMLINK]
            self._targets = self.tree.read(links) if links else {}

    def _at(self, path: str) -> list[TreeEntry]:
        """Return what is at a path, or below it; each is found by bisection, as many tasks have their own."""
        listing, place = self._listing or [], path.encode()
        if not place:
            return listing
        file, first, end = (bisect_left(listing, key, key=_PATH) for key in (place, place + b"/", place + b"0"))
        return [entry for entry in listing[file : file + 1] if entry.path == place] or listing[first:end]
