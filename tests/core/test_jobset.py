"""The JobSet's form, and what its status says: the numbers as the controller wrote them in each case."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.encoding import check_echo, counts, nodes, outcome, pod_template
from reconciler.core.jobset import host_name_pattern, jobset_form
from reconciler.model import Manifest, State
from reconciler.runs import Counts, Outcome

TEMPLATE = {"spec": {"containers": [{"name": "main"}]}}
WHEN = "2026-03-01T10:00:00Z"


def jobset(status: Manifest | None = None, *, errors: int = 0, name: str = "train-1", **spec: Any) -> Manifest:
    """Build a JobSet of two nodes, as the server would have it with this status."""
    form = jobset_form(
        TEMPLATE,
        name=name,
        nodes=2,
        max_restarts_on_errors=errors,
        recover_on_exit_codes=(7, 0, 219),
        main_container="main",
        clone_containers=("clone-workdir",),
    )
    made: Manifest = {"kind": "JobSet", "metadata": {"name": name}, "spec": form | spec}
    return made if status is None else made | {"status": status}


def ended(kind: str, *, status: str = "True", reason: str = "Why") -> Manifest:
    condition = {"type": kind, "status": status, "reason": reason, "message": "so", "lastTransitionTime": WHEN}
    return {"conditions": [{"type": "Suspended", "status": "False"}, condition]}


def test_its_form() -> None:
    """One Indexed Job with an index for each node. What is an interruption fails it by its backoffLimit of 0."""
    spec = jobset(errors=3)["spec"]
    child = spec["replicatedJobs"][0]["template"]["spec"]

    assert spec["failurePolicy"] == {
        "maxRestarts": 3,
        "restartStrategy": "BlockingRecreate",
        "rules": [
            {"name": "userError", "action": "RestartJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
            {"name": "lost", "action": "RestartJobSetAndIgnoreMaxRestarts"},
        ],
    }
    assert [child[key] for key in ("completionMode", "completions", "parallelism", "backoffLimit")] == [
        "Indexed",
        2,
        2,
        0,
    ]
    assert child["podFailurePolicy"]["rules"] == [
        {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "Count",
            "onExitCodes": {"containerName": "main", "operator": "In", "values": [7, 217, 218, 255]},
        },
        {
            "action": "Count",
            "onExitCodes": {"containerName": "clone-workdir", "operator": "In", "values": [75, 217, 255]},
        },
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]
    assert (pod_template(jobset()), nodes(jobset())) == (TEMPLATE, 2)


def test_host_names() -> None:
    """The ranks are found by the Service that the JobSet makes."""
    network = {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": "train-1"}

    assert (jobset()["spec"]["network"], host_name_pattern("train-1")) == (network, "train-1-r-0-%d.train-1")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, Counts(0, 0), id="no status yet"),
        pytest.param({"restarts": 0}, Counts(0, 0), id="first attempt"),
        pytest.param({"restarts": 2}, Counts(2, 0), id="preempted twice"),
        pytest.param({"restarts": 1, "restartsCountTowardsMax": 1}, Counts(0, 1), id="an error"),
        pytest.param({"restarts": 3, "restartsCountTowardsMax": 1}, Counts(2, 1), id="both"),
        pytest.param({"restarts": 3, "restartsCountTowardsMax": 1} | ended("Failed"), Counts(2, 1), id="failed"),
    ],
)
def test_counts(status: Manifest | None, expected: Counts) -> None:
    """Recoveries are the restarts that don't count towards the maximum; the error that ends it is no restart."""
    assert counts(jobset(status)) == expected


def test_counts_of_another_policy_are_not_exact() -> None:
    found = counts(jobset({"restarts": 2}, failurePolicy={"maxRestarts": 5}))

    assert found == Counts(2, 0, inexact="the JobSet's failurePolicy is not ours: errors may count as recoveries")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, None, id="no status yet"),
        pytest.param(ended("RestartingJobSet"), None, id="restarting"),
        pytest.param(ended("Failed", status="False"), None, id="a condition that says no"),
        pytest.param(ended("Completed"), Outcome(State.SUCCEEDED, "Why", "so", WHEN), id="completed"),
        pytest.param(ended("Failed"), Outcome(State.FAILED, "Why", "so", WHEN), id="failed"),
    ],
)
def test_outcome(status: Manifest | None, expected: Outcome | None) -> None:
    assert outcome(jobset(status)) == expected


def test_what_the_server_adds_is_no_loss() -> None:
    rules = [rule | {"targetReplicatedJobs": ["r"]} for rule in jobset()["spec"]["failurePolicy"]["rules"]]

    assert check_echo(jobset(failurePolicy={"maxRestarts": 0, "rules": rules})) is None


@pytest.mark.parametrize(
    ("spec", "lost"),
    [
        pytest.param({"failurePolicy": {"maxRestarts": 0}}, "spec.failurePolicy.rules", id="rules"),
        pytest.param({"replicatedJobs": []}, "podFailurePolicy of the child Job", id="child"),
    ],
)
def test_an_old_jobset_is_refused(spec: Manifest, lost: str) -> None:
    """What can't tell errors from interruptions would run a failing job for ever."""
    needed = "so it could not count recoveries; JobSet 0.11 or newer is needed"

    assert check_echo(jobset(**spec)) == f"this JobSet drops {lost}, {needed}"
