"""pod_config is merged exactly as SkyPilot 0.14.1 merges it, without its side effects."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.compose import MergeConflict, compose_layers, merge_pod_config
from reconciler.model import Manifest, Severity

GOLDEN = Path(__file__).parents[1] / "golden" / "pod_config_merge.json"
CONFLICT = object()
Layers = list[tuple[str, Manifest]]


def row(number: int, base: Any, override: Any, merged: Any) -> Any:
    return pytest.param(base, override, merged, id=f"row {number}")


A, B = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}
SECRETS = "imagePullSecrets"


@pytest.mark.parametrize(
    ("base", "override", "merged"),
    [
        row(1, {"tolerations": [A]}, {"tolerations": [A]}, {"tolerations": [A, A]}),
        row(2, {"tolerations": [A]}, {"tolerations": []}, {"tolerations": [A]}),
        row(3, {SECRETS: ["a", "c"]}, {SECRETS: ["b"]}, {SECRETS: ["b"]}),
        row(4, {SECRETS: ["a"]}, {SECRETS: []}, {SECRETS: []}),
        row(5, {"nodeSelector": {"a": "b"}}, {"nodeSelector": {}}, {"nodeSelector": {"a": "b"}}),
        row(6, {"nodeSelector": {"a": "b"}}, {"nodeSelector": None}, {"nodeSelector": None}),
        row(7, {"nodeSelector": None}, {"nodeSelector": {"a": "b"}}, CONFLICT),
        row(8, {"tolerations": None}, {"tolerations": [A]}, CONFLICT),
        row(9, {"priorityClassName": "x"}, {"priorityClassName": None}, {"priorityClassName": None}),
        row(10, {"nodeSelector": {"a": "b"}}, {"nodeSelector": "x"}, CONFLICT),
        row(10, {"nodeSelector": {"a": "b"}}, {"nodeSelector": [A]}, CONFLICT),
        row(11, {"tolerations": [A]}, {"tolerations": "x"}, CONFLICT),
        row(11, {"tolerations": [A]}, {"tolerations": {"key": "b"}}, CONFLICT),
        row(12, {"hostNetwork": True}, {"hostNetwork": {"a": 1}}, CONFLICT),
        row(12, {"hostNetwork": True}, {"hostNetwork": [1]}, CONFLICT),
        row(13, {"command": "bash"}, {"command": ["a"]}, {"command": ["a"]}),
        row(14, {"command": ["bash"]}, {"command": "x"}, CONFLICT),
        row(14, {"command": ["bash"]}, {"command": {"a": 1}}, CONFLICT),
        row(15, {"grace": "30"}, {"grace": 60}, {"grace": 60}),
        row(
            16,
            {"containers": [{"name": "ray-node", "image": "i"}, {"name": "side"}]},
            {"containers": [{"image": "j"}]},
            {"containers": [{"name": "ray-node", "image": "j"}, {"name": "side"}]},
        ),
        row(
            17,
            {"containers": [{"name": "ray-node", "image": "i"}]},
            {"containers": [{"image": "j"}, {"image": "k"}]},
            {"containers": [{"name": "ray-node", "image": "k"}]},
        ),
        row(18, {"containers": []}, {"containers": [{"image": "j"}]}, {"containers": [{"image": "j"}]}),
        row(
            19,
            {"containers": [{"name": "ray-node"}]},
            {"containers": [{"name": "main", "image": "j"}]},
            {"containers": [{"name": "ray-node"}, {"name": "main", "image": "j"}]},
        ),
        row(
            20,
            {"initContainers": [{"name": "i"}]},
            {"initContainers": [{"image": "x"}]},
            {"initContainers": [{"name": "i"}, {"image": "x"}]},
        ),
        row(
            21,
            {"env": [{"name": "A", "value": "1"}]},
            {"env": [{"name": "A", "valueFrom": {"k": "v"}}]},
            {"env": [{"name": "A", "value": "1", "valueFrom": {"k": "v"}}]},
        ),
        row(
            22,
            {"volumes": [{"name": "d", "emptyDir": {}}]},
            {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]},
            {"volumes": [{"name": "d", "emptyDir": {}, "persistentVolumeClaim": {"claimName": "c"}}]},
        ),
        row(
            23,
            {"volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]},
            {"volumes": [{"name": "dshm", "emptyDir": {"sizeLimit": "8Gi"}}]},
            {"volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]},
        ),
        row(
            24,
            {"env": []},
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
            {"env": [{"name": "A", "value": "2"}]},
        ),
        row(
            25,
            {},
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        ),
        row(26, {"env": [{"name": "A"}]}, {"env": [{"value": "x"}]}, {"env": [{"name": "A"}, {"value": "x"}]}),
        row(27, {"envFrom": ["cm a"]}, {"envFrom": ["cm a"]}, {"envFrom": ["cm a", "cm a"]}),
        row(
            28,
            {"ports": [{"containerPort": 53, "protocol": "TCP"}]},
            {"ports": [{"containerPort": 53, "protocol": "UDP"}]},
            {"ports": [{"containerPort": 53, "protocol": "UDP"}]},
        ),
        row(
            29,
            {"ports": [{"name": "x", "containerPort": 53}]},
            {"ports": [{"name": "x", "containerPort": 54}]},
            {"ports": [{"name": "x", "containerPort": 53}, {"name": "x", "containerPort": 54}]},
        ),
        row(
            30,
            {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]},
            {"volumeMounts": [{"name": "other", "mountPath": "/dev/shm"}, {"name": "dshm", "mountPath": "/x"}]},
            {"volumeMounts": [{"name": "other", "mountPath": "/dev/shm"}, {"name": "dshm", "mountPath": "/x"}]},
        ),
        row(
            31,
            {"volumeMounts": [{"name": "a", "mountPath": "/x"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/x/"}]},
            {"volumeMounts": [{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x/"}]},
        ),
        row(
            32,
            {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}]},
            {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}]},
            {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a", "b"]}]},
        ),
        row(
            33,
            {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "labelSelector": {"a": "1"}}]},
            {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2, "labelSelector": {"b": "2"}}]},
            {
                "topologySpreadConstraints": [
                    {"topologyKey": "zone", "maxSkew": 2, "labelSelector": {"a": "1", "b": "2"}}
                ]
            },
        ),
        row(
            34,
            {"capabilities": {"add": ["IPC_LOCK"]}},
            {"capabilities": {"add": ["IPC_LOCK", "SYS_PTRACE"]}},
            {"capabilities": {"add": ["IPC_LOCK", "IPC_LOCK", "SYS_PTRACE"]}},
        ),
        row(
            35,
            {"nodeSelectorTerms": [{"e": "a"}]},
            {"nodeSelectorTerms": [{"e": "b"}]},
            {"nodeSelectorTerms": [{"e": "a"}, {"e": "b"}]},
        ),
        row(36, {"configMap": {"items": ["a"]}}, {"configMap": {"items": ["b"]}}, {"configMap": {"items": ["a", "b"]}}),
        row(
            37,
            {"livenessProbe": {"exec": {"command": ["a"]}}},
            {"livenessProbe": {"exec": {"command": ["b"]}}},
            {"livenessProbe": {"exec": {"command": ["b"]}}},
        ),
        row(
            38,
            {"resources": {"claims": [{"name": "a"}]}},
            {"resources": {"claims": [{"name": "a", "request": "r"}]}},
            {"resources": {"claims": [{"name": "a", "request": "r"}]}},
        ),
        row(39, {"labels": {"env": "x"}}, {"labels": {"env": "y"}}, {"labels": {"env": "y"}}),
        row(40, {"labels": {"a": "1"}}, {"labels": {"a": 2}}, {"labels": {"a": 2}}),
        row(41, {"env": [{"name": "A"}]}, {"env": ["X"]}, CONFLICT),
        row(41, {"env": [{"name": "A"}]}, {"env": [None]}, CONFLICT),
    ],
)
def test_rows_of_the_merge(base: Any, override: Any, merged: Any) -> None:
    """What meets what, and what comes of it: a parity with SkyPilot that users' files depend on."""
    if merged is CONFLICT:
        with pytest.raises(MergeConflict):
            merge_pod_config(base, override)
    else:
        assert merge_pod_config(base, override) == merged


def test_row_42_a_cleared_field_can_not_be_set_again_above() -> None:
    """Null stays, and neither a mapping nor a list goes onto it."""
    layers: Layers = [
        ("global", {"spec": {"nodeSelector": {"a": "b"}}}),
        ("context east", {"spec": {"nodeSelector": None}}),
        ("task", {"spec": {"nodeSelector": {"c": "d"}, "priorityClassName": "high"}}),
    ]

    _, (problem,) = compose_layers(layers, "jobs/train.yaml")

    assert (problem.severity, problem.code, problem.path) == (Severity.ERROR, "pod-config-conflict", "jobs/train.yaml")
    assert problem.field == "config.kubernetes.pod_config.spec.nodeSelector"
    assert (
        problem.message
        == "layer task gives a mapping where layer context east (.sky.yaml) has null: take that null out"
    )


def test_row_43_an_empty_list_clears_a_replaced_one_through_all_phases() -> None:
    layers: Layers = [("global", {"spec": {SECRETS: ["g"]}}), ("task", {"spec": {SECRETS: []}})]

    assert compose_layers(layers, "jobs/a.yaml", onto={"spec": {}}) == ({"spec": {SECRETS: []}}, [])


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text(encoding="utf-8")))
def test_parity_with_skypilot(case: dict[str, Any]) -> None:
    """Outputs of upstream's own function, frozen by `python -m tests.bench.merge --freeze`.

    `error` is the field that it names, null where it fell over.
    """
    if "error" in case:
        with pytest.raises(MergeConflict) as raised:
            merge_pod_config(case["base"], case["override"])
        assert case["error"] is None or raised.value.path[-1] == case["error"]
    else:
        assert merge_pod_config(case["base"], case["override"]) == case["merged"]


@pytest.mark.parametrize(
    ("base", "override", "text"),
    [
        pytest.param(
            {"spec": {"containers": [{"name": "a", "env": []}]}},
            {"spec": {"containers": [{"name": "b"}, {"name": "a", "env": {"X": "1"}}]}},
            "spec.containers[1].env: a mapping can't be merged onto a list",
            id="the path counts the items of the upper layer",
        ),
        pytest.param(
            {"spec": {"volumes": [None]}},
            {"spec": {"volumes": [{"name": "v"}]}},
            "spec.volumes[0]: a mapping can't be merged onto null",
            id="an item that is no mapping, below",
        ),
        pytest.param(
            {"spec": {"containers": []}},
            {"spec": {"containers": ["python:3.12"]}},
            "spec.containers[0]: text can't be merged onto a mapping",
            id="an item that is no mapping, above",
        ),
        pytest.param(
            {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}},
            {"metadata": {"labels": {"app.kubernetes.io/name": [1]}}},
            "metadata.labels['app.kubernetes.io/name']: a list can't be merged onto text",
            id="a key with dots",
        ),
        pytest.param({"a": True}, {"a": {}}, "a: a mapping can't be merged onto true or false", id="bool"),
        pytest.param({"a": 1}, {"a": []}, "a: a list can't be merged onto a number", id="number"),
    ],
)
def test_a_conflict_names_the_place_and_the_types_but_no_value(base: Any, override: Any, text: str) -> None:
    with pytest.raises(MergeConflict) as raised:
        merge_pod_config(base, override)

    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("layers", "onto", "field", "message"),
    [
        pytest.param(
            [("global", {"spec": {"tolerations": "all"}}), ("task", {"spec": {"tolerations": [A]}})],
            None,
            "config.kubernetes.pod_config.spec.tolerations",
            "layer task gives a list where layer global (.sky.yaml) has text: "
            "give the same type in both, or null to clear it",
            id="between layers",
        ),
        pytest.param(
            [
                ("global", {"spec": {"tolerations": "all"}}),
                ("context a/b:c", {"spec": {"tolerations": [A]}}),
                ("task", {}),
            ],
            None,
            "kubernetes.context_configs['a/b:c'].pod_config.spec.tolerations",
            "layer context a/b:c (.sky.yaml) gives a list where layer global (.sky.yaml) has text: "
            "give the same type in both, or null to clear it",
            id="below the task",
        ),
        pytest.param(
            [
                ("global", {"spec": {"containers": [{"name": "side"}]}}),
                ("task", {"spec": {"containers": [{"name": "main", "resources": []}]}}),
            ],
            {"spec": {"containers": [{"name": "main", "resources": {}}]}},
            "config.kubernetes.pod_config.spec.containers[0].resources",
            "layer task gives a list where the rendered pod has a mapping: "
            "give the same type in both, or null to clear it",
            id="onto the pod, in the layer's own numbering",
        ),
        pytest.param(
            [("global", {"spec": []}), ("task", {})],
            {"spec": {}},
            "kubernetes.pod_config.spec",
            "layer global (.sky.yaml) gives a list where the rendered pod has a mapping: "
            "give the same type in both, or null to clear it",
            id="global onto the pod",
        ),
    ],
)
def test_a_problem_names_the_layer_and_the_whole_field(layers: Any, onto: Any, field: str, message: str) -> None:
    _, (problem,) = compose_layers(layers, "jobs/a.yaml", onto=onto)

    assert (problem.field, problem.message) == (field, message)


def test_all_layers_in_conflict_are_reported_at_once() -> None:
    layers: Layers = [
        ("global", {"spec": {"a": [], "b": []}}),
        ("context c", {"spec": {"a": {}}}),
        ("task", {"spec": {"b": {}}}),
    ]

    _, problems = compose_layers(layers, "jobs/a.yaml")

    assert [problem.field for problem in problems] == [
        "kubernetes.context_configs.c.pod_config.spec.a",
        "config.kubernetes.pod_config.spec.b",
    ]


def test_layers_meet_before_the_pod_does() -> None:
    """An unnamed container patches the first one of the lower layers: two phases, as in SkyPilot."""
    layers: Layers = [
        ("global", {"spec": {"containers": [{"name": "sidecar", "image": "s"}]}}),
        ("task", {"spec": {"containers": [{"resources": {"limits": {"memory": "2Gi"}}}]}}),
    ]

    pod, _ = compose_layers(layers, "jobs/a.yaml", onto={"spec": {"containers": [{"name": "main", "image": "i"}]}})

    sidecar = {"name": "sidecar", "image": "s", "resources": {"limits": {"memory": "2Gi"}}}
    assert pod == {"spec": {"containers": [{"name": "main", "image": "i"}, sidecar]}}


def test_three_layers() -> None:
    def layer(name: str, **more: Any) -> dict[str, Any]:
        env = [{"name": "A", "value": name}, *more.pop("env", [])]
        return {"spec": {"priorityClassName": name, "tolerations": [name], SECRETS: [name], "env": env}}

    merged, problems = compose_layers(
        [("global", layer("g", env=[{"name": "G", "value": "g"}])), ("context c", layer("c")), ("task", layer("t"))],
        "jobs/a.yaml",
    )

    env = [{"name": "A", "value": "t"}, {"name": "G", "value": "g"}]
    expected = {"priorityClassName": "t", "tolerations": ["g", "c", "t"], SECRETS: ["t"], "env": env}
    assert (merged, problems) == ({"spec": expected}, [])


def test_what_an_anchor_shares_is_not_shared_in_the_merge() -> None:
    """Two places of one YAML anchor are one object in Python; overriding one must leave the other."""
    shared = {"memory": "1Gi"}

    merged = merge_pod_config({"requests": shared, "limits": shared}, {"limits": {"memory": "2Gi"}})

    assert merged == {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}


KEYS = st.sampled_from(["containers", "env", "volumes", "args", "tolerations", "spec", "labels", "name", "ports"])
SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b", ""])
JSON = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=12)
TREES = st.dictionaries(KEYS, JSON, max_size=4)


def containers_in(value: Any) -> set[int]:
    if isinstance(value, dict):
        return {id(value)}.union(*map(containers_in, value.values()))
    return {id(value)}.union(*map(containers_in, value)) if isinstance(value, list) else set()


@given(TREES, TREES)
def test_the_merge_changes_no_argument_and_shares_nothing(base: dict[str, Any], override: dict[str, Any]) -> None:
    before = copy.deepcopy((base, override))
    try:
        merged = merge_pod_config(base, override)
        again = merge_pod_config(base, override)
    except MergeConflict:
        assert (base, override) == before
        return

    assert (base, override) == before
    assert json.dumps(merged) == json.dumps(again)
    assert not containers_in(merged) & (containers_in(base) | containers_in(override))


@given(TREES)
def test_merging_nothing_changes_nothing(tree: dict[str, Any]) -> None:
    assert merge_pod_config(tree, {}) == tree
    assert merge_pod_config({}, tree) == tree
