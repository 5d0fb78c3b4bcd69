"""A pass that only a person should decide about is refused whole, and its message names the flag that lifts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flows.conftest import Team


def many(team: Team, number: int, run: str = "sleep 60") -> dict[str, str | bytes | None]:
    """Write files of suspended jobs: they are unfinished, and cost nothing."""
    suspended = {"suspend": "true"}
    return {f"jobs/job-{i}.yaml": team.task(run, controls=suspended) for i in range(number)}


def check_refused(team: Team, flag: str, text: str) -> None:
    """Check that the pass ends with 5 and one problem, has changed nothing, and does it all with the flag."""
    before = team.jobs(), team.status_commits()
    ran = team.reconcile()
    (problem,) = ran.json["problems"]
    assert (ran.code, problem["severity"], ran.json["status_commit"]) == (5, "error", None)
    assert problem["message"] == text
    assert {result for _, result, _ in ran.actions} <= {"skipped"}
    assert (team.jobs(), team.status_commits()) == before

    ran = team.reconcile(flag)
    assert (ran.code, {result for _, result, _ in ran.actions}) == (0, {"done"})


def test_a_mass_change(local_team: Team) -> None:
    """More than five, and more than three in ten, of the unfinished runs would be cancelled or replaced."""
    local_team.commit(many(local_team, 7))
    local_team.reconcile()
    local_team.commit(many(local_team, 6, run="sleep 61"))

    check_refused(
        local_team,
        "--allow-mass-change",
        "this pass would cancel or replace 6 of 7 unfinished jobs (job-0-2, job-1-2, job-2-2, job-3-2, job-4-2 and 1 "
        "more), more than 5 and 30 %: look at `reconcile plan`, then pass --allow-mass-change",
    )


def test_an_empty_source(local_team: Team) -> None:
    """No job is left of some: that is more often the wrong branch than a wish."""
    local_team.commit(many(local_team, 2))
    local_team.reconcile()
    local_team.commit({"jobs/job-0.yaml": None, "jobs/job-1.yaml": None})

    check_refused(
        local_team,
        "--allow-empty-source",
        "the commit declares no job any more, and this pass would delete job-0-1, job-1-1: if that is meant, pass "
        "--allow-empty-source",
    )


def test_an_empty_source_whose_jobs_are_all_lost(local_team: Team) -> None:
    """Their record is all that is left of them; a file of comments declares nothing."""
    team = local_team
    team.commit(many(team, 1))
    team.reconcile()
    team.delete("Job", "job-0-1")
    team.commit({"jobs/job-0.yaml": "# run: nothing\n"})
    ran = team.reconcile()

    assert (ran.code, team.states()) == (5, {"job-0": "SUSPENDED"})
    assert "give up job-0-1: if that is meant, pass --allow-empty-source" in ran.json["problems"][-1]["message"]


def test_limits_from_outside_the_repository(local_team: Team, tmp_path: Path) -> None:
    """A commit that takes its own limits away is held to those all the same, by the pass, the plan and validate."""
    team, outside = local_team, tmp_path / "limits.yaml"
    outside.write_text("images: ['local/*']\n")
    image = team.task("true", resources={"cpus": 0.1, "image_id": "docker:evil/image:1"})
    settings = f"namespace: {team.namespace}\nlimits: {{images: ['*']}}\ndefault_image: local/bash:1\n"
    team.commit({"reconciler.yaml": settings, "jobs/a.yaml": image})
    words = (("--once",), ("plan",), ("validate", "--ref", "HEAD"))
    ran = [team.run(*command, "--limits", str(outside)) for command in words]
    ran.append(team.run("validate", RECONCILER_LIMITS=str(outside)))
    said = f"the image 'evil/image:1' is not among those that {outside} allows (local/*)"

    assert [(each.code, said in each.stdout + each.stderr) for each in ran] == [(3, True)] * 4
    assert team.run("validate").code == 0
    assert team.run("plan", "--limits", str(tmp_path / "none")).code == 2


def test_no_class_is_left(local_team: Team) -> None:
    local_team.commit({"priorities/classes.yaml": local_team.classes(low=100)})
    local_team.reconcile()
    local_team.commit({"priorities/classes.yaml": None})

    check_refused(
        local_team,
        "--allow-empty-source",
        f"the commit declares no PriorityClass any more, and this pass would delete {local_team.name('low')}: if that "
        "is meant, pass --allow-empty-source",
    )


def test_another_cluster_under_a_known_name(local_team: Team) -> None:
    """All its jobs would be LOST; the status branch knows which cluster it speaks about."""
    local_team.commit(many(local_team, 1))
    local_team.reconcile()
    (known,) = [c["metadata"]["uid"] for c in local_team.live("Namespace") if c["metadata"]["name"] == "kube-system"]
    local_team.environment["RECONCILER_LOCAL_HOME"] += "-rebuilt"  # type: ignore[index]
    local_team.jobs()
    (found,) = [c["metadata"]["uid"] for c in local_team.live("Namespace") if c["metadata"]["name"] == "kube-system"]
    ran = local_team.reconcile()
    (problem,) = ran.json["problems"]

    assert (ran.code, problem["code"]) == (5, "cluster-change")
    assert problem["message"] == (
        f"the status branch knows context local as the cluster {known}, and this is {found}: use another "
        "--status-branch, or pass --allow-cluster-change if the old cluster is gone for good"
    )
    assert local_team.reconcile("--allow-cluster-change").code == 3
    assert local_team.states() == {"job-0": "LOST"}


def test_an_older_commit_does_nothing(local_team: Team) -> None:
    """By hand that is worth exit code 5; a late CI run has nothing to do, and ends with 0. A flag applies it."""
    team = local_team
    old = team.commit(many(team, 1))
    team.commit(many(team, 2))
    tip = team.git(team.folder, "rev-parse", "HEAD")
    team.git(team.folder, "checkout", "--quiet", "--detach", old)

    for environment, code in (({}, 5), ({"CI": "true", "GITHUB_REF_NAME": "main"}, 0)):
        ran = team.reconcile(**environment)
        (problem,) = ran.json["problems"]
        assert (ran.code, ran.json["superseded"], ran.json["actions"]) == (code, True, [])
        assert problem["message"] == (
            f"commit {old[:10]} is not the tip of its branch, which is at {tip[:10]}: nothing was applied; pull, or "
            "pass --allow-superseded"
        )
        assert team.jobs() == []

    ran = team.reconcile("--allow-superseded")
    assert (ran.code, ran.actions) == (0, [("create", "done", "job-0-1")])


def test_a_stale_clone_does_nothing(local_team: Team) -> None:
    """A colleague pushed meanwhile: this clone's branch is behind its remote's, of which it knows nothing yet."""
    colleague = local_team.clone("colleague")
    colleague.commit(many(local_team, 1))
    ran = local_team.reconcile()

    assert (ran.code, ran.json["superseded"], ran.actions) == (5, True, [])


def test_a_few_changes_are_nobodys_business(local_team: Team) -> None:
    """Five may be replaced whatever the share."""
    local_team.commit(many(local_team, 5))
    local_team.reconcile()
    local_team.commit(many(local_team, 5, run="sleep 61"))
    ran = local_team.reconcile()

    assert (ran.code, ran.actions) == (0, [("replace", "done", f"job-{i}-2") for i in range(5)])
