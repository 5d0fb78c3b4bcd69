"""What a pass does where several clusters, or several passes, share one repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.cluster.local import LocalCluster
from reconciler.engine.options import Options
from reconciler.engine.reconcile import reconcile
from reconciler.errors import ExitCode
from reconciler.model import Verb
from reconciler.source.repository import Repository

TRAIN = "resources: {cpus: 1, memory: 0.1}\nrun: sleep 60\n"


class East(LocalCluster):
    """A cluster by another name."""

    context = "east"


class West(LocalCluster):
    """And a third one."""

    context = "west"


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Offer two clusters, and end their jobs afterwards."""
    capacity = {"cpu": "4", "memory": "4Gi", "pods": "110"}
    both = East(tmp_path / "east", capacity), West(tmp_path / "west", capacity)
    yield both
    for cluster in both:
        for job in cluster.list("Job"):
            cluster.delete(job)
        while cluster.list("Pod"):
            pass
        cluster.close()


def test_a_job_that_runs_on_another_cluster_is_left_to_its_passes(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path]
) -> None:
    """Not seen here is not lost: a pass knows only its own cluster, and the record says where the run is."""
    east, west = clusters
    with Repository(repo({"jobs/train.yaml": TRAIN})) as repository:
        first = reconcile(repository, east, Options())
        second = reconcile(repository, west, Options())

    assert [action.verb for action in first.actions] == [Verb.CREATE]
    assert [(action.verb, action.needs_attention) for action in second.actions] == [(Verb.HOLD, False)]
    assert second.actions[0].reason.startswith("train-1 is ")
    assert second.actions[0].reason.endswith("on east, and this pass speaks to west: not looked at")
    assert second.exit_code is ExitCode.FINE
    assert second.documents["train"]["context"] == "east"
    assert west.list("Job") == []


def test_a_job_that_is_to_move_stays_until_its_run_ends(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """Another `infra` is no reason to run one job on two clusters at once."""
    east, west = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    with Repository(folder) as repository:
        reconcile(repository, east, Options())
        commit(folder, {"jobs/train.yaml": TRAIN.replace("{cpus", "{infra: k8s/west, cpus")})
        there = reconcile(repository, west, Options())
        here = reconcile(repository, east, Options())

    assert [action.verb for action in there.actions] == [Verb.HOLD]
    assert [action.verb for action in here.actions] == [Verb.HOLD]
    assert "moves at the next run" in here.actions[0].reason
    assert (len(east.list("Job")), west.list("Job")) == (1, [])


def test_a_file_without_a_name_that_moves_stays_the_same_job(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """Tidying up cancels nothing, now or at the next edit."""
    east, _ = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    with Repository(folder) as repository:
        reconcile(repository, east, Options())
        commit(folder, {"jobs/train.yaml": None, "jobs/team/train.yaml": TRAIN})
        moved = reconcile(repository, east, Options())
        commit(folder, {"jobs/team/train.yaml": TRAIN + "# the same\n"})
        edited = reconcile(repository, east, Options())

    assert [(action.verb, action.job) for action in moved.actions] == [(Verb.KEEP, "train")]
    assert [(action.verb, action.job) for action in edited.actions] == [(Verb.KEEP, "train")]
    assert edited.documents["train"]["file"] == "jobs/team/train.yaml"
