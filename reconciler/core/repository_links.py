"""Follow symbolic links among the files that are copied, as the kernel will where they are placed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from reconciler.core.git_tree import SYMLINK, printable
from reconciler.model import TreeEntry

Targets = Mapping[str, bytes]
"""Where symbolic links lead, by the hash of their blobs."""

_MOST_LINKS = 40  # on one way, as in Linux


class Links:
    """The links of one folder, `b""` for the repository; `entries` are all that is copied of it."""

    def __init__(self, folder: bytes, entries: Sequence[TreeEntry], targets: Targets) -> None:
        self._folder = folder
        self._targets = targets
        self._entries = {entry.path: entry for entry in entries}

    def lost(self, link: bytes) -> str | None:
        """Tell why a link leads nowhere; None when it leads to a file or folder that is copied, too.

        It is followed step by step: what `..` means behind a link depends on where that leads. No step may leave the
        folder, not even to come back: where it is placed, it may have another name.
        """
        here, _, name = link.rpartition(b"/")
        steps, links = [name], 0
        while steps:
            if here not in self._folders:
                return _nowhere(here)
            step = steps.pop()
            if step == b".." and here == self._folder:
                return f"leads out of {printable(here) or 'the repository'}"
            path = _step(here, step)
            if (target := self._target(path)) is None:
                here = path
                continue
            links += 1
            if target.startswith(b"/"):
                return f"leads to {printable(target)}, out of the repository"
            if not target or links > _MOST_LINKS:
                return "leads to itself" if target else "leads to nothing"
            steps += reversed(target.split(b"/"))
        return None if here in self._folders or here in self._entries else _nowhere(here)

    @cached_property
    def _folders(self) -> set[bytes]:
        return {self._folder, *(folder for path in self._entries for folder in folders_above(path))}

    def _target(self, path: bytes) -> bytes | None:
        entry = self._entries.get(path)
        return self._targets[entry.sha] if entry and entry.mode == SYMLINK else None


def folders_above(path: bytes) -> Iterator[bytes]:
    """Yield the folders that a path is in, the nearest first."""
    while folder := path.rpartition(b"/")[0]:
        yield folder
        path = folder


def _step(folder: bytes, name: bytes) -> bytes:
    if name in {b"", b"."}:
        return folder
    if name == b"..":
        return folder.rpartition(b"/")[0]
    return folder + b"/" + name if folder else name


def _nowhere(path: bytes) -> str:
    return f"leads to {printable(path)}, which is not copied along"
