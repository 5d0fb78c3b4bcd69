"""What becomes of runs that a killed pass has left without their files: none is lost, and none ends at its work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_cluster import FaultyCluster

from reconciler.core.decide import is_incomplete
from reconciler.engine.options import Options
from reconciler.engine.reconcile import reconcile
from reconciler.engine.report import Report
from reconciler.errors import Forbidden
from reconciler.model import Manifest, Result, Verb
from reconciler.source.repository import Repository

Files = dict[str, str | bytes | None]
Pass = Callable[[Files], Report]
SETTINGS = "config: {kubernetes: {custom_metadata: {annotations: {job-reconciler/suspend: 'true'}, labels: {%s}}}}"
TRAIN = f"workdir: train\nrun: sleep 60\nresources: {{cpus: 1, memory: 0.1}}\n{SETTINGS % ''}\n"
QUEUED = TRAIN.replace("labels: {}", "labels: {kueue.x-k8s.io/queue-name: q}")


@pytest.fixture
def passes(cluster: FaultyCluster, repo: Callable[..., Path], commit: Callable[..., str]) -> Pass:
    """Commit files and make a pass of them."""
    folder = repo({"train/a": "1"})

    def make(files: Files) -> Report:
        commit(folder, files)
        with Repository(folder) as repository:
            return reconcile(repository, cluster, Options())

    return make


@pytest.fixture
def killed(cluster: FaultyCluster, passes: Pass) -> Callable[[Files], None]:
    """Commit files and make a pass that comes no further than the Jobs."""

    def make(files: Files) -> None:
        def stop(manifest: Manifest, **_: object) -> None:
            if manifest["kind"] == "ConfigMap":
                raise Forbidden("killed")

        cluster.before["create"] = stop
        passes(files)
        cluster.before.clear()
        assert all(is_incomplete(job) for job in cluster.cluster.list("Job"))

    return make


def told(report: Report) -> list[tuple[Verb, Result | None, bool]]:
    return sorted({(action.verb, action.result, action.needs_attention) for action in report.actions})


def test_they_are_completed(passes: Pass, killed: Callable[[Files], None]) -> None:
    killed({f"jobs/{number}.yaml": TRAIN for number in range(2)})

    assert told(passes({})) == [(Verb.UPDATE, Result.DONE, False)]
    assert told(passes({})) == [(Verb.KEEP, Result.DONE, False)]


def test_when_their_files_have_changed_they_are_made_anew(passes: Pass, killed: Callable[[Files], None]) -> None:
    """A run in CI that the next push kills may leave many, and no flag is asked for: nothing that has begun ends."""
    killed({f"jobs/{number}.yaml": TRAIN for number in range(8)})

    assert told(passes({"train/a": "2"})) == [(Verb.CANCEL, Result.DONE, False)]
    assert told(passes({})) == [(Verb.CREATE, Result.DONE, False)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"train/a": None}, "'train' is no file of this commit", id="the files are gone"),
        pytest.param({"train/a": "x" * 1_100_000}, "no remote that they could reach", id="too large, and no remote"),
    ],
)
def test_what_can_not_be_completed_is_held(
    cluster: FaultyCluster, passes: Pass, killed: Callable[[Files], None], change: Files, reason: str
) -> None:
    """The problem is the reason: it is not taken for a change of files."""
    killed({"jobs/train.yaml": TRAIN})
    report = passes(change)
    (action,) = report.actions

    assert (action.verb, action.needs_attention) == (Verb.HOLD, True)
    assert reason in action.reason
    assert action.reason in [problem.message for problem in report.problems]
    assert [job["metadata"]["name"] for job in cluster.cluster.list("Job")] == ["train-1"]


def test_what_kueue_has_let_go_is_not_ended(
    cluster: FaultyCluster, passes: Pass, killed: Callable[[Files], None]
) -> None:
    """It knows nothing of our mark; all that the run needs may have been there by then."""
    killed({"jobs/train.yaml": QUEUED})
    (job,) = cluster.cluster.list("Job")
    cluster.cluster.patch(job, {"spec": {"suspend": False}})
    (action,) = passes({"train/a": "2"}).actions

    assert (action.verb, action.needs_attention) == (Verb.HOLD, True)
    assert action.reason == (
        "train-1 was not yet complete, and its files have changed: it was let go, and may lack them; to run it anew, "
        'set the annotation job-reconciler/rerun: "2" in jobs/train.yaml'
    )
    assert [job["metadata"]["name"] for job in cluster.cluster.list("Job")] == ["train-1"]
