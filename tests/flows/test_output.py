"""What the command prints is for programs, too: one JSON object, its keys and their order as promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from reconciler import __version__

if TYPE_CHECKING:
    from tests.flows.conftest import Team

ITEMS = {
    "files": ["path", "jobs", "priority_classes", "problems"],
    "actions": ["action", "result", "kind", "namespace", "name", "job", "reason"],
    "problems": ["severity", "code", "path", "line", "column", "field", "message"],
    "fields": ["field", "layer", "path", "line", "setting"],
    "preview": ["job", "verdict", "victims", "reason"],
    "jobs": [
        *("schema_version", "job", "file", "commit", "run", "state", "reason", "message", "priority", "resources"),
        *("context", "namespace", "recoveries", "restarts_on_error", "evictions", "exact"),
        *("submitted_at", "started_at", "ended_at", "queued_seconds", "run_seconds", "recovering_seconds"),
        *("attempts", "attempts_complete", "runs", "problems"),
    ],
}
PASS = ["schema_version", "commit", "cluster", "actions", "problems", "status_commit", "superseded"]
SHAPES = {
    "validate": ["schema_version", "ok", "files"],
    "plan": ["schema_version", "commit", "cluster", "actions", "preview", "problems"],
    "--once --dry-run": PASS,
    "--once": PASS,
    "queue": ["schema_version", "commit", "jobs"],
    "show train": ["schema_version", "job"],
    "render train": ["schema_version", "manifests", "problems"],
    "render train --explain": ["schema_version", "manifests", "problems", "fields"],
}


@pytest.fixture
def busy_team(local_team: Team) -> Team:
    """Build a team with a job that has a run, one that is to have one, and an invalid one."""
    local_team.commit({"jobs/train.yaml": local_team.task("sleep 60")})
    local_team.reconcile()
    local_team.commit({"jobs/next.yaml": local_team.task("true"), "jobs/broken.yaml": "run: 'true'\ncpus: 4\n"})
    return local_team


def test_the_shape_of_the_json(busy_team: Team) -> None:
    """One object with its keys in their order, whatever the exit code; so is each item of its lists."""
    answers = {command: busy_team.run(*command.split(), "-o", "json").json for command in SHAPES}
    items = [(key, item) for answer in answers.values() for key in ITEMS.keys() & answer for item in answer[key]]
    items.append(("jobs", answers["show train"]["job"]))

    assert {command: list(answer) for command, answer in answers.items()} == SHAPES
    assert {answer["schema_version"] for answer in answers.values()} == {1}
    assert {key for key, _ in items} == ITEMS.keys()
    assert all(list(item) == ITEMS[key] for key, item in items)


def test_the_words_of_an_action(busy_team: Team) -> None:
    """A plan has no results; a pass has one for each action."""
    planned = busy_team.run("plan", "-o", "json").json["actions"]
    done = busy_team.reconcile().json["actions"]

    assert {(a["action"], a["result"], a["name"]) for a in planned} == {
        ("create", None, "next-1"),
        ("keep", None, "train-1"),
    }
    assert {(a["action"], a["result"], a["name"]) for a in done} == {
        ("create", "done", "next-1"),
        ("keep", "done", "train-1"),
    }


@pytest.mark.parametrize("arguments", [("plan",), ("--once", "--dry-run")], ids=["plan", "a dry run"])
def test_looking_writes_nothing(busy_team: Team, arguments: tuple[str, ...]) -> None:
    before = busy_team.jobs(), busy_team.git(busy_team.folder, "rev-parse", "job-status-local")
    busy_team.run(*arguments)

    assert (busy_team.jobs(), busy_team.git(busy_team.folder, "rev-parse", "job-status-local")) == before


def test_a_plan_says_whether_there_is_something_to_do(local_team: Team) -> None:
    """With --detailed-exitcode 6 means changes, 0 none; an invalid file is 3 either way."""
    local_team.commit({"jobs/train.yaml": local_team.task("true")})
    assert local_team.run("plan", "--detailed-exitcode").code == 6
    assert local_team.run("plan").code == 0
    local_team.reconcile()
    assert local_team.run("plan", "--detailed-exitcode").code == 0
    local_team.commit({"jobs/broken.yaml": "run: 'true'\ncpus: 4\n"})
    assert local_team.run("plan", "--detailed-exitcode").code == 3


def test_a_plan_tells_who_would_be_preempted(team: Team) -> None:
    """Before anything is created it names the pod that would lose its place, and who would wait."""
    team.commit(
        {
            "priorities/classes.yaml": team.classes(high=200, low=100),
            "jobs/low.yaml": team.task(team.gated("low"), priority="low", slot=True),
        }
    )
    team.reach("low", "RUNNING")
    team.commit(
        {
            "jobs/high.yaml": team.task("true", priority="high", slot=True),
            "jobs/next.yaml": team.task("true", priority="low", slot=True),
        }
    )
    preview = {entry["job"]: entry for entry in team.run("plan", "-o", "json").json["preview"]}

    assert {job: entry["verdict"] for job, entry in preview.items()} == {"high": "preempts", "next": "waits"}
    (victim,) = preview["high"]["victims"]
    assert victim.startswith(f"{team.namespace}/low-1-0-")


def test_what_render_prints_is_what_is_sent(busy_team: Team) -> None:
    """The YAML stream is the Job as the cluster then has it, but for what a cluster adds."""
    rendered = yaml.safe_load(busy_team.run("render", "next").stdout)
    busy_team.reconcile()
    (live,) = [job for job in busy_team.live("Job") if job["metadata"]["name"] == "next-1"]

    assert rendered["metadata"].items() <= live["metadata"].items()
    assert rendered["spec"].items() <= live["spec"].items()


def test_logs_go_on_through_recovery(team: Team) -> None:
    """`logs -f` follows a job from attempt to attempt, and ends with it; the run keeps its task id."""
    says = 'echo "attempt $JOB_ATTEMPT of $SKYPILOT_TASK_ID"'
    team.commit(
        {
            "priorities/classes.yaml": team.classes(high=200, low=100),
            "jobs/low.yaml": team.task(f"{says}\n{team.gated('low')}", priority="low", slot=True, grace=1),
        }
    )
    team.reach("low", "RUNNING")
    output = team.folder.parent / "log"
    with output.open("wb") as stream:
        follower = team.start("logs", "low", "-f", output=stream)
        team.until(lambda: "started" in output.read_text(), "the first attempt")
        team.commit({"jobs/high.yaml": team.task("true", priority="high", slot=True)})
        team.reach("high", "SUCCEEDED")
        team.until(lambda: (team.reconcile(), output.read_text().count("started") == 2)[1], "the second attempt")
        team.open("low")
        code = team.until(lambda: (team.reconcile(), follower.poll())[1] is not None, "the end") and follower.wait()
    attempts = [line.split(" of ") for line in output.read_text().splitlines() if line.startswith("attempt ")]
    attempts = [words for words in attempts if len(words) == 2]

    assert (code, [attempt for attempt, _ in attempts]) == (0, ["attempt 0", "attempt 1"])
    assert len({task for _, task in attempts}) == 1


def test_a_job_by_its_file_or_nearly_by_its_name(busy_team: Team) -> None:
    """Who has the file at hand need not know its job; who mistypes is told what there is."""
    shown = busy_team.run("show", "jobs/train.yaml", "-o", "json")

    assert shown.json == busy_team.run("show", "train", "-o", "json").json
    assert busy_team.run("logs", "jobs/train.yaml").code == 0
    said = [busy_team.run(command, "trian").stderr.strip() for command in ("show", "logs")]
    assert said[0].startswith("reconcile: no job 'trian' on record; did you mean train?")
    assert said[1] == "reconcile: local has no job 'trian' of this repository; did you mean train?"


def test_a_table_needs_no_terminal(busy_team: Team) -> None:
    """Results go to stdout as plain text, what is wrong to stderr in the form that editors follow."""
    busy_team.reconcile()
    ran = busy_team.run("queue")
    header, *rows = ran.stdout.splitlines()[1:]

    assert header.split("  ")[0] == "ID"
    assert [row.split()[0] for row in rows] == ["next-1", "train-1", "-"]
    assert "\x1b" not in ran.stdout + ran.stderr


def test_the_installed_command_is_the_module(local_team: Team) -> None:
    installed = Path(sys.executable).with_name("reconcile")
    done = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"reconcile, version {__version__}\n" == local_team.run("--version").stdout
