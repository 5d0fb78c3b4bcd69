"""What the engine asks of a cluster: a handful of calls on plain JSON, the same for Kubernetes and for this machine.

Kinds are named by their Kubernetes kind (`"Job"`); the ones that travel here are in KINDS. A failed call raises one of
`errors.ClusterError`'s children and never returns an empty answer instead: could not read is not absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from reconciler.model import Manifest


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind is addressed in the API."""

    api_version: str
    plural: str
    namespaced: bool


LOCAL = "local"
"""The context of this machine: no kubeconfig's."""

KINDS = {
    "Job": Kind("batch/v1", "jobs", namespaced=True),
    "JobSet": Kind("jobset.x-k8s.io/v1alpha2", "jobsets", namespaced=True),
    "Pod": Kind("v1", "pods", namespaced=True),
    "Event": Kind("v1", "events", namespaced=True),
    "Node": Kind("v1", "nodes", namespaced=False),
    "Namespace": Kind("v1", "namespaces", namespaced=False),
    "ConfigMap": Kind("v1", "configmaps", namespaced=True),
    "Secret": Kind("v1", "secrets", namespaced=True),
    "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch: `type` is ADDED, MODIFIED or DELETED."""

    type: str
    manifest: Manifest


class Cluster(Protocol):
    """A cluster. Safe to use from several threads. `close` ends its connections; a closed one is not used again."""

    @property
    def context(self) -> str:
        """The name by which people know it: a kubeconfig context, `in-cluster`, or `local`."""
        ...

    @property
    def default_namespace(self) -> str:
        """The namespace of the kubeconfig's context, else `default`."""
        ...

    def uid(self) -> str:
        """Return what tells this cluster from any other: the uid of its namespace kube-system."""
        ...

    def serves(self, kind: str) -> bool:
        """Tell whether this cluster has a kind that not every cluster has. Raises ClusterError when it doesn't say."""
        ...

    def list(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> list[Manifest]:
        """List a kind whole (all pages, consistent), in one namespace or in all. Selectors are Kubernetes' strings."""
        ...

    def get(self, kind: str, name: str, *, namespace: str | None = None, metadata_only: bool = False) -> Manifest:
        """Return one object, or no more of it than its metadata. Raises NotFound."""
        ...

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object with strict field validation and return it as the server holds it.

        A dry run goes through admission and validation and persists nothing. Raises AlreadyExists, Invalid, Forbidden.
        """
        ...

    def patch(self, manifest: Manifest, patch: Manifest) -> Manifest:
        """Apply a JSON merge patch to the object that `manifest` names, only if it still has that uid.

        Raises NotFound, Conflict (another uid, or a resourceVersion in `patch` that has passed), Invalid, Forbidden.
        """
        ...

    def delete(self, manifest: Manifest, *, foreground: bool = False) -> None:
        """Delete the object that `manifest` is, by uid and resourceVersion; dependents too, before it or after.

        Gone already is success. Raises Conflict when the object there is another one or has changed since.
        """
        ...

    def watch(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, timeout: float = 60.0
    ) -> Iterator[Change]:
        """Yield changes from now on for at most `timeout` seconds, then end. Ends early when the server says so.

        It only tells when to look: what it misses, the next list shows.
        """
        ...

    def logs(self, pod: Manifest, *, container: str, follow: bool = False) -> Iterator[bytes]:
        """Yield a container's output as it comes; ends with the container, or at the present end without `follow`.

        Raises NotFound when the pod or its log is gone.
        """
        ...

    def close(self) -> None:
        """Let go of connections, files and threads."""
        ...
