"""What clones for a pod, by the real sh and git against real HTTP servers: what it tries again, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.core.exit_codes import NOT_REACHED, TOLD_TO_STOP
from reconciler.core.pod.clone import WORKDIR, clone_container
from reconciler.model import GitWorkdir, Site, Task

if TYPE_CHECKING:
    from tests.conftest import Git, Repo

Build = Callable[..., Task]
TOKEN = "hunter2"


@dataclass
class Host:
    """Serves a folder; the first requests get `answers` instead, and `always` may be the answer to all."""

    folder: Path
    answers: list[int] = field(default_factory=list)
    always: int | None = None
    location: str = ""
    logins: list[str | None] = field(default_factory=list)
    url: str = ""


class Handler(SimpleHTTPRequestHandler):
    """Answers as its Host says, and keeps who logged in."""

    def __init__(self, *args: Any, host: Host) -> None:
        self.host = host
        super().__init__(*args, directory=str(host.folder))

    def do_GET(self) -> None:
        """Give an answer that was asked for, or a file."""
        self.host.logins.append(self.headers.get("Authorization"))
        code = self.host.answers.pop(0) if self.host.answers else self.host.always
        if code is None:
            super().do_GET()
            return
        self.send_response(code)
        self.send_header("Location", f"{self.host.location}{self.path}")
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(host: Host) -> Iterator[Host]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, host=host)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        host.url = f"http://127.0.0.1:{server.server_port}"
        yield host
        server.shutdown()


@pytest.fixture
def published(repo: Repo, git: Git, tmp_path: Path) -> Path:
    """Make a folder with the repository `a.git` as a plain web server can serve it, with the branch `main`."""
    git(
        tmp_path, "clone", "--quiet", "--bare", str(repo({"train.py": "code\n"}, "origin")), str(tmp_path / "www/a.git")
    )
    git(tmp_path / "www/a.git", "update-server-info")
    return tmp_path / "www"


@pytest.fixture
def start(task: Build, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the container's script, without its pauses: those it writes to `pauses`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sleep").write_text(f'#!/bin/sh\necho "$1" >>{tmp_path}/pauses\n')
    (tmp_path / "bin/sleep").chmod(0o755)
    (tmp_path / "into").mkdir()

    def start_clone(url: str, ref: str = "main", **env: str) -> subprocess.Popen[str]:
        into = str(tmp_path / "into")
        container = clone_container(task(), Site(), WORKDIR, GitWorkdir(url, ref), into=into, env=[])
        script = container["args"][0].replace("$$", "$").replace("/dev/termination-log", str(tmp_path / "message"))
        environ = {e["name"]: e["value"] for e in container["env"]} | env
        environ |= {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GIT_CONFIG_NOSYSTEM": "1"}
        pipe = subprocess.PIPE
        return subprocess.Popen([*container["command"], script], env=environ, stdout=pipe, stderr=pipe, text=True)

    return start_clone


Start = Callable[..., "subprocess.Popen[str]"]


def pauses(tmp_path: Path) -> list[str]:
    return (tmp_path / "pauses").read_text().split() if (tmp_path / "pauses").exists() else []


@pytest.mark.parametrize("answers", [[503], [429, 502, 500]], ids=str)
def test_a_host_that_is_back_soon_is_waited_for(
    start: Start, published: Path, tmp_path: Path, answers: list[int]
) -> None:
    """Nobody is to notice, but for the log."""
    with served(Host(published, list(answers))) as host:
        process = start(f"{host.url}/a.git")
        _, said = process.communicate()

    assert (process.returncode, pauses(tmp_path)) == (0, ["2", "4", "8"][: len(answers)])
    assert (tmp_path / "into/workdir/train.py").read_text() == "code\n"
    assert f"The requested URL returned error: {answers[0]} ({host.url}/a.git at main); the next try is in 2 s" in said
    assert not (tmp_path / "message").exists()


@pytest.mark.parametrize("answer", [503, None], ids=["it answers, but badly", "nobody listens"])
def test_a_host_that_stays_away_is_an_interruption(start: Start, tmp_path: Path, answer: int | None) -> None:
    """After some four minutes; its code is one that the Job recovers from, and git's words are its message."""
    with served(Host(tmp_path, always=answer)) as host:
        url = host.url if answer else "http://127.0.0.1:1"
        process = start(f"{url}/a.git")
        _, said = process.communicate()
    message = (tmp_path / "message").read_text()

    assert (process.returncode, sum(map(int, pauses(tmp_path)))) == (NOT_REACHED, 242)
    assert message.startswith(f"could not clone: unable to access '{url}/a.git/': ")
    assert said.endswith(message)


@pytest.mark.parametrize(
    ("answer", "path", "ref", "reason"),
    [
        pytest.param(None, "a.git", "nowhere", "there is no such commit, branch or tag", id="no such branch"),
        pytest.param(None, "a.git", "c" * 40, "there is no such commit, branch or tag", id="not pushed"),
        pytest.param(None, "b.git", "main", "repository 'URL/b.git/' not found", id="no such repository"),
        pytest.param(401, "a.git", "main", "could not read Username for 'URL'", id="private"),
        pytest.param(403, "a.git", "main", "returned error: 403", id="forbidden"),
    ],
)
def test_what_is_not_to_be_had_ends_at_once_with_what_git_said(  # noqa: PLR0917 - fixtures
    start: Start, published: Path, tmp_path: Path, answer: int | None, path: str, ref: str, reason: str
) -> None:
    with served(Host(published, always=answer)) as host:
        process = start(f"{host.url}/{path}", ref)
        _, said = process.communicate()

    assert (process.returncode, pauses(tmp_path)) == (1, [])
    assert said == (tmp_path / "message").read_text()
    assert reason.replace("URL", host.url) in said
    assert "Is it pushed? Where it is private, give the job secrets: {GIT_TOKEN: null}" in said


def test_a_wrong_login_ends_at_once(start: Start, published: Path, tmp_path: Path) -> None:
    with served(Host(published, always=401)) as host:
        process = start(f"{host.url}/a.git", GIT_TOKEN=TOKEN)
        _, said = process.communicate()

    assert (process.returncode, pauses(tmp_path)) == (1, [])
    assert "Authentication failed" in said
    assert TOKEN not in said


def test_a_token_logs_in(start: Start, published: Path) -> None:
    with served(Host(published, [401])) as host:
        process = start(f"{host.url}/a.git", GIT_TOKEN=TOKEN)
        process.communicate()

    assert process.returncode == 0
    assert str(host.logins[1]).startswith("Basic ")


def test_a_token_is_told_to_its_own_host_alone(start: Start, tmp_path: Path) -> None:
    """Not to one that it redirects to, though that asks for a login, too."""
    with (
        served(Host(tmp_path, always=401)) as other,
        served(Host(tmp_path, always=302, location=other.url)) as redirecting,
    ):
        process = start(f"{redirecting.url}/a.git", GIT_TOKEN=TOKEN)
        _, said = process.communicate()

    assert (process.returncode, set(other.logins)) == (1, {None})
    assert f"could not read Username for '{other.url}'" in said


def test_it_stops_when_it_is_told_to(start: Start, tmp_path: Path) -> None:
    """At once, whatever git waits for, and by a code that the Job recovers from."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = start(f"http://127.0.0.1:{silent.getsockname()[1]}/a.git")
        connection, _ = silent.accept()
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate()
        connection.close()

    assert process.returncode == TOLD_TO_STOP
    assert time.monotonic() - begin < 5
    assert not (tmp_path / "message").exists()
