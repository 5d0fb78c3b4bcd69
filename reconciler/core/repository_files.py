"""Choose the files of a commit that a task's workdir and file_mounts stand for, and say which of them can't be.

The task files under `jobs/` are left out: a run needs none, one may hold a secret, and with them every commit would
change every workdir. Only git's own hashes are compared here; contents are read when a run is made.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from reconciler.core.schema.fields import shown
from reconciler.model import FileMount, GitWorkdir, Task, TreeEntry

FILES_CHANGED = "files-changed"
"""The code of the note that a run has other files than there are now."""

REGULAR, EXECUTABLE, SYMLINK, SUBMODULE = "100644", "100755", "120000", "160000"

Targets = Mapping[str, bytes]
"""Where symbolic links lead, by the hash of their blobs."""


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file of the repository and where it goes; `target` is where a symbolic link leads, None for other files."""

    destination: bytes
    entry: TreeEntry
    target: bytes | None = None


@dataclass(frozen=True)  # no slots: what is computed of it is kept
class FileSet:
    """All files that a task takes from its repository at one commit; `mounts` are what asks for them."""

    commit: str
    mounts: tuple[FileMount, ...]
    files: tuple[PlacedFile, ...]

    @cached_property
    def digest(self) -> str:
        """The same for the same contents at the same places, whatever the commit."""
        content = [[f.destination.decode("latin-1"), f.entry.mode, f.entry.sha] for f in self.files]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @cached_property
    def blobs(self) -> tuple[TreeEntry, ...]:
        """One entry for each content, in the order of the files; links have none."""
        return tuple({f.entry.sha: f.entry for f in self.files if f.target is None}.values())


def mounts_of(task: Task) -> tuple[FileMount, ...]:
    """Return what a task takes from its own repository, the workdir first."""
    own = (task.workdir,) if isinstance(task.workdir, FileMount) else ()
    return (*own, *task.file_mounts)


def needs_files(task: Task) -> bool:
    """Tell whether a run of this task gets files by us."""
    return isinstance(task.workdir, GitWorkdir) or bool(mounts_of(task))


def choose_files(
    mounts: tuple[FileMount, ...], commit: str, below: Callable[[str], Sequence[TreeEntry]], targets: Targets
) -> tuple[FileSet, list[tuple[str, str]]]:
    """Return what is to be placed, and all that is wrong with it: the field that asks for it, and why.

    `below` lists what stands at and under a path.
    """
    placed: dict[bytes, PlacedFile] = {}
    problems: list[tuple[str, str]] = []
    for mount in mounts:
        entries = [entry for entry in below(mount.source) if not _is_task_file(entry.path)]
        problems += [(mount.field, message) for message in _wrong(mount, entries, targets)]
        for entry in entries:
            file = _placed(mount, entry, targets)
            placed[file.destination] = file
    return FileSet(commit, mounts, tuple(placed[name] for name in sorted(placed))), problems


def _is_task_file(path: bytes) -> bool:
    return path.startswith(b"jobs/") and path.endswith((b".yaml", b".yml"))


def _placed(mount: FileMount, entry: TreeEntry, targets: Targets) -> PlacedFile:
    inside = entry.path if not mount.source else entry.path[len(mount.source.encode()) + 1 :]
    destination = mount.destination.encode() + (b"/" + inside if inside else b"")
    return PlacedFile(destination, entry, targets[entry.sha] if entry.mode == SYMLINK else None)


def _wrong(mount: FileMount, entries: Sequence[TreeEntry], targets: Targets) -> list[str]:
    name = mount.source or "the repository"
    if not entries:
        advice = "write a path from the root of the repository on; task files under jobs/ are never copied"
        return [f"{shown(name)} is no file of this commit, and no folder with files: {advice}"]
    if entries[0].path == mount.source.encode() and entries[0].mode in {SYMLINK, SUBMODULE}:
        return [f"{name} is a {_KINDS[entries[0].mode]}: name a file or folder of this repository itself"]
    messages = []
    for entry in entries:
        where = f"{_printable(entry.path)} in {name}"
        if entry.mode == SUBMODULE:
            messages.append(f"{where} is a submodule, whose files are not part of this commit: commit them here")
        elif entry.mode == SYMLINK and (why := _leaves(mount, entry.path, targets[entry.sha])):
            messages.append(f"{where} is a link that {why}: commit what it leads to, or take it out")
    return messages


_KINDS = {SYMLINK: "symbolic link", SUBMODULE: "submodule"}


def _leaves(mount: FileMount, path: bytes, target: bytes) -> str | None:
    """Tell why a link would lead nowhere in a pod."""
    if target.startswith(b"/"):
        return f"leads to {_printable(target)}, out of the repository"
    end = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if end == b".." or end.startswith(b"../"):
        return "leads out of the repository"
    folder = mount.source.encode()
    if folder and end != folder and not end.startswith(folder + b"/"):
        return f"leads to {_printable(end)}, which is not copied along"
    return None


def _printable(path: bytes) -> str:
    text = path.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
