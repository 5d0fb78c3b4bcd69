"""Make a commit out of files in memory, without a work tree, an index, a lock or a ref.

One `git fast-import` writes blobs, trees and commit however many files change. Its branch exists in the stream alone:
it is reset before the end, so no ref is written, and `get-mark` tells the commit.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.source.repository import Repository

_NAME = "Job Reconciler"
_EMAIL = "job-reconciler@localhost"
_BRANCH = b"refs/reconciler/stream"


def write_commit(repository: Repository, parent: str | None, changes: Mapping[str, bytes | None], message: str) -> str:
    """Return a new commit that changes the parent's files, or begins a history of its own without a parent.

    None removes a file. Nothing points to the commit yet. Author and committer are ours unless GIT_AUTHOR_* and
    GIT_COMMITTER_* say otherwise; times are UTC.
    """
    stream = b"".join(
        _stream(_identity(repository, "AUTHOR"), _identity(repository, "COMMITTER"), parent, changes, message)
    )
    output = repository.run("-c", "core.ignoreCase=false", "fast-import", "--quiet", "--done", input=stream)
    return output.decode().strip()


def _identity(repository: Repository, role: str) -> bytes:
    environment = {
        f"GIT_{role}_NAME": os.environ.get(f"GIT_{role}_NAME") or _NAME,
        f"GIT_{role}_EMAIL": os.environ.get(f"GIT_{role}_EMAIL") or _EMAIL,
        "TZ": "UTC0",
    }
    return repository.run("var", f"GIT_{role}_IDENT", env=environment).strip()


def _stream(
    author: bytes, committer: bytes, parent: str | None, changes: Mapping[str, bytes | None], message: str
) -> Iterator[bytes]:
    yield b"feature done\ncommit %b\nmark :1\nauthor %b\ncommitter %b\n" % (_BRANCH, author, committer)
    yield _data(message.encode())
    if parent is not None:
        yield b"from %b\n" % parent.encode()
    for path, content in changes.items():
        if content is None:
            yield b"D %b\n" % _quoted(path)
        else:
            yield b"M 100644 inline %b\n" % _quoted(path)
            yield _data(content)
    yield b"\nget-mark :1\nreset %b\n\ndone\n" % _BRANCH


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _quoted(path: str) -> bytes:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"%b"' % escaped.encode()
