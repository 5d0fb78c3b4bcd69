"""In CI each pass has a fresh checkout of depth 1, without a branch, and perhaps a late start."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

CI = {"CI": "true", "GITHUB_REF_NAME": "main"}


def checkout(team: Team, name: str, commit: str) -> Team:
    """Check a commit out as CI does: one commit deep, HEAD detached, no other branch known."""
    folder = team.folder.parent / name
    team.git(team.folder.parent, "init", "--quiet", str(folder))
    team.git(folder, "remote", "add", "origin", f"file://{team.remote}")
    team.git(folder, "fetch", "--quiet", "--depth=1", "origin", commit)
    team.git(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    return replace(team, folder=folder)


@pytest.mark.real
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


@pytest.mark.real
def test_a_late_run_does_nothing(cluster_team: Team) -> None:
    """The tip has moved on while this run waited for its turn: it has nothing to do, and that is fine."""
    team = cluster_team
    old = team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    team.commit({"jobs/train.yaml": None})
    ran = checkout(team, "late", old).reconcile(**CI)

    assert (ran.code, ran.json["superseded"], ran.actions, team.jobs()) == (0, True, [], [])


@pytest.mark.real
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


def test_a_hook_of_the_remote_is_ci_enough(local_team: Team) -> None:
    """A bare repository may reconcile itself on each push; what git tells its hooks leads ours nowhere else."""
    team = local_team
    hook = team.remote / "hooks" / "post-receive"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\n{sys.executable} -m reconciler --once --cluster local\n")
    hook.chmod(0o755)
    text = team.task("true", controls={"suspend": "true"})
    team.write_and_commit(team.folder, {"jobs/train.yaml": text}, "Add")
    subprocess.run(
        ["git", "push", "--quiet", "origin", "main"],
        cwd=team.folder,
        env={**os.environ, **team.environment},
        capture_output=True,
        check=True,
    )

    assert team.jobs() == ["train-1"]
    assert "state: SUSPENDED" in team.git(team.remote, "show", "job-status-local:jobs/train.yaml")
