from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import SourceError
from reconciler.source.clone import is_url, open_repository
from reconciler.source.publish import publish
from reconciler.source.record import read_record
from reconciler.source.remote import is_superseded, ls_remote, owner_hash, source_tip
from reconciler.source.repository import Repository
from reconciler.source.revision import read_revision

Git = Callable[..., str]
Commit = Callable[..., str]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Name the folder of clones, which is not there yet."""
    return tmp_path / "cache" / "repos"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param("https://host/x", True, id="https"),
        pytest.param("git@host:team/x", True, id="scp-like"),
        pytest.param("/srv/x", False, id="path"),
        pytest.param(".", False, id="here"),
        pytest.param("a/b:c", False, id="colon-in-a-path"),
        pytest.param("with:colon", False, id="colon-in-an-existing-folder"),
    ],
)
def test_tells_a_url_from_a_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    expected: bool,  # noqa: FBT001
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "with:colon").mkdir()

    assert is_url(place) == expected


def test_a_folder_is_opened_where_it_is(work: Path, cache: Path) -> None:
    with open_repository(str(work), cache) as repository:
        assert repository.work_tree == work

    assert not cache.exists()


def test_a_url_is_read_as_it_stands_now(work: Path, remote: Path, cache: Path, git: Git, commit: Commit) -> None:
    """Each opening fetches: the default branch, the others by their names, tags, and nothing that is gone."""
    url = f"file://{remote}"
    git(work, "push", "--quiet", "origin", "main:refs/heads/a", "main:refs/tags/v1")
    with open_repository(url, cache) as repository:
        first = read_revision(repository)
        assert (first.branch, first.remote, first.dirty) == ("main", "origin", ())
        assert read_revision(repository, "a").branch == "a"
        assert read_revision(repository, "v1").commit == first.commit
    git(work, "push", "--quiet", "origin", ":a", "main:refs/heads/a/b", "main:refs/heads/trunk")
    git(remote, "symbolic-ref", "HEAD", "refs/heads/trunk")
    second = commit(work, {"jobs/new.yaml": "run: new\n"})
    git(work, "push", "--quiet", "origin", "main:trunk")

    with open_repository(url, cache) as repository:
        revision = read_revision(repository)
        tip = source_tip(repository, revision, source_branch=None, environ={})

        assert (revision.commit, revision.branch, tip) == (second, "trunk", second)
        assert is_superseded(repository, first.commit, tip)
        assert read_revision(repository, "a/b").commit == first.commit
        assert owner_hash(repository, "origin") == owner_hash(Repository(work), "origin")


def test_a_loop_sees_what_is_pushed_while_the_clone_is_open(
    work: Path, remote: Path, cache: Path, git: Git, commit: Commit
) -> None:
    """Each read is of the remote as it stands, except of a commit that is named by its hash."""
    with open_repository(f"file://{remote}", cache) as repository:
        first = read_revision(repository).commit
        second = commit(work, {"jobs/new.yaml": "run: new\n"})
        git(work, "push", "--quiet")

        assert read_revision(repository).commit == second
        remote.rename(remote.with_suffix(".away"))
        assert read_revision(repository, first).commit == first
        with pytest.raises(SourceError, match="git fetch"):
            read_revision(repository)


def test_an_old_clone_is_not_passed_off_as_new(remote: Path, cache: Path) -> None:
    with open_repository(f"file://{remote}", cache):
        pass
    remote.rename(remote.with_suffix(".away"))

    with pytest.raises(SourceError, match="git fetch"), open_repository(f"file://{remote}", cache):
        pass


def test_the_status_is_published_from_a_clone(remote: Path, cache: Path, git: Git) -> None:
    """And a branch of its own, which is never pushed, survives the next fetch."""
    for content in (b"1", b"2"):
        with open_repository(f"file://{remote}", cache) as repository:
            for branch, place in (("job-status", "origin"), ("job-status-local", None)):
                publish(repository, branch, place, lambda _, c=content: {"a": c}, "status")  # type: ignore[misc]

    with open_repository(f"file://{remote}", cache) as repository:
        assert git(repository.folder, "rev-list", "--count", "job-status-local") == "2"
        assert git(remote, "rev-list", "--count", "job-status") == "2"
        assert "refs/heads/job-status-local" not in ls_remote(repository, "origin")
        assert read_record(repository, "job-status", "origin").files == {"a": b"2"}


def test_two_processes_have_two_clones_and_later_ones_use_them_again(remote: Path, cache: Path) -> None:
    url = f"file://{remote}"
    with open_repository(url, cache) as first, open_repository(url, cache) as second:
        assert first.folder != second.folder
    with open_repository(url, cache) as third:
        assert third.folder == first.folder


def test_a_clone_is_opened_where_git_is_told_to_find_no_bare_repository(
    remote: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COUNT": "1", "KEY_0": "safe.bareRepository", "VALUE_0": "explicit"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)

    with open_repository(f"file://{remote}", cache) as repository:
        assert read_revision(repository).branch == "main"


def test_other_users_cannot_read_the_url(remote: Path, cache: Path) -> None:
    """It may hold a token."""
    with open_repository(f"file://{remote}", cache) as repository:
        assert repository.folder.stat().st_mode & 0o077 == 0


def test_locks_that_a_killed_predecessor_left_are_cleared(remote: Path, cache: Path, work: Path, git: Git) -> None:
    """Nobody else would: the cache outlives its container."""
    with open_repository(f"file://{remote}", cache) as repository:
        folder = repository.folder
    for lock in ("config.lock", "HEAD.lock", "packed-refs.lock", "shallow.lock", "refs/remotes/origin/new.lock"):
        (folder / lock).touch()
    git(work, "push", "--quiet", "origin", "main:new")

    with open_repository(f"file://{remote}", cache) as repository:
        assert read_revision(repository, "new").branch == "new"


def test_a_clone_is_taken_over_only_when_the_last_child_is_gone(
    remote: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our process may be killed while its git still writes."""
    hanging = tmp_path / "ssh"
    hanging.write_text(f"#!/bin/sh\necho $$ > '{tmp_path}/pid'\nexec sleep 60\n")
    hanging.chmod(0o755)
    script = f"""
from pathlib import Path
from reconciler.source.clone import open_repository
with open_repository("file://{remote}", Path({str(cache)!r})) as repository:
    print(repository.folder, flush=True)
    repository.run("ls-remote", "ssh://host/x")
"""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("GIT_SSH_COMMAND", str(hanging))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            os.sched_yield()
        process.kill()

    with open_repository(f"file://{remote}", cache) as repository:
        assert repository.folder != theirs
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
