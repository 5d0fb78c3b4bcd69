"""The status branch: reading it, and writing it against every kind of remote and rival."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import PublishError, SourceError, UsageError
from reconciler.source.commit import write_commit
from reconciler.source.publish import publish
from reconciler.source.record import Record, read_record
from reconciler.source.remote import ls_remote
from reconciler.source.repository import Repository

Git = Callable[..., str]
Commit = Callable[..., str]
Repo = Callable[..., Path]
Files = Mapping[str, bytes | None]
BRANCH = "job-status"


def _publish(folder: Path, files: Files | Callable[[Record], Files], *, remote: str | None = "origin") -> str | None:
    build = files if callable(files) else lambda _record: files
    with Repository(folder) as repository:
        return publish(repository, BRANCH, remote, build, "status", pause=lambda _failures: None)


class _Tries:
    """A build that counts how often it is asked."""

    count = 0

    def __call__(self, _record: Record) -> Files:
        self.count += 1
        return {"a": b"1"}


def _record(folder: Path, *, remote: str | None = "origin") -> Record:
    with Repository(folder) as repository:
        return read_record(repository, BRANCH, remote)


def _hook(remote: Path, name: str, script: str) -> None:
    hook = remote / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)


# What is written


@pytest.mark.parametrize("place", ["origin", None])
def test_publishes_files_and_reads_them_back(work: Path, git: Git, place: str | None) -> None:
    """The branch shares nothing with people's branches, and is ours by name."""
    files = {"jobs/train.yaml": b"state: RUNNING\n", "timeline.svg": b"\r\n\0\xff"}

    commit = _publish(work, files, remote=place)

    where = work.parent / "remote.git" if place else work
    assert git(where, "rev-parse", BRANCH) == commit
    assert git(where, "log", "--format=%an <%ae> %cn <%ce> %s", BRANCH) == (
        "Ada Author <ada@example.com> Ada Author <ada@example.com> status"
    )
    assert git(where, "ls-tree", "-r", "--format=%(objectmode) %(path)", BRANCH).splitlines() == [
        "100644 jobs/train.yaml",
        "100644 timeline.svg",
    ]
    assert _record(work, remote=place) == Record(commit, files)
    assert git(work, "branch", "--format=%(refname:short)") == ("main" if place else f"{BRANCH}\nmain")


def test_the_author_is_ours_unless_the_environment_names_one(
    work: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "CI <robot>")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
    git(work, "config", "user.name", "Somebody Else")

    commit = _publish(work, {"a": b""})

    assert git(work, "log", "-1", "--format=%an <%ae> %at, %cn <%ce>", str(commit)) == (
        "CI robot <job-reconciler@localhost> 1767323045, Job Reconciler <job-reconciler@localhost>"
    )


def test_the_message_may_depend_on_what_was_recorded(work: Path, git: Git) -> None:
    with Repository(work) as repository:
        for content in (b"1", b"2"):
            publish(repository, BRANCH, "origin", lambda _, c=content: {"a": c}, lambda r: f"after {len(r.files)}\n\n…")  # type: ignore[misc]

    assert git(work.parent / "remote.git", "log", "--format=%B", BRANCH).split() == [
        "after",
        "1",
        "…",
        "after",
        "0",
        "…",
    ]


@pytest.mark.parametrize("place", ["origin", None])
def test_no_change_is_no_commit(work: Path, git: Git, place: str | None) -> None:
    """Removing what is not there is no change either; and a commit only holds what changed."""
    first = _publish(work, {"a": b"1", "b": b"1"}, remote=place)

    assert _publish(work, {"a": b"1", "c": None}, remote=place) is None
    second = _publish(work, {"a": b"2", "b": b"1"}, remote=place)

    assert git(work, "diff-tree", "-r", "--name-status", str(first), str(second)) == "M\ta"
    assert _record(work, remote=place).tip == second


def test_none_removes_a_file_and_what_others_put_there_stays(
    work: Path, git: Git, commit: Commit, tmp_path: Path
) -> None:
    _publish(work, {"jobs/a.yaml": b"1", "jobs/b.yaml": b"1"})
    git(tmp_path, "clone", "--quiet", "--branch", BRANCH, "remote.git", "other")
    commit(tmp_path / "other", {"notes/mine.md": "mine", "jobs/a.yaml": "edited"})
    (tmp_path / "other/link").symlink_to("/etc/passwd")
    theirs = commit(tmp_path / "other", {})
    git(tmp_path / "other", "push", "--quiet")

    commit_of_ours = _publish(work, {"jobs/a.yaml": b"1", "jobs/b.yaml": None})

    assert _record(work).files == {"jobs/a.yaml": b"1", "notes/mine.md": b"mine"}
    assert git(work, "rev-parse", f"{commit_of_ours}^") == theirs
    assert git(work, "ls-tree", "--name-only", f"{commit_of_ours}").splitlines() == ["jobs", "link", "notes"]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20).filter(
            lambda name: name.lower() not in {".", "..", ".git"} and not name.lower().startswith("git~")
        ),
        st.binary(max_size=50),
        max_size=4,
    ),
    message=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
def test_any_name_and_content_comes_back(remote: Path, files: dict[str, bytes], message: str) -> None:
    with Repository(remote) as repository:
        commit = write_commit(repository, None, files, message)
        repository.run("update-ref", f"refs/heads/{BRANCH}", commit)

        assert read_record(repository, BRANCH, None) == Record(commit, files)
        assert repository.run("cat-file", "commit", commit).partition(b"\n\n")[2].decode() == message


# The record


def test_absence_is_proven_by_the_remote(work: Path, git: Git) -> None:
    """A branch that only stands here was never published; one that is gone there is gone."""
    git(work, "branch", BRANCH)
    assert _record(work) == Record(None, {})

    _publish(work, {"a": b"1"})
    git(work, "push", "--quiet", "origin", f":{BRANCH}")

    assert _record(work) == Record(None, {})
    assert _publish(work, {"a": b"1"}) is not None


def test_an_unreachable_remote_is_no_absence(work: Path, remote: Path) -> None:
    remote.rename(remote.with_suffix(".away"))

    with pytest.raises(SourceError, match="git ls-remote"):
        _record(work)


def test_fetches_only_what_is_not_here(work: Path, remote: Path, tmp_path: Path, git: Git) -> None:
    """One `ls_remote` of the pass is enough, and what we wrote ourselves is here already."""
    _publish(work, {"a": b"1"})
    git(tmp_path, "clone", "--quiet", "--single-branch", f"file://{remote}", "other")
    with Repository(work) as repository:
        refs = ls_remote(repository, "origin")
        remote.rename(remote.with_suffix(".away"))
        assert read_record(repository, BRANCH, "origin", refs).files == {"a": b"1"}
        remote.with_suffix(".away").rename(remote)
    with Repository(tmp_path / "other") as other:
        before = git(tmp_path / "other", "for-each-ref")
        assert read_record(other, BRANCH, "origin", refs).files == {"a": b"1"}

    added = set(git(tmp_path / "other", "for-each-ref").splitlines()) - set(before.splitlines())
    assert [line.split()[-1] for line in added] == [f"refs/reconciler/{BRANCH}"]
    assert not (tmp_path / "other/.git/FETCH_HEAD").exists()


def test_reads_the_branch_that_moved_between_asking_and_fetching(work: Path, tmp_path: Path, git: Git) -> None:
    """Even where it was replaced, so that the tip that was named exists no more."""
    _publish(work, {"a": b"1"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{tmp_path}/remote.git", "other")
    with Repository(tmp_path / "other") as other:
        outdated = {f"refs/heads/{BRANCH}": "1" * 40}

        assert read_record(other, BRANCH, "origin", outdated).files == {"a": b"1"}


@pytest.mark.parametrize("branch", ["", "a..b", "a b", "x.lock", "refs/heads/"])
def test_a_branch_must_have_a_name_that_git_allows(work: Path, branch: str) -> None:
    with Repository(work) as repository, pytest.raises(UsageError, match="can't be the name of a branch"):
        read_record(repository, branch, "origin")


@pytest.mark.parametrize("checkout", ["main", "--detach"])
def test_the_jobs_own_branch_is_not_the_status_branch(work: Path, git: Git, checkout: str) -> None:
    """Its job files would be taken for documents, and replaced."""
    git(work, "checkout", "--quiet", checkout)

    with Repository(work) as repository, pytest.raises(SourceError, match="is on 'main', which is to be the status"):
        read_record(repository, "main", "origin")


def test_a_broken_object_store_is_no_empty_record(work: Path, git: Git) -> None:
    commit = _publish(work, {"a": b"1"})
    blob = git(work, "rev-parse", f"{commit}:a")
    (work / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(SourceError, match="partial: git lacks the contents of a"):
        _record(work)


# What stays untouched


def _state(folder: Path, git: Git) -> tuple[str, dict[Path, bytes]]:
    ours = (folder / ".git/objects", folder / ".git/refs/reconciler", folder / ".git/refs/heads/job-status")
    files = (p for p in folder.rglob("*") if p.is_file() and not any(p.is_relative_to(place) for place in ours))
    kept = {p: p.read_bytes() for p in files if not p.name.startswith("job-status")}
    return git(folder, "--no-optional-locks", "status", "--porcelain"), kept


@pytest.mark.parametrize("place", ["origin", None])
def test_work_tree_index_head_and_locks_stay_as_they_are(work: Path, git: Git, place: str | None) -> None:
    """Byte for byte, with a dirty work tree, a half-staged index and the lock of a crashed git in place."""
    (work / "jobs/train.yaml").write_text("run: staged\n")
    git(work, "add", "jobs/train.yaml")
    (work / "jobs/train.yaml").write_text("run: dirty\n")
    (work / "jobs/untracked.yaml").write_text("")
    git(work, "config", "core.autocrlf", "true")
    for lock in ("index.lock", "HEAD.lock", "packed-refs.lock", "config.lock"):
        (work / ".git" / lock).touch()
    before = _state(work, git)

    assert _publish(work, {"a": b"1\r\n2\n"}, remote=place) is not None
    assert _publish(work, {"a": b"1\n2\n"}, remote=place) is not None

    assert _state(work, git) == before
    assert _record(work, remote=place).files == {"a": b"1\n2\n"}


def test_the_user_s_settings_do_not_matter(work: Path, tmp_path: Path, git: Git) -> None:
    """No hook of theirs runs, nothing is signed, no other branch or tag is pushed along."""
    ran = tmp_path / "ran"
    for hook in ("pre-push", "pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        _hook(work / ".git", hook, f"touch '{ran}'; exit 1")
    for key, value in {
        "core.hooksPath": str(work / ".git/hooks"),
        "commit.gpgSign": "true",
        "push.gpgSign": "true",
        "gpg.program": "false",
        "push.default": "matching",
        "push.followTags": "true",
        "push.pushOption": "ci.skip",
        "remote.origin.push": "refs/heads/*:refs/heads/*",
        "remote.origin.mirror": "true",
    }.items():
        git(work, "config", key, value)
    shutil.copy(work / ".git/refs/heads/main", work / ".git/refs/heads/private")

    _publish(work, {"a": b"1"})

    assert not ran.exists()
    assert git(work.parent / "remote.git", "for-each-ref", "--format=%(refname:short)").split() == [BRANCH, "main"]


def test_the_push_url_is_where_the_status_lives(work: Path, tmp_path: Path, git: Git) -> None:
    """Jobs may be fetched from one repository, and pushed to a fork of it."""
    git(tmp_path, "init", "--quiet", "--bare", "fork.git")
    git(work, "config", "remote.origin.pushurl", str(tmp_path / "fork.git"))

    first, second = _publish(work, {"a": b"1"}), _publish(work, {"a": b"2"})

    assert git(tmp_path / "fork.git", "rev-parse", BRANCH, f"{BRANCH}^").split() == [second, first]
    assert _record(work) == Record(second, {"a": b"2"})


def test_publishes_from_a_shallow_detached_checkout(work: Path, remote: Path, tmp_path: Path, git: Git) -> None:
    """As CI has it: the history of the status branch is neither needed nor fetched."""
    for number in range(3):
        last = _publish(work, {"a": b"%d" % number})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{remote}", "ci")
    git(tmp_path / "ci", "checkout", "--quiet", "--detach")

    commit = _publish(tmp_path / "ci", {"b": b"1"})

    assert git(remote, "rev-parse", f"{commit}^") == last
    assert git(tmp_path / "ci", "rev-list", "--count", str(commit)) == "2"
    assert _record(tmp_path / "ci").files == {"a": b"2", "b": b"1"}


def test_a_branch_in_use_is_left_alone(work: Path, git: Git, tmp_path: Path) -> None:
    """Moving a branch under somebody's work tree would make all its files look changed."""
    _publish(work, {"a": b"1"}, remote=None)
    git(work, "worktree", "add", "--quiet", str(tmp_path / "looking at it"), BRANCH)

    with pytest.raises(PublishError, match=r"it is checked out in .*looking at it; allow this account"):
        _publish(work, {"a": b"2"}, remote=None)

    assert git(tmp_path / "looking at it", "status", "--porcelain") == ""


# Rivals


@pytest.mark.parametrize("place", ["origin", None])
def test_who_loses_a_race_builds_again_on_the_new_tip(work: Path, tmp_path: Path, git: Git, place: str | None) -> None:
    seen: list[dict[str, bytes]] = []

    def build(record: Record) -> Files:
        seen.append(record.files)
        if len(seen) <= 3:
            _publish(rival, {f"rival-{len(seen)}": b"1"}, remote=place)
        return {"ours": b"%d" % len(record.files)}

    git(tmp_path, "clone", "--quiet", "remote.git", "rival")
    rival = tmp_path / "rival" if place else work
    commit = _publish(work, build, remote=place)

    assert [len(files) for files in seen] == [0, 1, 2, 3]
    assert _record(work, remote=place) == Record(
        commit, {"ours": b"3", "rival-1": b"1", "rival-2": b"1", "rival-3": b"1"}
    )


def test_a_forced_push_by_others_is_built_upon(work: Path, tmp_path: Path, git: Git, commit: Commit) -> None:
    """Whoever rewrote the branch meant it: we write our files on what is there now."""
    _publish(work, {"a": b"1"})
    git(tmp_path, "init", "--quiet", "other")
    theirs = commit(tmp_path / "other", {"b": "2"})

    def build(_record: Record) -> Files:
        git(
            tmp_path / "other",
            "push",
            "--quiet",
            "--force",
            str(tmp_path / "remote.git"),
            f"{theirs}:refs/heads/{BRANCH}",
        )
        return {"a": b"2"}

    ours = _publish(work, build)

    assert git(work, "rev-parse", f"{ours}^") == theirs
    assert _record(work).files == {"a": b"2", "b": b"2"}


@pytest.mark.parametrize(("place", "times"), [("origin", 8), (None, 8)])
def test_two_publishers_lose_nothing(work: Path, remote: Path, git: Git, *, place: str | None, times: int) -> None:
    """Each writes many times to one branch, from clones of their own or in one repository."""
    git(work.parent, "clone", "--quiet", "remote.git", "other")
    folders = {"a": work, "b": work.parent / "other" if place else work}
    commits: list[str | None] = []

    def write(name: str) -> None:
        with Repository(folders[name]) as repository:
            for number in range(times):
                files = {f"{name}-{number}": b"1"}
                commits.append(publish(repository, BRANCH, place, lambda _, f=files: f, "status"))  # type: ignore[misc]

    writers = [threading.Thread(target=write, args=(name,)) for name in folders]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    history = git(remote if place else work, "rev-list", "--first-parent", BRANCH).split()
    assert sorted(history) == sorted(str(commit) for commit in commits)
    assert _record(work, remote=place).files.keys() == {
        f"{name}-{number}" for name in folders for number in range(times)
    }


def test_a_lock_on_the_server_is_waited_for(work: Path, remote: Path) -> None:
    lock = remote / f"refs/heads/{BRANCH}.lock"
    lock.touch()
    pauses: list[int] = []

    def pause(failures: int) -> None:
        pauses.append(failures)
        if failures == 4:
            lock.unlink()

    with Repository(work) as repository:
        assert publish(repository, BRANCH, "origin", lambda _: {"a": b"1"}, "status", pause=pause) is not None

    assert pauses == [1, 2, 3, 4]


def test_a_lock_that_stays_ends_in_an_error_and_is_not_removed(work: Path, git: Git) -> None:
    """It may be the lock of somebody who is at work."""
    git(work, "config", "core.filesRefLockTimeout", "0")
    lock = work / f".git/refs/heads/{BRANCH}.lock"
    lock.touch()
    tries = _Tries()

    with pytest.raises(PublishError, match="in 20 tries others were faster, or a lock file was left behind"):
        _publish(work, tries, remote=None)

    assert tries.count == 20
    assert lock.exists()


# Refusals


def _declining_hook(remote: Path, _git: Git) -> None:
    _hook(remote, "pre-receive", "echo 'error: GH006: the e-mail of the author is not known' >&2; exit 1")


def _silent_hook(remote: Path, _git: Git) -> None:
    _hook(remote, "update", "exit 1")


def _branch_in_use(remote: Path, git: Git) -> None:
    git(remote, "config", "core.bare", "false")
    git(remote, "symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")


def _branch_in_the_way(remote: Path, git: Git) -> None:
    git(remote, "update-ref", f"refs/heads/{BRANCH}/x", "main")


def _hidden_branch(remote: Path, git: Git) -> None:
    git(remote, "config", "receive.hideRefs", f"refs/heads/{BRANCH}")


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        pytest.param(
            _declining_hook, "pre-receive hook declined.*GH006: the e-mail of the author is not known", id="hook"
        ),
        pytest.param(_silent_hook, r"\[remote rejected\] \(hook declined\)", id="silent-hook"),
        pytest.param(_branch_in_use, "branch is currently checked out", id="checked-out-there"),
        pytest.param(
            _branch_in_the_way, r"failed to update ref|'refs/heads/job-status/x' exists", id="branch-in-the-way"
        ),
        pytest.param(_hidden_branch, "deny updating a hidden ref", id="hidden"),
    ],
)
def test_a_refusal_that_does_not_heal_is_reported_at_once(
    work: Path, remote: Path, git: Git, prepare: Callable[[Path, Git], None], message: str
) -> None:
    """With the server's own words and what to do, and without a second try."""
    prepare(remote, git)
    tries = _Tries()

    with pytest.raises(PublishError, match=message) as raised:
        _publish(work, tries)

    assert "not delivered to branch job-status of origin" in str(raised.value)
    assert "allow this account to write to that branch, or choose another with --status-branch" in str(raised.value)
    assert tries.count == 1
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param("Permission denied (publickey).", "Permission denied", id="ssh-key"),
        pytest.param(
            "ERROR: The key you are authenticating with has been marked as read-only.", "read-only", id="deploy-key"
        ),
        pytest.param("Host key verification failed.", "Host key verification failed", id="host-key"),
        pytest.param("ERROR: Repository not found.", "Repository not found", id="no-access"),
    ],
)
def test_a_server_that_does_not_let_us_in_is_not_asked_again(
    work: Path, tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch, *, answer: str, message: str
) -> None:
    calls = tmp_path / "calls"
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho >> '{calls}'\necho '{answer}' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    git(work, "config", "remote.origin.pushurl", "git@example.com:team/jobs.git")

    with pytest.raises(PublishError, match=message):
        _publish(work, {"a": b"1"})

    assert calls.read_text() == "\n"


@pytest.fixture
def http_server() -> Iterator[tuple[str, list[str]]]:
    """Serve a status code for every path `/<code>/...`, and remember what was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(int(self.path.split("/")[1]))
            self.send_header("WWW-Authenticate", "Basic realm=x")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("code", "message", "tries"),
    [
        pytest.param(401, "could not read Username|Authentication failed", 1, id="no-credentials"),
        pytest.param(403, "returned error: 403", 1, id="forbidden"),
        pytest.param(404, "not found", 1, id="not-found"),
        pytest.param(502, "returned error: 502.*; the next pass tries again", 3, id="bad-gateway"),
    ],
)
def test_tells_what_heals_from_what_does_not_over_http(
    work: Path, git: Git, http_server: tuple[str, list[str]], *, code: int, message: str, tries: int
) -> None:
    """And asks nobody for a password."""
    address, asked = http_server
    git(work, "remote", "set-url", "origin", f"http://me:hunter2@{address}/{code}/jobs.git")

    nothing = Record(None, {})
    with Repository(work) as repository, pytest.raises(PublishError, match=message) as raised:
        publish(repository, BRANCH, "origin", lambda _: {"a": b"1"}, "m", record=nothing, pause=lambda _: None)

    assert "hunter2" not in str(raised.value)
    assert len(asked) in {tries, 2 * tries}  # with a password, 401 is asked twice


def test_an_unreachable_server_is_tried_three_times(work: Path, git: Git) -> None:
    git(work, "config", "remote.origin.pushurl", "http://127.0.0.1:1/x.git")
    pauses: list[int] = []

    with Repository(work) as repository, pytest.raises(PublishError, match="the next pass tries again"):
        publish(repository, BRANCH, "origin", lambda _: {"a": b"1"}, "status", pause=pauses.append)

    assert pauses == [1, 2]


def test_a_push_whose_answer_was_lost_is_found_delivered(work: Path, remote: Path, git: Git) -> None:
    """The server took the commit and died before it could say so."""
    _hook(remote, "post-receive", "kill -9 $PPID")

    commit = _publish(work, {"a": b"1"})

    assert git(remote, "rev-parse", BRANCH) == commit
    assert git(remote, "rev-list", "--count", BRANCH) == "1"


@pytest.mark.parametrize("place", ["origin", None])
def test_kill_9_anywhere_is_safe(work: Path, remote: Path, git: Git, place: str | None) -> None:
    """What was published stays, nothing half-done shows, and the next one goes on."""
    script = textwrap.dedent(f"""
        from reconciler.source.publish import publish
        from reconciler.source.repository import Repository
        with Repository({str(work)!r}) as repository:
            def build(record):
                return {{"n": b"%d" % (int(record.files.get("n", b"0")) + 1)}}
            while True:
                publish(repository, {BRANCH!r}, {place!r}, build, "m")
                print(flush=True)
    """)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    for number in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.015 * number)
            process.kill()
    where = remote if place else work

    before = int(_record(work, remote=place).files["n"])
    _publish(work, {"done": b"1"}, remote=place)

    assert before >= 2
    assert int(git(where, "rev-list", "--count", BRANCH)) >= before + 1
    git(where, "fsck", "--strict", "--no-dangling")
    git(work, "fsck", "--strict", "--no-dangling")
