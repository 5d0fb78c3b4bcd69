"""Each implementation of `interface.Cluster` in turn: this machine always, Kubernetes where it is there.

The API can be asked about Jobs that are suspended; where pods have to run, Kubernetes needs its real node.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.cluster.interface import Cluster
from reconciler.cluster.kubernetes import open_kubernetes_cluster
from reconciler.cluster.local import LocalCluster
from reconciler.core.encoding import job_form
from reconciler.errors import NotFound
from reconciler.model import Manifest

if TYPE_CHECKING:
    from control_plane import ControlPlane

SLOT = "example.com/slot"
CAPACITY = {"cpu": "2", "memory": "1Gi", "pods": "20", SLOT: "1"}


@dataclass(frozen=True)
class Where:
    """A cluster, and a namespace on it for this test alone; names of PriorityClasses start with it too."""

    cluster: Cluster
    namespace: str

    @staticmethod
    def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait for a true value, and return it."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.1)
        return value

    def job(
        self, name: str, script: str = "true", *, slots: int = 0, labels: Manifest | None = None, **pod: Any
    ) -> Manifest:
        """Return a Job of our form, whose command is a bash script."""
        form = job_form(max_restarts_on_errors=0, max_recoveries=10, recover_on_exit_codes=(), main_container="main")
        container: Manifest = {"name": "main", "image": "docker.io/local/bash:1", "imagePullPolicy": "Never"}
        container |= {"command": ["bash", "-c", script], **pod.pop("container", {})}
        container["resources"] = {"limits": {SLOT: slots}} if slots else {}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], **pod}
        metadata = {"name": name, "namespace": self.namespace, "labels": labels or {}}
        spec = form | {"template": {"spec": spec}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def idle(self, name: str, **labels: str) -> Manifest:
        """Create a suspended Job."""
        job = self.job(name, labels=labels)
        return self.cluster.create(job | {"spec": job["spec"] | {"suspend": True}})

    def priority_class(self, name: str, value: int = 10, **more: Any) -> Manifest:
        """Return a PriorityClass."""
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        return {**head, "metadata": {"name": f"{self.namespace}-{name}"}, "value": value, **more}

    def settled(self, job: Manifest) -> Manifest:
        """Return a Job that nobody writes any more: its controller has looked at it."""
        settled: Manifest = self.until(lambda: self._with_status(job))
        return settled

    def _with_status(self, job: Manifest) -> Manifest | None:
        current = self.get(job)
        return current if current.get("status", {}).get("conditions") else None

    def get(self, known: Manifest) -> Manifest:
        """Read an object again."""
        metadata = known["metadata"]
        return self.cluster.get(known["kind"], metadata["name"], namespace=metadata.get("namespace"))

    def gone(self, known: Manifest) -> bool:
        """Tell whether an object is there no more."""
        with suppress(NotFound):
            return bool(self.get(known)["metadata"]["uid"] != known["metadata"]["uid"])
        return True

    def pods(self, job: str) -> list[Manifest]:
        """Return the pods of a Job."""
        return self.cluster.list("Pod", namespace=self.namespace, labels=f"batch.kubernetes.io/job-name={job}")

    def running(self, job: str) -> Manifest:
        """Wait until the command of a Job has said that it started, and return its pod."""
        pod: Manifest = self.until(lambda: next((pod for pod in self.pods(job) if "started" in self.log(pod)), None))
        return pod

    def log(self, pod: Manifest, *, follow: bool = False) -> str:
        """Return a pod's log; of one that has none yet, nothing."""
        with suppress(NotFound):
            return b"".join(self.cluster.logs(pod, container="main", follow=follow)).decode()
        return ""

    def ending(self, job: str) -> tuple[str, str] | None:
        """Return the final condition of a Job as (type, reason)."""
        status = self.cluster.get("Job", job, namespace=self.namespace).get("status", {})
        final = [(c["type"], c["reason"]) for c in status.get("conditions", ()) if c["type"] in ("Complete", "Failed")]
        return final[0] if final else None


def _open(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Cluster, str]:
    if request.param == "local":
        return LocalCluster(tmp_path, CAPACITY), f"test-{uuid.uuid4().hex[:8]}"
    control_plane: ControlPlane = request.getfixturevalue("control_plane")
    environ = {"KUBECONFIG": str(control_plane.kubeconfig)}
    return open_kubernetes_cluster(None, environ=environ), request.getfixturevalue("namespace")


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.real)])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Where]:
    """Give each cluster in turn, to be asked about objects."""
    cluster, namespace = _open(request, tmp_path)
    with closing(cluster):
        yield Where(cluster, namespace)


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kubelet)])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Where]:
    """Give each cluster in turn, with a node that runs pods. Afterwards nothing runs."""
    cluster, namespace = _open(request, tmp_path)
    where = Where(cluster, namespace)
    with closing(cluster):
        yield where
        for job in cluster.list("Job", namespace=namespace):
            cluster.delete(where.get(job), foreground=True)
        where.until(lambda: not cluster.list("Pod", namespace=namespace))
