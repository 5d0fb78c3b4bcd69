"""The scenario that this exists for: an urgent job takes the place of another, which comes back by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

ROW = re.compile(r"^\| \[(\S+)-\d+\]\(jobs/\S+\.yaml\) .* \| (\d+) \| (\w+) \|$", re.MULTILINE)


def test_an_urgent_job_takes_the_place_and_gives_it_back(team: Team) -> None:
    """A high job runs at once in the place of a low one; when it has ended, the low one runs again by itself."""
    team.commit(
        {
            "priorities/classes.yaml": team.classes(high=200, low=100, default="low"),
            "jobs/low.yaml": team.task(team.gated("low"), priority="low", slot=True),
        }
    )
    first = team.reach("low", "RUNNING")
    check_all_views(team, low=("RUNNING", 0))

    team.commit({"jobs/high.yaml": team.task(team.gated("high"), priority="high", slot=True)})
    team.reach("high", "RUNNING")
    check_all_views(team, low=("RECOVERING", 1), high=("RUNNING", 0))

    team.open("high")
    team.reach("high", "SUCCEEDED")
    team.reach("low", "RUNNING")
    check_all_views(team, low=("RUNNING", 1), high=("SUCCEEDED", 0))

    team.open("low")
    last = team.reach("low", "SUCCEEDED")
    check_all_views(team, low=("SUCCEEDED", 1), high=("SUCCEEDED", 0))
    assert (last["exact"], last["attempts_complete"], last["run"]) == (True, True, first["run"])
    first_reason, last_reason = (attempt["reason"] for attempt in last["attempts"])
    assert (first_reason in {"PreemptionByScheduler", None}, last_reason) == (True, "Completed")  # None: nobody saw it
    assert last["run_seconds"] + last["recovering_seconds"] > 0


def check_all_views(team: Team, **expected: tuple[str, int]) -> None:
    """Check that command, documents, front page and kubectl tell the same of each job: state and recoveries."""
    queue = team.queue()
    assert {name: (job["state"], job["recoveries"]) for name, job in queue.items()} == expected
    assert {name: team.document(name) for name in expected} == queue
    rows = {name: (state, int(recoveries)) for name, recoveries, state in ROW.findall(team.show("README.md"))}
    assert rows == expected
    if team.control_plane:
        assert {name: kubectl_state(team, name) for name in expected} == {n: s for n, (s, _) in expected.items()}


def kubectl_state(team: Team, name: str) -> str:
    """Tell a job's state from its Job and its pods alone."""
    status = team.get("job", f"{name}-1")["status"]
    if any(c["type"] == "Complete" and c["status"] == "True" for c in status.get("conditions", ())):
        return "SUCCEEDED"
    if any(pod["status"]["phase"] == "Running" for pod in team.pods_of(name)):
        return "RUNNING"
    return "RECOVERING" if status["failed"] else "PENDING"


@pytest.mark.kubelet
def test_kubectl_shows_the_class_of_a_pod(cluster_team: Team) -> None:
    """A pod carries its class as Kubernetes means it, and as the annotation that SkyPilot's tools look for."""
    cluster_team.commit(
        {
            "priorities/classes.yaml": cluster_team.classes(high=200),
            "jobs/urgent.yaml": cluster_team.task("true", priority="high"),
        }
    )
    cluster_team.reach("urgent", "SUCCEEDED")
    (pod,) = cluster_team.pods_of("urgent")

    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == (cluster_team.name("high"), 200)
    assert pod["metadata"]["annotations"]["skypilot-priority-class"] == cluster_team.name("high")
