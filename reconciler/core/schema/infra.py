"""Where a task wants to run: `infra`, and the older `cloud` and `region`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.core.schema.fields import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE_FIELDS = ("infra", "cloud", "region")
_KUBERNETES = frozenset({"k8s", "kubernetes"})


@dataclass(frozen=True, slots=True)
class Infra:
    """A place to run. `context` is None for any; `written` is how the file says it, for messages."""

    is_kubernetes: bool
    context: str | None
    written: str


def parse_infra(resources: Mapping[str, Any]) -> Infra:
    """Read the place from a mapping of resources; none at all means any Kubernetes.

    Raises ValueError for what is malformed. Another cloud is well formed.
    """
    infra, cloud, region = (resources.get(name) for name in PLACE_FIELDS)
    if infra is not None and (cloud is not None or region is not None):
        raise ValueError("infra can't stand beside cloud or region: write infra: k8s/<context> alone")
    if infra is None and cloud is None and region is not None:
        raise ValueError(
            f"region {shown(region)} without a cloud: write infra: k8s/<context> to name a context, or leave it out"
        )
    written = infra if infra is not None else "/".join(part for part in (cloud, region) if part is not None)
    head, slash, rest = (part.strip() for part in written.strip().partition("/"))
    if head.lower() not in _KUBERNETES:
        return Infra(written.strip() in {"", "*", "*/*", "*/*/*"}, None, written)
    if slash and "" in (part.strip() for part in rest.split("/")):
        raise ValueError(f"{shown(written)} has an empty part: write k8s, or k8s/<context>")
    return Infra(is_kubernetes=True, context=None if rest in {"", "*"} else rest, written=written)
