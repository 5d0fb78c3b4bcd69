"""Bad input and things that fail: one clear line, the right exit code, and nothing lost."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from control_plane import ControlPlane

    from tests.conftest import Git
    from tests.flows.conftest import Ran, Team

LOCAL_NOTE = "reconcile: --cluster local runs the repository's commands on this machine, as you and without isolation\n"


def line(ran: Ran) -> str:
    """Return the one line that a failed command says, beside the note about this machine."""
    said = ran.stderr.replace(LOCAL_NOTE, "")
    assert said.count("\n") == 1, said
    assert ran.stdout == ""
    return said.strip()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ("--once", "--wait", "started", "--timeout", "5x"),
            "reconcile: --timeout: '5x' is not a duration: write 30s, 5m, 2h, 3d or a number of seconds",
            id="a timeout that is none",
        ),
        pytest.param(
            ("--interval", "soon"),
            "reconcile: --interval: 'soon' is not a duration: write 30s, 5m, 2h, 3d or a number of seconds",
            id="an interval that is none",
        ),
        pytest.param(
            ("--once", "--timeout", "5s"),
            "reconcile: --timeout belongs to --wait started or --wait finished",
            id="a timeout without a wait",
        ),
        pytest.param(
            ("-o", "json"),
            "reconcile: -o json prints one pass: add --once (the loop prints a line a change)",
            id="JSON of a loop",
        ),
        pytest.param(
            ("--ref", "HEAD"),
            "reconcile: --ref names one commit: add --once (the loop follows the branch)",
            id="a loop at one commit",
        ),
        pytest.param(
            ("logs", "nobody"),
            "reconcile: local has no job 'nobody' of this repository; `reconcile queue` lists them",
            id="logs of an unknown job",
        ),
        pytest.param(
            ("show", "nobody"),
            "reconcile: no job 'nobody' on record; there is no job-status-local: no pass has written status yet",
            id="an unknown job on record",
        ),
        pytest.param(
            ("render", "nobody"),
            "reconcile: no file under jobs/ declares a job 'nobody'; there are: none",
            id="a job without a file",
        ),
        pytest.param(
            ("--once", "--status-branch", "a..b"),
            "reconcile: 'a..b-local' can't be the name of a branch; correct status_branch or --status-branch",
            id="a branch that can't be",
        ),
    ],
)
def test_a_bad_command_line_ends_with_2(local_team: Team, arguments: tuple[str, ...], text: str) -> None:
    """The line says which word is wrong, and what would be right."""
    ran = local_team.run(*arguments)

    assert (ran.code, line(ran)) == (2, text)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        pytest.param("quue", "Error: there is no command 'quue'. Did you mean 'queue'?", id="nearly one"),
        pytest.param("frobnicate", "Error: there is no command 'frobnicate'. There are: plan, validate,", id="none"),
        pytest.param("--onse", "Error: No such option", id="an option"),
    ],
)
def test_an_unknown_word_ends_with_2(local_team: Team, word: str, text: str) -> None:
    """The last line says what there is."""
    ran = replace(local_team, cluster=None).run(word)

    assert (ran.code, ran.stdout) == (2, "")
    assert text in ran.stderr.splitlines()[-1]


def test_an_unknown_ref_is_named(local_team: Team) -> None:
    ran = local_team.run("--once", "--ref", "nowhere")

    assert ran.code == 1
    assert line(ran) == f"reconcile: 'nowhere' names no commit of {local_team.folder}; fetch it first, or correct --ref"


def test_there_is_no_repository(local_team: Team, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    ran = replace(local_team, folder=folder).run("--once")

    assert ran.code == 1
    assert (
        line(ran) == f"reconcile: {folder}: not in a git repository; run `git init` there, or name another with --repo"
    )


def test_the_folder_does_not_exist(local_team: Team) -> None:
    ran = local_team.run("--once", "--repo", "nowhere")

    assert ran.code == 1
    assert line(ran) == "reconcile: nowhere: no such folder; --repo names a folder of a git repository, or a URL"


def test_there_is_no_commit_yet(local_team: Team, git: Git, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "new")
    ran = replace(local_team, folder=tmp_path / "new").run("--once")

    assert ran.code == 1
    assert (
        line(ran) == f"reconcile: {tmp_path / 'new'}: the repository has no commit yet; commit a file under jobs/ first"
    )


def test_there_is_no_jobs_folder(local_team: Team) -> None:
    """That is nothing to do, and worth a word: it is most often the wrong folder or branch."""
    commit = local_team.git(local_team.folder, "rev-parse", "HEAD")
    ran = local_team.reconcile()

    assert (ran.code, ran.actions) == (0, [])
    assert ran.stderr.replace(LOCAL_NOTE, "") == f"reconcile: commit {commit[:10]} has no file under jobs/\n"


def test_settings_that_cant_be_read_stop_everything(local_team: Team) -> None:
    """Without them no file can be read right, so nothing is started, changed or ended; the problem has its line."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("sleep 60"), "jobs/other.yaml": team.task("sleep 60")})
    team.reconcile()
    team.commit({"reconciler.yaml": "status_branch: job-status\nintervall: 5s\n", "jobs/train.yaml": None})
    ran = team.run("--once")

    assert ran.code == 3
    assert line(ran) == (
        "reconciler.yaml:2:1: error: there is no field intervall; did you mean interval? [unknown-field]"
    )
    assert team.jobs() == ["other-1", "train-1"]


def test_there_is_no_cluster(local_team: Team) -> None:
    """Nobody falls back to this machine unasked; the line says how to ask."""
    home = local_team.folder.parent
    ran = replace(local_team, cluster=None).run("--once", HOME=str(home))

    assert ran.code == 2
    assert line(ran) == (
        f"reconcile: no cluster is configured: {home}/.kube/config does not exist. Set KUBECONFIG or log in to a "
        "cluster, or use `--cluster local`, which runs the jobs on this machine"
    )


def test_the_cluster_does_not_answer(local_team: Team, tmp_path: Path) -> None:
    """Blind is not dead: the line names it, and the status stays as it was."""
    cluster = {"name": "away", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "away", "context": {"cluster": "away", "user": ""}}
    config = {"current-context": "away", "clusters": [cluster], "contexts": [context], "users": []}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    local_team.commit({"jobs/train.yaml": local_team.task("true")})
    ran = replace(local_team, cluster=None).run("--once", KUBECONFIG=str(tmp_path / "kubeconfig"))

    assert ran.code == 1
    assert re.match(r"reconcile: could not \w+ .* on away: .*127\.0\.0\.1", line(ran))
    assert local_team.git(local_team.remote, "branch", "--list", "job-status") == ""


def test_the_remote_is_away(local_team: Team) -> None:
    """What can't be read is not taken for absent: nothing happens, and the next pass goes on."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task(team.gated("train"))})
    team.reach("train", "RUNNING")
    team.remote.rename(team.remote.with_name("away"))
    ran = team.run("--once")
    assert ran.code == 1
    assert re.match(r"reconcile: git ls-remote: .*remote\.git.*", line(ran))

    team.remote.with_name("away").rename(team.remote)
    assert team.reconcile().code == 0
    assert team.states() == {"train": "RUNNING"}


@pytest.mark.real
@pytest.mark.parametrize(
    ("context", "code", "text"),
    [
        pytest.param(
            "expired",
            1,
            r"reconcile: could not list jobs in all namespaces on expired: 401 Unauthorized: Unauthorized "
            r"\(the credentials were read again and are still refused: log in again\)",
            id="whose token has expired",
        ),
        pytest.param(
            "nobody",
            1,
            r"reconcile: could not list jobs in .* on nobody: 403 Forbidden: jobs\.batch is forbidden: "
            r'User "nobody" cannot list resource "jobs" .* \(docs/operating\.md lists the rights that are needed\)',
            id="who may do nothing",
        ),
        pytest.param(
            "nowhere",
            2,
            r"reconcile: kubeconfig .* has no context 'nowhere'; it has: test, reader, nobody, expired",
            id="who does not exist",
        ),
    ],
)
def test_a_user_that_the_cluster_refuses(
    cluster_team: Team, own_control_plane: ControlPlane, context: str, code: int, text: str
) -> None:
    """One line says who was refused what, and what to do. Blind is not dead: the status stays as it was."""
    team = cluster_team
    team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    team.reconcile()
    commits = team.status_commits()
    team.commit({"jobs/train.yaml": team.task("true")})
    ran = team.run("--once", "--cluster", context)

    assert ran.code == code
    assert re.fullmatch(text, line(ran)), ran.stderr
    assert (team.status_commits(), team.get("job", "train-1")["spec"]["suspend"]) == (commits, True)


@pytest.mark.real
def test_a_user_who_may_only_read(cluster_team: Team, own_control_plane: ControlPlane) -> None:
    """What is refused is a failed action with the API's own words, and stands in the status; the next pass does it."""
    team = cluster_team
    team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    ran = team.reconcile("--cluster", "reader")
    assert (ran.code, ran.actions) == (3, [("create", "failed", "train-1")])
    assert re.match(r'could not create Job .* 403 Forbidden: .*User "reader" cannot create', ran.reason("train-1"))
    assert team.document("train")["message"] == ran.reason("train-1")
    planned = team.run("plan", "-o", "json", "--cluster", "reader")
    assert (planned.code, [p["code"] for p in planned.json["problems"]]) == (3, ["refused-by-cluster"])
    assert planned.reason("train-1").startswith("the server refuses it: could not create Job")
    assert planned.json["preview"] == []

    team.reconcile("--status-branch", "none")
    assert team.jobs() == ["train-1"]


def decline(team: Team) -> Path:
    """Have the remote decline every push, as a protected branch does."""
    hook = team.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'this branch is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    return hook


@pytest.mark.real
def test_a_remote_that_declines_the_status(cluster_team: Team) -> None:
    """The cluster is changed, exit code 4 says that git was not; the pass after the refusal is lifted writes it all."""
    team = cluster_team
    team.commit({"jobs/train.yaml": team.task("true", controls={"suspend": "true"})})
    hook = decline(team)
    ran = team.reconcile()
    (problem,) = ran.json["problems"]
    assert (ran.code, ran.actions, ran.json["status_commit"]) == (4, [("create", "done", "train-1")], None)
    assert (problem["severity"], problem["code"]) == ("error", "status-not-pushed")
    assert problem["message"] == (
        "the status was not delivered to branch job-status of origin: [remote rejected] (pre-receive hook declined): "
        "this branch is protected; allow this account to write to that branch, or choose another with --status-branch"
    )

    hook.unlink()
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (0, [])
    assert team.document("train")["state"] == "SUSPENDED"
