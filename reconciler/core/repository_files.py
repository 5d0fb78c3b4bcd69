"""Choose the files of a commit that a task's workdir and file_mounts stand for, and say which of them can't be.

The task files under `jobs/` are left out: a run needs none, one may hold a secret, and with them every commit would
change every workdir. Only git's own hashes are compared here; contents are read when a run is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from reconciler.core.git_tree import KINDS, SUBMODULE, SYMLINK, printable
from reconciler.core.repository_links import Links, Targets, folders_above
from reconciler.core.schema.fields import shown
from reconciler.model import FILE_MOUNTS, WORKDIR, FileMount, GitWorkdir, Task, TreeEntry

FILES_CHANGED = "files-changed"
"""The code of the note that a run has other files than there are now."""

_SETTINGS = (WORKDIR, FILE_MOUNTS)
_MOST_FILES = 200_000


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file of the repository, where it goes, and what asks for it.

    `target` is where a symbolic link leads, None for other files.
    """

    destination: bytes
    entry: TreeEntry
    mount: FileMount
    target: bytes | None = None


@dataclass(frozen=True)  # no slots: what is computed of it is kept
class FileSet:
    """All files that a task takes from its repository at one commit; `mounts` are what asks for them."""

    commit: str
    mounts: tuple[FileMount, ...]
    files: tuple[PlacedFile, ...]

    @cached_property
    def digest(self) -> str:
        """The same for the same contents at the same places, whatever the commit: `workdir=HASH,file_mounts=HASH`."""
        content: dict[str, list[list[str]]] = {}
        for file in self.files:
            place = [file.destination.decode("latin-1"), file.entry.mode, file.entry.sha]
            content.setdefault(file.mount.setting, []).append(place)
        hashes = {name: hashlib.sha256(json.dumps(content[name]).encode()).hexdigest() for name in content}
        return ",".join(f"{name}={hashes[name]}" for name in _SETTINGS if name in hashes)

    def changed_since(self, digest: str) -> list[str]:
        """Name the settings whose files are others than those of a digest."""
        differ = {part.partition("=")[0] for part in {*digest.split(",")} ^ {*self.digest.split(",")}}
        return [name for name in _SETTINGS if name in differ]

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
    count = 0
    for mount in mounts:
        entries = [entry for entry in below(mount.source) if not _is_task_file(entry.path)]
        count += len(entries)
        if count > _MOST_FILES:
            message = (
                f"with this one it is more than {_MOST_FILES} files that the task takes: name the folders it needs"
            )
            return FileSet(commit, mounts, ()), [(mount.field, message)]
        problems += [(mount.field, message) for message in _wrong(mount, entries, targets)]
        for entry in entries:
            file = _placed(mount, entry, targets)
            placed[file.destination] = file
    chosen = FileSet(commit, mounts, tuple(placed[name] for name in sorted(placed)))
    return chosen, [*problems, *_in_the_way(chosen)]


def _is_task_file(path: bytes) -> bool:
    return path.startswith(b"jobs/") and path.endswith((b".yaml", b".yml"))


def _placed(mount: FileMount, entry: TreeEntry, targets: Targets) -> PlacedFile:
    inside = entry.path if not mount.source else entry.path[len(mount.source.encode()) + 1 :]
    destination = mount.destination.encode() + (b"/" + inside if inside else b"")
    return PlacedFile(destination, entry, mount, targets[entry.sha] if entry.mode == SYMLINK else None)


def _in_the_way(chosen: FileSet) -> list[tuple[str, str]]:
    """Say which files would be where the files of another mount need a folder."""
    inside = {folder: file.mount.field for file in chosen.files for folder in folders_above(file.destination)}
    advice = "write another path for one of them"
    return [
        (file.mount.field, f"{printable(place)} would be a file, and a folder for {inside[place]}: {advice}")
        for file in chosen.files
        if (place := file.destination) in inside
    ]


def _wrong(mount: FileMount, entries: Sequence[TreeEntry], targets: Targets) -> list[str]:
    name = mount.source or "the repository"
    if not entries:
        advice = "write a path from the root of the repository on; task files under jobs/ are never copied"
        return [f"{shown(name)} is no file of this commit, and no folder with files: {advice}"]
    if entries[0].path == mount.source.encode():
        return _wrong_alone(mount, entries[0].mode)
    links = Links(mount.source.encode(), entries, targets)
    messages = []
    for entry in entries:
        where = f"{printable(entry.path)} in {name}"
        if entry.mode == SUBMODULE:
            messages.append(f"{where} is a submodule, whose files are not part of this commit: commit them here")
        elif entry.mode == SYMLINK and (why := links.lost(entry.path)):
            messages.append(f"{where} is a link that {why}: put what it leads to in its place, or take it out")
    return messages


def _wrong_alone(mount: FileMount, mode: str) -> list[str]:
    """Say why what is named itself, and is no folder, can't be copied."""
    if mode in KINDS:
        return [f"{mount.source} is a {KINDS[mode]}: name a file or folder of this repository itself"]
    if mount.setting == WORKDIR:
        return [f"{mount.source} is a file, and a workdir is a folder: name its folder, or use file_mounts"]
    return []
