"""A second pass on the same input writes nothing, anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.flows.conftest import Team


def test_a_second_pass_writes_nothing(team: Team) -> None:
    """No request that could change something reaches the API, no commit the branch, as long as nothing happens."""
    team.commit(
        {
            "priorities/classes.yaml": team.classes(high=200, low=100, default="low"),
            "jobs/runs.yaml": team.task(team.gated("runs"), priority="high", slot=True),
            "jobs/waits.yaml": team.task("true", priority="low", slot=True),
            "jobs/suspended.yaml": team.task("true", controls={"suspend": "true"}),
            "jobs/fails.yaml": team.task("exit 3", workdir="train"),
            "train/data": "data",
        }
    )
    team.reach("fails", "FAILED")
    team.reach("runs", "RUNNING")
    team.reach("waits", "PENDING")
    team.reach("suspended", "SUSPENDED")
    check_next_pass_writes_nothing(team)

    team.open("runs")
    team.reach("runs", "SUCCEEDED")
    team.reach("waits", "SUCCEEDED")
    check_next_pass_writes_nothing(team)


def check_next_pass_writes_nothing(team: Team) -> None:
    before = writes(team), team.git(team.record, "rev-parse", team.status_branch)
    ran = team.reconcile()

    assert (ran.code, ran.actions, ran.json["status_commit"], ran.stderr.count("\n")) == (0, [], None, warnings(team))
    assert (writes(team), team.git(team.record, "rev-parse", team.status_branch)) == before


def warnings(team: Team) -> int:
    """How many lines a pass says on stderr: on this machine that it runs the repository's commands."""
    return 1 if team.cluster == "local" else 0


def writes(team: Team) -> object:
    """Return what the product wrote so far, as our own API server saw it, dry runs too; else the objects."""
    if team.control_plane and not team.control_plane.external:
        return team.control_plane.writes(agent="job-reconciler")
    return sorted((job["metadata"]["name"], job["metadata"]["resourceVersion"]) for job in team.live("Job"))
