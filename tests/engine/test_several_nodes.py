"""Jobs of several nodes where JobSets can't be had, or can't be seen: they are held, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.cluster.local import LocalCluster
from reconciler.core.render import RunIdentity, render_job
from reconciler.core.task import parse_task_file
from reconciler.engine.options import Options
from reconciler.engine.reconcile import plan, reconcile
from reconciler.errors import ExitCode, Forbidden
from reconciler.model import Manifest, Site
from reconciler.source.repository import Repository

PLAIN = "resources: {cpus: 1, memory: 0.1}\nrun: sleep 60\n"
WIDE = f"num_nodes: 2\n{PLAIN}"
NO_RIGHT = 'jobsets.jobset.x-k8s.io is forbidden: User "ada" cannot list resource "jobsets"'


class Elsewhere(LocalCluster):
    """A cluster that has JobSet, with rights to it in some namespaces, and what stands in `objects` besides."""

    context = "east"
    allowed: tuple[str | None, ...] = ()  # None: in all
    objects: tuple[Manifest, ...] = ()

    def serves(self, kind: str) -> bool:
        """Have them all."""
        return bool(kind)

    def list(self, kind: str, **options: Any) -> list[Manifest]:
        """Refuse one kind where there are no rights to it."""
        namespace = options.get("namespace")
        if kind == "JobSet" and namespace not in self.allowed:
            raise Forbidden(NO_RIGHT)
        there = [] if kind == "JobSet" else super().list(kind, **options)
        return there + [
            m for m in self.objects if m["kind"] == kind and namespace in (None, m["metadata"]["namespace"])
        ]

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Take what this machine would not."""
        return manifest if manifest["kind"] == "JobSet" else super().create(manifest, dry_run=dry_run)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    """Offer such a cluster, on which nothing is started."""
    made = Elsewhere(tmp_path / "elsewhere", {"cpu": "4", "memory": "4Gi", "pods": "110"})
    yield made
    made.close()


def run_of(file: str, number: int, **status: Any) -> Manifest:
    """Return run `number` of the job `wide`, with owner `me`, for what stood in its file, as a server holds it."""
    task = parse_task_file("jobs/wide.yaml", file.encode()).task
    assert task is not None
    run = RunIdentity(number=number, owner="me", commit="c" * 40, context="east", namespace="default")
    manifest, problems = render_job(task, Site(), run)
    assert manifest is not None, problems
    there = {"uid": f"uid-{number}", "creationTimestamp": "2026-03-01T10:00:00Z", "resourceVersion": "1"}
    return {**manifest, "metadata": {**manifest["metadata"], **there}, "status": status}


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


COMPLETE = {"type": "Complete", "status": "True", "reason": "CompletionsReached"}


@pytest.mark.parametrize(
    "earlier",
    [
        pytest.param((), id="the only run"),
        pytest.param((run_of(PLAIN.replace("60", "1"), 1, conditions=[COMPLETE]),), id="an earlier one is still there"),
    ],
)
def test_a_jobset_that_was_first_seen_when_its_file_had_changed_is_not_forgotten(
    elsewhere: Elsewhere, repo: Callable[..., Path], earlier: tuple[Manifest, ...]
) -> None:
    """A pass made it and died. The next one records it; without its API nothing starts beside it, nor is it lost."""
    settings = {"reconciler.yaml": "owner: me\n"}
    waits = "config: {kubernetes: {custom_metadata: {annotations: {job-reconciler/on-change: wait}}}}\n"
    elsewhere.objects = (*earlier, run_of(WIDE, 2))
    elsewhere.allowed = (None, "default")
    with Repository(repo({**settings, "jobs/wide.yaml": f"{PLAIN}{waits}"})) as repository:
        first = reconcile(repository, elsewhere, Options())
        elsewhere.objects, elsewhere.allowed = earlier, ()
        second = reconcile(repository, elsewhere, Options())

    assert [(action.verb, action.name) for action in first.actions] == [("hold", "wide-2")]
    assert first.documents["wide"]["run"]["kind"] == "JobSet"
    why = f"wide-2 is a JobSet, and what became of it can't be seen: {NO_RIGHT}"
    assert [(action.verb, action.name, action.reason) for action in second.actions] == [("hold", "wide-2", why)]
    assert second.documents == first.documents


def test_rights_count_where_a_job_is_wanted(elsewhere: Elsewhere, repo: Callable[..., Path]) -> None:
    """A namespace without rights to JobSets holds those that are wanted there, and no others."""

    def in_namespace(name: str) -> str:
        return f"{WIDE}config: {{kubernetes: {{namespace: {name}}}}}\n"

    elsewhere.allowed = ("alpha",)
    with Repository(repo({f"jobs/{name}.yaml": in_namespace(name) for name in ("alpha", "beta")})) as repository:
        actions = plan(repository, elsewhere, Options()).actions

    assert [(action.verb, action.name) for action in actions] == [("create", "alpha-1"), ("hold", "beta-1")]
    assert actions[1].reason == f"needs JobSet for its 2 nodes: {NO_RIGHT}"
