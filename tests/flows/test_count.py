"""The number of recoveries is exact, whoever was watching."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from real_node import IMAGE

if TYPE_CHECKING:
    from control_plane import ControlPlane

    from tests.flows.conftest import Team

pytestmark = pytest.mark.kubelet


def test_four_interruptions_are_four_recoveries_though_nobody_watched(
    cluster_team: Team, own_control_plane: ControlPlane
) -> None:
    """Preempted, evicted, its pod deleted, preempted again, the controllers killed meanwhile: one pass tells four."""
    team = cluster_team
    team.commit(
        {
            "priorities/classes.yaml": team.classes(high=200, low=100),
            "jobs/low.yaml": team.task(team.gated("low"), priority="low", slot=True, grace=1),
        }
    )
    team.reach("low", "RUNNING", recoveries=0)
    preempt(team, "first")
    evict(team)
    delete_pod(team)
    own_control_plane.restart("kube-controller-manager")
    preempt(team, "second")
    team.reconcile()
    document = team.document("low")

    assert (document["state"], document["recoveries"], document["exact"]) == ("RUNNING", 4, True)
    assert (document["restarts_on_error"], document["evictions"], document["attempts_complete"]) == (0, 0, False)
    assert document["attempts"][0]["reason"] == "PreemptionByScheduler"  # its pod is gone, an Event tells of it


def running_pod(team: Team) -> Any:
    """Return the pod of the job that runs, once there is one."""
    return team.until(
        lambda: next(
            (
                pod
                for pod in team.pods_of("low")
                if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
            ),
            None,
        ),
        "low to run",
    )


def interrupted(team: Team, pod: Any) -> None:
    """Wait until another attempt runs in the place of this one."""
    team.until(lambda: running_pod(team)["metadata"]["uid"] != pod["metadata"]["uid"], "the next attempt")


def preempt(team: Team, name: str) -> None:
    """Have somebody else's urgent pod take the place, and go."""
    pod = running_pod(team)
    resources = {"limits": {"example.com/slot": "1"}}
    container = {"name": "main", "image": IMAGE, "command": ["bash", "-c", "sleep 600"], "resources": resources}
    spec = {"priorityClassName": team.name("high"), "terminationGracePeriodSeconds": 0, "containers": [container]}
    urgent = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    team.kubectl("create", "-f", "-", stdin=json.dumps(urgent))
    team.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
    team.kubectl("delete", "pod", name)
    interrupted(team, pod)


def evict(team: Team) -> None:
    """Ask the API to evict the pod, as `kubectl drain` does."""
    pod = running_pod(team)
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": team.namespace}}
    path = f"/api/v1/namespaces/{team.namespace}/pods/{name}/eviction"
    team.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    interrupted(team, pod)


def delete_pod(team: Team) -> None:
    """Delete the pod by hand; the next attempt waits 10 s."""
    pod = running_pod(team)
    team.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    interrupted(team, pod)
