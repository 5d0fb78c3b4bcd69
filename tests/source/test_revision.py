from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import SourceError
from reconciler.model import Severity
from reconciler.source.repository import Repository
from reconciler.source.revision import Revision, read_revision, worktree_files

Git = Callable[..., str]
Commit = Callable[..., str]
Repo = Callable[..., Path]
BIG = b"#" * (1 << 20) + b"\n"


def _read(folder: Path, ref: str | None = None) -> Revision:
    with Repository(folder) as repository:
        return read_revision(repository, ref)


def test_reads_the_commit_and_not_the_work_tree(work: Path, commit: Commit) -> None:
    """Dirty files don't leak in, and what is not ours is not read."""
    head = commit(
        work,
        {
            "jobs/team/eval.yml": "run: a\r\nb\n",
            "jobs/team/eval.py": "print()",
            "jobs/README.md": "",
            "priorities/high.yaml": b"\xef\xbb\xbfkind: x\n",
            ".sky.yaml": "{}",
            "reconciler.yaml": "{}",
            "docs/other.yaml": "{}",
        },
    )
    (work / "jobs/train.yaml").write_text("run: changed\n")
    (work / "jobs/new.yaml").write_text("run: new\n")

    revision = _read(work)

    assert revision.files == {
        ".sky.yaml": b"{}",
        "jobs/team/eval.yml": b"run: a\r\nb\n",
        "jobs/train.yaml": b"run: echo\n",
        "priorities/high.yaml": b"\xef\xbb\xbfkind: x\n",
        "reconciler.yaml": b"{}",
    }
    assert (revision.commit, revision.branch, revision.remote) == (head, "main", "origin")
    assert revision.problems == ()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"jobs/.gitkeep": ""}, True, id="empty-folder"),
        pytest.param({"README.md": ""}, False, id="no-folder"),
    ],
)
def test_an_empty_folder_is_not_a_missing_one(repo: Repo, files: dict[str, str], expected: bool) -> None:  # noqa: FBT001
    revision = _read(repo(files))

    assert (revision.has_jobs_folder, revision.files) == (expected, {})


def _link(name: str, target: str = "/etc/passwd") -> Callable[[Path], None]:
    return lambda folder: (folder / name).symlink_to(target)


def _file(name: bytes, content: bytes = b"run: x\n") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with open(os.fsencode(folder) + b"/" + name, "wb") as file:  # noqa: PTH123 - not a text
            file.write(content)

    return write


def _nested_repository(folder: Path) -> None:
    os.system(f"git -C '{folder}' init -q jobs/sub && git -C '{folder}/jobs/sub' commit -q --allow-empty -m x")  # noqa: S605


PROBLEMS = [
    pytest.param(_link("jobs/link.yaml"), "error not-a-file jobs/link.yaml", "symbolic link, which is not", id="link"),
    pytest.param(_link("jobs/team", ".."), "error not-a-file jobs/team", "commit the file itself", id="folder-link"),
    pytest.param(_link("reconciler.yaml"), "error not-a-file reconciler.yaml", "symbolic link", id="settings-link"),
    pytest.param(_link("priorities", "jobs"), "error not-a-file priorities", "symbolic link", id="top-link"),
    pytest.param(_link("jobs/data.bin"), None, "", id="link-to-data"),
    pytest.param(_file(b"priorities"), "error not-a-folder priorities", "file where a folder", id="file-for-folder"),
    pytest.param(_file(b"jobs/caf\xe9.yaml"), "error file-name jobs/caf\\xe9.yaml", "UTF-8: rename", id="latin-1"),
    pytest.param(_file(b"jobs/a\nb.yaml"), "error file-name jobs/a\\nb.yaml", "not printable", id="control-character"),
    pytest.param(_file(b"jobs/caf\xe9.txt"), None, "", id="latin-1-but-not-ours"),
    pytest.param(_file("jobs/café.yaml".encode()), None, "", id="utf-8"),
    pytest.param(_file(b"jobs/big.yaml", BIG), "error too-large jobs/big.yaml", "1048577 bytes", id="too-large"),
    pytest.param(_file(b"jobs/a.json"), "warning ignored-file jobs/a.json", "end in .yaml or .yml", id="json"),
    pytest.param(_file(b"jobs/A.YAML"), "warning ignored-file jobs/A.YAML", "end in .yaml or .yml", id="upper-case"),
    pytest.param(_nested_repository, "error submodule jobs/sub", "commit them here", id="submodule"),
]


@pytest.mark.parametrize(("make", "expected", "message"), PROBLEMS)
def test_reports_what_cannot_be_read_and_reads_the_rest(
    work: Path, git: Git, make: Callable[[Path], None], expected: str | None, message: str
) -> None:
    """The same in a commit and in the work tree, and never by following a link."""
    make(work)
    git(work, "-c", "advice.addEmbeddedRepo=false", "add", "--all")
    git(work, "commit", "--quiet", "--message", "x")
    revision = _read(work)

    for files, problems in ((revision.files, revision.problems), worktree_files(work)):
        assert [f"{p.severity} {p.code} {p.path}" for p in problems] == ([expected] if expected else [])
        assert all(message in problem.message for problem in problems)
        assert files["jobs/train.yaml"] == b"run: echo\n"
        assert b"root:" not in b"".join(files.values())


def test_the_work_tree_may_hold_what_git_cannot(tmp_path: Path) -> None:
    """A pipe would block for ever, and a folder without its rights says nothing about what it holds."""
    (tmp_path / "jobs").mkdir()
    os.mkfifo(tmp_path / "jobs/pipe.yaml")
    (tmp_path / "jobs/a.yaml").write_text("run: a\n")

    files, problems = worktree_files(tmp_path)

    assert files == {"jobs/a.yaml": b"run: a\n"}
    assert [(p.severity, p.path) for p in problems] == [(Severity.ERROR, "jobs/pipe.yaml")]


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("name", ["jobs", "jobs/a.yaml"])
def test_what_cannot_be_read_is_a_problem(tmp_path: Path, name: str) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/a.yaml").write_text("run: a\n")
    (tmp_path / name).chmod(0)

    files, problems = worktree_files(tmp_path)

    assert (files, [(p.code, p.path) for p in problems]) == ({}, [("unreadable", name)])


@pytest.mark.parametrize(
    ("ref", "branch", "its_remote"),
    [
        pytest.param("feature", "feature", "origin", id="branch"),
        pytest.param("refs/heads/feature", "feature", "origin", id="full-name"),
        pytest.param("origin/theirs", "theirs", "origin", id="remote-branch"),
        pytest.param("theirs", "theirs", "origin", id="branch-that-only-the-remote-has"),
        pytest.param("v1", "main", "origin", id="tag-belongs-to-the-branch-of-HEAD"),
        pytest.param("HEAD~1", "main", "origin", id="commit-belongs-to-the-branch-of-HEAD"),
    ],
)
def test_ref_names_a_commit(work: Path, git: Git, commit: Commit, *, ref: str, branch: str, its_remote: str) -> None:
    first = git(work, "rev-parse", "HEAD")
    git(work, "tag", "--annotate", "--message", "x", "v1")
    git(work, "branch", "feature")
    git(work, "push", "--quiet", "origin", "main:theirs")
    commit(work, {"jobs/train.yaml": "run: later\n"})
    (work / "jobs/new.yaml").write_text("")

    revision = _read(work, ref)

    assert (revision.commit, revision.branch, revision.remote, revision.dirty) == (first, branch, its_remote, ())
    assert revision.files == {"jobs/train.yaml": b"run: echo\n"}


def test_a_detached_head_is_on_no_branch(work: Path, git: Git) -> None:
    """As CI checks out."""
    git(work, "checkout", "--quiet", "--detach")

    assert (_read(work).branch, _read(work).remote) == (None, "origin")


@pytest.mark.parametrize("ref", ["nothing", "-x", "--all", "main:jobs/train.yaml", "a b", "^main", "main..main"])
def test_an_unknown_ref_is_an_error(work: Path, ref: str) -> None:
    with pytest.raises(SourceError, match=r"names no commit of .*; fetch it first, or correct --ref"):
        _read(work, ref)


def test_an_empty_repository_is_an_error(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet", "empty")

    with pytest.raises(SourceError, match="has no commit yet; commit a file under jobs/ first"):
        _read(tmp_path / "empty")


@pytest.mark.parametrize(
    ("remotes", "tracked", "expected"),
    [
        pytest.param([], None, None, id="none"),
        pytest.param(["mine"], None, "mine", id="the-only-one"),
        pytest.param(["a", "origin"], None, "origin", id="origin"),
        pytest.param(["a", "origin"], "a", "a", id="the-branch's"),
        pytest.param(["origin"], "gone", "origin", id="the-branch's-is-gone"),
        pytest.param([], ".", None, id="the-branch-follows-a-local-one"),
    ],
)
def test_finds_the_remote(
    repo: Repo, git: Git, *, remotes: list[str], tracked: str | None, expected: str | None
) -> None:
    folder = repo({"jobs/a.yaml": ""})
    for name in remotes:
        git(folder, "remote", "add", name, f"https://{name}/x")
    if tracked:
        git(folder, "config", "branch.main.remote", tracked)

    assert _read(folder).remote == expected


def test_a_missing_blob_makes_the_read_partial(work: Path, commit: Commit, git: Git) -> None:
    """Nothing may be decided from a part: what is missing would look deleted."""
    commit(work, {"jobs/other.yaml": "run: other\n"})
    blob = git(work, "rev-parse", "HEAD:jobs/other.yaml")
    (work / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(
        SourceError, match=r"partial: git lacks the contents of jobs/other\.yaml, so nothing is decided"
    ):
        _read(work)


@pytest.mark.parametrize("what", ["HEAD:jobs", "HEAD^{tree}"])
def test_a_missing_tree_is_an_error(work: Path, git: Git, what: str) -> None:
    tree = git(work, "rev-parse", what)
    (work / ".git/objects" / tree[:2] / tree[2:]).unlink()

    with pytest.raises(SourceError):
        _read(work)


def test_a_partial_clone_fetches_what_it_lacks_or_fails(work: Path, remote: Path, tmp_path: Path, git: Git) -> None:
    git(remote, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--no-checkout", "--filter=blob:none", f"file://{remote}", "partial")
    remote.rename(tmp_path / "away")
    with pytest.raises(SourceError):
        _read(tmp_path / "partial")

    (tmp_path / "away").rename(remote)

    assert _read(tmp_path / "partial").files == _read(work).files


def test_dirty_names_what_stands_differently_in_the_work_tree(work: Path, commit: Commit, git: Git) -> None:
    """A stale lock on the index, and line endings that git converts, don't matter."""
    commit(work, {f"jobs/{name}.yaml": "run: x\n" for name in ("changed", "gone", "same")} | {"docs/a.yaml": ""})
    git(work, "config", "core.autocrlf", "true")
    (work / "jobs/changed.yaml").write_text("run: y\n")
    (work / "jobs/gone.yaml").unlink()
    (work / "jobs/same.yaml").unlink()
    git(work, "checkout", "jobs/same.yaml")
    (work / "docs/a.yaml").write_text("run: y\n")
    (work / "priorities/team").mkdir(parents=True)
    (work / "priorities/team/new.yaml").write_text("")
    (work / "reconciler.yaml").write_text("")
    git(work, "add", "reconciler.yaml")
    (work / ".git/index.lock").touch()

    assert (work / "jobs/same.yaml").read_bytes() == b"run: x\r\n"
    assert sorted(_read(work).dirty) == [
        "jobs/changed.yaml",
        "jobs/gone.yaml",
        "priorities/team/new.yaml",
        "reconciler.yaml",
    ]


def test_no_filter_of_the_user_runs(work: Path, commit: Commit, git: Git, tmp_path: Path) -> None:
    """Git itself would run one on each file that it has to look into."""
    commit(work, {".gitattributes": "*.yaml filter=spy\n", "jobs/a.yaml": "run: x\n", "jobs/b.yaml": "run: x\n"})
    for program in ("clean", "smudge"):
        git(work, "config", f"filter.spy.{program}", f"touch {tmp_path / 'ran'}; cat")
    git(work, "config", "filter.spy.required", "true")
    (work / "jobs/a.yaml").write_text("run: y\n")
    os.utime(work / "jobs/b.yaml", (1, 1))

    assert _read(work).dirty == ("jobs/a.yaml",)
    assert not (tmp_path / "ran").exists()


def test_reading_changes_nothing_in_the_repository(work: Path) -> None:
    (work / "jobs/train.yaml").touch()  # git would like to refresh its index now

    def everything() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}

    before = everything()
    _read(work)

    assert everything() == before


# Who last changed a file: each story commits, and returns for each file the commit that counts.


def _linear(folder: Path, _git: Git, commit: Commit) -> dict[str, str]:
    first = commit(folder, {"jobs/a.yaml": "1", "jobs/b.yaml": "1"})
    second = commit(folder, {"jobs/b.yaml": "2", "jobs/c.yaml": "2"})
    commit(folder, {"README.md": "3"})
    return {"a": first, "b": second, "c": second}


def _restored(folder: Path, _git: Git, commit: Commit) -> dict[str, str]:
    commit(folder, {"jobs/a.yaml": "1", "jobs/b.yaml": "1"})
    commit(folder, {"jobs/a.yaml": "2", "jobs/b.yaml": None})
    return dict.fromkeys("ab", commit(folder, {"jobs/a.yaml": "1", "jobs/b.yaml": "1"}))


def _merged(folder: Path, git: Git, commit: Commit) -> dict[str, str]:
    first = commit(folder, {"jobs/a.yaml": "1"})
    git(folder, "checkout", "--quiet", "-b", "side")
    side = commit(folder, {"jobs/b.yaml": "side"})
    git(folder, "checkout", "--quiet", "main")
    later = commit(folder, {"jobs/c.yaml": "main"})
    git(folder, "merge", "--quiet", "--no-edit", "side")
    return {"a": first, "b": side, "c": later}


def _kept_by_a_merge(folder: Path, git: Git, commit: Commit) -> dict[str, str]:
    commit(folder, {"jobs/a.yaml": "1"})
    git(folder, "checkout", "--quiet", "-b", "side")
    git(folder, "checkout", "--quiet", "main")
    ours = commit(folder, {"jobs/a.yaml": "main"})
    git(folder, "checkout", "--quiet", "side")
    commit(folder, {"jobs/a.yaml": "side", "jobs/b.yaml": "side"})
    theirs = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--quiet", "--no-edit", "--strategy-option=ours", "side")
    return {"a": ours, "b": theirs}


def _changed_in_a_merge(folder: Path, git: Git, commit: Commit) -> dict[str, str]:
    commit(folder, {"jobs/a.yaml": "1"})
    git(folder, "checkout", "--quiet", "-b", "side")
    commit(folder, {"jobs/a.yaml": "side"})
    git(folder, "checkout", "--quiet", "main")
    commit(folder, {"jobs/a.yaml": "main"})
    git(folder, "merge", "--quiet", "--no-commit", "--strategy=ours", "side")
    return {"a": commit(folder, {"jobs/a.yaml": "both"})}


def _long_history(folder: Path, git: Git, commit: Commit) -> dict[str, str]:
    """Long enough to be read in two rounds, with merges of two changes that make none themselves."""
    first = commit(folder, {"jobs/a.yaml": "1"})
    stream = []

    def add(branch: str, number: int, origin: str, change: str) -> None:
        date = f"{1_800_000_000 + number} +0000"
        stream.append(
            f"commit refs/heads/{branch}\nmark :{number}\ncommitter x <x@y> {date}\ndata 1\nx\n{origin}{change}\n"
        )

    for number in range(1, 180, 3):
        base = first if number == 1 else f":{number - 1}"
        b, c = (f"M 100644 inline jobs/{name}.yaml\ndata 3\n{number:03}\n" for name in "bc")
        add("side", number, f"from {base}\n", b)
        add("main", number + 1, f"from {base}\n", c)
        add("main", number + 2, f"from :{number + 1}\nmerge :{number}\n", b)
    (folder / "stream").write_text("".join(stream))
    git(folder, "config", "alias.import", "!git fast-import --quiet < stream")
    git(folder, "import")
    return {"a": first, "b": git(folder, "rev-parse", "side"), "c": git(folder, "rev-parse", "main^1")}


STORIES = [_linear, _restored, _merged, _kept_by_a_merge, _changed_in_a_merge, _long_history]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.strip("_"))
def test_last_changed_names_the_commit_that_made_a_file_what_it_is(
    repo: Repo, git: Git, commit: Commit, story: Callable[[Path, Git, Commit], dict[str, str]]
) -> None:
    folder = repo({"README.md": ""})
    git(folder, "config", "log.showRoot", "false")
    git(folder, "config", "log.showSignature", "true")

    expected = story(folder, git, commit)

    assert _read(folder).last_changed == {f"jobs/{name}.yaml": changed_by for name, changed_by in expected.items()}


def test_a_shallow_clone_does_not_know_who_changed_what_is_older(
    work: Path, remote: Path, git: Git, commit: Commit
) -> None:
    """Where its history ends everything looks new: a status that said so would change with each push."""
    commit(work, {"jobs/b.yaml": "1"})
    last = commit(work, {"jobs/c.yaml": "1"})
    git(work, "push", "--quiet")
    git(work.parent, "clone", "--quiet", "--depth=2", f"file://{remote}", "two")
    git(work.parent, "clone", "--quiet", "--depth=1", f"file://{remote}", "one")
    one, two = _read(work.parent / "one"), _read(work.parent / "two")

    assert one.files == two.files == _read(work).files
    assert one.last_changed == {}
    assert two.last_changed == {"jobs/c.yaml": last}
