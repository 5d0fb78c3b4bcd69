"""The control plane under the other tests is a real one, and does what they rely on."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import real_node

if TYPE_CHECKING:
    from control_plane import ControlPlane

    from tests.conftest import SimulatedNode

pytestmark = pytest.mark.real


def job(name: str, *command: str, spec: dict[str, Any] | None = None, annotations: dict[str, str] | None = None) -> str:
    container = {"name": "main", "image": real_node.IMAGE, "imagePullPolicy": "Never", "command": list(command)}
    pod = {"restartPolicy": "Never", "containers": [container], **(spec or {})}
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    return json.dumps({**manifest, "spec": {"backoffLimit": 0, "template": template}})


@pytest.mark.kubelet
def test_a_job_runs_in_a_real_container(control_plane: ControlPlane, namespace: str) -> None:
    """A command runs under a real bash, and its output is there to read."""
    there = f"--namespace={namespace}"
    control_plane.kubectl(
        "create", there, "-f", "-", stdin=job("hello", "bash", "-c", 'echo "hello from $BASH_VERSION"')
    )
    control_plane.kubectl("wait", there, "job/hello", "--for=condition=complete", "--timeout=60s")

    assert control_plane.kubectl("logs", there, "job/hello").startswith("hello from 5.")


@pytest.mark.kubelet
def test_the_real_node_has_a_stated_size(own_control_plane: ControlPlane) -> None:
    """Two CPUs and one slot, however big the machine is."""
    allocatable = own_control_plane.get("node", real_node.NAME)["status"]["allocatable"]

    assert (allocatable["cpu"], allocatable["example.com/slot"]) == ("2", "1")


@pytest.mark.parametrize(("code", "condition"), [("0", "complete"), ("3", "failed")])
def test_a_simulated_pod_ends_as_its_annotations_say(
    control_plane: ControlPlane, namespace: str, simulated_node: SimulatedNode, code: str, condition: str
) -> None:
    """KWOK plays the kubelet: nothing runs, and the Job controller can't tell."""
    there = f"--namespace={namespace}"
    annotations = {"test/exit-code": code, "test/runs-for": "0s", "test/message": '{"phase": "run"}'}
    manifest = job("pretend", "true", spec=simulated_node.pod_config["spec"], annotations=annotations)
    control_plane.kubectl("create", there, "-f", "-", stdin=manifest)
    control_plane.kubectl("wait", there, "job/pretend", f"--for=condition={condition}", "--timeout=60s")
    (pod,) = control_plane.get("pods", namespace=namespace)
    terminated = pod["status"]["containerStatuses"][0]["state"]["terminated"]

    assert (terminated["exitCode"], terminated["message"]) == (int(code), '{"phase": "run"}')


def test_a_component_comes_back_after_a_crash(
    own_control_plane: ControlPlane, namespace: str, simulated_node: SimulatedNode
) -> None:
    """A Job that was created while its controller was being killed runs."""
    there = f"--namespace={namespace}"
    manifest = job("later", "true", spec=simulated_node.pod_config["spec"], annotations={"test/exit-code": "0"})
    own_control_plane.processes.kill("kube-controller-manager")
    own_control_plane.kubectl("create", there, "-f", "-", stdin=manifest)
    own_control_plane.restart("kube-controller-manager")

    own_control_plane.kubectl("wait", there, "job/later", "--for=condition=complete", "--timeout=60s")


def test_the_api_server_comes_back_with_what_it_had(own_control_plane: ControlPlane, namespace: str) -> None:
    """Its state is in etcd, so it may be killed under a client."""
    own_control_plane.restart("kube-apiserver")

    assert own_control_plane.exists("namespace", namespace)


def test_the_audit_log_has_the_writes(own_control_plane: ControlPlane, namespace: str) -> None:
    """A test can count what a client wrote; a dry run is told from a write, and reading is none."""
    there = f"--namespace={namespace}"
    before = len(own_control_plane.writes("kubectl"))
    own_control_plane.kubectl("create", there, "configmap", "real")
    own_control_plane.kubectl("create", there, "configmap", "tried", "--dry-run=server")
    own_control_plane.kubectl("get", there, "configmaps")
    writes = own_control_plane.writes("kubectl")[before:]

    assert [(write.verb, write.resource, write.name, write.code, write.dry_run) for write in writes] == [
        ("create", "configmaps", "real", 201, False),
        ("create", "configmaps", "tried", 201, True),
    ]


@pytest.mark.parametrize(
    ("context", "refusal"),
    [
        pytest.param("reader", "configmaps is forbidden", id="who may only read"),
        pytest.param("nobody", "configmaps is forbidden", id="who may do nothing"),
        pytest.param("expired", "Unauthorized", id="whose token is not known"),
    ],
)
def test_other_users_may_not_write(own_control_plane: ControlPlane, namespace: str, context: str, refusal: str) -> None:
    """The kubeconfig has contexts for the refusals that a client must tell apart."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        own_control_plane.kubectl(f"--context={context}", f"--namespace={namespace}", "create", "configmap", "mine")

    assert refusal in caught.value.__notes__[0]


def test_the_reader_may_read(own_control_plane: ControlPlane) -> None:
    assert "kube-system" in own_control_plane.kubectl("--context=reader", "get", "namespaces", "--output=name")
