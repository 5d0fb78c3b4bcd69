"""The files of a commit or of a work tree, and the URL that a pod could clone them from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.source.repository import Repository
from reconciler.source.tree import CommittedTree, WorkTree, clone_url

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Commit, Git


def test_a_commit_is_read_as_it_is(work: Path, commit: Commit, git: Git) -> None:
    """Whatever stands in the work tree: modes, links, and contents by their hash."""
    (work / "train").mkdir()
    (work / "train/link").symlink_to("a b")
    (work / "train/run").write_text("x")
    (work / "train/run").chmod(0o755)
    made = commit(work, {"train/a b": b"\xff\0", "train2/c": "c"})
    (work / "train/a b").write_text("changed")
    with Repository(work / "jobs") as repository:
        tree = CommittedTree(repository, made)
        leaves = tree.leaves(["train", "jobs/train.yaml"])
        everything = tree.leaves(["train", ""])
        contents = tree.read(leaves)

    assert [(e.mode, e.path) for e in leaves] == [
        ("100644", b"jobs/train.yaml"),
        ("100644", b"train/a b"),
        ("120000", b"train/link"),
        ("100755", b"train/run"),
    ]
    assert [contents[e.sha] for e in leaves[1:]] == [b"\xff\0", b"a b", b"x"]
    assert [e.path for e in everything][-1] == b"train2/c"
    assert git(work, "rev-parse", f"{made}:train/run") == leaves[3].sha


def test_nothing_is_asked_for_nothing(work: Path) -> None:
    with Repository(work) as repository:
        assert CommittedTree(repository, "no commit").leaves([]) == []


def test_a_work_tree_has_what_would_be_committed(work: Path, git: Git) -> None:
    """From a folder inside it, too: what is ignored or deleted is not there, links are not followed."""
    (work / ".gitignore").write_text("*.log\n")
    (work / "new").mkdir()
    (work / "new/a.log").write_text("x")
    (work / "new/é").write_text("xyz")
    (work / "new/link").symlink_to("/etc")
    (work / "new/gone").write_text("x")
    git(work, "add", "new/gone")
    (work / "new/gone").unlink()
    git(work, "init", "--quiet", "new/inner")
    (work / "new/inner/file").write_text("x")
    git(work / "new/inner", "add", "file")
    git(work / "new/inner", "commit", "--quiet", "--message", "Inner")
    with Repository(work / "jobs") as repository:
        tree = WorkTree(repository, work)
        leaves = tree.leaves(["new"])
        targets = tree.read([entry for entry in leaves if entry.mode == "120000"])

    assert [(e.mode, e.path.decode(), e.size) for e in leaves] == [
        ("160000", "new/inner", 0),
        ("120000", "new/link", 4),
        ("100644", "new/é", 3),
    ]
    assert [*targets.values()] == [b"/etc"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/a/b.git", "https://example.com/a/b.git"),
        ("https://user:s3cret@example.com:8443/a", "https://example.com:8443/a"),
        ("http://example.com/a", "http://example.com/a"),
        ("git@example.com:a/b.git", "https://example.com/a/b"),
        ("ssh://git@example.com:2222/a/b.git", "https://example.com/a/b.git"),
        ("/srv/a.git", None),
        ("../a", None),
        ("file:///srv/a", None),
    ],
)
def test_a_pod_clones_by_https_and_without_credentials(work: Path, git: Git, url: str, expected: str | None) -> None:
    git(work, "remote", "set-url", "origin", url)
    with Repository(work) as repository:
        assert (clone_url(repository, "origin"), clone_url(repository, None)) == (expected, None)
