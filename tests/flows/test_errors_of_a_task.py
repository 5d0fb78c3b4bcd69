"""A task's own error is no interruption: it is restarted as often as its file says, and that is counted apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

TWICE = {"max_restarts_on_errors": 2}
KEYS = ("state", "reason", "message", "recoveries", "restarts_on_error")


def test_errors_are_not_recoveries(team: Team) -> None:
    """Each way to fail has its state and its reason; none is a recovery, and the exit code of each attempt is kept."""
    expected = {
        "fails": ("FAILED", "Error", "exit code 3", 0, 0),
        "fails-again": ("FAILED", "Error", "exit code 4", 0, 2),
        "setup-fails": ("FAILED_SETUP", "Error", "setup failed with exit code 5", 0, 0),
        "succeeds": ("SUCCEEDED", None, None, 0, 0),
        "gets-there": ("SUCCEEDED", None, None, 0, 2),
    }
    team.commit(
        {
            "jobs/fails.yaml": team.task("exit 3"),
            "jobs/fails-again.yaml": team.task("exit 4", recovery=TWICE),
            "jobs/setup-fails.yaml": team.task("true", setup="exit 5"),
            "jobs/succeeds.yaml": team.task("true", recovery=TWICE),
            "jobs/gets-there.yaml": team.task('[ "$JOB_ATTEMPT" = 2 ]', recovery=TWICE),
        }
    )
    documents = {job: team.reach(job, state) for job, (state, *_) in expected.items()}

    assert {job: tuple(document[key] for key in KEYS) for job, document in documents.items()} == expected
    assert {job: [a["exit_code"] for a in document["attempts"]] for job, document in documents.items()} == {
        "fails": [3],
        "fails-again": [4, 4, 4],
        "setup-fails": [5],
        "succeeds": [0],
        "gets-there": [1, 1, 0],
    }


def test_a_failed_job_stays_failed(team: Team) -> None:
    """Further passes neither restart it nor write anything."""
    team.commit({"jobs/fails.yaml": team.task("exit 3")})
    team.reach("fails", "FAILED", recoveries=0, restarts_on_error=0)
    commits = team.status_commits()
    ran = team.reconcile()

    assert (ran.code, ran.actions, team.jobs(), team.status_commits()) == (0, [], ["fails-1"], commits)


@pytest.mark.kubelet
def test_out_of_memory_is_named_with_its_limit(cluster_team: Team) -> None:
    """It has failed and is not tried again, and the status says which limit it met."""
    hog = "x=0123456789abcdef; while true; do x=$x$x; done"
    cluster_team.commit({"jobs/hog.yaml": cluster_team.task(hog, memory=0.03, limits={"memory": "64Mi"})})
    document = cluster_team.reach("hog", "FAILED")

    assert tuple(document[key] for key in KEYS) == ("FAILED", "OOMKilled", "OOMKilled (limit 64Mi)", 0, 0)


@pytest.mark.real
def test_what_a_server_would_refuse_is_told_by_the_line_that_asks_for_it(cluster_team: Team) -> None:
    """Offline nobody knows all that a server checks; its dry run names the Job's field, the plan the file's."""
    spec = "spec:\n        tolerations:\n        - {key: a, operator: Exists, value: b}\n"
    task = f"run: x\nconfig:\n  kubernetes:\n    pod_config:\n      {spec}"
    cluster_team.commit({"jobs/odd.yaml": task})
    planned = cluster_team.run("plan", "-o", "json")

    (problem,) = planned.json["problems"]
    assert (planned.code, problem["code"], problem["path"], problem["line"]) == (
        3,
        "refused-by-cluster",
        "jobs/odd.yaml",
        7,
    )
    assert problem["field"] == "config.kubernetes.pod_config.spec.tolerations[0].operator"
    assert problem["message"].startswith(
        "layer task: the server would refuse spec.template.spec.tolerations[0].operator: Invalid value"
    )
