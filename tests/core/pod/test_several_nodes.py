"""The supervisor of a rank: it finds the other nodes before setup, and tells no error while a peer may be lost."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.exit_codes import PEER_LOST, SETUP_FAILED, TOLD_TO_STOP
from tests.core.pod.test_supervisor import PATIENCE, Supervised, supervised, until

__all__ = ["supervised"]

ADDRESSES = "127.0.0.1%d"  # which any resolver takes for what it is
NOWHERE = "nowhere-%d.invalid"
AT_ONCE = "-10"  # seconds of grace, so that the 10 more are none


def rank(number: int, nodes: int = 2, names: str = ADDRESSES, *, attempt: int = 0, grace: str = "0") -> dict[str, Any]:
    """Return what the kubelet gives a rank."""
    return {
        "nodes": nodes,
        "JOB_NODES": str(nodes),
        "JOB_NODE_NAMES": names,
        "JOB_NODE_IP": "10.0.0.7",
        "JOB_COMPLETION_INDEX": str(number),
        "JOB_ATTEMPT": str(attempt),
        "JOB_GRACE_SECONDS": grace,
    }


@pytest.mark.parametrize("attempt", [pytest.param(0, id="first"), pytest.param(2, id="after a restart")])
@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(rank(0), "10.0.0.7 127.0.0.11", id="first rank"),
        pytest.param(rank(2, 3), "127.0.0.10 127.0.0.11 10.0.0.7", id="last rank"),
        pytest.param(rank(0, names="::%d"), "10.0.0.7 0:0:0:0:0:0:0:1", id="IPv6"),
    ],
)
def test_the_addresses_are_there_before_setup(
    supervised: Supervised, node: dict[str, Any], expected: str, attempt: int
) -> None:
    """In order of rank, one a line, for setup and run."""
    show = 'mapfile -t ips <<<"$%s"; echo "${ips[*]}"'
    node = node | {"JOB_ATTEMPT": str(attempt)}
    code, out, err = supervised.result(show % "SKYPILOT_NODE_IPS", setup=show % "SKYPILOT_SETUP_NODE_IPS", **node)

    assert (code, out, err) == (0, f"{expected}\n{expected}\n", "")


def test_the_rank_stays_and_our_own_variables_go(supervised: Supervised) -> None:
    """JAX and others read the completion index as the rank, which it is here."""
    _, out, _ = supervised.result(
        "compgen -A export | grep ^JOB_; echo $JOB_COMPLETION_INDEX $JOB_ATTEMPT", **rank(1, attempt=3)
    )

    assert out == "JOB_ATTEMPT\nJOB_COMPLETION_INDEX\n1 3\n"


def test_what_a_task_sets_stays(supervised: Supervised) -> None:
    _, out, _ = supervised.result('echo "$SKYPILOT_NODE_IPS"', **rank(0), SKYPILOT_NODE_IPS="mine")

    assert out == "mine\n"


def test_a_stop_ends_the_wait_for_a_peer(supervised: Supervised) -> None:
    """A peer may be Pending for days, and a rank that waits for it may be preempted."""
    process = supervised.start("touch ran", **rank(0, names=NOWHERE))
    until(lambda: bool(children(process.pid)), "search for the peer, which is a process of its own")
    process.terminate()

    assert process.wait(PATIENCE) == TOLD_TO_STOP
    assert not (supervised.folder / "ran").exists()


def children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


@pytest.mark.parametrize("script", ["setup", "run"])
def test_an_error_while_a_peer_is_lost_is_not_the_jobs_own(supervised: Supervised, script: str) -> None:
    """The rank waits before it tells; stopped meanwhile, it is a lost peer. The log has the command's own code."""
    scripts = {"run": "touch ran"} | {script: "exit 3"}
    process = supervised.start(scripts["run"], setup=scripts.get("setup"), **rank(0))
    told = {"phase": script, "exit_code": 3}
    until(lambda: supervised.log.exists() and supervised.log.read_text() == f"{json.dumps(told)}\n", "end of the phase")
    process.terminate()

    assert process.wait(PATIENCE) == PEER_LOST
    assert supervised.said == told


@pytest.mark.parametrize(
    ("setup", "run", "code"),
    [
        pytest.param(None, "exit 3", 3, id="error"),
        pytest.param(None, "exit 218", 1, id="our own code"),
        pytest.param("exit 3", "true", SETUP_FAILED, id="setup"),
    ],
)
def test_an_error_of_its_own_is_told_after_the_wait(
    supervised: Supervised, setup: str | None, run: str, code: int
) -> None:
    assert supervised.result(run, setup=setup, **rank(0, grace=AT_ONCE))[0] == code


def test_the_wait_is_the_grace_period_and_more(supervised: Supervised) -> None:
    """Nobody stops the rank for two seconds: a grace period of -8 seconds, and the 10 that come after it."""
    begun = time.monotonic()

    assert supervised.result("exit 3", **rank(0, grace="-8"))[0] == 3
    assert time.monotonic() - begun >= 2


@pytest.mark.parametrize(
    ("run", "timeout", "code"),
    [pytest.param("true", None, 0, id="success"), pytest.param("sleep 60", 1, 124, id="its time is over")],
)
def test_what_is_no_error_is_told_at_once(supervised: Supervised, run: str, timeout: int | None, code: int) -> None:
    """The wait would take longer than the test has patience."""
    assert supervised.result(run, timeout=timeout, **rank(0, grace="60"))[0] == code
