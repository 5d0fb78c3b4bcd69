"""What the entries of a git tree are, and how their paths are shown."""

from __future__ import annotations

REGULAR, EXECUTABLE, SYMLINK, SUBMODULE = "100644", "100755", "120000", "160000"
"""The modes that git gives to leaves."""

KINDS = {SYMLINK: "symbolic link", SUBMODULE: "submodule"}
"""What those are called that are no files."""


def printable(path: bytes) -> str:
    """Return a file name as text that can be shown: what is not UTF-8 or not printable stands as an escape."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
