"""What the local cluster refuses, and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.cluster.local import LocalCluster, open_local_cluster
from reconciler.cluster.local.admission import admit, make_pod
from reconciler.core.encoding import job_form
from reconciler.errors import ClusterUnreachable, Forbidden, Invalid, UsageError
from reconciler.model import Manifest

CLONED = "(what is above 1 MiB or elsewhere is cloned in one)"


def job(pod: Manifest | None = None, *, name: str = "train-1", **spec: Any) -> Manifest:
    form = job_form(max_restarts_on_errors=0, max_recoveries=10, recover_on_exit_codes=(), main_container="main")
    container = {"name": "main", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
    metadata = {"name": name, "namespace": "default", "uid": "1234567"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {**form, "template": template, **spec},
    }


@pytest.mark.parametrize(
    ("refused", "need"),
    [
        pytest.param(job(completionMode="NonIndexed"), "completionMode Indexed", id="not indexed"),
        pytest.param(job(parallelism=2), "parallelism 1", id="parallel"),
        pytest.param(job({"restartPolicy": "OnFailure"}), "restartPolicy Never", id="restarts in place"),
        pytest.param(job({"initContainers": [{"name": "clone"}]}), f"no initContainers {CLONED}", id="init containers"),
        pytest.param(
            job({"containers": [{"command": ["a"]}] * 2}), "one container, with a command", id="two containers"
        ),
        pytest.param(job({"containers": [{"name": "main"}]}), "one container, with a command", id="only an image"),
        pytest.param(
            job({"volumes": [{"name": "d", "hostPath": {}}]}),
            "no volumes but emptyDir and the files of the run",
            id="a volume",
        ),
        pytest.param(job(name="a" * 61), "names of pods that are DNS labels", id="too long with its index"),
        pytest.param(job(name="a.b"), "names of pods that are DNS labels", id="a dot"),
    ],
)
def test_what_only_a_real_cluster_can_do_is_refused_by_name(refused: Manifest, need: str) -> None:
    with pytest.raises(Invalid) as error:
        admit(refused, None, [])

    assert str(error.value) == f'Job.batch "{refused["metadata"]["name"]}" is invalid: the local cluster needs {need}'


def test_all_that_is_missing_is_said_at_once() -> None:
    with pytest.raises(Invalid, match="needs completionMode Indexed, no initContainers"):
        admit(job({"initContainers": [{}]}, completionMode=None), None, [])


def test_an_empty_dir_is_accepted() -> None:
    dshm = {"name": "dshm", "emptyDir": {"medium": "Memory"}}

    assert admit(job({"volumes": [dshm]}), None, [])["spec"]["suspend"] is False


CLASSES = [
    {"metadata": {"name": "low"}, "value": 10, "preemptionPolicy": "Never"},
    {"metadata": {"name": "usual"}, "value": 100, "preemptionPolicy": "PreemptLowerPriority", "globalDefault": True},
]
ADDED = {"uid": "abcdef", "creationTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("name", "classes", "expected"),
    [
        pytest.param("low", CLASSES, (10, "Never", "low"), id="named"),
        pytest.param(None, CLASSES, (100, "PreemptLowerPriority", "usual"), id="the default"),
        pytest.param(None, CLASSES[:1], (0, "PreemptLowerPriority", None), id="no default"),
    ],
)
def test_a_pod_gets_the_priority_of_its_class(
    name: str | None, classes: list[Manifest], expected: tuple[int, str, str | None]
) -> None:
    spec = make_pod(job({"priorityClassName": name} if name else {}), 0, 0, classes, ADDED)["spec"]

    assert (spec["priority"], spec["preemptionPolicy"], spec.get("priorityClassName")) == expected


def test_a_pod_without_its_class_is_refused() -> None:
    with pytest.raises(Forbidden, match=r"^no PriorityClass with name gone was found$"):
        make_pod(job({"priorityClassName": "gone"}), 0, 0, CLASSES, ADDED)


def test_a_pod_says_which_attempt_of_which_job_it_is() -> None:
    metadata = make_pod(job(), 7, 2, [], ADDED)["metadata"]

    assert metadata["name"] == "train-1-7-abcde"
    assert metadata["labels"] == {
        "job-name": "train-1",
        "controller-uid": "1234567",
        "batch.kubernetes.io/job-name": "train-1",
        "batch.kubernetes.io/controller-uid": "1234567",
        "batch.kubernetes.io/job-completion-index": "7",
    }
    assert metadata["annotations"] == {
        "batch.kubernetes.io/job-completion-index": "7",
        "batch.kubernetes.io/job-index-failure-count": "2",
    }


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        pytest.param({"RECONCILER_LOCAL_HOME": "{}/here"}, "here", id="said"),
        pytest.param({"XDG_STATE_HOME": "{}/state"}, "state/job-reconciler/local", id="XDG"),
        pytest.param({"HOME": "{}/ada"}, "ada/.local/state/job-reconciler/local", id="home"),
    ],
)
def test_where_the_state_is_kept(environ: dict[str, str], folder: str, tmp_path: Path) -> None:
    """The cluster's uid stays the same as long as the folder does."""
    environ = {key: value.format(tmp_path) for key, value in environ.items()}
    uid = open_local_cluster(environ).uid()

    assert (tmp_path / folder).is_dir()
    assert open_local_cluster(environ).uid() == uid


def capacity(tmp_path: Path, text: str) -> Manifest:
    environ = {"RECONCILER_LOCAL_HOME": str(tmp_path), "RECONCILER_LOCAL_CAPACITY": text}
    allocatable: Manifest = open_local_cluster(environ).get("Node", "local")["status"]["allocatable"]
    return allocatable


def test_the_capacity_can_be_stated(tmp_path: Path) -> None:
    stated = capacity(tmp_path, "cpu=500m, nvidia.com/gpu=2,")

    assert (stated["cpu"], stated["nvidia.com/gpu"], stated["pods"]) == ("500m", "2", "110")
    assert stated["memory"].endswith("Ki")


@pytest.mark.parametrize("text", ["cpu", "cpu=", "cpu=many"])
def test_a_capacity_that_is_no_quantity_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=f"^RECONCILER_LOCAL_CAPACITY: '{text}' should read like cpu=4: .* not a quantity"
    ):
        capacity(tmp_path, text)


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(
        ClusterUnreachable, match=r"^the local cluster can't use its folder .*/file/local: .*Not a directory"
    ):
        LocalCluster(tmp_path / "file" / "local", {"cpu": "1"})
