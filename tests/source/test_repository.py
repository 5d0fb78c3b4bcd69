from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import SourceError
from reconciler.source.repository import Repository, error_line, redact

Git = Callable[..., str]


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _ends(pid: int) -> bool:
    """Tell whether a process ends within seconds; one that only waits to be reaped has ended."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("place", ["", "jobs", ".git"])
def test_finds_the_repository_around_a_folder(work: Path, place: str) -> None:
    """Any folder of a repository stands for it; inside .git there is no work tree to speak of."""
    with Repository(work / place) as repository:
        found = repository.git_dir, repository.common_dir, repository.work_tree

    assert found == (work / ".git", work / ".git", None if place == ".git" else work)


def test_finds_bare_repositories_and_linked_work_trees(work: Path, remote: Path, tmp_path: Path, git: Git) -> None:
    git(work, "worktree", "add", "-q", str(tmp_path / "linked"))

    with Repository(remote) as bare, Repository(tmp_path / "linked") as linked:
        assert (bare.git_dir, bare.work_tree) == (remote, None)
        assert linked.work_tree == tmp_path / "linked"
        assert (linked.git_dir, linked.common_dir) == (work / ".git/worktrees/linked", work / ".git")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        pytest.param("nowhere", "no such folder; --repo names a folder", id="no-folder"),
        pytest.param("plain", "not in a git repository; run `git init` there", id="no-repository"),
    ],
)
def test_says_why_there_is_no_repository(tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "plain").mkdir()

    with pytest.raises(SourceError, match=message):
        Repository(tmp_path / place)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_says_how_to_trust_the_repository_of_another_user(work: Path) -> None:
    """Containers of CI often run as another user than the one who checked out."""
    os.chown(work, 12345, 12345)
    os.chown(work / ".git", 12345, 12345)

    with pytest.raises(SourceError, match=r"git config --global --add safe\.directory"):
        Repository(work)


def test_returns_exact_bytes_and_takes_exact_input(work: Path) -> None:
    content = b"\r\n\0\xff\n\n"

    with Repository(work) as repository:
        blob = repository.run("hash-object", "-w", "--stdin", input=content).decode().strip()

        assert repository.run("cat-file", "blob", blob) == content


def test_a_failure_is_one_line_without_credentials(work: Path) -> None:
    with Repository(work) as repository, pytest.raises(SourceError) as raised:
        repository.run("ls-remote", "http://me:hunter2@127.0.0.1:1/x.git")

    assert str(raised.value).startswith("git ls-remote: unable to access 'http://127.0.0.1:1/x.git/'")
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("see https://me:pw@host/x", "see https://host/x", id="user-and-password"),
        pytest.param("'https://token@host/x'", "'https://host/x'", id="token"),
        pytest.param("https://me:p@ss@host/x", "https://host/x", id="at-sign-in-password"),
        pytest.param("https://me/you:pw@host/x", "https://***@host/x", id="slash-in-user"),
        pytest.param("https://me:p/w@host/x", "https://***@host/x", id="slash-in-password"),
        pytest.param("https://host/a@b", "https://***@b", id="at-sign-in-path"),
        pytest.param("'https://host/x?token=a&y=b' too", "'https://host/x?***' too", id="token-in-query"),
        pytest.param("what? https://host/x", "what? https://host/x", id="no-query"),
        pytest.param("git@host:x", "git@host:x", id="scp-like"),
    ],
)
def test_redacts_credentials_in_urls(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        pytest.param("warning: w\nfatal: no\n", "no", id="drops-warnings-and-prefix"),
        pytest.param(
            "Permission denied\nfatal: Could not read\n\nPlease", "Permission denied; Could not read", id="two"
        ),
        pytest.param("", "failed without a word", id="silent"),
        pytest.param("x" * 500, "x" * 199 + "…", id="long"),
    ],
)
def test_tells_a_complaint_in_one_line(stderr: str, expected: str) -> None:
    assert error_line(stderr) == expected


def test_ignores_the_variables_that_name_another_repository(
    work: Path, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of git has GIT_DIR set, `git rebase --exec` also GIT_INDEX_FILE; we mean the folder that we were given."""
    for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(remote))

    with Repository(work) as repository:
        assert repository.git_dir == work / ".git"
        assert repository.run("ls-files") == b"jobs/train.yaml\n"
        assert repository.run("status", "--porcelain") == b""


def test_runs_no_hook_of_the_user(work: Path, tmp_path: Path) -> None:
    _script(work / ".git/hooks/reference-transaction", f"touch '{tmp_path}/ran'")

    with Repository(work) as repository:
        repository.run("update-ref", "refs/heads/other", "HEAD")

    assert not (tmp_path / "ran").exists()


def test_refuses_urls_that_run_commands(work: Path, tmp_path: Path, git: Git) -> None:
    """Not even where the repository's own settings allow it."""
    git(work, "config", "protocol.ext.allow", "always")

    with Repository(work) as repository, pytest.raises(SourceError, match="transport 'ext' not allowed"):
        repository.run("ls-remote", f"ext::sh -c touch% {tmp_path}/ran")

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, "-oBatchMode=yes", id="batch-mode"),
        pytest.param({"core.sshCommand": "ssh -i key"}, "-i key", id="the-repository's-command"),
    ],
)
def test_ssh_never_asks(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: Git, *, settings: dict[str, str], expected: str
) -> None:
    _script(tmp_path / "bin/ssh", f"echo \"$@\" > '{tmp_path}/arguments'; exit 255")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    for name, value in settings.items():
        git(work, "config", name, value)

    with Repository(work) as repository, pytest.raises(SourceError):
        repository.run("ls-remote", "ssh://host/x")

    assert (tmp_path / "arguments").read_text().startswith(expected)


def _hanging_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    monkeypatch.setenv("GIT_SSH_COMMAND", str(_script(tmp_path / "ssh", f"echo $$ > '{tmp_path}/pid'; sleep 60")))

    def pid() -> int:
        while not (text := (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""):
            time.sleep(0.01)
        return int(text)

    return pid


def test_a_deadline_ends_git_and_its_children(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = _hanging_ssh(tmp_path, monkeypatch)

    with Repository(work) as repository, pytest.raises(SourceError, match=r"git ls-remote: no answer within 0\.5 s"):
        repository.run("ls-remote", "ssh://host/x", timeout=0.5)

    assert _ends(pid())


def test_closing_ends_what_another_thread_waits_for(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = _hanging_ssh(tmp_path, monkeypatch)
    ended: list[int] = []
    with Repository(work) as repository:
        waiting = threading.Thread(
            target=lambda: ended.append(repository.execute("ls-remote", "ssh://host/x").returncode)
        )
        waiting.start()
        process = pid()
    waiting.join(10)

    assert ended == [-15]
    assert _ends(process)


def test_leaves_no_descriptor_and_no_child(work: Path) -> None:
    """GitPython's own objects would keep a `cat-file` and six descriptors each."""
    with Repository(work) as repository:
        repository.run("rev-parse", "HEAD")
    before, children = len(os.listdir("/proc/self/fd")), _children()  # noqa: PTH208

    kept = []
    for _ in range(50):
        with Repository(work) as repository:
            repository.run("cat-file", "--batch", input=b"HEAD\n")
            kept.append(repository)

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert _children() <= children


def _children() -> set[str]:
    """Name our child processes, those of other tests in this worker too."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}
