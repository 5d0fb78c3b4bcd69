from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import SourceError
from reconciler.source.remote import is_superseded, ls_remote, normalise_url, owner_hash, source_tip
from reconciler.source.repository import Repository
from reconciler.source.revision import read_revision

Git = Callable[..., str]
Commit = Callable[..., str]
Repo = Callable[..., Path]


def test_lists_the_branches_of_a_remote(work: Path, git: Git) -> None:
    git(work, "tag", "v1")
    git(work, "push", "--quiet", "--tags", "origin", "main:team/é")
    head = git(work, "rev-parse", "HEAD")

    with Repository(work) as repository:
        assert ls_remote(repository, "origin") == {"refs/heads/main": head, "refs/heads/team/é": head}


def test_an_unreachable_remote_is_not_an_empty_one(work: Path, remote: Path) -> None:
    remote.rename(remote.with_suffix(".away"))

    with Repository(work) as repository, pytest.raises(SourceError, match=r"git ls-remote: .*remote\.git"):
        ls_remote(repository, "origin")


def test_an_empty_remote_has_no_branches(work: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "empty.git")

    with Repository(work) as repository:
        assert ls_remote(repository, "../empty.git") == {}


GITHUB = {"GITHUB_REF_NAME": "theirs", "GITHUB_REF_TYPE": "branch"}


@pytest.mark.parametrize(
    ("checkout", "setting", "environ", "expected"),
    [
        pytest.param("main", None, {}, "main", id="branch-of-HEAD"),
        pytest.param("main", None, GITHUB, "main", id="branch-of-HEAD-before-CI"),
        pytest.param("main", "theirs", {}, "theirs", id="setting-first"),
        pytest.param("follower", None, {}, "theirs", id="the-branch-that-HEAD's-follows"),
        pytest.param("unpushed", None, {}, "HEAD", id="never-pushed-is-its-own-truth"),
        pytest.param("unpushed", None, GITHUB, "theirs", id="never-pushed-in-CI"),
        pytest.param("--detach", None, {}, "main", id="detached-is-the-remote's-default"),
        pytest.param("--detach", None, GITHUB, "theirs", id="github"),
        pytest.param("--detach", None, GITHUB | {"GITHUB_REF_TYPE": "tag"}, "main", id="github-tag"),
        pytest.param("--detach", None, GITHUB | {"GITHUB_HEAD_REF": "main"}, "main", id="github-pull-request"),
        pytest.param("--detach", None, {"CI_COMMIT_BRANCH": "theirs"}, "theirs", id="gitlab"),
        pytest.param("--detach", None, {"CI_COMMIT_BRANCH": "deleted"}, None, id="the-branch-of-CI-is-gone"),
    ],
)
def test_source_tip(  # noqa: PLR0917
    work: Path,
    git: Git,
    commit: Commit,
    checkout: str,
    setting: str | None,
    environ: dict[str, str],
    expected: str | None,
) -> None:
    """The remote says where the branch stands, and one answer of it is enough."""
    git(work, "push", "--quiet", "origin", "main:theirs")
    git(work, "branch", "--quiet", "--track", "follower", "origin/theirs")
    git(work, "branch", "unpushed")
    ahead = commit(work, {"jobs/train.yaml": "run: later\n"})
    git(work, "push", "--quiet", "origin", "main:theirs")
    git(work, "reset", "--quiet", "--hard", "HEAD~1")
    git(work, "checkout", "--quiet", checkout)
    head = git(work, "rev-parse", "HEAD")

    with Repository(work) as repository:
        revision = read_revision(repository)
        refs = ls_remote(repository, "origin")
        tip = source_tip(repository, revision, source_branch=setting, environ=environ, refs=refs)
        asked = source_tip(repository, revision, source_branch=setting, environ=environ)

    assert tip == asked == {"main": head, "HEAD": head, "theirs": ahead, None: None}[expected]


def test_a_wrong_setting_is_an_error_that_names_what_there_is(work: Path, repo: Repo) -> None:
    with Repository(work) as repository, pytest.raises(SourceError, match="'man' is not on origin; it has: main"):
        source_tip(repository, read_revision(repository), source_branch="man", environ={})
    with (
        Repository(repo({"jobs/a.yaml": ""}, "alone")) as repository,
        pytest.raises(SourceError, match="'man' is not a branch of"),
    ):
        source_tip(repository, read_revision(repository), source_branch="man", environ={})


def test_without_a_remote_head_is_the_truth(repo: Repo, git: Git, commit: Commit) -> None:
    folder = repo({"jobs/a.yaml": ""})
    head = commit(folder, {"jobs/a.yaml": "run: x\n"})
    git(folder, "branch", "old", "HEAD~1")

    with Repository(folder) as repository:
        old = read_revision(repository, "old")

        assert source_tip(repository, old, source_branch=None, environ=GITHUB) == head
        assert source_tip(repository, old, source_branch="old", environ={}) == old.commit


def test_old_news_is_superseded(work: Path, remote: Path, git: Git, commit: Commit) -> None:
    """Only the tip and what was built on it may be applied; a tip that is not here can't be what we build on."""
    first = git(work, "rev-parse", "HEAD")
    second = commit(work, {"jobs/train.yaml": "run: second\n"})
    git(work, "push", "--quiet")
    git(work, "checkout", "--quiet", "-b", "side", first)
    side = commit(work, {"jobs/train.yaml": "run: side\n"})
    git(work.parent, "clone", "--quiet", "--depth=1", f"file://{remote}", "shallow")

    with Repository(work) as repository, Repository(work.parent / "shallow") as shallow:
        table = [
            (repository, second, second, False),
            (repository, second, first, False),
            (repository, first, second, True),
            (repository, side, second, True),
            (repository, second, "1" * 40, True),
            (repository, second, None, True),
            (shallow, second, second, False),
            (shallow, second, side, True),
        ]
        expected = [row[3] for row in table]

        assert [is_superseded(place, commit, tip) for place, commit, tip, _ in table] == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("https://GitHub.com/Team/Jobs.git", "github.com/Team/Jobs", id="https"),
        pytest.param("https://me:token@github.com/Team/Jobs", "github.com/Team/Jobs", id="credentials"),
        pytest.param("https://github.com:443/Team/Jobs/", "github.com/Team/Jobs", id="default-port"),
        pytest.param("git@github.com:Team/Jobs.git", "github.com/Team/Jobs", id="scp-like"),
        pytest.param("github.com:/Team/Jobs", "github.com/Team/Jobs", id="scp-like-absolute"),
        pytest.param("ssh://git@github.com/Team/Jobs.git/", "github.com/Team/Jobs", id="ssh"),
        pytest.param("ssh://git@github.com:2222/Team/Jobs", "github.com:2222/Team/Jobs", id="other-port"),
        pytest.param("https://[::1]/x", "[::1]/x", id="ipv6"),
        pytest.param("https://[::1]:8443/x", "[::1]:8443/x", id="ipv6-with-port"),
        pytest.param("git@[::1]:x", "[::1]/x", id="ipv6-scp-like"),
        pytest.param("/srv/jobs.git", "file:/srv/jobs", id="path"),
        pytest.param("file:///srv/jobs.git/", "file:/srv/jobs", id="file-url"),
        pytest.param("../jobs", "file:/srv/jobs", id="relative-path"),
        pytest.param("https://host/a/../b", "host/a/../b", id="dots-are-the-server's"),
    ],
)
def test_one_repository_has_one_spelling(url: str, expected: str) -> None:
    assert normalise_url(url, base="/srv/here") == expected


@settings(max_examples=30)
@given(
    host=st.from_regex(r"[a-zA-Z][a-zA-Z0-9.-]{0,20}", fullmatch=True),
    path=st.from_regex(r"\w+(/[\w~-]+)*", fullmatch=True),
)
def test_all_spellings_agree(host: str, path: str) -> None:
    spellings = [
        f"https://{host}/{path}",
        f"http://u:p@{host.upper()}:80/{path}.git",
        f"ssh://git@{host}:22/{path}/",
        f"git@{host}:{path}.git",
        f"{host}:/{path}",
    ]

    assert len({normalise_url(url) for url in spellings}) == 1


def test_the_owner_is_the_remote_however_it_is_spelled(work: Path, git: Git, remote: Path) -> None:
    with Repository(work) as repository:
        before = owner_hash(repository, "origin")
        git(work, "remote", "set-url", "origin", f"file://{remote}")

        assert owner_hash(repository, "origin") == before
        assert len(before) == 12
        assert set(before) <= set("0123456789abcdef")


def test_the_owner_is_what_an_abbreviated_url_stands_for(work: Path, git: Git) -> None:
    """`url.<base>.insteadOf` is one machine's own spelling, and where CI puts its token."""
    with Repository(work) as repository:
        git(work, "remote", "set-url", "origin", "https://github.com/team/jobs")
        before = owner_hash(repository, "origin")
        git(work, "config", "url.https://x:token@github.com/.insteadOf", "gh:")
        git(work, "remote", "set-url", "origin", "gh:team/jobs")

        assert owner_hash(repository, "origin") == before


def test_without_a_remote_the_owner_is_the_first_commit(repo: Repo, git: Git, commit: Commit) -> None:
    """It survives new commits and a move of the folder; a shallow clone doesn't know it."""
    folder = repo({"jobs/a.yaml": ""})
    with Repository(folder) as repository:
        before = owner_hash(repository, None)
    commit(folder, {"jobs/a.yaml": "run: x\n"})
    moved = folder.rename(folder.with_name("moved"))
    git(moved.parent, "clone", "--quiet", "--depth=1", f"file://{moved}", "shallow")

    with Repository(moved) as repository:
        assert owner_hash(repository, None) == before
    with (
        Repository(moved.parent / "shallow") as shallow,
        pytest.raises(SourceError, match=r"set `owner` in reconciler\.yaml"),
    ):
        owner_hash(shallow, None)
