"""Which files of a commit a task gets, and which it can't get."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core import repository_files
from reconciler.core.git_tree import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK
from reconciler.core.repository_files import FileSet, choose_files
from reconciler.model import FileMount, TreeEntry

LINKS = {"up": b"../../x", "abs": b"/etc/passwd", "out": b"../lib/c", "gone": b"b", "back": b"../t/a", "in": b"../a"}
LINKS |= {"task": b"jobs/x.yaml", "loop": b"l", "dot": b".", "none": b""}


def entry(path: str, mode: str = REGULAR, sha: str = "") -> TreeEntry:
    return TreeEntry(mode, sha or path, len(path), path.encode())


TREE = [
    entry("README"),
    entry("jobs/a.yaml"),
    entry("jobs/code.py"),
    entry("lib", SUBMODULE),
    entry("link", SYMLINK, "in"),
    entry("train/a", EXECUTABLE),
    entry("train/deep/b"),
    entry("train2/c"),
]


def choose(mounts: tuple[FileMount, ...], tree: list[TreeEntry]) -> tuple[FileSet, list[str]]:
    def below(path: str) -> list[TreeEntry]:
        place = path.encode()
        return [e for e in tree if not place or e.path == place or e.path.startswith(place + b"/")]

    chosen, problems = choose_files(mounts, "c", below, LINKS)
    return chosen, [f"{field}: {message}" for field, message in problems]


def mounts(**pairs: str) -> tuple[FileMount, ...]:
    return tuple(FileMount(source, f"~/{name}", name) for name, source in pairs.items())


def test_a_folder_comes_with_all_below_it_and_a_file_alone() -> None:
    chosen, problems = choose(mounts(code="train", readme="README"), TREE)

    assert problems == []
    assert {f.destination: (f.entry.path, f.entry.mode) for f in chosen.files} == {
        b"~/code/a": (b"train/a", EXECUTABLE),
        b"~/code/deep/b": (b"train/deep/b", REGULAR),
        b"~/readme": (b"README", REGULAR),
    }


def test_a_task_takes_a_bounded_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is mounted many times makes more files than the machine has room for."""
    monkeypatch.setattr(repository_files, "_MOST_FILES", 3)
    chosen, problems = choose(mounts(a="train", b="train"), TREE)

    assert chosen.files == ()
    assert problems == ["b: with this one it is more than 3 files that the task takes: name the folders it needs"]


def test_task_files_are_never_copied() -> None:
    """Else every commit would change every workdir, and a secret could get into a ConfigMap."""
    chosen, problems = choose(mounts(all="jobs"), TREE)

    assert ([f.destination for f in chosen.files], problems) == ([b"~/all/code.py"], [])


def test_the_later_mount_wins() -> None:
    chosen, _ = choose(mounts(x="train", **{"x/a": "README"}), TREE)

    assert [f.entry.path for f in chosen.files] == [b"README", b"train/deep/b"]


def test_the_digest_is_of_contents_at_their_places() -> None:
    one, _ = choose(mounts(a="README", b="train/a"), TREE)
    same, _ = choose(mounts(b="train/a", a="README"), TREE)
    other = [
        choose(mounts(a="README", b="train/deep/b"), TREE)[0],
        choose(mounts(a="README", c="train/a"), TREE)[0],
        choose(mounts(a="README", b="train/a"), [entry("README"), entry("train/a", REGULAR)])[0],
        choose(mounts(a="README", b="train/a"), [entry("README"), entry("train/a", EXECUTABLE, "new")])[0],
    ]

    assert one.digest == same.digest
    assert len({one.digest, *(chosen.digest for chosen in other)}) == 5


@pytest.mark.parametrize(
    ("source", "tree", "message"),
    [
        pytest.param("trian", TREE, "'trian' is no file of this commit, and no folder with files", id="missing"),
        pytest.param("jobs/a.yaml", TREE, "task files under jobs/ are never copied", id="a task file"),
        pytest.param("link", TREE, "link is a symbolic link: name a file or folder", id="a link itself"),
        pytest.param("lib", TREE, "lib is a submodule: name a file or folder", id="a submodule itself"),
        pytest.param("", [entry("a"), entry("lib", SUBMODULE)], "lib in the repository is a submodule", id="submodule"),
        pytest.param("", [entry("l", SYMLINK, "up")], "l in the repository is a link that leads out of the r", id="up"),
        pytest.param("t", [entry("t/l", SYMLINK, "abs")], "leads to /etc/passwd, out of the repository", id="absolute"),
        pytest.param("t", [entry("t/l", SYMLINK, "out")], "t/l in t is a link that leads out of t", id="beside"),
        pytest.param("t", [entry("t/a"), entry("t/l", SYMLINK, "back")], "leads out of t", id="out and back"),
        pytest.param("t", [entry("t/l", SYMLINK, "gone")], "leads to t/b, which is not copied along", id="dangling"),
        pytest.param("t", [entry("t/l", SYMLINK, "loop")], "t/l in t is a link that leads to itself", id="loop"),
        pytest.param("t", [entry("t/l", SYMLINK, "none")], "t/l in t is a link that leads to nothing", id="empty"),
        pytest.param(
            "",
            [entry("jobs/x.py"), entry("jobs/x.yaml"), entry("l", SYMLINK, "task")],
            "leads to jobs/x.yaml, which is not copied along",
            id="to a task file",
        ),
    ],
)
def test_what_would_be_missing_in_a_pod_is_refused(source: str, tree: Any, message: str) -> None:
    _, (problem,) = choose(mounts(x=source), tree)

    assert problem.startswith("x: ")
    assert message in problem


@pytest.mark.parametrize(("link", "target"), [("t/l", "dot"), ("t/deep/l", "in")])
def test_a_link_inside_stays_a_link(link: str, target: str) -> None:
    chosen, problems = choose(mounts(x="t"), [entry("t/a"), entry(link, SYMLINK, target)])

    assert problems == []
    assert {f.destination: f.target for f in chosen.files} == {
        b"~/x/a": None,
        b"~/x" + link.encode()[1:]: LINKS[target],
    }


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        pytest.param(
            {"x": "README", "x/y": "train/a"}, "x: ~/x would be a file, and a folder for x/y", id="file first"
        ),
        pytest.param({"x/y": "train/a", "x": "README"}, "x: ~/x would be a file, and a folder for x/y", id="file last"),
        pytest.param({"x/y/z": "train", "x": "README"}, "x: ~/x would be a file, and a folder for x/y/z", id="further"),
        pytest.param({"x": "train", "x/a": "train2"}, "x: ~/x/a would be a file, and a folder for x/a", id="in one"),
        pytest.param(
            {"x": "train", "x/deep": "README"}, "x/deep: ~/x/deep would be a file, and a folder", id="over it"
        ),
    ],
)
def test_nothing_is_a_file_and_a_folder(asked: dict[str, str], place: str) -> None:
    """No bash could place that; it would be seen only in a pod."""
    _, (problem,) = choose(mounts(**asked), TREE)

    assert problem.startswith(place)
    assert problem.endswith("write another path for one of them")


def test_a_workdir_is_a_folder() -> None:
    _, (problem,) = choose((FileMount("README", "~/sky_workdir", "workdir"),), TREE)

    assert problem == "workdir: README is a file, and a workdir is a folder: name its folder, or use file_mounts"


def test_the_digest_tells_which_setting_has_other_files() -> None:
    def chosen(workdir: str, mount: str) -> FileSet:
        own = FileMount(workdir, "~/sky_workdir", "workdir")
        return choose((own, FileMount(mount, "~/x", "file_mounts.~/x")), TREE)[0]

    now, before = chosen("train", "README"), {"mount": ("train", "train/a"), "workdir": ("train2", "README")}
    changed = {name: now.changed_since(chosen(*then).digest) for name, then in before.items()}

    assert changed == {"mount": ["file_mounts"], "workdir": ["workdir"]}
    assert now.changed_since(chosen("train2", "train/a").digest) == ["workdir", "file_mounts"]
    assert now.changed_since(now.digest) == []
