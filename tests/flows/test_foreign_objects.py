"""What this repository did not make is never touched."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.flows.conftest import Hiring, Team


@pytest.mark.real
def test_a_workload_of_others_is_left_alone(simulated_team: Team) -> None:
    """A Deployment of the same class keeps its pods, its version and its class, even when no file declares that."""
    team = simulated_team
    team.commit({"priorities/classes.yaml": team.classes(high=200, low=100), "jobs/ours.yaml": team.task("true")})
    team.reconcile()
    team.kubectl("create", "-f", "-", stdin=json.dumps(deployment(team)))
    team.kubectl("rollout", "status", "deployment/theirs", "--timeout=60s")
    before = theirs(team)

    team.commit({"priorities/classes.yaml": team.classes(high=200), "jobs/ours.yaml": None})
    ran = team.reconcile("--allow-empty-source")
    assert (ran.code, ran.actions) == (
        0,
        [("hold", "skipped", team.name("low")), ("cancel", "done", "ours-1")],
    )
    assert (
        ran.reason(team.name("low"))
        == "no file declares it any more; pruned when the unfinished jobs and pods that name it have ended"
    )
    assert theirs(team) == before

    team.kubectl("delete", "deployment", "theirs", "--cascade=foreground")
    assert team.reconcile().actions == [("prune", "done", team.name("low"))]


def deployment(team: Team) -> dict[str, Any]:
    """Write a Deployment of two pods for the simulated node."""
    pod = team.pod_config["spec"] | {"priorityClassName": team.name("low")}
    pod |= {"containers": [{"name": "main", "image": "local/bash:1"}]}
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "theirs"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def theirs(team: Team) -> list[tuple[str, str, str]]:
    """Return what tells whether the Deployment, its ReplicaSet and its pods have been touched."""
    objects = [*team.get("deployments"), *team.get("replicasets"), *team.get("pods")]
    return sorted(
        (o["kind"], o["metadata"]["uid"], o["metadata"]["resourceVersion"])
        for o in objects
        if o["metadata"].get("labels", {}).get("app") == "theirs" or o["metadata"]["name"] == "theirs"
    )


@pytest.mark.real
def test_a_foreign_job_of_the_wanted_name_is_a_conflict(simulated_team: Team) -> None:
    """It stays as it is; ours has no run and says why, the other jobs run, and the exit code asks for a person."""
    team = simulated_team
    foreign = team.kubectl("create", "job", "train-1", "--image=local/bash:1", "--output=json", "--", "sleep", "1d")
    uid = json.loads(foreign)["metadata"]["uid"]
    team.commit({"jobs/train.yaml": team.task("true"), "jobs/other.yaml": team.task("true")})
    planned = team.run("plan", "-o", "json")
    ran = team.reconcile()
    document = team.document("train")

    assert (planned.code, ran.code) == (3, 3)
    assert [(a["action"], a["name"]) for a in planned.json["actions"]] == [
        ("create", "other-1"),
        ("conflict", "train-1"),
    ]
    assert ran.actions == [("create", "done", "other-1"), ("conflict", "skipped", "train-1")]
    assert "not ours" in ran.reason("train-1")
    assert (document["state"], document["run"]) == ("PENDING", None)
    assert document["message"] == ran.reason("train-1")
    assert team.get("job", "train-1")["metadata"]["uid"] == uid
    assert "job-reconciler/owner" not in team.get("job", "train-1")["metadata"].get("labels", {})


@pytest.mark.real
@pytest.mark.parametrize(
    ("value", "code", "action"),
    [
        pytest.param(100, 0, ("keep", "done"), id="the same content is adopted"),
        pytest.param(150, 3, ("conflict", "skipped"), id="other content is a conflict"),
    ],
)
def test_a_foreign_priority_class_stays_as_it_is(
    simulated_team: Team, value: int, code: int, action: tuple[str, str]
) -> None:
    """It is neither changed nor, when no file declares it any more, deleted."""
    team = simulated_team
    theirs = yaml.safe_load(team.classes(low=value))
    team.kubectl("create", "-f", "-", stdin=json.dumps(theirs))
    before = team.get("priorityclass", team.name("low"))
    team.commit({"priorities/classes.yaml": team.classes(low=100)})
    ran = team.reconcile()
    assert ran.code == code
    assert [(a["action"], a["result"]) for a in ran.json["actions"]] == [action]

    team.commit({"priorities/classes.yaml": None})
    team.reconcile("--allow-empty-source")
    assert team.get("priorityclass", team.name("low")) == before


def test_two_repositories_share_a_namespace(local_team: Team, hiring: Hiring) -> None:
    """Neither sees the jobs of the other; of one name, the first has it, and the second is told."""
    first, elsewhere = local_team, hiring.root / "elsewhere"
    elsewhere.mkdir()
    second = replace(hiring, root=elsewhere).build(
        first.namespace, first.environment, cluster="local", forks=first.forks
    )
    first.commit({"jobs/train.yaml": first.task("sleep 60"), "jobs/one.yaml": first.task("sleep 60")})
    first.reconcile()
    second.commit({"jobs/train.yaml": second.task("sleep 61"), "jobs/two.yaml": second.task("sleep 60")})
    ran = second.reconcile()
    assert (ran.code, ran.actions) == (3, [("conflict", "skipped", "train-1"), ("create", "done", "two-1")])
    assert set(first.queue()) == {"one", "train"}

    first.commit({"jobs/one.yaml": None})
    assert first.reconcile().actions == [("cancel", "done", "one-1")]
    first.until(lambda: first.jobs() == ["train-1", "two-1"], "only one of them ends")
