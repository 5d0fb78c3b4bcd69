"""`reconcile` without --once keeps the cluster in step until it is told to end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from control_plane import ControlPlane

    from tests.flows.conftest import Team


@contextmanager
def looping(team: Team, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a loop whose output goes to the file `output` beside the clone; kill it if it is left running."""
    with (team.folder.parent / "output").open("wb") as output:
        process = team.start(*arguments, output=output)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def said(team: Team) -> str:
    """Return what the loop printed so far."""
    return Path(team.folder.parent / "output").read_text()


def test_the_loop_keeps_the_cluster_in_step(team: Team) -> None:
    """It picks up a commit, then a change in the cluster, long before its interval; SIGTERM ends it in 5 s with 0."""
    team.commit({"reconciler.yaml": settings(team), "jobs/first.yaml": team.task(team.gated("first"))})
    with looping(team, "--interval", "10m") as process:
        recorded(team, "first", "RUNNING")
        team.commit({"jobs/second.yaml": team.task("true")})
        recorded(team, "second", "SUCCEEDED")
        team.open("first")
        recorded(team, "first", "SUCCEEDED")
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        code = process.wait(20)
        duration = time.monotonic() - begun

    assert (code, duration < 5) == (0, True)
    assert "Job/second-1: jobs/second.yaml is new" in said(team)
    stamped = re.findall(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (.*)$", said(team), re.MULTILINE)
    assert "first-1 RUNNING -> SUCCEEDED" in stamped
    assert "Traceback" not in said(team)


def settings(team: Team) -> str:
    """Write settings whose status commits need no distance: nothing here flaps."""
    return f"{(team.folder / 'reconciler.yaml').read_text()}status_interval: 0s\n"


def recorded(team: Team, job: str, state: str) -> None:
    """Wait until the status branch says that; nobody but the loop makes a pass."""

    def there() -> bool:
        paths = team.git(team.record, "ls-tree", "-r", "--name-only", team.status_branch).splitlines()
        return f"jobs/{job}.yaml" in paths and team.document(job)["state"] == state

    team.until(lambda: team.git(team.record, "branch", "--list", team.status_branch), "the status branch")
    team.until(there, f"{job} to be {state} on record; the loop said: {said(team)}")


@pytest.mark.parametrize(
    ("files", "text"),
    [
        pytest.param(
            {"jobs/train.yaml": None},
            "reconcile: error: the commit declares no job any more, and this pass would delete train-1: if that is "
            "meant, pass --allow-empty-source [guard]",
            id="a guard refuses",
        ),
        pytest.param(
            {"reconciler.yaml": "intervall: 5s\n"},
            "reconciler.yaml:1:1: error: there is no field intervall; did you mean interval? [unknown-field]",
            id="the settings can't be read",
        ),
    ],
)
def test_the_loop_says_once_why_it_does_nothing(
    local_team: Team, files: dict[str, str | bytes | None], text: str
) -> None:
    """What stops a pass is told when it begins to, not at each look; the loop goes on, and so does the job."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("sleep 60", controls={"suspend": "true"})})
    team.reconcile()
    with looping(team, "--interval", "0.2s") as process:
        team.until(lambda: "keeping local in step" in said(team), "the loop to begin")
        team.commit(files)
        team.until(lambda: text in said(team), f"the loop to say it; it said: {said(team)}")
        time.sleep(1)
        assert (process.poll(), said(team).count(text), team.jobs()) == (None, 1, ["train-1"])


def test_the_loop_outlives_its_remote(local_team: Team) -> None:
    """It complains once, changes nothing, and goes on when the remote is back."""
    team = local_team
    suspended = team.task("sleep 60", controls={"suspend": "true"})
    team.commit({"reconciler.yaml": settings(team), "jobs/first.yaml": suspended})
    away = team.remote.with_name("away")
    with looping(team, "--interval", "0.2s") as process:
        recorded(team, "first", "SUSPENDED")
        team.remote.rename(away)
        team.until(lambda: "reconcile: git ls-remote: " in said(team), "the complaint")
        away.rename(team.remote)
        team.commit({"jobs/second.yaml": team.task("true")})
        recorded(team, "second", "SUCCEEDED")

        assert (process.poll(), said(team).count("git ls-remote")) == (None, 1)


def test_the_loop_follows_a_url(local_team: Team) -> None:
    """Without a clone of one's own it keeps a private one up to date, and needs no pull by anybody."""
    team = local_team
    suspended = team.task("sleep 60", controls={"suspend": "true"})
    team.commit({"reconciler.yaml": settings(team), "jobs/first.yaml": suspended})
    cache = str(team.folder.parent / "cache")
    away = replace(team, environment={**team.environment, "XDG_CACHE_HOME": cache})
    with looping(away, "--repo", f"file://{team.remote}", "--interval", "0.5s"):
        team.until(lambda: team.jobs() == ["first-1"], "the first job")
        team.commit({"jobs/second.yaml": suspended})
        team.until(lambda: team.jobs() == ["first-1", "second-1"], "the second job")


@pytest.mark.real
def test_the_loop_outlives_its_cluster(cluster_team: Team, own_control_plane: ControlPlane) -> None:
    """A server that crashes and comes back changes nothing that it had, and what was committed meanwhile is applied."""
    team = cluster_team
    suspended = team.task("true", controls={"suspend": "true"})
    team.commit({"reconciler.yaml": settings(team), "jobs/first.yaml": suspended})
    with looping(team, "--interval", "1s") as process:
        recorded(team, "first", "SUSPENDED")
        run = team.document("first")["run"]
        own_control_plane.processes.kill("kube-apiserver")
        team.commit({"jobs/second.yaml": suspended})
        team.until(lambda: "reconcile: could not " in said(team), "the complaint")
        own_control_plane.restart("kube-apiserver")
        recorded(team, "second", "SUSPENDED")

        assert (process.poll(), team.document("first")["run"]) == (None, run)
        assert "LOST" not in " ".join(team.status_commits())


@pytest.mark.real
def test_the_loop_ends_though_its_cluster_hangs(cluster_team: Team, own_control_plane: ControlPlane) -> None:
    """SIGTERM is heard within 5 s while a request waits for its answer."""
    team = cluster_team
    team.commit({"jobs/first.yaml": team.task("true", controls={"suspend": "true"})})
    server = json.loads((own_control_plane.folder / "pids" / "kube-apiserver.json").read_text())["pid"]
    with looping(team, "--interval", "0.2s") as process:
        recorded(team, "first", "SUSPENDED")
        os.kill(server, signal.SIGSTOP)
        try:
            time.sleep(1.5)  # the next pass has begun by then
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            code = process.wait(20)
            duration = time.monotonic() - begun
        finally:
            os.kill(server, signal.SIGCONT)

    assert (code, duration < 5) == (0, True)
    assert "Traceback" not in said(team)
