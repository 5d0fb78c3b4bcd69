"""The Kubernetes cluster against a real API server: its refusals, its watches, many objects at once."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import real_node

from reconciler.cluster.kubernetes import KubernetesCluster, open_kubernetes_cluster
from reconciler.cluster.request import Patience
from reconciler.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnauthorized,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from control_plane import ControlPlane

pytestmark = pytest.mark.real


def job(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a Job that stays suspended, with a secret in its environment."""
    container = {"name": "main", "image": "x", "env": [{"name": "HF_TOKEN", "value": "hunter2"}]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {"test/name": name}},
        "spec": {"suspend": True, "template": template, **spec},
    }


def opened(control_plane: ControlPlane, context: str | None = None) -> KubernetesCluster:
    """Open the control plane as one of its users."""
    return open_kubernetes_cluster(context, environ={"KUBECONFIG": str(control_plane.kubeconfig)})


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[KubernetesCluster]:
    """Open the control plane as who may do everything."""
    with closing(opened(control_plane)) as cluster:
        yield cluster


def test_the_server(cluster: KubernetesCluster) -> None:
    """It is new enough, and tells itself from other servers."""
    assert cluster.server_version() >= (1, 31)
    assert len(cluster.uid()) == 36
    assert cluster.get("Namespace", "kube-system")["metadata"]["uid"] == cluster.uid()


def test_a_dry_run(cluster: KubernetesCluster, namespace: str) -> None:
    """It is validated and defaulted, and leaves nothing behind."""
    echo = cluster.create(job("train-1", namespace, successPolicy=None), dry_run=True)

    assert echo["spec"]["podReplacementPolicy"] == "TerminatingOrFailed"
    assert cluster.list("Job", namespace=namespace) == []


TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "y"}]}}}}


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        pytest.param(
            lambda cluster, live: cluster.create(job("train-1", live["metadata"]["namespace"])),
            AlreadyExists,
            'could not create Job {namespace}/train-1 on test: 409 AlreadyExists: jobs.batch "train-1" already exists',
            id="exists",
        ),
        pytest.param(
            lambda cluster, live: cluster.create(job("b", live["metadata"]["namespace"], suspendd=True)),
            Invalid,
            'could not create Job {namespace}/b on test: 400 BadRequest: Job in version "v1" cannot be handled as a '
            'Job: strict decoding error: unknown field "spec.suspendd"',
            id="unknown field",
        ),
        pytest.param(
            lambda cluster, live: cluster.create(job("b", live["metadata"]["namespace"], parallelism=-1), dry_run=True),
            Invalid,
            "could not create Job {namespace}/b on test: 422 Invalid: spec.parallelism: "
            "Invalid value: -1: must be greater than or equal to 0",
            id="invalid value",
        ),
        pytest.param(
            lambda cluster, _: cluster.create(job("b", "nowhere-at-all")),
            NotFound,
            'could not create Job nowhere-at-all/b on test: 404 NotFound: namespaces "nowhere-at-all" not found',
            id="no such namespace",
        ),
        pytest.param(
            lambda cluster, live: cluster.patch(live, TEMPLATE),
            Invalid,
            "could not update Job {namespace}/train-1 on test: 422 Invalid: spec.template: "
            "Invalid value: …: field is immutable",
            id="immutable, and a secret in it",
        ),
        pytest.param(
            lambda cluster, live: cluster.patch({**live, "metadata": {**live["metadata"], "uid": "other"}}, {}),
            Conflict,
            "could not update Job {namespace}/train-1 on test: 422 Invalid: metadata.uid: "
            'Invalid value: "other": field is immutable',
            id="patch of another object",
        ),
        pytest.param(
            lambda cluster, live: cluster.delete({**live, "metadata": {**live["metadata"], "resourceVersion": "1"}}),
            Conflict,
            "could not delete Job {namespace}/train-1 on test: 409 Conflict: Operation cannot be fulfilled on",
            id="deletion of another version",
        ),
        pytest.param(
            lambda cluster, live: cluster.get("Job", "nothing", namespace=live["metadata"]["namespace"]),
            NotFound,
            'could not read Job {namespace}/nothing on test: 404 NotFound: jobs.batch "nothing" not found',
            id="absent",
        ),
        pytest.param(
            lambda cluster, _: cluster.list("Job", labels="a b c"),
            Invalid,
            "could not list jobs in all namespaces on test: 400 BadRequest: unable to parse requirement",
            id="selector",
        ),
    ],
)
def test_refusals(
    cluster: KubernetesCluster,
    namespace: str,
    refused: Callable[[KubernetesCluster, dict[str, Any]], None],
    error: type[ClusterError],
    message: str,
) -> None:
    """The real server's answers become the right exceptions, in one line without secrets."""
    live = cluster.create(job("train-1", namespace))

    with pytest.raises(error) as caught:
        refused(cluster, live)

    expected = message.format(namespace=namespace).replace(" on test: ", f" on {cluster.context}: ")
    assert str(caught.value).startswith(expected)
    assert "hunter2" not in str(caught.value)


def test_who_may_not(own_control_plane: ControlPlane) -> None:
    """Without the permission the message says what is missing, with an old login what to do."""
    with closing(opened(own_control_plane, "nobody")) as cluster, pytest.raises(Forbidden) as forbidden:
        cluster.list("Job")
    with closing(opened(own_control_plane, "expired")) as cluster, pytest.raises(ClusterUnauthorized) as unauthorized:
        cluster.list("Job")

    assert str(forbidden.value) == (
        'could not list jobs in all namespaces on nobody: 403 Forbidden: jobs.batch is forbidden: User "nobody" cannot '
        'list resource "jobs" in API group "batch" at the cluster scope '
        "(docs/operating.md lists the rights that are needed)"
    )
    assert str(unauthorized.value) == (
        "could not list jobs in all namespaces on expired: 401 Unauthorized: Unauthorized "
        "(the credentials were read again and are still refused: log in again)"
    )


def test_a_token_that_is_replaced(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Whoever renews the token file while we run does not have to start us again."""
    config = json.loads(control_plane.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
    token = tmp_path / "token"
    token.write_text("an old one")
    valid = config["users"][0]["user"].pop("token", None)
    if valid is None:
        pytest.skip("this cluster's kubeconfig has no token")
    config["users"][0]["user"]["tokenFile"] = str(token)
    (tmp_path / "config").write_text(json.dumps(config))

    with closing(open_kubernetes_cluster(None, environ={"KUBECONFIG": str(tmp_path / "config")})) as cluster:
        with pytest.raises(ClusterUnauthorized):
            cluster.uid()
        token.write_text(f"{valid}\n")

        assert cluster.uid()


def test_a_server_that_is_not_to_be_trusted(control_plane: ControlPlane, tmp_path: Path) -> None:
    """A certificate that does not fit is not tried again: it will not fit the next time either."""
    config = json.loads(control_plane.kubectl("config", "view", "--raw", "--minify", "--output=json"))
    for key in ("certificate-authority", "certificate-authority-data"):
        config["clusters"][0]["cluster"].pop(key, None)
    (tmp_path / "config").write_text(json.dumps(config))
    patience = Patience(delays=(60.0,))

    with (
        closing(
            open_kubernetes_cluster(None, environ={"KUBECONFIG": str(tmp_path / "config")}, patience=patience)
        ) as cluster,
        pytest.raises(ClusterUnreachable, match=r"is not to be trusted: .*certificate verify failed"),
    ):
        cluster.uid()


def delete_unless_changed(cluster: KubernetesCluster, live: dict[str, Any]) -> None:
    """Delete a Job. The controller may just have written its first status: then it is another version."""
    with contextlib.suppress(Conflict):
        cluster.delete(live)


def test_many_at_once(cluster: KubernetesCluster, namespace: str) -> None:
    """Eight threads share the client, and a list is longer than a page."""
    names = [f"job-{number}" for number in range(501)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: cluster.create(job(name, namespace)), names))

        found = cluster.list("Job", namespace=namespace)
        while left := cluster.list("Job", namespace=namespace, labels="test/name"):
            list(threads.map(lambda live: delete_unless_changed(cluster, live), left))

    assert sorted(job["metadata"]["name"] for job in found) == sorted(names)
    assert {job["kind"] for job in found} == {"Job"}


def test_a_watch_starts_now(cluster: KubernetesCluster, namespace: str) -> None:
    """It shows what happens after the call, not what was there, and ends by itself."""
    cluster.create(job("before", namespace))

    changes = cluster.watch("Job", namespace=namespace, timeout=1)
    live = cluster.create(job("after", namespace))
    cluster.patch(live, {"metadata": {"labels": {"a": "b"}}})
    start = time.monotonic()
    seen = [(change.type, change.manifest["metadata"]["name"]) for change in changes]

    assert ("ADDED", "after") in seen
    assert ("MODIFIED", "after") in seen
    assert ("ADDED", "before") not in seen
    assert time.monotonic() - start < 3


def test_closing_ends_a_watch(control_plane: ControlPlane, namespace: str) -> None:
    """A thread that waits for changes does not keep the process alive."""
    cluster = opened(control_plane)
    watching = threading.Thread(target=list, args=(cluster.watch("Job", namespace=namespace, timeout=60),))
    watching.start()
    time.sleep(0.3)

    cluster.close()
    watching.join(5)

    assert not watching.is_alive()


def test_watches_leave_nothing_behind(cluster: KubernetesCluster, namespace: str) -> None:
    """kubernetes-client/python#545: threads and descriptors of watches piled up until the process died."""

    def watch_once(number: int) -> None:
        changes = cluster.watch("Job", namespace=namespace, timeout=60)
        cluster.create(job(f"job-{number}", namespace), dry_run=False)
        next(changes)  # and no more: the stream is abandoned while it is open
        changes.close()  # type: ignore[attr-defined]

    watch_once(0)
    threads, descriptors = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    for number in range(1, 30):
        watch_once(number)

    assert threading.active_count() == threads
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 1


@pytest.mark.kubelet
def test_logs_come_while_they_are_written(cluster: KubernetesCluster, namespace: str) -> None:
    """Following yields a line before the next one is written, and ends with the container."""
    script = "echo one; sleep 3; echo two"
    container = {
        "name": "main",
        "image": real_node.IMAGE,
        "imagePullPolicy": "Never",
        "command": ["bash", "-c", script],
    }
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talker", "namespace": namespace}}
    pod = cluster.create({**manifest, "spec": {"restartPolicy": "Never", "containers": [container]}})

    pieces: list[tuple[float, bytes]] = []
    while not pieces:
        with contextlib.suppress(NotFound):  # the container is waiting to start
            pieces = [(time.monotonic(), piece) for piece in cluster.logs(pod, container="main", follow=True)]

    assert b"".join(piece for _, piece in pieces) == b"one\ntwo\n"
    assert pieces[-1][0] - pieces[0][0] > 0.5
    assert b"".join(cluster.logs(pod, container="main")) == b"one\ntwo\n"
