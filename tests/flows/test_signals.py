"""SIGTERM and Ctrl-C end a pass soon and quietly, whatever it is doing."""

from __future__ import annotations

import json
import random
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.flows.conftest import Team

COMFORT = "reconcile: interrupted; nothing is lost, the next pass goes on from here"
SEED = 7
WAITS_FOR_ANSWER = 60.0  # what a request does


@pytest.fixture
def silent_team(local_team: Team) -> Iterator[tuple[Team, socket.socket]]:
    """Build a team whose API server takes connections and never answers, and give its socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        cluster = {"name": "silent", "cluster": {"server": f"http://127.0.0.1:{server.getsockname()[1]}"}}
        context = {"name": "silent", "context": {"cluster": "silent", "user": ""}}
        config = {"current-context": "silent", "clusters": [cluster], "contexts": [context], "users": []}
        kubeconfig = local_team.folder.parent / "silent"
        kubeconfig.write_text(json.dumps(config))
        yield replace(local_team, cluster=None, environment={"KUBECONFIG": str(kubeconfig)}), server


def ended(process: subprocess.Popen[bytes], output: Path) -> tuple[int, str]:
    """Return how a process ends, and what it has said; it may take half of what a request waits for its answer."""
    try:
        code = process.wait(WAITS_FOR_ANSWER / 2)
    finally:
        process.kill()
        process.wait()
    return code, output.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_pass_whose_cluster_is_silent_ends_at_once(
    silent_team: tuple[Team, socket.socket], tmp_path: Path, number: signal.Signals
) -> None:
    """No thread that waits for an answer is waited for."""
    (team, server), output = silent_team, tmp_path / "output"
    team.commit({"jobs/train.yaml": team.task("true")})
    with output.open("wb") as stream:
        process = team.start("--once", output=stream)
        connection, _ = server.accept()
        with connection:
            process.send_signal(number)
            code, text = ended(process, output)

    assert (code, text.splitlines()[-1:]) == (130, [COMFORT])
    assert "Traceback" not in text


def test_signals_at_any_moment(local_team: Team, tmp_path: Path) -> None:
    """One or several, at seeded moments: it ends soon, with its own code or 130, and without a traceback."""
    team, moments, output = local_team, random.Random(SEED), tmp_path / "output"
    for turn in range(4):
        team.commit({"jobs/train.yaml": team.task(f"echo {turn}", controls={"suspend": "true"})})
        number = moments.choice([signal.SIGTERM, signal.SIGINT])
        with output.open("wb") as stream:
            process = team.start("--once", output=stream)
            time.sleep(moments.uniform(0.1, 1.0))
            for _ in range(moments.randint(1, 3)):
                process.send_signal(number)
                time.sleep(moments.uniform(0.0, 0.05))
            code, text = ended(process, output)

        # A signal before Python has begun is the system's to heed.
        assert code in (0, 130, -number), text
        assert not {"Traceback", "Exception ignored"} & {line.partition(" (most")[0] for line in text.splitlines()}, (
            text
        )
    assert team.reconcile().code == 0


def test_a_closed_stream_is_no_reason_to_fail(local_team: Team) -> None:
    """Nobody reads what is printed there, and no file that is opened later is taken for it."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    commands = ("--once --cluster local <&- >&- 2>&-", "logs train --cluster local >&-", "queue --cluster local 2>&-")
    codes = [team.shell(f"reconcile {command}").code for command in commands]

    assert (codes, team.states()) == ([0, 0, 0], {"train": "SUSPENDED"})
