"""A pod is checked against the API's own schema, offline, and each fault says where, what and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pod_schema_source import POD_SCHEMA, text

from reconciler.core.manifest import without_nulls
from reconciler.core.schema.pod_schema import check_part, check_pod

MAIN: dict[str, Any] = {"name": "main", "image": "i"}


def test_the_schema_is_that_of_kubernetes() -> None:
    """Whoever moves to a newer Kubernetes runs pod_schema_source.py."""
    assert Path(POD_SCHEMA).read_text(encoding="utf-8") == text()


@pytest.mark.parametrize(
    ("container", "fault"),
    [
        pytest.param({"imge": "i"}, "imge is no field of Kubernetes 1.37; did you mean image?", id="unknown"),
        pytest.param({"tty": "yes"}, "tty must be true or false, not text", id="no bool"),
        pytest.param(
            {"env": [{"name": "A", "value": 7}]},
            "env[0].value must be text, not an integer: write it in quotes",
            id="no text",
        ),
        pytest.param({"env": [{"value": "7"}]}, "env[0].name is missing", id="missing"),
        pytest.param({"env": "A=1"}, "env must be a list, not text", id="no list"),
        pytest.param(
            {"ports": [{"containerPort": 70000}]}, "ports[0].containerPort is out of range: '70000'", id="range"
        ),
        pytest.param(
            {"imagePullPolicy": "never"},
            "imagePullPolicy must be one of Always, IfNotPresent, Never, not 'never'",
            id="word",
        ),
        pytest.param(
            {"resources": {"limits": {"memory": "16GB"}}},
            "resources.limits.memory is no quantity: '16GB'; write such as 500m, 4 or 16Gi",
            id="quantity",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": True}}},
            "resources.limits.cpu must be text or a number, not true or false",
            id="no quantity at all",
        ),
        pytest.param(
            {"lifecycle": {"preStop": {"httpGet": {"port": []}}}},
            "lifecycle.preStop.httpGet.port must be text or an integer, not a list",
            id="either",
        ),
    ],
)
def test_a_fault(container: dict[str, Any], fault: str) -> None:
    (found,) = check_pod({"spec": {"containers": [MAIN | container]}})

    assert (found.path[:3], found.path[-1]) == (("spec", "containers", 0), _last(fault))
    assert found.text == fault.partition(" ")[2]


def _last(fault: str) -> str:
    return fault.partition(" ")[0].rpartition(".")[2]


@pytest.mark.parametrize(
    "container",
    [
        {"resources": {"limits": {"cpu": 0.5, "memory": "1e3", "nvidia.com/gpu": 1, "x": "-1.5Ki"}}},
        {"livenessProbe": {"httpGet": {"port": "http"}}, "tty": None, "ports": [{"containerPort": 1, "hostPort": 0}]},
        {"imagePullPolicy": ""},
    ],
)
def test_what_the_api_takes(container: dict[str, Any]) -> None:
    assert check_part({"spec": {"containers": [MAIN | container]}}) == []
    assert check_pod(without_nulls({"spec": {"containers": [MAIN | container]}})) == []


def test_a_part_may_lack_what_another_layer_brings() -> None:
    part = {"spec": {"containers": [{"ports": [{"name": "http"}]}], "volumes": [{"emptyDir": {}}], "tolerations": None}}

    assert check_part(part) == []
    assert [fault.path[-1] for fault in check_pod(without_nulls(part))] == ["containerPort", "name", "name"]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"tolerations": [{"operator": "Exist"}]}, "must be one of Exists, Equal, Lt, Gt, not 'Exist'"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/v", "type": "Dir"}}]}, "must be one of DirectoryOrCreate,"),
        ({"preemptionPolicy": "never"}, "must be one of Never, PreemptLowerPriority, not 'never'"),
        ({"securityContext": {"fsGroupChangePolicy": "onRoot"}}, "must be one of Always, OnRootMismatch, not 'onRoot'"),
    ],
)
def test_a_word_of_a_pod(spec: dict[str, Any], fault: str) -> None:
    """What takes one of few words takes no other."""
    (found,) = check_part({"spec": spec})

    assert found.text.startswith(fault)
