"""Read trees and blobs of a repository, each in one git process, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.core.git_tree import printable
from reconciler.errors import SourceError
from reconciler.model import TreeEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.source.repository import Repository


def list_tree(repository: Repository, commit: str, *paths: str) -> list[TreeEntry]:
    """List the leaves of a commit, all or those at and under some paths. Raises SourceError if a part is missing."""
    listing = repository.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", *paths)
    return [_entry(record) for record in listing.split(b"\0") if record]


def read_blobs(repository: Repository, entries: Iterable[TreeEntry]) -> dict[bytes, bytes]:
    """Return path and contents of each entry. Raises SourceError if one is missing: a part is never the answer."""
    wanted = list(entries)
    output = repository.run("cat-file", "--batch", input="".join(f"{entry.sha}\n" for entry in wanted).encode())
    contents: dict[bytes, bytes] = {}
    position = 0
    for entry in wanted:
        end = output.index(b"\n", position)
        header = output[position:end].split(b" ")
        if header[1:2] != [b"blob"]:
            raise _missing(entry.path)
        position = end + 1 + int(header[2]) + 1
        contents[entry.path] = output[end + 1 : position - 1]
    return contents


def _entry(record: bytes) -> TreeEntry:
    description, _, path = record.partition(b"\t")
    mode, _, sha, size = description.decode("ascii").split()
    if size == "BAD":
        raise _missing(path)
    return TreeEntry(mode, sha, 0 if size == "-" else int(size), path)


def _missing(path: bytes) -> SourceError:
    return SourceError(
        f"partial: git lacks the contents of {printable(path)}, so nothing is decided; "
        "fetch it (a partial clone), or see what `git fsck` says"
    )
