"""A pod that asks for a GPU model goes to nodes that some well-known label declares to have it, and to no others."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.pod import gpu_nodes

PRODUCT = "nvidia.com/gpu.product"


def fulfils(labels: dict[str, str], terms: list[dict[str, Any]]) -> bool:
    """Match as the scheduler does: terms are alternatives, the expressions of one must all hold."""
    return any(
        all(labels.get(expression["key"]) in expression["values"] for expression in term["matchExpressions"])
        for term in terms
    )


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        pytest.param(["H100"], {"skypilot.co/accelerator": "h100"}, True, id="SkyPilot's own label"),
        pytest.param(["H100"], {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, True, id="GKE"),
        pytest.param(["H100"], {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, True, id="GKE, a3-mega"),
        pytest.param(["H100"], {"karpenter.k8s.aws/instance-gpu-name": "h100"}, True, id="Karpenter"),
        pytest.param(["H100"], {PRODUCT: "NVIDIA-H100-80GB-HBM3"}, True, id="GPU operator, SXM"),
        pytest.param(["H100"], {PRODUCT: "NVIDIA-H100-PCIe"}, True, id="GPU operator, PCIe"),
        pytest.param(["H100"], {"gpu.nvidia.com/class": "H100_NVLINK_80GB"}, True, id="CoreWeave"),
        pytest.param(["H100"], {"nebius.com/gpu-name": "H100"}, True, id="Nebius"),
        pytest.param(["h100"], {PRODUCT: "NVIDIA-H100-NVL"}, True, id="small letters"),
        pytest.param(["H100"], {PRODUCT: "Tesla-T4"}, False, id="another model"),
        pytest.param(["H100"], {PRODUCT: "NVIDIA-H100-80GB-HBM3-SHARED"}, False, id="a share of one"),
        pytest.param(["H100"], {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, False, id="a slice of one"),
        pytest.param(["H100"], {"kubernetes.io/os": "linux"}, False, id="no label at all"),
        pytest.param(["A100", "H100"], {PRODUCT: "NVIDIA-A100-SXM4-40GB"}, True, id="first alternative"),
        pytest.param(["A100", "H100"], {PRODUCT: "NVIDIA-H100-PCIe"}, True, id="second alternative"),
        pytest.param(["A100"], {PRODUCT: "NVIDIA-A100-80GB-PCIe"}, True, id="A100 is any A100"),
        pytest.param(["A100-80GB"], {PRODUCT: "NVIDIA-A100-SXM4-80GB"}, True, id="A100-80GB"),
        pytest.param(["A100-80GB"], {PRODUCT: "NVIDIA-A100-SXM4-40GB"}, False, id="A100-80GB is not the small one"),
        pytest.param(["L4"], {PRODUCT: "NVIDIA-L4"}, True, id="L4"),
        pytest.param(["L4"], {PRODUCT: "NVIDIA-L40"}, False, id="L4 is not L40"),
        pytest.param(["T4"], {PRODUCT: "Tesla-T4"}, True, id="T4"),
        pytest.param(["T4"], {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, True, id="T4 on GKE"),
        pytest.param(["V100-32GB"], {PRODUCT: "Tesla-V100-SXM2-32GB"}, True, id="V100-32GB"),
        pytest.param(["A6000"], {PRODUCT: "NVIDIA-RTX-A6000"}, True, id="A6000"),
        pytest.param(["RTX6000-Ada"], {PRODUCT: "NVIDIA-RTX-6000-Ada-Generation"}, True, id="RTX6000-Ada"),
        pytest.param(["RTX4090"], {PRODUCT: "NVIDIA-GeForce-RTX-4090"}, True, id="GeForce"),
        pytest.param(["RTX3080-Ti"], {PRODUCT: "NVIDIA-GeForce-RTX-3080-Ti"}, True, id="GeForce Ti"),
        pytest.param(["X900"], {PRODUCT: "NVIDIA-X900"}, True, id="not known here"),
        pytest.param(["MI300X"], {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, True, id="AMD"),
        pytest.param(["MI325X"], {"amd.com/gpu.product-name": "AMD_Instinct_MI325_OAM"}, True, id="AMD, without X"),
        pytest.param(["MI300X"], {PRODUCT: "NVIDIA-MI300X"}, False, id="AMD is not NVIDIA"),
    ],
)
def test_which_nodes_have_a_model(names: list[str], labels: dict[str, str], expected: bool) -> None:  # noqa: FBT001
    assert fulfils(labels, gpu_nodes.node_selector_terms(names)) is expected


@pytest.mark.parametrize(
    ("name", "resource", "known"),
    [
        ("H100", "nvidia.com/gpu", True),
        ("a100-80gb", "nvidia.com/gpu", True),
        ("RTX5090", "nvidia.com/gpu", True),
        ("H100-MEGA-80GB", "nvidia.com/gpu", True),
        ("MI250", "amd.com/gpu", True),
        ("RTX1234", "nvidia.com/gpu", False),
        ("H1000", "nvidia.com/gpu", False),
    ],
)
def test_resource_and_whether_the_model_is_known(name: str, resource: str, known: bool) -> None:  # noqa: FBT001
    assert (gpu_nodes.resource_name(name), gpu_nodes.is_known(name)) == (resource, known)


def test_models_of_another_maker_than_the_first_ones_are_left_out() -> None:
    assert gpu_nodes.of_one_maker(("H100", "MI300X", "A100")) == ("H100", "A100")
    assert gpu_nodes.of_one_maker(("MI300X", "H100")) == ("MI300X",)


def spec(*terms: Any) -> dict[str, Any]:
    return {"affinity": gpu_nodes.affinity_for(list(terms))}


def terms_of(got: dict[str, Any]) -> list[Any]:
    terms: list[Any] = got["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return terms


def zone(name: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"zone": "a", PRODUCT: "NVIDIA-H100-PCIe"}, True),
        ({"zone": "b", "skypilot.co/accelerator": "h100"}, True),
        ({"zone": "c", PRODUCT: "NVIDIA-H100-PCIe"}, False),
        ({"zone": "a", PRODUCT: "Tesla-T4"}, False),
    ],
)
def test_a_node_affinity_of_the_user_does_not_make_the_model_optional(labels: dict[str, str], expected: bool) -> None:  # noqa: FBT001
    """Merged as SkyPilot does, it would: terms are alternatives."""
    got = gpu_nodes.require_models(spec(zone("a"), zone("b")), ["H100"])

    assert fulfils(labels, terms_of(got)) is expected


def test_what_else_stands_in_an_affinity_is_kept() -> None:
    before = spec({"matchFields": [{"key": "metadata.name"}]}, {"matchExpressions": [{"key": "a"}]})
    before["affinity"]["podAffinity"] = {"x": 1}
    before["affinity"]["nodeAffinity"]["preferred"] = []

    got = gpu_nodes.require_models(before, ["MI300X"])

    assert got["affinity"]["podAffinity"] == {"x": 1}
    assert got["affinity"]["nodeAffinity"]["preferred"] == []
    assert [term["matchFields"] for term in terms_of(got)[:2]] == [[{"key": "metadata.name"}]] * 2
    assert [term["matchExpressions"][1:] for term in terms_of(got)] == [[], [], [{"key": "a"}], [{"key": "a"}]]


@pytest.mark.parametrize(
    ("merged", "expected"),
    [
        ({}, False),
        (spec(), False),
        ({"affinity": {"podAffinity": {}}}, False),
        ({"affinity": None}, True),
        ({"affinity": {"nodeAffinity": None}}, True),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}}, True),
        ({"affinity": gpu_nodes.affinity_for([]) | {"nodeAffinity": None}}, True),
    ],
)
def test_null_takes_the_demand_away(merged: dict[str, Any], expected: bool) -> None:  # noqa: FBT001
    """For a cluster whose nodes are labelled in another way."""
    assert gpu_nodes.opted_out(merged) is expected
