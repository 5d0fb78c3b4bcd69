"""What the scheduler would do, in tables worked by hand from its source."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.preview import place, pod_requests
from reconciler.model import Manifest, Placement, Verdict


def node(name: str = "n1", cpu: str = "4", **more: Any) -> Manifest:
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": "110", **more.pop("allocatable", {})}
    labels = more.pop("labels", {})
    return {"metadata": {"name": name, "labels": labels}, "spec": more, "status": {"allocatable": allocatable}}


def spec(cpu: str = "1", **more: Any) -> Manifest:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **more}


def pod(
    name: str, cpu: str = "1", priority: int = 0, *, on: str | None = "n1", start: int = 0, **more: Any
) -> Manifest:
    """Make a pod that runs on `on` since `start` o'clock."""
    metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
    status = {"phase": "Running", "startTime": f"2026-01-01T{start:02}:00:00Z", **more.pop("status", {})}
    bound = {"nodeName": on} if on else {}
    return {"metadata": metadata, "spec": spec(cpu, priority=priority, **bound, **more), "status": status}


STOPPING = {"deletionTimestamp": "2026-01-01T09:00:00Z"}
DAEMON = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent"}]}


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        pytest.param([node()], [pod("a", "2")], Placement(Verdict.FITS, "n1", (), "fits now on n1"), id="room is left"),
        pytest.param(
            [node("n1", "1"), node("n2"), node("n3")],
            [],
            Placement(Verdict.FITS, "n2", (), "fits now on 2 nodes, such as n2"),
            id="several fit",
        ),
        pytest.param(
            [node()],
            [pod("a", "3", status={"phase": "Succeeded"}), pod("b", "3", on="elsewhere"), pod("c", "3", on=None)],
            Placement(Verdict.FITS, "n1", (), "fits now on n1"),
            id="ended, foreign and unbound pods hold no room",
        ),
        pytest.param(
            [node()],
            [pod("a", "3", 10)],
            Placement(
                Verdict.WAITS,
                None,
                (),
                "0/1 nodes are available: 1 Insufficient cpu; no pods of lower priority whose place would be enough",
            ),
            id="equal priority is never preempted",
        ),
        pytest.param(
            [node()],
            [pod("a", "3", 9, terminationGracePeriodSeconds=600)],
            Placement(
                Verdict.PREEMPTS,
                "n1",
                ("default/a",),
                "takes the place of default/a (priority 9) on n1, after at most 600 s of grace",
            ),
            id="lower priority is",
        ),
        pytest.param(
            [node()],
            [pod("a", "3", 9, metadata=STOPPING)],
            Placement(
                Verdict.WAITS,
                "n1",
                (),
                "0/1 nodes are available: 1 Insufficient cpu; "
                "default/a (priority 9) on n1 already stops, in at most 30 s",
            ),
            id="a terminating pod still holds its room, but nobody else has to go",
        ),
        pytest.param(
            [node()],
            [pod("a", "3", 9, on=None, status={"phase": "Pending", "nominatedNodeName": "n1"})],
            Placement(Verdict.FITS, "n1", (), "fits now on n1"),
            id="room nominated for a lower pod is free for this one",
        ),
        pytest.param(
            [node()],
            [pod("a", "3", 10, on=None, status={"phase": "Pending", "nominatedNodeName": "n1"})],
            Placement(
                Verdict.WAITS,
                None,
                (),
                "0/1 nodes are available: 1 Insufficient cpu; no pods of lower priority whose place would be enough",
            ),
            id="room nominated for an equal one is not, and its pod is no victim",
        ),
        pytest.param(
            [node("n1", "1"), node("n2", "1500m")],
            [pod("agent", "1", on="n2", metadata=DAEMON)],
            Placement(
                Verdict.PREEMPTS,
                "n2",
                ("default/agent",),
                "takes the place of default/agent (priority 0) on n2, after at most 30 s of grace",
            ),
            id="a DaemonSet's pod of lower priority has to go too",
        ),
        pytest.param(
            [node("n1", "1"), node("n2", "2")],
            [pod("agent", "1", 10, on="n2", metadata=DAEMON)],
            Placement(
                Verdict.NEVER,
                None,
                (),
                "0/2 nodes can hold it, whoever leaves: 2 node(s) too small; the nearest, n1: asks for 1500m cpu of 1",
            ),
            id="a DaemonSet's pod of the same priority stays for ever",
        ),
        pytest.param([], [], Placement(Verdict.NEVER, None, (), "the cluster has no node"), id="no node"),
    ],
)
def test_a_pod_of_priority_10_that_asks_for_one_and_a_half_cpus(
    nodes: list[Manifest], pods: list[Manifest], expected: Placement
) -> None:
    assert place(spec("1500m"), 10, nodes, pods) == expected


def test_a_reason_names_three_victims_and_counts_the_rest() -> None:
    placement = place(spec("4"), 10, [node()], [pod(name, "1") for name in "abcd"])

    assert len(placement.victims) == 4
    assert placement.reason == (
        "takes the place of default/a (priority 0), default/b (priority 0), default/c (priority 0) and 1 more on n1, "
        "after at most 30 s of grace"
    )


def test_preemption_policy_never_takes_no_place() -> None:
    placement = place(spec("2", preemptionPolicy="Never"), 10, [node()], [pod("a", "3", 1)])

    reason = "0/1 nodes are available: 1 Insufficient cpu; its preemptionPolicy is Never, so it takes no place"
    assert placement == Placement(Verdict.WAITS, None, (), reason)


@pytest.mark.parametrize(
    ("pods", "victims"),
    [
        pytest.param(
            [pod("a", "1", 1), pod("b", "1", 2), pod("c", "2", 3)],
            ("default/b", "default/a"),
            id="of three, the most important is put back first",
        ),
        pytest.param(
            [pod("a", "2", 1, start=1), pod("b", "2", 1, start=2)],
            ("default/b",),
            id="of equals, the one that started first stays",
        ),
        pytest.param(
            [pod("a", "2", 1, start=1), pod("b", "2", 1, status={"startTime": None})],
            ("default/b",),
            id="one that has not started counts as the latest",
        ),
        pytest.param([pod("a", "1", 5), pod("b", "3", 1)], ("default/b",), id="a small one stays where it still fits"),
        pytest.param(
            [pod("a", "3", 5), pod("b", "1", 1)], ("default/a",), id="a lower one stays where it does not help"
        ),
    ],
)
def test_victims_on_a_node_are_those_that_cannot_be_put_back(pods: list[Manifest], victims: tuple[str, ...]) -> None:
    """All lower pods are taken away, then put back in the order of their importance (4 CPUs, 2 wanted)."""
    assert place(spec("2"), 10, [node()], pods).victims == victims


@pytest.mark.parametrize(
    ("pods", "chosen"),
    [
        pytest.param([pod("a", "4", 5), pod("b", "4", 3, on="n2")], "n2", id="the lowest highest priority"),
        pytest.param(
            [pod("a", "2", 5), pod("a2", "2", 3), pod("b", "2", 5, on="n2"), pod("b2", "2", 1, on="n2")],
            "n2",
            id="then the lowest sum",
        ),
        pytest.param(
            [pod("a", "2", -5), pod("a2", "2", -5), pod("b", "4", -5, on="n2")],
            "n2",
            id="a sum of negatives counts pods",
        ),
        pytest.param([pod("a", "4", 5, start=1), pod("b", "4", 5, on="n2", start=2)], "n2", id="then the latest start"),
        pytest.param([pod("a", "4", 5), pod("b", "4", 5, on="n2")], "n1", id="then the first"),
    ],
)
def test_the_node_that_loses_least_is_chosen(pods: list[Manifest], chosen: str) -> None:
    placement = place(spec("4"), 10, [node("n1"), node("n2")], pods)

    assert (placement.verdict, placement.node) == (Verdict.PREEMPTS, chosen)


TAINT = {"key": "gpu", "value": "reserved", "effect": "NoSchedule"}


def required(*terms: Manifest) -> Manifest:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Manifest:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


SELECTOR = "1 node(s) didn't match Pod's node affinity/selector"
TAINTED = "1 node(s) had untolerated taint {gpu: reserved}"


@pytest.mark.parametrize(
    ("node_part", "pod_part", "obstacle"),
    [
        pytest.param({}, {"nodeName": "n1"}, None, id="the node that it names"),
        pytest.param({}, {"nodeName": "n2"}, "1 node(s) didn't match the requested node name", id="another node"),
        pytest.param({"unschedulable": True}, {}, "1 node(s) were unschedulable", id="cordoned"),
        pytest.param({"unschedulable": True}, {"tolerations": [{"operator": "Exists"}]}, None, id="cordon tolerated"),
        pytest.param({"taints": [TAINT]}, {}, TAINTED, id="taint"),
        pytest.param({"taints": [TAINT | {"effect": "NoExecute"}]}, {}, TAINTED, id="taint NoExecute"),
        pytest.param({"taints": [TAINT | {"effect": "PreferNoSchedule"}]}, {}, None, id="taint that only advises"),
        pytest.param({"taints": [TAINT]}, {"tolerations": [TAINT]}, None, id="tolerated by value"),
        pytest.param({"taints": [TAINT]}, {"tolerations": [TAINT | {"value": "x"}]}, TAINTED, id="another value"),
        pytest.param(
            {"taints": [TAINT]}, {"tolerations": [TAINT | {"effect": "NoExecute"}]}, TAINTED, id="other effect"
        ),
        pytest.param(
            {"taints": [TAINT]}, {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, None, id="any value"
        ),
        pytest.param({"taints": [TAINT]}, {"tolerations": [{"operator": "Exists"}]}, None, id="any taint"),
        pytest.param({}, {"nodeSelector": {"zone": "a"}}, None, id="selector matches"),
        pytest.param({}, {"nodeSelector": {"zone": "b"}}, SELECTOR, id="selector does not"),
        pytest.param({}, {"affinity": required(expression("zone", "In", "b", "a"))}, None, id="In"),
        pytest.param({}, {"affinity": required(expression("zone", "In", "b"))}, SELECTOR, id="not In"),
        pytest.param({}, {"affinity": required(expression("zone", "NotIn", "a"))}, SELECTOR, id="NotIn"),
        pytest.param({}, {"affinity": required(expression("rack", "NotIn", "a"))}, None, id="NotIn of what is missing"),
        pytest.param({}, {"affinity": required(expression("zone", "Exists"))}, None, id="Exists"),
        pytest.param({}, {"affinity": required(expression("rack", "Exists"))}, SELECTOR, id="Exists, missing"),
        pytest.param({}, {"affinity": required(expression("zone", "DoesNotExist"))}, SELECTOR, id="DoesNotExist"),
        pytest.param({}, {"affinity": required(expression("gen", "Gt", "2"))}, None, id="Gt"),
        pytest.param({}, {"affinity": required(expression("gen", "Gt", "3"))}, SELECTOR, id="Gt is strict"),
        pytest.param({}, {"affinity": required(expression("gen", "Lt", "4"))}, None, id="Lt"),
        pytest.param({}, {"affinity": required(expression("zone", "Lt", "4"))}, SELECTOR, id="Lt of no number"),
        pytest.param({}, {"affinity": required(expression("rack", "Lt", "4"))}, SELECTOR, id="Lt of what is missing"),
        pytest.param(
            {},
            {"affinity": required(expression("zone", "In", "b"), expression("gen", "Exists"))},
            None,
            id="terms are OR",
        ),
        pytest.param({}, {"affinity": required({})}, SELECTOR, id="an empty term matches nothing"),
        pytest.param(
            {},
            {"affinity": required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})},
            None,
            id="matchFields",
        ),
    ],
)
def test_what_keeps_a_pod_off_a_node_whoever_leaves_it(
    node_part: Manifest, pod_part: Manifest, obstacle: str | None
) -> None:
    placement = place(spec(**pod_part), 0, [node(labels={"zone": "a", "gen": "3"}, **node_part)], [])

    if obstacle is None:
        assert placement.verdict is Verdict.FITS
    else:
        assert (placement.verdict, placement.reason) == (
            Verdict.NEVER,
            f"0/1 nodes can hold it, whoever leaves: {obstacle}",
        )


def test_never_names_the_nearest_miss() -> None:
    gpu = {"nvidia.com/gpu": "8"}
    nodes = [node("small"), node("big", allocatable=gpu), node("cordoned", allocatable=gpu, unschedulable=True)]
    asked = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 16, "cpu": "2"}}}]}

    assert place(asked, 0, nodes, []) == Placement(
        Verdict.NEVER,
        None,
        (),
        "0/3 nodes can hold it, whoever leaves: 1 node(s) were unschedulable, 2 node(s) too small; "
        "the nearest, big: asks for 16 nvidia.com/gpu of 8",
    )


def test_the_number_of_pods_is_a_resource() -> None:
    placement = place(spec("0"), 0, [node(allocatable={"pods": "1"})], [pod("a", "0")])

    assert placement.reason.startswith("0/1 nodes are available: 1 Too many pods;")


def test_what_asks_for_nothing_fits_an_overcommitted_node() -> None:
    assert place({"containers": [{}]}, 0, [node()], [pod("a", "9")]).verdict is Verdict.FITS


def test_a_request_that_is_no_quantity_never_fits() -> None:
    placement = place(spec("two"), 0, [node()], [])

    assert placement.verdict is Verdict.NEVER
    assert placement.reason.startswith("the API server will refuse its requests: 'two' is not a quantity")


def container(cpu: str, **more: Any) -> Manifest:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("pod_spec", "cpu"),
    [
        pytest.param({"containers": [container("1"), container("500m")]}, 1500, id="containers add up"),
        pytest.param({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000, id="a limit stands in"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3")]}, 3000, id="init: the greater"
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always")]},
            2000,
            id="a sidecar adds up",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("3"), container("1", restartPolicy="Always"), container("3")],
            },
            4000,
            id="init containers run beside the sidecars before them",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}},
            3000,
            id="pod level takes the place",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"),
        pytest.param({"containers": [container("0.1m")]}, 1, id="rounded up, as the scheduler does"),
    ],
)
def test_what_a_pod_reserves(pod_spec: Manifest, cpu: int) -> None:
    assert pod_requests(pod_spec) == {"cpu": cpu, "pods": 1}
