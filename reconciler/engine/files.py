"""Find the files that tasks take from their repository: listed once a pass, and read only for runs that are made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from reconciler.core.limits import check_clone
from reconciler.core.pod.delivery import RunFiles, is_cloned, is_packed, owned_objects
from reconciler.core.repository_files import FileSet, choose_files, mounts_of, needs_files
from reconciler.core.repository_links import SYMLINK
from reconciler.model import FileMount, Limits, Manifest, Problem, Severity, Site, Task, TreeEntry

_PATH = attrgetter("path")
_MANY = 500  # paths: beyond, git is sooner done with all files, and a command line may not hold them


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
        refused = dict.fromkeys(p for limits in self.limits for p in check_clone(task, limits, self.site))
        if refused and is_cloned(task, files):
            problems += refused
        return files, problems

    def objects(self, task: Task, job: Manifest) -> tuple[Manifest, ...]:
        """Return what goes with a task's Job. Raises SourceError."""
        files, _ = self.of(task)
        contents = self.tree.read(files.chosen.blobs) if files and is_packed(task, files) else {}
        return owned_objects(task, job, files, contents)

    def _list(self) -> None:
        if self._listing is None:
            sources = {mount.source for task in self.tasks for mount in mounts_of(task)}
            self._listing = sorted(self.tree.leaves(sources if len(sources) <= _MANY else [""]), key=_PATH)
            links = [entry for entry in self._listing if entry.mode == SYMLINK]
            self._targets = self.tree.read(links) if links else {}

    def _at(self, path: str) -> list[TreeEntry]:
        """Return what is at a path, or below it; each is found by bisection, as many tasks have their own."""
        listing, place = self._listing or [], path.encode()
        if not place:
            return listing
        file, first, end = (bisect_left(listing, key, key=_PATH) for key in (place, place + b"/", place + b"0"))
        return [entry for entry in listing[file : file + 1] if entry.path == place] or listing[first:end]
