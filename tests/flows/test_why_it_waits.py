"""A job that does not run says why, in the words of who keeps it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

pytestmark = pytest.mark.kubelet


def test_each_waiting_job_says_why(cluster_team: Team) -> None:
    """No room, an image that nobody has, a Secret that is missing: the scheduler's and the kubelet's words."""
    team = cluster_team
    team.commit(
        {
            "jobs/big.yaml": team.task("true", limits={"example.com/slot": "2"}),
            "jobs/no-image.yaml": team.task("true").replace(
                "memory:", "image_id: docker:127.0.0.1:1/none:1\n  memory:"
            ),
            "jobs/no-secret.yaml": team.task("true", secrets={"HF_TOKEN": None}),
        }
    )
    big = team.reach("big", "PENDING", reason="Unschedulable")
    no_secret = team.reach("no-secret", "STARTING", reason="CreateContainerConfigError")
    no_image = team.reach("no-image", "STARTING", reason="ImagePullBackOff")

    assert "Insufficient example.com/slot" in big["message"]
    assert no_secret["message"] == 'secret "job-secrets" not found'
    assert "127.0.0.1:1/none:1" in no_image["message"]
    commits = team.status_commits()
    team.until(lambda: team.reconcile().json["status_commit"] is None, "nothing new to say")
    assert len(team.status_commits()) <= len(commits) + 2  # the kubelet's words alternate, the status does not


def test_a_quota_keeps_a_pod_from_being_made(cluster_team: Team) -> None:
    """Only an Event says so; without the pod's made-up name, so that it is one message however often it is tried."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    cluster_team.kubectl("create", "-f", "-", stdin=json.dumps(quota))
    cluster_team.until(lambda: "hard" in cluster_team.get("resourcequota", "none").get("status", {}), "the quota")
    cluster_team.commit({"jobs/train.yaml": cluster_team.task("true")})
    document = cluster_team.reach("train", "PENDING", reason="FailedCreate")

    assert re.fullmatch(r"exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0", document["message"])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param(
            "namespace: nowhere\ndefault_image: local/bash:1\n",
            r'could not create Job nowhere/train-1 .*: 404 NotFound: namespaces "nowhere" not found',
            id="a namespace that does not exist",
        )
    ],
)
def test_what_cant_be_created_says_why(cluster_team: Team, settings: str, text: str) -> None:
    """The action has failed with the API's own words, which stand in the status too; exit code 3."""
    cluster_team.commit({"reconciler.yaml": settings, "jobs/train.yaml": cluster_team.task("true")})
    ran = cluster_team.reconcile()

    assert (ran.code, ran.actions) == (3, [("create", "failed", "train-1")])
    assert re.fullmatch(text, ran.reason("train-1"))
    assert cluster_team.document("train")["message"] == ran.reason("train-1")
