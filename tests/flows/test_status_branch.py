"""The status branch is shared with people, and the clone belongs to its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.flows.conftest import Team


def by_hand(team: Team, path: str, text: str) -> None:
    """Commit a file to the status branch, as a person would."""
    folder = team.folder.parent / "status"
    team.git(team.record, "worktree", "add", "--quiet", str(folder), team.status_branch)
    (folder / path).write_text(text)
    team.git(folder, "add", path)
    team.git(folder, "commit", "--quiet", "--message", "By hand")
    team.git(team.record, "worktree", "remove", str(folder))


def test_files_of_others_stay(local_team: Team) -> None:
    """What a person adds to the branch outlives our commits."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("true")})
    team.reconcile()
    by_hand(team, "NOTES.md", "Ask Ada.\n")
    team.reach("train", "SUCCEEDED")

    assert team.show("NOTES.md") == "Ask Ada."


def test_a_document_that_somebody_broke_holds_its_job(local_team: Team) -> None:
    """Nobody knows what it said, so nothing is decided about that job, and the document is not written over."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("true"), "jobs/other.yaml": team.task("true")})
    team.reach("train", "SUCCEEDED")
    whole = team.show("jobs/train.yaml")
    by_hand(team, "jobs/train.yaml", "<<<<<<< HEAD\n")
    team.commit({"jobs/train.yaml": team.task("echo 2"), "jobs/other.yaml": team.task("echo 2")})
    ran = team.reconcile()
    (problem,) = ran.json["problems"]
    assert (ran.code, problem["code"], problem["path"]) == (3, "unreadable-record", "jobs/train.yaml")
    assert ran.actions == [("create", "done", "other-2"), ("hold", "skipped", "train-2")]
    assert team.show("jobs/train.yaml") == "<<<<<<< HEAD"

    by_hand(team, "jobs/train.yaml", f"{whole}\n")
    assert team.reconcile().actions == [("create", "done", "train-2")]


def test_the_clone_stays_as_its_user_left_it(local_team: Team) -> None:
    """Work tree, index, branch and refs are the user's; hooks of theirs don't run, and what is dirty doesn't count."""
    team = local_team
    team.commit({"jobs/train.yaml": team.task("sleep 60", controls={"suspend": "true"})})
    for hook in ("post-commit", "reference-transaction", "pre-push"):
        file = team.folder / ".git" / "hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\nexit 1\n")
        file.chmod(0o755)
    (team.folder / "jobs/train.yaml").write_text("dirty\n")
    (team.folder / "staged").write_text("staged\n")
    team.git(team.folder, "-c", "core.hooksPath=/dev/null", "add", "staged")
    (team.folder / ".git" / "index.lock").touch()  # an editor's git is at work
    before = state(team)
    ran = team.reconcile()

    assert (ran.code, ran.actions) == (0, [("create", "done", "train-1")])
    assert "uncommitted changes were not looked at: jobs/train.yaml" in ran.stderr
    assert state(team) == before


def state(team: Team) -> tuple[str, ...]:
    """Return what a user of the clone sees; the status branch alone is ours."""
    refs = team.git(team.folder, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return (
        *(ref for ref in refs if team.status_branch not in ref),
        team.git(team.folder, "symbolic-ref", "HEAD"),
        team.git(team.folder, "--no-optional-locks", "status", "--porcelain"),
        team.git(team.folder, "stash", "list"),
    )
