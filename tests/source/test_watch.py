from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.errors import SourceError
from reconciler.source.clone import open_repository
from reconciler.source.publish import publish
from reconciler.source.repository import Repository
from reconciler.source.revision import read_revision
from reconciler.source.watch import watch_commits, watch_files

Git = Callable[..., str]
Commit = Callable[..., str]
Start = Callable[..., "Wakes"]
SOON = 10.0
QUIET = 0.3
AFTERMATH = 0.15


class Wakes:
    """What a watch yields, as it comes."""

    def __init__(self, watch: Iterator[None]) -> None:
        """Watch in a thread, and wait until it has begun."""
        self._queue: queue.Queue[None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, args=(watch,))
        self._thread.start()
        self.wait()

    def _run(self, watch: Iterator[None]) -> None:
        for wake in watch:
            self._queue.put(wake)

    def wait(self) -> None:
        """Wait for a wake-up, and for those that the same change may bring."""
        self._queue.get(timeout=SOON)
        self.count(AFTERMATH)

    def count(self, seconds: float = QUIET) -> int:
        """Count wake-ups until there was none for a while."""
        count = 0
        while True:
            try:
                self._queue.get(timeout=seconds)
            except queue.Empty:
                return count
            count += 1

    def join(self) -> None:
        """Wait for the watch to end."""
        self._thread.join(SOON)
        assert not self._thread.is_alive()


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Watch a repository until the test ends."""
    stop = threading.Event()
    running: list[Wakes] = []
    opened: list[Repository] = []

    def begin(folder: Path, *, remote: str | None = None, interval: float = 3600) -> Wakes:
        repository = Repository(folder)
        opened.append(repository)
        running.append(
            Wakes(watch_commits(repository, remote=remote, status_branch="job-status", interval=interval, stop=stop))
        )
        return running[-1]

    yield begin
    stop.set()
    for wakes in running:
        wakes.join()
    for repository in opened:
        repository.close()


def test_wakes_for_each_way_in_which_head_moves(work: Path, git: Git, commit: Commit, start: Start) -> None:
    """Also for a commit that changes no file of the work tree, on a branch in a new folder, and for a detached HEAD."""
    wakes = start(work)

    commit(work, {"jobs/train.yaml": "run: x\n"})
    wakes.wait()
    git(work, "checkout", "--quiet", "-b", "team/feature")
    wakes.wait()
    git(work, "commit", "--quiet", "--allow-empty", "--message", "x")
    wakes.wait()
    git(work, "checkout", "--quiet", "--detach")
    wakes.wait()


def test_wakes_in_a_linked_work_tree_and_in_a_bare_repository(work: Path, remote: Path, git: Git, start: Start) -> None:
    tree = work.parent / "linked"
    git(work, "worktree", "add", "--quiet", str(tree))
    linked, bare = start(tree), start(remote)

    git(tree, "commit", "--quiet", "--allow-empty", "--message", "x")
    linked.wait()
    git(tree, "push", "--quiet", "../remote.git", "HEAD")
    bare.wait()


def test_sleeps_through_what_is_not_a_commit(work: Path, git: Git, start: Start) -> None:
    """Our own status, the index, and what is merely fetched."""
    wakes = start(work)

    with Repository(work) as repository:
        publish(repository, "job-status", None, lambda _: {"a": b"1"}, "status")
        publish(repository, "job-status", "origin", lambda _: {"a": b"1"}, "status")
    (work / "jobs/new.yaml").write_text("")
    git(work, "add", "--all")
    git(work, "fetch", "--quiet")

    assert wakes.count() == 0


def test_wakes_when_a_branch_of_the_remote_moves(
    work: Path, tmp_path: Path, git: Git, commit: Commit, start: Start
) -> None:
    git(tmp_path, "clone", "--quiet", "remote.git", "other")
    wakes = start(tmp_path / "other", remote="origin", interval=0.2)

    git(work, "push", "--quiet", "origin", "main:job-status")
    assert wakes.count() == 0
    commit(work, {"jobs/train.yaml": "run: x\n"})
    git(work, "push", "--quiet")
    wakes.wait()

    assert wakes.count() == 0


def test_wakes_while_the_remote_cannot_be_asked(work: Path, remote: Path, start: Start) -> None:
    """So that the pass reports it; afterwards there is quiet again."""
    wakes = start(work, remote="origin", interval=2 * AFTERMATH)

    remote.rename(remote.with_suffix(".away"))
    wakes.wait()
    wakes.wait()
    remote.with_suffix(".away").rename(remote)
    wakes.wait()

    assert wakes.count(4 * AFTERMATH) == 0


def test_a_clone_that_is_read_does_not_wake_its_own_watch(remote: Path, tmp_path: Path) -> None:
    """A pass fetches, and would otherwise follow itself for ever."""
    stop = threading.Event()
    with open_repository(f"file://{remote}", tmp_path / "cache") as clone:
        wakes = Wakes(watch_commits(clone, remote="origin", status_branch="x", interval=0.3, stop=stop))
        for _ in range(3):
            read_revision(clone)

        assert wakes.count() == 0
        stop.set()
        wakes.join()


def test_what_cannot_be_watched_is_an_error(work: Path) -> None:
    stop = threading.Event()
    with Repository(work) as repository:
        (work / ".git").rename(work / "away")
        watch = watch_commits(repository, remote=None, status_branch="x", interval=1, stop=stop)

        with pytest.raises(SourceError, match="can't be watched"):
            next(watch)


def test_files_that_jobs_take_wake_as_their_task_files_do(work: Path) -> None:
    """A folder, a file, what is not there yet; only those, and after a look that finds others only the others."""
    for folder in ("jobs", "train/deep", "train/.venv", "conf", "else"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "conf/one.txt").touch()
    sources, stop = {"train", "conf/one.txt", "late/new"}, threading.Event()
    wakes = Wakes(watch_files(work, stop, sources))
    for path in ("train/a", "train/deep/b", "conf/one.txt", "late/new/c", "jobs/x.yaml", "reconciler.yaml"):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("x")
        wakes.wait()
    for path in ("conf/two.txt", "else/d", "train/.venv/e", "README", "jobs/notes.txt", ".git/f"):
        (work / path).write_text("x")

    assert wakes.count() == 0
    sources.clear()
    sources.add("else")
    wakes.wait()
    (work / "else/d").write_text("y")
    wakes.wait()
    (work / "train/a").write_text("y")
    assert wakes.count() == 0
    sources.add("")
    wakes.wait()
    (work / "README").write_text("y")
    wakes.wait()
    stop.set()
    wakes.join()
