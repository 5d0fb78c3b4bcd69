"""Send requests to one API server, and come back with what Kubernetes itself said.

What is tried again, after growing delays or the server's own Retry-After: a request that never went out, one that was
turned away (429), and of those that failed in any other passing way (no answer, half an answer, 5xx) only the
repeatable. A refused login (401) has the credentials read again, once a request. Everything else is for the caller,
who looks at the cluster again in the next pass.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
import ssl
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import urllib3
from kubernetes.client.rest import RESTClientObject
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, PoolError, ProxyError

from reconciler import __version__
from reconciler.cluster.refusal import error_of, shorten, status_of
from reconciler.cluster.request import Patience, Request
from reconciler.errors import ClusterError, ClusterUnauthorized, ClusterUnreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.cluster.kubeconfig import Access
    from reconciler.model import Manifest

_NEVER_SENT = (NewConnectionError, ConnectTimeoutError, PoolError, ProxyError)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Connection:
    access: Access
    pool: urllib3.PoolManager


class _Failed(Exception):  # noqa: N818 - never leaves this module
    """One try that did not work out."""

    def __init__(self, error: ClusterError, *, again: bool, after: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.again, self.after = error, again, after


class Transport:
    """The connections to one API server. Safe to use from several threads."""

    def __init__(self, access: Access, renew: Callable[[], Access], patience: Patience) -> None:
        self._connection = _connect(access)
        self._read_access = renew
        self._patience = patience
        self._lock = threading.Lock()
        self._streams: set[BaseHTTPResponse] = set()

    @property
    def access(self) -> Access:
        """How the server is reached now; other credentials after a renewal."""
        return self._connection.access

    def call(self, request: Request) -> Manifest:
        """Send a request and return the JSON object that it is answered with."""
        return self._persist(request, self._read_whole)

    def stream(self, request: Request) -> Iterator[bytes]:
        """Send a GET and yield the answer's body in the pieces in which it comes.

        Raises ClusterUnreachable when it breaks off, or when `close` ends it from another thread.
        """
        answer = self._persist(request, self._open)
        self._streams.add(answer)
        try:
            yield from answer.stream(2**16)
        except HTTPError as error:
            raise ClusterUnreachable(f"could not {request.attempt} to the end: {_why(error)}") from error
        finally:
            self._streams.discard(answer)
            answer.close()
            answer.release_conn()

    def close(self) -> None:
        """End the streams that other threads wait on, and close all connections."""
        for answer in tuple(self._streams):
            with contextlib.suppress(RuntimeError, ValueError, OSError):  # it has just ended by itself
                answer.shutdown()
        self._connection.pool.clear()

    def _persist(self, request: Request, once: Callable[[Request, _Connection], _T]) -> _T:
        """Try `once` until it works out, or is not worth another try."""
        delays = iter(self._patience.delays)
        renewed = False
        while True:
            connection = self._connection
            try:
                return once(request, connection)
            except _Failed as failed:
                if isinstance(failed.error, ClusterUnauthorized) and not renewed:
                    self._renew(connection)
                    renewed = True
                    continue
                delay = next(delays, None) if failed.again else None
                if delay is None:
                    raise failed.error from failed.__cause__
                time.sleep(max(delay, failed.after))

    def _renew(self, refused: _Connection) -> None:
        """Read the credentials again, unless another thread has done so since `refused` was in use."""
        with self._lock:
            if self._connection is not refused:
                return
            old = refused.access
            try:
                new = self._read_access()
            except UsageError as error:
                raise ClusterUnauthorized(f"the login to {old.context} has ended: {error}") from error
            if new.configuration.host != old.configuration.host:
                raise ClusterUnauthorized(f"the context {old.context} means another server now: start again")
            self._connection = _connect(new)
        refused.pool.clear()

    def _read_whole(self, request: Request, connection: _Connection) -> Manifest:
        body = _read(request, self._open(request, connection, encoding="gzip"))
        try:
            value = _parse(body)
        except ValueError as error:
            text = f"the answer is not whole JSON ({error}). Is a proxy in between?"
            raise _unreachable(request, text, again=request.repeatable) from error
        if not isinstance(value, dict):
            raise _unreachable(request, f"expected a JSON object, got {shorten(str(value), 60)}", again=False)
        return value

    def _open(self, request: Request, connection: _Connection, *, encoding: str = "identity") -> BaseHTTPResponse:
        """Send the request and return a successful answer, its body unread."""
        access = connection.access
        host = access.configuration.host
        try:
            answer = connection.pool.request(
                request.method,
                f"{host}{request.path}?{urlencode(request.query)}",
                body=None if request.body is None else json.dumps(request.body, separators=(",", ":")).encode(),
                headers=_headers(request, access, encoding),
                timeout=urllib3.Timeout(connect=self._patience.connect, read=request.read_timeout),
                preload_content=False,
            )
        except HTTPError as error:
            if isinstance(error.__cause__ or error.__context__, ssl.SSLCertVerificationError):
                text = f"{host} is not to be trusted: {_why(error)}. Is the kubeconfig's certificate-authority current?"
                raise _unreachable(request, text, again=False) from error
            again = request.repeatable or isinstance(error, _NEVER_SENT)
            raise _unreachable(request, f"no answer from {host}: {_why(error)}", again=again) from error
        if answer.status < 300:  # noqa: PLR2004
            return answer
        raise self._failed(request, answer)

    def _failed(self, request: Request, answer: BaseHTTPResponse) -> _Failed:
        body = _read(request, answer)
        after = answer.headers.get("Retry-After", "")
        return _Failed(
            error_of(answer.status, body, request.attempt),
            again=_passes(request, answer.status, body),
            after=min(float(after), self._patience.longest_delay) if after.isdecimal() else 0.0,
        )


def _connect(access: Access) -> _Connection:
    return _Connection(access, RESTClientObject(access.configuration).pool_manager)


def _headers(request: Request, access: Access, encoding: str) -> dict[str, str]:
    headers = {
        "Accept": request.accept,
        "Accept-Encoding": encoding,
        "User-Agent": f"job-reconciler/{__version__}",
    }
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    if access.authorization is not None:
        headers["Authorization"] = access.authorization
    return headers


def _read(request: Request, answer: BaseHTTPResponse) -> bytes:
    try:
        return answer.data
    except HTTPError as error:
        answer.close()
        raise _unreachable(request, f"the answer broke off: {_why(error)}", again=request.repeatable) from error


def _parse(body: bytes) -> Any:
    """Parse JSON without the collector of cycles, of which JSON has none: in a long list it takes most of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return json.loads(body)
    finally:
        if collecting:
            gc.enable()


def _passes(request: Request, status: int, body: bytes) -> bool:
    """Tell whether the same request may well work out soon."""
    if status == HTTPStatus.CONFLICT and request.method == "POST":
        # Two creations met at one ResourceQuota; an object of that name would be AlreadyExists.
        return (status_of(body) or {}).get("reason") == "Conflict"
    return status == HTTPStatus.TOO_MANY_REQUESTS or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and request.repeatable)


def _unreachable(request: Request, text: str, *, again: bool) -> _Failed:
    return _Failed(ClusterUnreachable(f"could not {request.attempt}: {text}"), again=again)


def _why(error: HTTPError) -> str:
    """Return the reason alone, without urllib3's names of its own objects."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return re.sub(r"^HTTPS?ConnectionPool\(.*?\): ", "", shorten(str(error.args[-1] if error.args else error)))
