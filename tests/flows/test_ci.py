"""In CI each pass has a fresh checkout of depth 1, without a branch, and perhaps a late start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

pytestmark = pytest.mark.real

CI = {"CI": "true", "GITHUB_REF_NAME": "main"}


def checkout(team: Team, name: str, commit: str) -> Team:
    """Check a commit out as CI does: one commit deep, HEAD detached, no other branch known."""
    folder = team.folder.parent / name
    team.git(team.folder.parent, "init", "--quiet", str(folder))
    team.git(folder, "remote", "add", "origin", f"file://{team.remote}")
    team.git(folder, "fetch", "--quiet", "--depth=1", "origin", commit)
    team.git(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    return replace(team, folder=folder)


def test_a_job_runs_once_however_many_checkouts_see_it(cluster_team: Team) -> None:
    """The status branch is found though the checkout lacks it, so the second one has nothing to do."""
    team = cluster_team
    first = team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    ran = checkout(team, "first", first).reconcile(**CI)
    assert (ran.code, ran.actions) == (0, [("create", "done", "train-1")])
    assert team.document("train")["commit"] is None  # the checkout is too shallow to tell

    ran = checkout(team, "second", first).reconcile(**CI)
    assert (ran.code, ran.actions, ran.json["status_commit"]) == (0, [], None)

    team.kubectl("delete", "job", "train-1")
    ran = checkout(team, "third", first).reconcile(**CI)
    assert (ran.code, ran.actions) == (3, [("hold", "skipped", "train-1")])


def test_a_late_run_does_nothing(cluster_team: Team) -> None:
    """The tip has moved on while this run waited for its turn: it has nothing to do, and that is fine."""
    team = cluster_team
    old = team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    team.commit({"jobs/train.yaml": None})
    ran = checkout(team, "late", old).reconcile(**CI)

    assert (ran.code, ran.json["superseded"], ran.actions, team.jobs()) == (0, True, [], [])


def test_a_pass_needs_no_clone(cluster_team: Team) -> None:
    """A URL is enough; the status goes where it came from, and the next pass has nothing to do."""
    team = cluster_team
    team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    cache = str(team.folder.parent / "cache")
    elsewhere = replace(team, folder=team.folder.parent)
    first = elsewhere.reconcile("--repo", f"file://{team.remote}", XDG_CACHE_HOME=cache)
    second = elsewhere.reconcile("--repo", f"file://{team.remote}", XDG_CACHE_HOME=cache)

    assert (first.code, first.actions) == (0, [("create", "done", "train-1")])
    assert (second.code, second.actions, second.json["status_commit"]) == (0, [], None)
    assert team.queue()["train"]["state"] == "SUSPENDED"
    assert team.reconcile().actions == []  # and it is the same owner as the clone is
