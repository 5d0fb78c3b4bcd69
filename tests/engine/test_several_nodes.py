"""Jobs of several nodes where JobSets can't be had, or can't be seen: they are held, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.cluster.local import LocalCluster
from reconciler.engine.options import Options
from reconciler.engine.reconcile import reconcile
from reconciler.errors import ExitCode, Forbidden
from reconciler.model import Manifest
from reconciler.source.repository import Repository

PLAIN = "resources: {cpus: 1, memory: 0.1}\nrun: sleep 60\n"
WIDE = f"num_nodes: 2\n{PLAIN}"
NO_RIGHT = 'jobsets.jobset.x-k8s.io is forbidden: User "ada" cannot list resource "jobsets"'


class Elsewhere(LocalCluster):
    """A cluster that has JobSet, and no rights to it for us."""

    context = "east"

    def serves(self, kind: str) -> bool:
        """Have them all."""
        return bool(kind)

    def list(self, kind: str, **options: Any) -> list[Manifest]:
        """Refuse one kind."""
        if kind == "JobSet":
            raise Forbidden(NO_RIGHT)
        return super().list(kind, **options)


@pytest.fixture(params=[LocalCluster, Elsewhere])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    """Offer this machine, and a cluster without the rights; end their jobs afterwards."""
    made: LocalCluster = request.param(tmp_path / "cluster", {"cpu": "4", "memory": "4Gi", "pods": "110"})
    yield made
    for job in made.list("Job"):
        made.delete(job)
    while made.list("Pod"):
        pass
    made.close()


def test_such_a_job_is_held_and_the_others_go_on(cluster: LocalCluster, repo: Callable[..., Path]) -> None:
    """Who has no job of several nodes needs neither JobSet nor rights to it."""
    with Repository(repo({"jobs/plain.yaml": PLAIN})) as repository:
        alone = reconcile(repository, cluster, Options())
    with Repository(repo({"jobs/plain.yaml": PLAIN, "jobs/wide.yaml": WIDE}, "both")) as repository:
        plain, wide = sorted(reconcile(repository, cluster, Options()).actions, key=lambda action: action.name)

    assert ([a.verb for a in alone.actions], alone.exit_code) == (["create"], ExitCode.FINE)
    assert (plain.name, wide.verb, wide.name, wide.needs_attention) == ("plain-1", "hold", "wide-1", True)
    why = NO_RIGHT if cluster.context == "east" else "this machine is one node; set num_nodes: 1, or take a cluster"
    assert wide.reason == f"needs JobSet for its 2 nodes: {why}"
