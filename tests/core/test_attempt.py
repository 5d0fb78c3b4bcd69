"""Reading one pod: how far it is, what ended it, and what keeps it from starting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.attempt import MAX_TEXT, Stage, read_pod, text, waits_for_node
from reconciler.model import Manifest
from reconciler.runs import Attempt

START, END, TOLD = "2026-03-01T10:00:00Z", "2026-03-01T10:05:00Z", "2026-03-01T10:04:30Z"


def pod(phase: str = "Failed", *, deleted: bool = False, node: str | None = "node-1", **status: Any) -> Manifest:
    metadata = {"name": "train-3-0-abcde"} | ({"deletionTimestamp": TOLD} if deleted else {})
    spec = {"containers": [{"name": "main", "resources": {"limits": {"memory": "64Mi"}}}]}
    return {
        "metadata": metadata,
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": phase} | status,
    }


def main(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "sidecar", "state": {"running": {}}}, {"name": "main", "state": state}]}


def ended(code: int, reason: str = "Error", message: object = None) -> dict[str, Any]:
    said = message if message is None or isinstance(message, str) else json.dumps(message)
    fields = {"exitCode": code, "reason": reason, "startedAt": START, "finishedAt": END, "message": said}
    return main(terminated={key: value for key, value in fields.items() if value is not None})


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": TOLD}


PREEMPTED = condition("DisruptionTarget", "True", "PreemptionByScheduler", "preempting to accommodate another pod")
EVICTED = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
KUEUE = condition("TerminationTarget", "True", "WorkloadEvictedDueToPreempted", "Preempted to accommodate a workload")


@pytest.mark.parametrize(
    ("manifest", "stage"),
    [
        pytest.param(pod("Pending", node=None), Stage.UNBOUND, id="pending, no node"),
        pytest.param(pod("Pending"), Stage.BOUND, id="pending on a node"),
        pytest.param(pod("Pending", **main(waiting={"reason": "ContainerCreating"})), Stage.BOUND, id="creating"),
        pytest.param(pod("Running", **main(waiting={"reason": "PodInitializing"})), Stage.BOUND, id="a sidecar runs"),
        pytest.param(pod("Running", **main(running={"startedAt": START})), Stage.RUNNING, id="main runs"),
        pytest.param(pod("Running"), Stage.RUNNING, id="running, nothing said of containers"),
        pytest.param(pod("Running", **ended(0)), Stage.RUNNING, id="main ended, another container runs"),
        pytest.param(pod("Running", deleted=True, **main(running={})), Stage.TERMINATING, id="runs, told to stop"),
        pytest.param(pod("Pending", deleted=True), Stage.TERMINATING, id="told to stop before it ran"),
        pytest.param(pod("Unknown", deleted=True), Stage.TERMINATING, id="on a lost node"),
        pytest.param(pod("Failed", deleted=True, **ended(217)), Stage.ENDED, id="failed, object still there"),
        pytest.param(pod("Succeeded", **ended(0)), Stage.ENDED, id="succeeded"),
        pytest.param({}, Stage.UNBOUND, id="empty"),
        pytest.param({"metadata": None, "spec": None, "status": None}, Stage.UNBOUND, id="nulls"),
    ],
)
def test_stage(manifest: Manifest, stage: Stage) -> None:
    """A pod that is told to stop doesn't run any more, whatever its phase says."""
    assert read_pod(manifest).stage is stage


@pytest.mark.parametrize(
    ("manifest", "reason", "message", "exit_code"),
    [
        pytest.param(pod(**ended(3, message={"phase": "run", "exit_code": 3})), "Error", "exit code 3", 3, id="error"),
        pytest.param(
            pod(**ended(1, message={"phase": "run", "exit_code": 217})), "Error", "exit code 217", 217, id="own 217"
        ),
        pytest.param(
            pod(**ended(219, message={"phase": "setup", "exit_code": 2})),
            "Error",
            "setup failed with exit code 2",
            2,
            id="setup",
        ),
        pytest.param(
            pod(**ended(137, "OOMKilled", {"phase": "run", "exit_code": None})),
            "OOMKilled",
            "OOMKilled (limit 64Mi)",
            137,
            id="out of memory",
        ),
        pytest.param(
            pod(**ended(137, message={"phase": "run", "exit_code": None})), "Error", "exit code 137", 137, id="killed"
        ),
        pytest.param(
            pod(**ended(3, message="Traceback: hunter2")), "Error", "exit code 3", 3, id="a command's own last words"
        ),
        pytest.param(
            pod(**ended(3, message='{"phase": 1, "exit_code": "x"}')), "Error", "exit code 3", 3, id="odd last words"
        ),
        pytest.param(
            pod(**ended(3, message='noise\n{"phase": "run", "exit_code": 3}\n')),
            "Error",
            "exit code 3",
            3,
            id="after noise",
        ),
        pytest.param(
            pod(**ended(128, "StartError", 'exec: "bash": executable file not found in $PATH')),
            "StartError",
            'exec: "bash": executable file not found in $PATH',
            128,
            id="no bash in the image",
        ),
        pytest.param(
            pod(conditions=[PREEMPTED], **ended(217, message={"phase": "run", "exit_code": 0})),
            "PreemptionByScheduler",
            "preempting to accommodate another pod",
            0,
            id="preempted, the command answered with 0",
        ),
        pytest.param(
            pod(conditions=[EVICTED], **ended(137)),
            "EvictionByEvictionAPI",
            "Eviction API: evicting",
            137,
            id="evicted, killed",
        ),
        pytest.param(
            pod(conditions=[condition("DisruptionTarget", "False", "PreemptionByScheduler")], **ended(3)),
            "Error",
            "exit code 3",
            3,
            id="disruption that did not come",
        ),
        pytest.param(
            pod(conditions=[KUEUE], **ended(217)),
            "WorkloadEvictedDueToPreempted",
            "Preempted to accommodate a workload",
            217,
            id="evicted by Kueue",
        ),
        pytest.param(
            pod("Succeeded", conditions=[PREEMPTED], **ended(0, "Completed")),
            "Completed",
            None,
            0,
            id="done before it could be",
        ),
        pytest.param(
            pod(reason="Evicted", message="Container main exceeded its local ephemeral storage limit", **ended(217)),
            "Evicted",
            "Container main exceeded its local ephemeral storage limit",
            217,
            id="its own storage limit",
        ),
        pytest.param(
            pod(reason="OutOfcpu", message="Node didn't have enough resource"),
            "OutOfcpu",
            "Node didn't have enough resource",
            None,
            id="refused by the kubelet",
        ),
        pytest.param(pod(deleted=True, **ended(217)), "Deleted", None, 217, id="deleted by hand"),
        pytest.param(
            pod(**ended(217)),
            "Terminated",
            "it was told to stop, and nothing says by whom",
            217,
            id="told to stop by nobody",
        ),
        pytest.param(pod(**ended(218)), "PeerLost", None, 218, id="peer lost"),
        pytest.param(
            pod(
                initContainerStatuses=[{"name": "clone", "state": {"terminated": {"exitCode": 128, "reason": "Error"}}}]
            ),
            "Init:Error",
            "init container clone ended with exit code 128",
            None,
            id="init container",
        ),
        pytest.param(
            pod(
                initContainerStatuses=[
                    {
                        "name": "clone",
                        "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "it is\nso"}},
                    }
                ]
            ),
            "Init:Error",
            "init container clone ended with exit code 1: it is so",
            None,
            id="init container that says why",
        ),
        pytest.param(pod(), None, None, None, id="failed, nothing said"),
    ],
)
def test_why_ended(manifest: Manifest, reason: str | None, message: str | None, exit_code: int | None) -> None:
    """The outermost cause is told, in Kubernetes' own word; the exit code is the command's real one where known."""
    reading = read_pod(manifest)

    assert (reading.reason, reading.message, reading.attempt.exit_code) == (reason, message, exit_code)
    assert reading.attempt.reason == reason


@pytest.mark.parametrize(
    ("manifest", "reason", "message"),
    [
        pytest.param(
            pod(
                "Pending",
                node=None,
                conditions=[
                    condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
                ],
            ),
            "Unschedulable",
            "0/3 nodes are available: 3 Insufficient cpu.",
            id="no room",
        ),
        pytest.param(
            pod("Pending", conditions=[condition("PodScheduled")], **main(waiting={"reason": "ContainerCreating"})),
            "ContainerCreating",
            None,
            id="creating",
        ),
        pytest.param(
            pod(
                "Pending", **main(waiting={"reason": "ErrImageNeverPull", "message": "Container image is not present"})
            ),
            "ErrImageNeverPull",
            "Container image is not present",
            id="image is not to be pulled",
        ),
        pytest.param(
            pod("Pending", **main(waiting={"reason": "ErrImagePull", "message": "pull access denied"})),
            "ImagePullBackOff",
            "pull access denied",
            id="image, first words",
        ),
        pytest.param(
            pod(
                "Pending",
                **main(
                    waiting={
                        "reason": "ImagePullBackOff",
                        "message": 'Back-off pulling image "x:1": ErrImagePull: pull access denied',
                    }
                ),
            ),
            "ImagePullBackOff",
            "pull access denied",
            id="image, the same a moment later",
        ),
        pytest.param(
            pod("Pending", **main(waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x:1"'})),
            "ImagePullBackOff",
            'Back-off pulling image "x:1"',
            id="image, older kubelets",
        ),
        pytest.param(
            pod(
                "Pending",
                **main(waiting={"reason": "CreateContainerConfigError", "message": 'secret "job-secrets" not found'}),
            ),
            "CreateContainerConfigError",
            'secret "job-secrets" not found',
            id="no Secret",
        ),
        pytest.param(
            pod(
                "Pending",
                initContainerStatuses=[
                    {"name": "clone", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
                ],
                **main(waiting={"reason": "PodInitializing"}),
            ),
            "ImagePullBackOff",
            "no",
            id="init container's image",
        ),
        pytest.param(pod("Pending", node=None), None, None, id="nothing said yet"),
    ],
)
def test_why_waiting(manifest: Manifest, reason: str | None, message: str | None) -> None:
    """What keeps a pod from running is told in the words of who keeps it; what hasn't ended has no reason."""
    reading = read_pod(manifest)

    assert (reading.reason, reading.message) == (reason, message)
    assert reading.attempt.reason is None


def test_terminating_pod_says_until_when() -> None:
    """A pod on a dead node stays there for long; its deadline, unlike its age, is the same at each look."""
    reading = read_pod(pod("Running", deleted=True, **main(running={"startedAt": START})))

    assert reading.reason == "Deleted"
    assert reading.message == f"pod train-3-0-abcde on node node-1 has until {TOLD} to end"


def test_terminating_pod_that_had_no_node_names_none() -> None:
    reading = read_pod(pod("Pending", deleted=True, node=None))

    assert reading.message == f"pod train-3-0-abcde has until {TOLD} to end"


@pytest.mark.parametrize(
    ("manifest", "waits"),
    [
        pytest.param(pod("Pending", node=None), True, id="no node"),
        pytest.param(pod("Pending"), False, id="on a node, and not started"),
        pytest.param(pod("Pending", node=None, deleted=True), False, id="told to stop"),
        pytest.param(pod("Failed", node=None), False, id="ended"),
        pytest.param(
            {"spec": {"schedulingGates": [{"name": "g"}]}, "status": {"phase": "Pending"}}, False, id="behind a gate"
        ),
    ],
)
def test_what_the_scheduler_looks_for_a_node_for(manifest: Manifest, waits: bool) -> None:  # noqa: FBT001
    assert waits_for_node(manifest) is waits


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            pod(**ended(3)),
            Attempt("train-3-0-abcde", START, END, "node-1", "Error", 3),
            id="ended: the container's times",
        ),
        pytest.param(
            pod("Running", **main(running={"startedAt": START})),
            Attempt("train-3-0-abcde", START, None, "node-1", None, None),
            id="running",
        ),
        pytest.param(
            pod(conditions=[PREEMPTED]),
            Attempt("train-3-0-abcde", None, TOLD, "node-1", "PreemptionByScheduler", None),
            id="lost with its node: when that was noticed",
        ),
        pytest.param(
            pod("Pending", node=None), Attempt("train-3-0-abcde", None, None, None, None, None), id="not started"
        ),
    ],
)
def test_attempt(manifest: Manifest, expected: Attempt) -> None:
    assert read_pod(manifest).attempt == expected


@pytest.mark.parametrize(
    ("manifest", "disrupted"),
    [
        pytest.param(pod(conditions=[PREEMPTED], **ended(137)), True, id="marin#7121: SIGKILL after the grace period"),
        pytest.param(pod(conditions=[KUEUE], **ended(137)), True, id="marin#7806: Kueue has a condition of its own"),
        pytest.param(pod(reason="OutOfcpu"), True, id="kubernetes#121475: refused by the kubelet"),
        pytest.param(pod(**ended(217)), True, id="told to stop"),
        pytest.param(pod(**ended(218)), True, id="peer lost"),
        pytest.param(pod(**ended(137)), False, id="killed by itself"),
        pytest.param(pod(**ended(3)), False, id="error"),
    ],
)
def test_disrupted(manifest: Manifest, *, disrupted: bool) -> None:
    """What something outside ended is no evidence against the command, whatever the exit code."""
    assert read_pod(manifest).disrupted == disrupted


def test_text_is_one_line_of_bounded_length() -> None:
    assert text("a\n  b\tc ") == "a b c"
    assert text("x" * 500) == "x" * (MAX_TEXT - 1) + "…"
    assert [text(value) for value in ("", "  ", None, 3)] == [None] * 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "state", "type", "x"]), inner),
    max_leaves=8,
)
STATUS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("phase", "conditions", "containerStatuses", "initContainerStatuses", "reason"), JSON),
)


@given(st.fixed_dictionaries({}, optional={"metadata": JSON, "spec": JSON, "status": STATUS | JSON}))
def test_any_shape_is_read(manifest: Manifest) -> None:
    """A field of another type than expected says nothing; it ends no pass."""
    read_pod(manifest)
