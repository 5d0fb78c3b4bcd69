"""The rights that the documentation asks for are enough, and none of them is missed where it is optional."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from control_plane import ControlPlane

    from tests.flows.conftest import Team

pytestmark = pytest.mark.real

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
OF_RUNS = (["configmaps"], ["secrets"])
USER = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "nobody"}


@pytest.fixture
def limited_team(cluster_team: Team, own_control_plane: ControlPlane) -> Iterator[Team]:
    """Build a team with the first rights of the documentation's chapter about them, and no others."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Rights")[2]
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[:1]
    manifests = [granted(manifest, cluster_team) for manifest in yaml.safe_load_all(block)]
    cluster_team.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    kubeconfig = cluster_team.folder.parent / "kubeconfig"
    config = yaml.safe_load(own_control_plane.kubeconfig.read_text())
    kubeconfig.write_text(yaml.safe_dump({**config, "current-context": "nobody"}))
    yield replace(cluster_team, environment={"KUBECONFIG": str(kubeconfig)})
    for kind in ("clusterrole", "clusterrolebinding"):
        cluster_team.kubectl("delete", kind, cluster_team.namespace)


def granted(manifest: dict[str, Any], team: Team) -> dict[str, Any]:
    """Return an object of the documentation for this team's namespace, user, and a name that no other test has."""
    metadata = {**manifest["metadata"], "name": team.namespace}
    if "namespace" in metadata:
        metadata["namespace"] = team.namespace
    changed = {**manifest, "metadata": metadata}
    if "roleRef" in manifest:
        changed |= {"roleRef": {**manifest["roleRef"], "name": team.namespace}, "subjects": [USER]}
    return changed


def test_a_pass_can_do_everything_in_its_namespace(limited_team: Team) -> None:
    """Classes and jobs are created, changed, replaced and cancelled; what can't be known is held, or said."""
    team, suspended = limited_team, {"suspend": "true"}
    team.commit(
        {
            "priorities/classes.yaml": team.classes(low=100, high=200),
            "jobs/train.yaml": team.task("true", priority="low", controls=suspended),
            "jobs/other.yaml": team.task("sleep 60", workdir="train", secrets={"TOKEN": "x"}),
            "train/data": "data",
        }
    )
    planned = team.run("plan")
    ran = team.reconcile()
    assert (planned.code, ran.code, {result for _, result, _ in ran.actions}) == (0, 0, {"done"})
    assert "reconcile: no preview of preemption: could not list " in planned.stderr
    assert team.reconcile().actions == []

    team.commit(
        {
            "priorities/classes.yaml": team.classes(low=100, default="low"),
            "jobs/train.yaml": team.task("echo 2", priority="low", controls=suspended),
            "jobs/other.yaml": None,
        }
    )
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (
        0,
        [
            ("update", "done", team.name("low")),
            ("hold", "skipped", team.name("high")),
            ("replace", "done", "train-2"),
            ("cancel", "done", "other-1"),
        ],
    )
    assert "train-2 has no output: SUSPENDED, until its file takes `suspend` away" in team.run("logs", "train").stderr


def test_without_the_rights_for_files_and_secrets_only_the_jobs_that_need_them_fail(limited_team: Team) -> None:
    """Neither are such jobs made, nor does anything else mind."""
    team = limited_team
    rules = [rule for rule in team.get("role", team.namespace)["rules"] if rule["resources"] not in OF_RUNS]
    team.kubectl("patch", "role", team.namespace, "--type=merge", f"--patch={json.dumps({'rules': rules})}")
    team.commit(
        {
            "train/data": "data",
            "jobs/files.yaml": team.task("true", workdir="train"),
            "jobs/secret.yaml": team.task("true", secrets={"TOKEN": "x"}),
            "jobs/train.yaml": team.task("true"),
        }
    )
    ran = team.reconcile()

    assert (ran.code, sorted(ran.actions)) == (
        3,
        [("create", "done", "train-1"), ("create", "failed", "files-1"), ("create", "failed", "secret-1")],
    )
    assert 'cannot create resource "configmaps"' in ran.reason("files-1")
    assert 'cannot create resource "secrets"' in ran.reason("secret-1")
    assert team.jobs() == ["train-1"]


def test_the_loop_needs_no_more(limited_team: Team) -> None:
    """Where it may not watch it looks every few seconds: an end in the cluster is on record soon."""
    team = limited_team
    team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    process = team.start("--interval", "10m")
    try:
        team.until(lambda: team.git(team.remote, "branch", "--list", "job-status"), "the first pass")
        team.commit({"jobs/train.yaml": team.task("true")})
        team.until(lambda: team.states_of("train")[-1] != "SUSPENDED", "the second pass")
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
