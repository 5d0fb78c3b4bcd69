"""`--wait` stays with a commit until its jobs have started, or finished."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.flows.conftest import Team


def test_wait_started(team: Team) -> None:
    """It returns while the job runs; the actions are those of the first pass, and the status is the last one's."""
    team.commit({"jobs/train.yaml": team.task(team.gated("train"))})
    ran = team.reconcile("--wait", "started", "--timeout", "60s")

    assert (ran.code, ran.actions) == (0, [("create", "done", "train-1")])
    assert team.document("train")["state"] == "RUNNING"
    assert ran.json["status_commit"] == team.git(team.record, "rev-parse", team.status_branch)


def test_wait_finished(team: Team) -> None:
    """It returns when all have ended, a failed one too: that is no failed pass."""
    team.commit({"jobs/works.yaml": team.task("sleep 1"), "jobs/fails.yaml": team.task("exit 3")})
    ran = team.reconcile("--wait", "finished", "--timeout", "60s")

    assert ran.code == 0
    assert team.states() == {"works": "SUCCEEDED", "fails": "FAILED"}
    assert re.search(r"^\S+Z works-1 [A-Z ->]*SUCCEEDED$", ran.stderr, re.MULTILINE), ran.stderr
    assert re.search(r"^\S+Z fails-1 [A-Z ->]*FAILED: exit code 3$", ran.stderr, re.MULTILINE), ran.stderr


def test_a_wait_in_vain(local_team: Team) -> None:
    """It ends with 1 when its time is over and says for whom it waited; the jobs go on."""
    team = local_team
    team.commit({"jobs/runs.yaml": team.task(team.gated("runs")), "jobs/big.yaml": team.task("true", num_nodes=1)})
    begun = time.monotonic()
    ran = team.reconcile("--wait", "finished", "--timeout", "2s")
    duration = time.monotonic() - begun
    (problem,) = ran.json["problems"]

    assert (ran.code, duration < 10) == (1, True)
    assert (problem["code"], problem["severity"]) == ("timed-out", "error")
    assert problem["message"] == "not finished in time: runs RUNNING; they go on, and the next pass looks again"
    assert ran.stderr.splitlines()[-1] == f"reconcile: error: {problem['message']} [timed-out]"
    assert team.states() == {"big": "SUCCEEDED", "runs": "RUNNING"}


def test_what_a_person_must_decide_is_not_waited_for(local_team: Team) -> None:
    """An invalid, a LOST and a suspended job would never get there: the wait ends, and the exit code is 3."""
    team = local_team
    team.commit(
        {
            "jobs/lost.yaml": team.task(team.gated("lost")),
            "jobs/broken.yaml": "run: [not closed\n",
            "jobs/later.yaml": team.task("true", controls={"suspend": "true"}),
        }
    )
    team.reach("lost", "RUNNING")
    team.delete("Job", "lost-1")
    ran = team.reconcile("--wait", "finished", "--timeout", "60s")

    assert (ran.code, team.states()) == (3, {"broken": "INVALID", "lost": "LOST", "later": "SUSPENDED"})


def test_a_wait_that_is_interrupted(local_team: Team) -> None:
    """It says at once what it did. Ctrl-C ends it with 130 and a word of comfort; the next pass finds the job."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task(team.gated("train"))})
    output = team.folder.parent / "output"
    with output.open("wb") as stream:
        process = team.start("--once", "--wait", "finished", output=stream)
        team.until(lambda: "reconcile: waiting for the jobs: 1 " in output.read_text(), "the first pass")
        process.send_signal(signal.SIGINT)
        code, text = process.wait(20), output.read_text()

    assert code == 130
    assert re.search(r"^create +done +Job/\S*/train-1 ", text, re.MULTILINE), text
    assert text.splitlines()[-1] == "reconcile: interrupted; nothing is lost, the next pass goes on from here"
    assert "Traceback" not in text
    assert team.reach("train", "RUNNING")["run"]["number"] == 1
