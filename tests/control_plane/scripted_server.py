"""A real HTTP server that says what a test wants, for the faults that a real API server has no button for."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the server says once: after `delay` seconds, and no more than the first `cut` bytes when that is given."""

    status: int
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None

    @property
    def data(self) -> bytes:
        """Return the body as it is sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Received:
    """A request as it came in."""

    line: str
    headers: dict[str, str]
    body: Any


class ScriptedServer(ThreadingHTTPServer):
    """Gives its answers one after the other; the last one again and again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self._answers: deque[Answer] = deque()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def lines(self) -> list[str]:
        """Return the method and path of each request so far."""
        return [received.line for received in self.received]

    def says(self, *answers: Answer) -> None:
        """Set the answers that come next."""
        self._answers.extend(answers)

    def next_answer(self, received: Received) -> Answer:
        """Note a request and return what to say to it."""
        with self._lock:
            self.received.append(received)
            return self._answers.popleft() if len(self._answers) > 1 else self._answers[0]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: clients that hang up are what is tested."""

    def stop(self) -> None:
        """Stop listening."""
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ScriptedServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        received = Received(f"{self.command} {self.path}", dict(self.headers), json.loads(body) if body else None)
        answer = self.server.next_answer(received)
        time.sleep(answer.delay)
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(answer.data)))
        self.end_headers()
        self.wfile.write(answer.data[: answer.cut])
        self.close_connection = answer.cut is not None

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815


def refusal(status: int, reason: str, message: str = "the API's words", **details: Any) -> Answer:
    """Return an answer in Kubernetes' own form."""
    body = {"kind": "Status", "code": status, "reason": reason, "message": message, "details": details}
    return Answer(status, body)
