"""A Kubernetes cluster as `cluster.interface` wants it: plain JSON over the official client's login and transport.

Only this module knows the API's paths and parameters. The client takes a quarter of a second to import, so that happens
in the background, while git is read.

Writes validate strictly and carry our field manager. A POST is sent again after a lost answer, since the engine looks
at an object that AlreadyExists; patches and deletions are not, and the next pass sees how they ended.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from reconciler.cluster.interface import KINDS, Change
from reconciler.cluster.refusal import Expired
from reconciler.cluster.request import Patience, Request
from reconciler.errors import ClusterError, ClusterUnreachable, Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.cluster.transport import Transport
    from reconciler.model import Manifest

FIELD_MANAGER = "job-reconciler"
OLDEST_VERSION = (1, 31)
_PAGE = 500
_WRITE = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_NO_QUERY: Mapping[str, str] = {}
_SILENCE = 5.0  # what a watch may go on saying nothing for after the server should have ended it


def open_kubernetes_cluster(
    context: str | None, *, environ: Mapping[str, str], patience: Patience | None = None
) -> KubernetesCluster:
    """Return the cluster of the kubeconfig's `context` (None: its current one). Nothing is sent yet.

    The kubeconfig is read in the background. Each use raises UsageError when it is not usable or has no such context.
    """
    patience = patience or Patience()
    return KubernetesCluster(ThreadPoolExecutor(1).submit(_open, context, environ, patience), patience)


def _open(context: str | None, environ: Mapping[str, str], patience: Patience) -> Transport:
    from reconciler.cluster.kubeconfig import read_access
    from reconciler.cluster.transport import Transport

    access = read_access(context, environ)
    renew = functools.partial(read_access, access.context, environ)  # whatever the current context is by then
    return Transport(access, renew, patience)


class KubernetesCluster:
    """One cluster behind one API server. Implements `interface.Cluster`, whose docstrings hold here too."""

    def __init__(self, opening: Future[Transport], patience: Patience) -> None:
        self._opening = opening
        self._patience = patience
        self._version_lock = threading.Lock()
        self._version: tuple[int, int] | None = None
        self._served: frozenset[str] = frozenset()

    @property
    def _transport(self) -> Transport:
        return self._opening.result()

    @property
    def context(self) -> str:
        """The kubeconfig's name for this cluster, or `in-cluster`."""
        return self._transport.access.context

    @property
    def default_namespace(self) -> str:
        """The namespace of the kubeconfig's context, else `default`."""
        return self._transport.access.namespace

    def uid(self) -> str:
        """Return the uid of the namespace kube-system, which lives as long as the cluster."""
        return str(self.get("Namespace", "kube-system")["metadata"]["uid"])

    def server_version(self) -> tuple[int, int]:
        """Return the server's (major, minor)."""
        answer = self._read("/version", "read the version of the server")
        numbers = [re.match(r"\d+", str(answer.get(key))) for key in ("major", "minor")]
        if not all(numbers):
            raise ClusterUnreachable(f"the server of {self.context} does not tell its version")
        major, minor = (int(number[0]) for number in numbers if number)
        return major, minor

    def serves(self, kind: str) -> bool:
        """Look for the kind's API among those that the server lists; one that was there once is not asked for again.

        NB: the path of an API that is not there answers with a 404 that is not the API server's own words.
        """
        version = KINDS[kind].api_version
        if version not in self._served:
            purpose = "read which APIs there are"
            groups = self._expect("APIGroupList", self._read("/apis", purpose), purpose)["groups"]
            self._served = frozenset(v["groupVersion"] for group in groups for v in group["versions"])
        return version in self._served

    def list(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> list[Manifest]:
        """List a kind whole, but for managedFields; from the start once more when a page comes too late (410)."""
        query = _selectors(labels, fields)
        try:
            return [item for page in self._pages(kind, namespace, query) for item in page]
        except Expired:
            return [item for page in self._pages(kind, namespace, query) for item in page]

    def get(self, kind: str, name: str, *, namespace: str | None = None, metadata_only: bool = False) -> Manifest:
        """Return one object, or its metadata alone, which is all that the server then sends. Raises NotFound."""
        namespace = self._namespace(kind, namespace)
        purpose = f"read {_title(kind, namespace, name)}"
        path = _path(kind, namespace, name)
        if metadata_only:
            request = self._get(path, purpose, _NO_QUERY, read_timeout=self._patience.read)
            answer = self._transport.call(replace(request, accept=_METADATA))
            return self._expect("PartialObjectMetadata", answer, purpose)
        return self._expect(kind, self._read(path, purpose), purpose)

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object. Raises ClusterError when the server is too old to keep count of a job's recoveries."""
        self._require_version()
        kind, namespace, name = self._identity(manifest)
        query = {**_WRITE, "dryRun": "All"} if dry_run else _WRITE
        purpose = f"create {_title(kind, namespace, name)}"  # tried or done: who reads of it later sees no difference
        answer = self._send("POST", _path(kind, namespace), purpose, query=query, body=manifest)
        return self._expect(kind, answer, purpose)

    def patch(self, manifest: Manifest, patch: Manifest) -> Manifest:
        """Apply a JSON merge patch that holds only for the object's uid."""
        kind, namespace, name = self._identity(manifest)
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "uid": manifest["metadata"]["uid"]}}
        purpose = f"update {_title(kind, namespace, name)}"
        answer = self._send("PATCH", _path(kind, namespace, name), purpose, query=_WRITE, body=guarded)
        return self._expect(kind, answer, purpose)

    def delete(self, manifest: Manifest, *, foreground: bool = False) -> None:
        """Delete the object by uid and resourceVersion; gone already is success."""
        kind, namespace, name = self._identity(manifest)
        options = {
            "preconditions": {key: manifest["metadata"][key] for key in ("uid", "resourceVersion")},
            "propagationPolicy": "Foreground" if foreground else "Background",
        }
        purpose = f"delete {_title(kind, namespace, name)}"
        with contextlib.suppress(NotFound):
            self._send("DELETE", _path(kind, namespace, name), purpose, query=_NO_QUERY, body=options)

    def watch(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, timeout: float = 60.0
    ) -> Iterator[Change]:
        """Yield the changes after this call, for at most `timeout` seconds. A broken stream only ends it early."""
        query = _selectors(labels, None)
        now = self._page(kind, namespace, {**query, "limit": "1"})["metadata"]["resourceVersion"]
        query |= {"watch": "true", "resourceVersion": now, "timeoutSeconds": str(math.ceil(timeout))}
        return self._changes(kind, namespace, query, silence=timeout + _SILENCE)

    def logs(self, pod: Manifest, *, container: str, follow: bool = False) -> Iterator[bytes]:
        """Yield a container's output. Raises NotFound too when it has none yet."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        request = self._get(
            f"{_path('Pod', namespace, name)}/log",
            f"read the log of {_title('Pod', namespace, name)}",
            {"container": container, "follow": str(follow).lower()},
            read_timeout=None if follow else self._patience.read,
        )
        try:
            yield from self._transport.stream(request)
        except Invalid as error:  # 400: the container is waiting to start
            raise NotFound(str(error)) from error

    def close(self) -> None:
        """End running watches and logs, and close all connections."""
        if self._opening.exception() is None:
            self._transport.close()

    def _pages(self, kind: str, namespace: str | None, query: Mapping[str, str]) -> Iterator[Sequence[Manifest]]:
        """Yield a list's pages. Items come without apiVersion and kind, and with a third of them in managedFields."""
        head = {"apiVersion": KINDS[kind].api_version, "kind": kind}
        place: dict[str, str] = {}
        while True:
            page = self._page(kind, namespace, {**query, **place, "limit": str(_PAGE)})
            for item in page["items"] or ():
                item["metadata"].pop("managedFields", None)
            yield [{**head, **item} for item in page["items"] or ()]
            if not page["metadata"].get("continue"):
                return
            place = {"continue": page["metadata"]["continue"]}

    def _page(self, kind: str, namespace: str | None, query: Mapping[str, str]) -> Manifest:
        purpose = f"list {KINDS[kind].plural} in {namespace or 'all namespaces'}"
        page = self._read(_path(kind, namespace), purpose, query, read_timeout=self._patience.read_list)
        return self._expect(f"{kind}List", page, purpose)

    def _changes(self, kind: str, namespace: str | None, query: Mapping[str, str], silence: float) -> Iterator[Change]:
        request = self._get(_path(kind, namespace), f"watch {KINDS[kind].plural}", query, read_timeout=silence)
        try:
            for line in _lines(self._transport.stream(request)):
                event = json.loads(line)
                if event.get("type") in _CHANGES:
                    yield Change(event["type"], event["object"])
                elif event.get("type") != "BOOKMARK":  # ERROR: most often that our place in the history is gone (410)
                    return
        except (ClusterUnreachable, ValueError):  # half a line is a broken stream as well
            return

    def _expect(self, kind: str, answer: Manifest, purpose: str) -> Manifest:
        """Let through only what the API server itself says: a proxy's `{}` must not pass for an empty list."""
        if answer.get("kind") != kind:
            raise ClusterUnreachable(f"could not {purpose} on {self.context}: the answer is no {kind}")
        return answer

    def _require_version(self) -> None:
        with self._version_lock:
            self._version = self._version or self.server_version()
        if self._version < OLDEST_VERSION:
            raise ClusterError(
                f"{self.context} runs Kubernetes {_dotted(self._version)}, and {_dotted(OLDEST_VERSION)} is the oldest "
                "that will do: before it a server drops a Job's successPolicy and would run a finished job again"
            )

    def _namespace(self, kind: str, namespace: str | None) -> str | None:
        return (namespace or self.default_namespace) if KINDS[kind].namespaced else None

    def _identity(self, manifest: Manifest) -> tuple[str, str | None, str]:
        kind, metadata = manifest["kind"], manifest["metadata"]
        return kind, self._namespace(kind, metadata.get("namespace")), metadata["name"]

    def _get(self, path: str, purpose: str, query: Mapping[str, str], *, read_timeout: float | None) -> Request:
        return Request("GET", path, f"{purpose} on {self.context}", read_timeout, query=query, repeatable=True)

    def _read(
        self, path: str, purpose: str, query: Mapping[str, str] = _NO_QUERY, *, read_timeout: float | None = None
    ) -> Manifest:
        request = self._get(path, purpose, query, read_timeout=read_timeout or self._patience.read)
        return self._transport.call(request)

    def _send(self, method: str, path: str, purpose: str, *, query: Mapping[str, str], body: Manifest) -> Manifest:
        return self._transport.call(
            Request(
                method,
                path,
                f"{purpose} on {self.context}",
                self._patience.read,
                query=query,
                body=body,
                content_type="application/merge-patch+json" if method == "PATCH" else "application/json",
                repeatable=method == "POST",
            )
        )


def _path(kind: str, namespace: str | None, name: str | None = None) -> str:
    version = KINDS[kind].api_version
    parts = ["/apis" if "/" in version else "/api", version]
    parts += ["namespaces", quote(namespace, safe="")] if namespace else []
    parts += [KINDS[kind].plural]
    parts += [quote(name, safe="")] if name is not None else []
    return "/".join(parts)


def _title(kind: str, namespace: str | None, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _selectors(labels: str | None, fields: str | None) -> dict[str, str]:
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in given.items() if value}


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Cut a stream into its lines, each as soon as it is whole."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)
