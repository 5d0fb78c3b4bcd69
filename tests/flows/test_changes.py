"""What a change of a job's file means: one version of a file is one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.flows.conftest import Team


def running(team: Team, **task: object) -> None:
    """Have the job `train` run."""
    team.commit({"jobs/train.yaml": team.task(team.gated("train"), **task)})  # type: ignore[arg-type]
    team.reach("train", "RUNNING")


def ended(team: Team, run: str = "true") -> None:
    """Have the first run of the job `train` behind it."""
    team.commit({"jobs/train.yaml": team.task(run)})
    team.reach("train", "SUCCEEDED")


def runs(team: Team) -> list[tuple[int, str]]:
    """Return number and state of all runs of `train` on record, the newest first."""
    document = team.document("train")
    return [(r["number"], r["state"]) for r in (document["run"] | {"state": document["state"]}, *document["runs"])]


def test_an_edit_replaces_the_run(team: Team) -> None:
    """The old run ends as CANCELLED, its pods are gone before the new one is created, and the new one is number 2."""
    running(team)
    team.commit({"jobs/train.yaml": team.task(team.gated("train"), envs={"EPOCHS": "3"})})
    ran = team.reconcile()
    assert (ran.code, ran.actions, team.jobs()) == (0, [("replace", "done", "train-2")], ["train-2"])
    assert ran.reason("train-2") == "a new version of jobs/train.yaml, in the place of train-1"

    assert team.reach("train", "RUNNING")["runs"][0]["recoveries"] == 0  # that we end a run interrupts nothing
    assert runs(team) == [(2, "RUNNING"), (1, "CANCELLED")]


def test_an_edit_of_a_job_that_waits(team: Team) -> None:
    """It is replaced like any other: what it counted stays with its run, and the new one begins at 0."""
    team.commit({"priorities/classes.yaml": team.classes(high=200, low=100)})
    running(team, priority="low", slot=True)
    team.commit({"jobs/high.yaml": team.task(team.gated("high"), priority="high", slot=True)})
    team.reach("high", "RUNNING")
    assert team.document("train")["state"] == "RECOVERING"
    team.commit({"jobs/train.yaml": team.task("true", priority="low", slot=True)})
    assert team.reconcile().actions == [("replace", "done", "train-2")]
    document = team.document("train")
    assert (document["state"], document["recoveries"]) == ("PENDING", 0)
    assert [(run["state"], run["recoveries"]) for run in document["runs"]] == [("CANCELLED", 1)]

    team.open("high")
    assert team.reach("train", "SUCCEEDED")["recoveries"] == 0


def test_an_edit_that_the_cluster_refuses_replaces_nothing(team: Team) -> None:
    """Look before you delete: the server judges the successor first, and when it says no, the old run goes on."""
    running(team)
    refused = team.task("true").replace("spec:\n", "spec:\n        hostAliases: [{ip: not-an-address}]\n")
    if team.cluster == "local":
        refused = refused.replace("hostAliases: [{ip: not-an-address}]", "volumes: [{name: x, hostPath: {path: /}}]")
    team.commit({"jobs/train.yaml": refused})
    ran = team.reconcile()

    assert (ran.code, ran.actions, team.jobs()) == (3, [("replace", "failed", "train-2")], ["train-1"])
    assert ran.reason("train-2").startswith(f"Job/{team.namespace}/train-1 goes on, its successor was refused: ")
    assert runs(team) == [(1, "RUNNING")]


def test_an_edit_can_wait(team: Team) -> None:
    """With on-change: wait the run ends first; meanwhile the newest version counts, and each is one run at most."""
    wait = {"on-change": "wait"}
    running(team, controls=wait)
    team.commit({"jobs/train.yaml": team.task("exit 9", controls=wait)})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (0, [("hold", "skipped", "train-1")])
    assert ran.reason("train-1") == "a new version of jobs/train.yaml, and waits until train-1 ends"
    team.commit({"jobs/train.yaml": team.task("true", controls=wait)})
    team.reconcile()

    team.open("train")
    team.reach("train", "SUCCEEDED", file="jobs/train.yaml")
    team.until(lambda: team.reach("train", "SUCCEEDED")["run"]["number"] == 2, "the second run")
    assert runs(team) == [(2, "SUCCEEDED"), (1, "SUCCEEDED")]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda text: f"# Trains the model.\n{text}", id="a comment"),
        pytest.param(lambda text: text.replace("cpus: 0.1", "cpus: '0.1'"), id="a quote"),
        pytest.param(lambda text: text.replace("cpus: 0.1\n  memory: 0.1", "memory: 0.1\n  cpus: 0.1"), id="an order"),
        pytest.param(lambda text: f"name: train\n{text}", id="its own name"),
    ],
)
def test_an_edit_that_means_nothing_does_nothing(local_team: Team, edit: object) -> None:
    """The file is parsed; only what it says is a version."""
    text = local_team.task("sleep 60")
    local_team.commit({"jobs/train.yaml": text})
    local_team.reconcile()
    assert edit(text) != text  # type: ignore[operator]
    local_team.commit({"jobs/train.yaml": edit(text)})  # type: ignore[operator]
    ran = local_team.reconcile()

    assert (ran.code, ran.actions, local_team.jobs()) == (0, [], ["train-1"])


def test_a_deleted_file_cancels_and_a_restored_one_runs_again(team: Team) -> None:
    """Its pods are gone and its state is CANCELLED; bringing the same file back is a wish to run it."""
    running(team)
    text = (team.folder / "jobs/train.yaml").read_text()
    team.commit({"jobs/train.yaml": None, "jobs/other.yaml": team.task("true")})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (0, [("create", "done", "other-1"), ("cancel", "done", "train-1")])
    assert ran.reason("train-1") == "no file asks for it any more"
    document = team.document("train")
    assert (document["state"], document["message"], document["file"]) == (
        "CANCELLED",
        "no file asks for it any more",
        None,
    )
    assert "train" not in team.queue()
    team.until(lambda: team.jobs() == ["other-1"], "the Job to be gone")

    team.commit({"jobs/train.yaml": text})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (0, [("create", "done", "train-2")])
    assert ran.reason("train-2") == "its last run train-1 was cancelled"
    team.reach("train", "RUNNING")
    assert runs(team) == [(2, "RUNNING"), (1, "CANCELLED")]


def test_a_finished_job_never_runs_again_because_its_object_went_away(team: Team) -> None:
    """The record proves that the version ran; the pass says so, and what to do for another run."""
    ended(team)
    team.delete("Job", "train-1")
    ran = team.reconcile()

    assert (ran.code, ran.actions, team.jobs(), runs(team)) == (0, [], [], [(1, "SUCCEEDED")])
    assert ran.reason("train-1") == (
        "already ran as train-1 (SUCCEEDED); to run it again, set the annotation job-reconciler/rerun: "
        '"2" in jobs/train.yaml'
    )
    assert "already ran as train-1" in team.run("plan").stdout


def test_a_finished_job_never_runs_again_because_its_record_went_away(local_team: Team) -> None:
    """The Job proves it too, so a lost status branch is written anew."""
    ended(local_team)
    local_team.git(local_team.record, "branch", "--delete", "--force", local_team.status_branch)
    ran = local_team.reconcile()

    assert (ran.code, ran.actions, local_team.jobs(), runs(local_team)) == (0, [], ["train-1"], [(1, "SUCCEEDED")])


def test_a_running_job_that_somebody_deleted_is_lost(team: Team) -> None:
    """Nobody knows whether it may run twice, so a person decides: exit code 3, until --recreate-lost starts it."""
    running(team)
    team.delete("Job", "train-1")
    ran = team.reconcile()
    document = team.document("train")
    assert (ran.code, ran.actions) == (3, [("hold", "skipped", "train-1")])
    assert ran.reason("train-1") == (
        "LOST: train-1 is not on the cluster and no end of it is on record, so somebody deleted it; to run it again, "
        'pass --recreate-lost or set the annotation job-reconciler/rerun: "2" in jobs/train.yaml'
    )
    assert (document["state"], document["exact"]) == ("LOST", False)
    assert team.reconcile().json["status_commit"] is None

    ran = team.reconcile("--recreate-lost")
    assert (ran.code, ran.actions) == (0, [("create", "done", "train-2")])
    team.reach("train", "RUNNING")
    assert runs(team) == [(2, "RUNNING"), (1, "LOST")]


def test_suspend_and_resume(team: Team) -> None:
    """The annotation stops the pods and keeps the run; taking it away goes on with the same one, and counts nothing."""
    running(team)
    team.commit({"jobs/train.yaml": team.task(team.gated("train"), controls={"suspend": "true"})})
    ran = team.reconcile()
    assert (ran.code, ran.actions, ran.reason("train-1")) == (0, [("update", "done", "train-1")], "suspend")
    team.reach("train", "SUSPENDED", recoveries=0)
    (job,) = team.live("Job")
    (since,) = [c["lastTransitionTime"] for c in job["status"]["conditions"] if c["type"] == "Suspended"]

    team.commit({"jobs/train.yaml": team.task(team.gated("train"))})
    ran = team.reconcile()
    assert (ran.code, ran.actions, ran.reason("train-1")) == (0, [("update", "done", "train-1")], "resume")
    first, second = team.reach("train", "RUNNING", recoveries=0)["attempts"]
    assert runs(team) == [(1, "RUNNING")]
    assert (first["reason"], first["ended_at"], second["ended_at"]) == ("Suspended", since, None)


def test_rerun(local_team: Team) -> None:
    """Another text of the annotation is another run; the same text is not."""
    ended(local_team)
    local_team.commit({"jobs/train.yaml": local_team.task("true", controls={"rerun": "2"})})
    assert local_team.reconcile().actions == [("create", "done", "train-2")]
    local_team.reach("train", "SUCCEEDED")

    assert local_team.reconcile().actions == []
    assert runs(local_team) == [(2, "SUCCEEDED"), (1, "SUCCEEDED")]


def test_a_file_that_moves_stays_the_same_job(local_team: Team) -> None:
    """Its name, or else its contents, tell that it is the same one; moved and edited at once, it is another."""
    team = local_team
    named, plain = team.task("sleep 60", name="train"), team.task("sleep 60")
    team.commit({"jobs/a.yaml": named, "jobs/plain.yaml": plain})
    team.reconcile()
    team.commit({"jobs/a.yaml": None, "jobs/deep/b.yaml": named, "jobs/plain.yaml": None, "jobs/moved.yaml": plain})
    ran = team.reconcile()
    assert (ran.code, ran.actions, team.jobs()) == (0, [], ["plain-1", "train-1"])
    assert {job: d["file"] for job, d in team.queue().items()} == {
        "plain": "jobs/moved.yaml",
        "train": "jobs/deep/b.yaml",
    }

    team.commit({"jobs/moved.yaml": None, "jobs/edited.yaml": team.task("sleep 61")})
    assert team.reconcile().actions == [("create", "done", "edited-1"), ("cancel", "done", "plain-1")]


def test_two_files_of_one_name(local_team: Team) -> None:
    """Who had the name keeps it; the newcomer is invalid, is told who has it, and disturbs nobody."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("sleep 60")})
    team.reconcile()
    team.commit({"jobs/another.yaml": team.task("sleep 61", name="train")})
    ran = team.reconcile()
    (problem,) = ran.json["problems"]

    assert (ran.code, ran.actions, team.jobs()) == (3, [], ["train-1"])
    assert (problem["code"], problem["path"], problem["field"]) == ("duplicate-name", "jobs/another.yaml", "name")
    assert problem["message"] == 'the name "train" belongs to jobs/train.yaml; give this job another name'


def test_a_revert_to_a_version_that_ended_starts_nothing(local_team: Team) -> None:
    """It ran; its last result stands, and the version in between is not resumed either."""
    team = local_team
    ended(team)
    team.commit({"jobs/train.yaml": team.task("echo other")})
    team.reach("train", "SUCCEEDED", commit=team.git(team.folder, "rev-parse", "HEAD"))
    team.until(lambda: team.reach("train", "SUCCEEDED")["run"]["number"] == 2, "the second run")
    team.git(team.folder, "revert", "--no-edit", "HEAD")
    team.git(team.folder, "push", "--quiet", "origin", "HEAD")
    ran = team.reconcile()

    assert (ran.code, ran.actions, team.jobs()) == (0, [], ["train-1", "train-2"])
    assert ran.reason("train-1").startswith("already ran as train-1 (SUCCEEDED)")


def test_a_job_that_takes_its_time_to_end(team: Team) -> None:
    """While a cancelled run uses up its grace nothing is done about it; its restored file waits, and then runs."""
    slow = f"trap '{team.gate('train', 'slow')}; exit 0' TERM\n{team.gated('train')}"
    team.commit({"jobs/train.yaml": team.task(slow, grace=60), "jobs/other.yaml": team.task("true")})
    team.reach("train", "RUNNING")
    team.reach("other", "SUCCEEDED")
    team.until(lambda: "started" in team.log("train"), "the trap to be set")
    text = (team.folder / "jobs/train.yaml").read_text()
    team.commit({"jobs/train.yaml": None})
    assert team.reconcile().actions == [("cancel", "done", "train-1")]
    assert team.document("train")["state"] == "CANCELLED"
    again = team.reconcile()
    assert (again.code, again.actions) == (0, [("hold", "skipped", "train-1")])
    assert (team.document("train")["state"], team.document("train")["recoveries"]) == ("CANCELLED", 0)

    team.commit({"jobs/train.yaml": text})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (0, [("hold", "skipped", "train-1")])
    assert ran.reason("train-1") == "is being deleted; the next pass looks again"
    team.open("train", "slow")
    team.reach("train", "RUNNING")
    assert runs(team) == [(2, "RUNNING"), (1, "CANCELLED")]


def test_a_change_of_the_settings_takes_effect_at_the_next_run(local_team: Team) -> None:
    """A job that runs is not disturbed by what changes for all; the pass says that it is outdated."""
    team = local_team
    running(team)
    pod_config = {"spec": {"containers": [{"env": [{"name": "SITE", "value": "2"}]}]}}
    team.commit({".sky.yaml": yaml.safe_dump({"kubernetes": {"pod_config": pod_config}})})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (0, [("hold", "skipped", "train-1")])
    assert ran.reason("train-1") == (
        "outdated: site settings changed since run train-1 was made; takes effect at the next run; to have it now, "
        'set the annotation job-reconciler/rerun: "2" in jobs/train.yaml'
    )

    team.commit({"jobs/train.yaml": team.task('echo "SITE is $SITE"')})
    team.reach("train", "SUCCEEDED")
    assert team.log("train") == "SITE is 2\n"


def test_a_job_for_another_cluster_is_left_to_others(local_team: Team) -> None:
    """A file that asks for another context is held by this pass, and is fine."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("true").replace("cpus:", "infra: k8s/elsewhere\n  cpus:")})
    ran = team.reconcile()

    assert (ran.code, ran.actions, team.jobs()) == (0, [("hold", "skipped", "train-1")], [])
    assert ran.reason("train-1") == "asks for context elsewhere; this pass speaks to local"
