"""Make what a run needs besides its Job, a ConfigMap or a Secret, so that it goes when the Job goes.

An owner reference needs the Job's uid, and its pods need the objects: so the Job comes first, suspended and marked as
incomplete, then the objects with it as their owner, and last the Job is let go. Killed anywhere in between, a pass
leaves a Job that says what it lacks, and never an object without an owner. The server judges all of it by a dry run
before. Nothing is listed or read but the metadata of an object that is in the way, so no value of a Secret comes here.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from reconciler.cluster.interface import Cluster
from reconciler.core.manifest import title
from reconciler.errors import AlreadyExists, Conflict, NotFound
from reconciler.model import INCOMPLETE, OWNER_LABEL, Action, Manifest, Result, Verb


@dataclass(frozen=True, slots=True)
class Owned:
    """Makes the objects of runs on one cluster."""

    cluster: Cluster

    def refusal(self, action: Action, objects: Iterable[Manifest]) -> Action | None:
        """Return the action as it ends when a name is taken, None when all can be made. Raises ClusterError."""
        for manifest in objects:
            try:
                self.cluster.create(manifest, dry_run=True)
            except AlreadyExists:
                if refusal := self._judge(action, manifest):
                    return refusal
        return None

    def make(self, action: Action, objects: Iterable[Manifest], owner: Manifest) -> None:
        """Make what is not there yet. Raises ClusterError, Conflict for an object of that name that is another's."""
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
        for manifest in objects:
            try:
                self.cluster.create(manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [reference]}})
            except AlreadyExists as error:
                if not _is_owned(self._found(manifest)["metadata"], reference["uid"]):
                    raise Conflict(
                        f"{title(manifest)} exists and is not this run's: {action.name} waits, suspended, until that "
                        "object is removed"
                    ) from error

    def _judge(self, action: Action, manifest: Manifest) -> Action | None:
        """Tell an object of this very run, which another pass is making, from one that is in the way."""
        found = self._found(manifest)["metadata"]
        with suppress(NotFound):
            job = self.cluster.get(action.kind, action.name, namespace=action.namespace)
            if _is_owned(found, job["metadata"]["uid"]):
                return None
        ours = (found.get("labels") or {}).get(OWNER_LABEL) == manifest["metadata"]["labels"][OWNER_LABEL]
        if ours and (found.get("deletionTimestamp") or found.get("ownerReferences")):
            reason = (
                f"{title(manifest)} of an earlier run is still being deleted: {action.name} is made when it is gone"
            )
            return replace(action, verb=Verb.HOLD, result=Result.SKIPPED, reason=reason)
        whose = "belongs to no run, as after a restored backup" if ours else "is not ours"
        reason = f"{title(manifest)} exists and {whose}: remove that object, or rename the job"
        return replace(action, verb=Verb.CONFLICT, result=Result.SKIPPED, reason=reason, needs_attention=True)

    def _found(self, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        return self.cluster.get(manifest["kind"], metadata["name"], namespace=metadata["namespace"], metadata_only=True)


def objects_of(action: Action) -> tuple[Manifest, ...]:
    """Make the manifests of what a run needs besides its Job. Raises SourceError."""
    return action.owned() if action.owned else ()


def _is_owned(metadata: Manifest, uid: str) -> bool:
    return uid in [owner["uid"] for owner in metadata.get("ownerReferences") or ()]


def incomplete(manifest: Manifest) -> Manifest:
    """Return a Job that starts nothing yet."""
    metadata = manifest["metadata"]
    marked = metadata | {"annotations": metadata["annotations"] | {INCOMPLETE: "true"}}
    return manifest | {"metadata": marked, "spec": manifest["spec"] | {"suspend": True}}
