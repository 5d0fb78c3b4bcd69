"""Jobs that ended go from the cluster after a while, and never from memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.flows.conftest import Team


def test_old_jobs_are_pruned_and_their_versions_never_run_again(local_team: Team) -> None:
    """Beyond the history limit a Job goes, once its end is on record; the record alone then proves that it ran."""
    team = local_team
    settings = f"{(team.folder / 'reconciler.yaml').read_text()}history_limit: 1\n"
    for number in (1, 2, 3):
        team.commit({"reconciler.yaml": settings, "jobs/train.yaml": team.task(f"echo {number}")})
        assert ("create", "done", f"train-{number}") in team.reconcile().actions
        team.reach("train", "SUCCEEDED")
    team.until(lambda: team.reconcile().actions == [], "all to be pruned")
    assert team.jobs() == ["train-2", "train-3"]
    document = team.document("train")
    assert [(run["number"], run["state"]) for run in document["runs"]] == [(2, "SUCCEEDED"), (1, "SUCCEEDED")]

    team.commit({"jobs/train.yaml": team.task("echo 1")})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (0, [("prune", "done", "train-2")])
    assert ran.reason("train-1").startswith("already ran as train-1 (SUCCEEDED)")

    shown = team.run("show", "train-1")
    assert "train-1 is an earlier run; what is told is the newest one, train-3" in shown.stderr
    assert re.search(r"^  \S+ \S+ train-3 created", shown.stdout, re.MULTILINE), shown.stdout


def test_the_status_of_a_job_without_a_file_is_kept(local_team: Team) -> None:
    """It leaves the queue, not the record: --all shows it, `show` and the branch's history tell its story."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("true"), "jobs/other.yaml": team.task("true")})
    team.reach("train", "SUCCEEDED")
    team.commit({"jobs/train.yaml": None})
    ran = team.reconcile()

    assert (ran.code, ran.actions) == (0, [])
    assert list(team.queue()) == ["other"]
    everything = team.run("queue", "--all", "-o", "json").json["jobs"]
    assert {job["job"]: (job["state"], job["file"]) for job in everything} == {
        "other": ("SUCCEEDED", "jobs/other.yaml"),
        "train": ("SUCCEEDED", None),
    }
    assert "train-1" in team.run("show", "train").stdout
