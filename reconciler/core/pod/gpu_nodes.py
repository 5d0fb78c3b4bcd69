"""Tell by labels which nodes have a GPU of a given name: `accelerators: H100` must never end on a T4.

SkyPilot asks the cluster which label it uses. We render without looking at a cluster, so a pod may go to every node
that *any* of the well-known labels declares to have the model: node selector terms are alternatives. A node with none
of these labels is not taken, as in SkyPilot; `affinity: {nodeAffinity: null}` in pod_config takes the demand away, and
a nodeSelector can then name the site's own label.

Label by label, after SkyPilot 0.14.1 (`provision/kubernetes/utils.py`), where `A100` may be any A100 and `A100-80GB`
the larger one only. NVIDIA's product names are the driver's, with `-` for blanks; nodes that share or slice a GPU
append to them (`-SHARED`, `-MIG-...`) and don't match: a share is not what was asked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reconciler.core.manifest import without_nulls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.model import Manifest

_AMD = re.compile(r"(AMD|MI[0-9]|RADEON)")
_GEFORCE = re.compile(r"RTX[-_]?([2-9]0[5-9]0)[-_]?(TI|SUPER)?")

LABELS = {"skypilot-binpack": "gpu"}
"""What SkyPilot puts on pods with GPUs, by which they find each other."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_A100_80GB = (
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-A100-PCIE-80GB",
    "A100-SXM4-80GB",
    "A100-SXM-80GB",
)
_A100_40GB = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB", "A100-SXM4-40GB", "A100-PCIE-40GB")
_H100 = (
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H100-PCIe",
    "NVIDIA-H100-NVL",
    "NVIDIA-H100-SXM5-80GB",
    "NVIDIA-H100-PCIE-80GB",
    "NVIDIA-H100",
)
_V100_32GB = (
    "Tesla-V100-SXM2-32GB",
    "Tesla-V100-SXM3-32GB",
    "Tesla-V100-PCIE-32GB",
    "Tesla-V100S-PCIE-32GB",
    "Tesla-V100-DGXS-32GB",
)
_V100_16GB = ("Tesla-V100-SXM2-16GB", "Tesla-V100-PCIE-16GB", "Tesla-V100-FHHL-16GB", "Tesla-V100-DGXS-16GB")
_PRODUCTS: dict[str, tuple[str, ...]] = {
    "A100": (*_A100_40GB, *_A100_80GB),
    "A100-80GB": _A100_80GB,
    "H100": _H100,
    "H100-80GB": _H100,
    "H200": ("NVIDIA-H200", "NVIDIA-H200-NVL"),
    "GH200": ("NVIDIA-GH200-480GB", "NVIDIA-GH200-120GB", "NVIDIA-GH200-144G-HBM3e"),
    "B300": ("NVIDIA-B300-SXM6-AC", "NVIDIA-B300"),
    "V100": (*_V100_16GB, *_V100_32GB),
    "V100-32GB": _V100_32GB,
    "P100": ("Tesla-P100-SXM2-16GB", "Tesla-P100-PCIE-16GB", "Tesla-P100-PCIE-12GB"),
    "RTX6000-ADA": ("NVIDIA-RTX-6000-Ada-Generation",),
    "RTXPRO6000": (
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
        "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
    ),
    **{name: (f"Tesla-{name}", f"NVIDIA-{name}") for name in ("T4", "P4", "P40", "K80", "M60")},
    **{name: (f"NVIDIA-RTX-{name}", f"RTX-{name}") for name in ("A4000", "A5000", "A6000")},
    **{name: (f"NVIDIA-{name}",) for name in ("A10", "A10G", "A16", "A2", "A30", "A40", "L4", "L40", "L40S")},
    **{name: (f"NVIDIA-{name}",) for name in ("B100", "B200", "GB200", "GB300")},
}
_GKE = {
    "A100": ("nvidia-tesla-a100", "nvidia-a100-80gb"),
    "A100-80GB": ("nvidia-a100-80gb",),
    "H100": ("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
    "H100-80GB": ("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
    "H100-MEGA-80GB": ("nvidia-h100-mega-80gb",),
    "H200": ("nvidia-h200-141gb",),
    **{name: (f"nvidia-{name.lower()}",) for name in ("L4", "B200", "GB200")},
}


def is_amd(name: str) -> bool:
    """Tell whether a GPU's name is one of AMD's; all others are taken for NVIDIA's."""
    return _AMD.match(name.upper()) is not None


def is_known(name: str) -> bool:
    """Tell whether the names that nodes give this model are known here, rather than guessed from its own."""
    upper = name.upper()
    return upper in _PRODUCTS or upper in _GKE or is_amd(name) or _GEFORCE.fullmatch(upper) is not None


def resource_name(name: str) -> str:
    """Return the extended resource by which a pod asks for the model."""
    return "amd.com/gpu" if is_amd(name) else "nvidia.com/gpu"


def of_one_maker(names: Sequence[str]) -> tuple[str, ...]:
    """Return the models of the first one's maker: a pod asks for one resource, and each maker has its own."""
    return tuple(name for name in names if is_amd(name) == is_amd(names[0]))


def opted_out(spec: Manifest) -> bool:
    """Tell whether a merged spec clears the node affinity with null, and so our demand with it."""
    node: Any = spec
    for key in ("affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"):
        node = node.get(key, {})
        if node is None:
            return True
    return False


def affinity_for(terms: list[Manifest]) -> Manifest:
    """Return an affinity that demands one of these terms of a node."""
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}


def fill_nodes_up() -> Manifest:
    """Return an affinity that prefers nodes where GPUs are in use: jobs of one GPU each leave whole nodes to others."""
    selector = {"matchExpressions": [{"key": key, "operator": "In", "values": [text]} for key, text in LABELS.items()]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    }


def require_models(spec: Manifest, names: Sequence[str]) -> Manifest:
    """Return a pod's spec that also demands one of the models; it has an affinity of the form of `affinity_for`.

    Terms that are there already are alternatives, so that with ours among them a node could fulfil only theirs. Each of
    theirs is joined with each of ours instead.
    """
    affinity = spec["affinity"]
    required = affinity["nodeAffinity"][_REQUIRED]
    terms = [_joined(theirs, ours) for theirs in required["nodeSelectorTerms"] for ours in node_selector_terms(names)]
    terms = terms or node_selector_terms(names)
    of_node = affinity["nodeAffinity"] | {_REQUIRED: required | {"nodeSelectorTerms": terms}}
    return spec | {"affinity": affinity | {"nodeAffinity": of_node}}


def node_selector_terms(names: Sequence[str]) -> list[Manifest]:
    """Return the terms of which a node must fulfil one to have any of these models, all of one maker."""
    lower, upper = [name.lower() for name in names], [name.upper() for name in names]
    labels = {"skypilot.co/accelerator": lower}
    if is_amd(names[0]):
        labels["amd.com/gpu.product-name"] = [product for name in upper for product in _amd_products(name)]
    else:
        labels["cloud.google.com/gke-accelerator"] = [value for name in upper for value in _gke_values(name)]
        labels["karpenter.k8s.aws/instance-gpu-name"] = lower
        labels["nvidia.com/gpu.product"] = [product for name in names for product in _products(name)]
        labels["gpu.nvidia.com/class"] = [*upper, *(["H100_NVLINK_80GB"] if "H100" in upper else [])]
        labels["nebius.com/gpu-name"] = upper
    return [
        {"matchExpressions": [{"key": key, "operator": "In", "values": list(dict.fromkeys(values))}]}
        for key, values in labels.items()
    ]


def _joined(theirs: Manifest, ours: Manifest) -> Manifest:
    theirs = without_nulls(theirs)  # a copy: each of theirs is in several terms
    return theirs | {"matchExpressions": [*ours["matchExpressions"], *theirs.get("matchExpressions", [])]}


def _products(name: str) -> tuple[str, ...]:
    if geforce := _GEFORCE.fullmatch(name.upper()):
        return (
            "-".join(["NVIDIA-GeForce-RTX", *("Ti" if part == "TI" else part for part in geforce.groups() if part)]),
        )
    return _PRODUCTS.get(name.upper(), (f"NVIDIA-{name}", f"Tesla-{name}", name))


def _gke_values(upper: str) -> tuple[str, ...]:
    return _GKE.get(upper, (f"nvidia-tesla-{upper.lower()}",))


def _amd_products(upper: str) -> list[str]:
    """AMD's labeller writes `AMD_Instinct_MI300X_OAM`, but `MI325` for what is sold as MI325X."""
    model = upper.removeprefix("AMD-").removeprefix("INSTINCT-")
    stems = ("MI325X", "MI325") if model == "MI325X" else (model,)
    return [f"AMD_Instinct_{stem}{form}" for stem in stems for form in ("", "_OAM")]
