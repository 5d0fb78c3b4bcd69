"""Killed anywhere, or not alone: each version of a job's file is one run all the same."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

JOBS = 20
NAMES = [f"job-{i:02}" for i in range(JOBS)]
WITH_FILES = NAMES[::2]
SEED = 11
DYING = Path(__file__).with_name("dying.py")


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.real)])
def suspended(request: pytest.FixtureRequest) -> Team:
    """Build a team with 20 new jobs, on each cluster in turn, half of them with files and all of them suspended."""
    team: Team = request.getfixturevalue("local_team" if request.param == "local" else "cluster_team")
    team.commit({"train/data": "data\n", **{f"jobs/{name}.yaml": suspended_task(team, name, "true") for name in NAMES}})
    return team


def suspended_task(team: Team, name: str, run: str) -> str:
    """Write a task; what counts here is its Job."""
    workdir = "train" if name in WITH_FILES else None
    return team.task(run, controls={"suspend": "true"}, workdir=workdir)


def check_one_run_each(team: Team, number: int = 1) -> None:
    """Each job has one Job, on the cluster and on record, and the next pass writes nothing."""
    assert team.jobs() == [f"{name}-{number}" for name in NAMES]
    queue = team.queue()
    assert {name: (job["run"]["number"], job["state"]) for name, job in queue.items()} == dict.fromkeys(
        NAMES, (number, "SUSPENDED")
    )
    ran = team.reconcile()
    assert (ran.code, ran.actions, ran.json["status_commit"]) == (0, [], None)
    files = [item["metadata"] for item in team.live("ConfigMap") if item["metadata"]["name"].startswith("job-")]
    owners = [owner["name"] for metadata in files for owner in metadata["ownerReferences"]]
    assert (len(files), sorted(owners)) == (len(WITH_FILES), [f"{name}-{number}" for name in WITH_FILES])


def kill_passes(team: Team, steps: range, times: int, *words: str) -> None:
    """Begin passes, one after another, and kill each before the n-th of its git commands and requests: n is seeded."""
    for moment in random.Random(SEED).sample(steps, times):
        process = team.start("--once", *words, program=[str(DYING), str(moment)])
        assert process.wait(60) == -signal.SIGKILL, f"it has less than {moment} steps"


def test_killed_at_any_moment(suspended: Team) -> None:
    """After kill -9 between two steps the next whole pass finds what was done, and does the rest, once."""
    team = suspended
    kill_passes(team, range(15, 45), 4)
    ran = team.reconcile()
    assert ran.code == 0, ran.stderr
    check_one_run_each(team)


def test_killed_while_jobs_start(local_team: Team) -> None:
    """Not only the Jobs, the commands too run once: each leaves one line."""
    team = local_team
    left = team.folder.parent / "left"
    team.commit({f"jobs/{name}.yaml": team.task(f"echo {name} >> {left}") for name in NAMES})
    kill_passes(team, range(15, 35), 2)
    ran = team.run("--once", "--wait", "finished", "--timeout", "60s")

    assert ran.code == 0, ran.stderr
    assert sorted(left.read_text().split()) == NAMES
    assert set(team.states().values()) == {"SUCCEEDED"}


def test_killed_while_it_replaces(suspended: Team) -> None:
    """The same for an edit of all: each old run is CANCELLED, each new one is number 2."""
    team = suspended
    team.reconcile()
    team.commit({f"jobs/{name}.yaml": suspended_task(team, name, "echo 2") for name in NAMES})
    kill_passes(team, range(15, 45), 3, "--allow-mass-change")
    ran = team.reconcile("--allow-mass-change")
    assert ran.code == 0, ran.stderr
    check_one_run_each(team, 2)
    states = {(name, run["number"], run["state"]) for name in NAMES for run in team.document(name)["runs"]}
    assert states == {(name, 1, "CANCELLED") for name in NAMES}


def test_two_reconcilers_at_once(suspended: Team) -> None:
    """Whoever comes second finds the other's Jobs and commit: both end well, and nothing is there twice."""
    colleague = suspended.clone("colleague") if suspended.cluster != "local" else suspended
    both = [suspended.start("--once"), colleague.start("--once")]
    assert [process.wait(60) for process in both] == [0, 0]
    check_one_run_each(suspended)
