"""The API of the local cluster; each look at it first moves it on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from reconciler.cluster.interface import KINDS, LOCAL, Change
from reconciler.cluster.local.admission import admit, make_pod
from reconciler.cluster.local.container import Container
from reconciler.cluster.local.lifecycle import has_ended, step
from reconciler.cluster.local.node import make_node, run, schedule, terminate
from reconciler.cluster.local.store import Objects, transaction
from reconciler.core.status.times import rfc3339
from reconciler.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from reconciler.model import Manifest

_PAUSE = 0.2
_SELECTOR = re.compile(r"([^!=,\s]+)(?:(!=|==?)([^,\s]*))?")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class LocalCluster:
    """The jobs of this machine. Implements `interface.Cluster`, whose docstrings hold here too."""

    context = LOCAL
    default_namespace = "default"

    def __init__(self, folder: Path, capacity: Mapping[str, str], clock: Callable[[], datetime] = _utc_now) -> None:
        self._folder = folder
        self._clock = clock
        with transaction(folder) as objects:
            objects.put(make_node(capacity))
            for name in ("default", "kube-system"):
                self._find(objects, "Namespace", name, None)

    def uid(self) -> str:
        """Return the uid of kube-system, which this cluster's folder got when it was made."""
        return str(self.get("Namespace", "kube-system")["metadata"]["uid"])

    def list(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> list[Manifest]:
        """List a kind. Events there are none."""
        with self._moved_on() as objects:
            found = objects.list(kind)
        return [item for item in found if _selected(item, namespace, labels, fields)]

    def get(self, kind: str, name: str, *, namespace: str | None = None, metadata_only: bool = False) -> Manifest:
        """Return one object, or its metadata. Any Namespace exists."""
        with self._moved_on() as objects:
            found = self._find(objects, kind, name, namespace)
        if found is None:
            raise NotFound(f'{kind} "{name}" not found on the local cluster')
        return {"metadata": found["metadata"]} if metadata_only else found

    def serves(self, kind: str) -> bool:
        """Have no JobSet: there is one node."""
        return kind in KINDS and kind != "JobSet"

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create a Job, what it needs, or a PriorityClass; other kinds come into being by themselves."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        namespaced = kind in KINDS and KINDS[kind].namespaced
        scope = {"namespace": metadata.get("namespace") or self.default_namespace} if namespaced else {}
        with transaction(self._folder) as objects:
            admitted = admit(manifest, None, objects.list("PriorityClass"))
            if self._find(objects, kind, metadata["name"], scope.get("namespace")):
                raise AlreadyExists(f'{kind} "{metadata["name"]}" already exists on the local cluster')
            created = admitted | {"metadata": {**metadata, **scope, **self._new()}}
            return created if dry_run else objects.put(created)

    def patch(self, manifest: Manifest, patch: Manifest) -> Manifest:
        """Merge a patch into an object; a status is nobody's to change."""
        with transaction(self._folder) as objects:
            old = self._known(objects, manifest, patch.get("metadata", {}).get("resourceVersion"))
            if old is None:
                raise NotFound(f'{manifest["kind"]} "{manifest["metadata"]["name"]}" not found on the local cluster')
            new = _merged(old, {key: value for key, value in patch.items() if key != "status"})
            return objects.put(admit(new, old, objects.list("PriorityClass")))

    def delete(self, manifest: Manifest, *, foreground: bool = False) -> None:
        """Delete a Job with its pods and what it owns, or another object. What runs may use up its grace."""
        with transaction(self._folder) as objects:
            found = self._known(objects, manifest, manifest["metadata"]["resourceVersion"])
            if found is None:
                return
            if found["kind"] == "Pod":
                objects.put(terminate(found, self._clock()))
                return
            for pod in _pods_of(found, objects.list("Pod")):
                objects.put(_released(terminate(pod, self._clock())))
            if foreground and found["kind"] == "Job":
                mark = {"deletionTimestamp": rfc3339(self._clock()), "finalizers": ["foregroundDeletion"]}
                objects.put(found | {"metadata": found["metadata"] | mark})
            else:
                _remove(objects, found)

    def watch(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, timeout: float = 60.0
    ) -> Iterator[Change]:
        """Look several times a second, and yield what has changed since this call."""

        def look() -> dict[str, Manifest]:
            return {item["metadata"]["uid"]: item for item in self.list(kind, namespace=namespace, labels=labels)}

        return _changes(look, look(), time.monotonic() + timeout)

    def logs(self, pod: Manifest, *, container: str, follow: bool = False) -> Iterator[bytes]:
        """Yield what the pod's process wrote to its output and errors."""
        found = self.get("Pod", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        its = self._container(found)
        known = [main["name"] for main in found["spec"]["containers"]]
        if found["metadata"]["uid"] != pod["metadata"]["uid"] or container not in known or its.look() is None:
            raise NotFound(f"container {container} of pod {found['metadata']['name']} on the local cluster has no log")
        return its.output(follow=follow)

    def close(self) -> None:
        """Move the cluster on once more, so that what was just created starts."""
        with self._moved_on():
            pass

    @contextmanager
    def _moved_on(self) -> Iterator[Objects]:
        """Let the kubelet, the Job controller and the scheduler look once, then start and stop processes accordingly.

        What is to run is decided in the transaction and done after it, again at each look until it shows.
        """
        with transaction(self._folder) as objects:
            now = self._clock()
            self._report(objects, now)
            pods = objects.list("Pod", unsettled=True)
            for job in objects.list("Job", unsettled=True):
                self._control(objects, job, _pods_of(job, pods), now)
            for pod in schedule(objects.list("Pod", unsettled=True), objects.list("Node")[0], now):
                objects.put(pod)
            self._report(objects, now)
            pods = [pod for pod in objects.list("Pod", unsettled=True) if not has_ended(pod)]
            yield objects
        for pod in pods:
            self._container(pod).pursue(pod["metadata"].get("deletionGracePeriodSeconds"))

    def _report(self, objects: Objects, now: datetime) -> None:
        """Let the kubelet report on all pods, and forget those that have ended and are deleted."""
        for pod in objects.list("Pod", unsettled=True):
            if not has_ended(pod):
                objects.put(run(pod, self._container(pod), now, objects.get))
            elif "deletionTimestamp" in pod["metadata"] and "finalizers" not in pod["metadata"]:
                self._container(pod).remove()
                objects.remove(pod)

    def _control(self, objects: Objects, job: Manifest, pods: Sequence[Manifest], now: datetime) -> None:
        """Let the Job controller look at one Job."""
        if "deletionTimestamp" in job["metadata"]:
            if not pods:
                _remove(objects, job)
            return
        decided = step(job, pods, now)
        if decided.create:
            try:
                objects.put(make_pod(job, *decided.create, objects.list("PriorityClass"), self._new()))
            except Forbidden:  # as on a server, the Job waits for its PriorityClass
                decided = step(job, pods, now, may_create=False)
        for pod in pods:
            stopped = terminate(pod, now) if pod["metadata"]["name"] in decided.stop else pod
            objects.put(_released(stopped) if pod["metadata"]["name"] in decided.release else stopped)
        objects.put(job | {"status": decided.status})

    def _container(self, pod: Manifest) -> Container:
        return Container(self._folder / "pods" / pod["metadata"]["uid"])

    def _new(self) -> Manifest:
        return {"uid": str(uuid4()), "creationTimestamp": rfc3339(self._clock())}

    def _find(self, objects: Objects, kind: str, name: str, namespace: str | None) -> Manifest | None:
        scope = (namespace or self.default_namespace) if kind in KINDS and KINDS[kind].namespaced else None
        found = objects.get(kind, name, scope)
        if found is None and kind == "Namespace":
            return objects.put({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **self._new()}})
        return found

    def _known(self, objects: Objects, known: Manifest, version: str | None) -> Manifest | None:
        """Return the object that a caller knows, if it is still that one and in that version. Raises Conflict."""
        metadata = known["metadata"]
        found = self._find(objects, known["kind"], metadata["name"], metadata.get("namespace"))
        if found is None:
            return None
        actual = found["metadata"]
        if actual["uid"] != metadata["uid"] or version not in (None, actual["resourceVersion"]):
            text = "the object has been modified or replaced since it was read"
            raise Conflict(f'{known["kind"]} "{metadata["name"]}" on the local cluster: {text}; read it again')
        return found


def _remove(objects: Objects, manifest: Manifest) -> None:
    """Remove an object, and what has it as its owner."""
    objects.remove(manifest)
    for kind in ("ConfigMap", "Secret"):
        for item in objects.list(kind) if manifest["kind"] == "Job" else ():
            owners = item["metadata"].get("ownerReferences") or ()
            if manifest["metadata"]["uid"] in [owner["uid"] for owner in owners]:
                objects.remove(item)


def _pods_of(job: Manifest, pods: Sequence[Manifest]) -> Sequence[Manifest]:
    return [pod for pod in pods if pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]]


def _released(pod: Manifest) -> Manifest:
    return pod | {"metadata": {key: value for key, value in pod["metadata"].items() if key != "finalizers"}}


def _selected(item: Manifest, namespace: str | None, labels: str | None, fields: str | None) -> bool:
    own = item["metadata"].get("labels") or {}
    return (
        namespace in (None, item["metadata"].get("namespace", namespace))
        and all(_matches(term, own.get(term[1])) for term in _terms(labels))
        and all(_matches(term, _at(item, term[1])) for term in _terms(fields))
    )


def _terms(selector: str | None) -> Iterator[re.Match[str]]:
    for term in (selector or "").split(",") if selector else ():
        match = _SELECTOR.fullmatch(term.strip())
        if match is None:
            raise Invalid(f"the local cluster does not understand the selector {selector!r}; write a=b, a!=b or a")
        yield match


def _matches(term: re.Match[str], value: str | None) -> bool:
    return value is not None if term[2] is None else (value == term[3]) == (term[2] != "!=")


def _at(item: Any, path: str) -> str | None:
    for key in path.split("."):
        item = (item or {}).get(key)
    return None if item is None else str(item)


def _merged(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386) to a copy."""
    if not isinstance(patch, dict):
        return patch
    base = old if isinstance(old, dict) else {}
    changed = {key: _merged(base.get(key), value) for key, value in patch.items() if value is not None}
    return {key: value for key, value in base.items() if key not in patch} | changed


def _changes(look: Callable[[], dict[str, Manifest]], before: dict[str, Manifest], deadline: float) -> Iterator[Change]:
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(_PAUSE, left))
        now = look()
        for uid in before.keys() - now.keys():
            yield Change("DELETED", before[uid])
        for uid, item in now.items():
            if item != before.get(uid):
                yield Change("MODIFIED" if uid in before else "ADDED", item)
        before = now
