"""What a change of a PriorityClass means: Kubernetes never changes its number, and pods keep what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from tests.flows.conftest import Team

CLASSES = "priorities/classes.yaml"


def live_value(team: Team, short: str) -> object:
    """Return the value of a class on the cluster."""
    return next(c["value"] for c in team.live("PriorityClass") if c["metadata"]["name"] == team.name(short))


def test_another_value_is_held(team: Team) -> None:
    """It would change who preempts whom, so a person decides: exit code 3, with advice that works; the jobs go on."""
    low = team.name("low")
    team.commit({CLASSES: team.classes(low=100), "jobs/train.yaml": team.task(team.gated("train"), priority="low")})
    run = team.reach("train", "RUNNING")["run"]
    team.commit({CLASSES: team.classes(low=150)})
    ran = team.reconcile()
    assert (ran.code, ran.actions, live_value(team, "low")) == (3, [("hold", "skipped", low)], 100)
    assert ran.reason(low) == (
        "value is 100 on the cluster and 150 in priorities/classes.yaml, and Kubernetes never changes it in place: "
        f"declare a class of another name, or run `kubectl delete priorityclass {low}` and the next pass makes it "
        "anew; pods that are there keep the old one"
    )
    assert yaml.safe_load(team.show("priorities.yaml"))["classes"][0]["differs"] == ["value"]

    team.delete("PriorityClass", low)
    ran = team.reconcile()
    document = team.document("train")
    assert (ran.code, ran.actions, live_value(team, "low")) == (0, [("create", "done", low)], 150)
    assert (document["state"], document["run"], document["priority"]["value"]) == ("RUNNING", run, 100)


def test_a_class_goes_when_nothing_unfinished_needs_it(team: Team) -> None:
    """Its file is gone and a job still names it: held. When that has ended, pruned, after the jobs."""
    team.commit({CLASSES: team.classes(low=100), "jobs/train.yaml": team.task(team.gated("train"), priority="low")})
    team.reach("train", "RUNNING")
    team.commit({CLASSES: team.classes(high=200)})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (
        0,
        [("create", "done", team.name("high")), ("hold", "skipped", team.name("low"))],
    )

    team.open("train")
    team.reach("train", "SUCCEEDED")
    team.reconcile()
    names = {c["metadata"]["name"] for c in team.live("PriorityClass")}
    assert names & {team.name("low"), team.name("high")} == {team.name("high")}


def test_a_class_that_is_missing_keeps_its_job(local_team: Team) -> None:
    """A pod that names it would be refused, so the job is INVALID and says so; with the class it starts."""
    team, low = local_team, local_team.name("low")
    team.commit({"jobs/train.yaml": team.task("true", priority="low")})
    ran = team.reconcile()
    (problem,) = ran.json["problems"]
    assert (ran.code, ran.actions, team.jobs()) == (3, [("hold", "skipped", "train-1")], [])
    assert (problem["code"], problem["path"], problem["line"]) == ("unknown-priority-class", "jobs/train.yaml", 10)
    assert problem["message"] == (
        f"PriorityClass {low!r} is neither in priorities/ nor on the cluster: add it under priorities/ or name another"
    )
    assert team.states() == {"train": "INVALID"}

    team.commit({CLASSES: team.classes(low=100)})
    assert team.reconcile().actions == [("create", "done", low), ("create", "done", "train-1")]


def test_the_default_moves_in_one_pass(team: Team) -> None:
    """The API server allows one default at a time: the old one stops before the new one begins."""
    team.commit({CLASSES: team.classes(low=100, high=200, default="low")})
    team.reconcile()
    team.commit({CLASSES: team.classes(low=100, high=200, default="high")})
    ran = team.reconcile()

    assert (ran.code, ran.actions) == (
        0,
        [("update", "done", team.name("low")), ("update", "done", team.name("high"))],
    )
    defaults = [c["metadata"]["name"] for c in team.live("PriorityClass") if c.get("globalDefault")]
    assert defaults == [team.name("high")]
