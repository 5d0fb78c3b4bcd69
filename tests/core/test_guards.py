"""What a pass refuses to do without a flag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.core.guards import check_cluster, check_guards
from reconciler.model import INCOMPLETE, Action, Verb


def actions(verb: Verb, number: int, kind: str = "Job") -> list[Action]:
    return [Action(verb, kind, "team-a", f"run-{index}", f"job-{index}", "") for index in range(number)]


def incomplete(verb: Verb, number: int, *, suspend: bool = True, **status: Any) -> list[Action]:
    """End runs whose files were never made."""
    live = {"metadata": {"annotations": {INCOMPLETE: "true"}}, "spec": {"suspend": suspend}, "status": status}
    return [replace(action, live=live) for action in actions(verb, number)]


def check(planned: list[Action], *, running: int = 100, jobs: int = 1, classes: int = 1, **more: Any) -> str | None:
    return check_guards(planned, running=running, declared_jobs=jobs, declared_classes=classes, **more)


@pytest.mark.parametrize(
    ("planned", "running", "refused"),
    [
        pytest.param(actions(Verb.CANCEL, 5), 5, False, id="5 of 5"),
        pytest.param(actions(Verb.CANCEL, 6), 6, True, id="6 of 6"),
        pytest.param(actions(Verb.CANCEL, 6), 20, False, id="6 of 20 is 30 %"),
        pytest.param(actions(Verb.CANCEL, 7), 20, True, id="7 of 20"),
        pytest.param(actions(Verb.REPLACE, 31), 100, True, id="replacing counts"),
        pytest.param(actions(Verb.CANCEL, 16) + actions(Verb.REPLACE, 15), 100, True, id="both together"),
        pytest.param(actions(Verb.CANCEL, 15) + actions(Verb.REPLACE, 15), 100, False, id="both together, 30 %"),
        pytest.param(actions(Verb.PRUNE, 90), 100, False, id="pruning ends nothing"),
        pytest.param(actions(Verb.CREATE, 90) + actions(Verb.HOLD, 90), 100, False, id="neither does the rest"),
        pytest.param(incomplete(Verb.CANCEL, 4) + incomplete(Verb.REPLACE, 4), 0, False, id="none that never began"),
        pytest.param(incomplete(Verb.CANCEL, 6, suspend=False), 6, True, id="but those that Kueue let go"),
        pytest.param(incomplete(Verb.CANCEL, 6, active=1), 6, True, id="those that have pods"),
        pytest.param(
            incomplete(Verb.CANCEL, 6, replicatedJobsStatus=[{"active": 1}]), 6, True, id="and JobSets that have some"
        ),
        pytest.param(actions(Verb.REPLACE, 9, "PriorityClass"), 10, False, id="classes are not jobs"),
    ],
)
def test_mass_change(planned: list[Action], running: int, *, refused: bool) -> None:
    """More than five jobs and more than 30 % of those that run don't end on one commit's word."""
    assert (check(planned, running=running) is not None) == refused
    assert check(planned, running=running, allow_mass_change=True) is None


def test_mass_change_says_which_and_what_to_do() -> None:
    assert check(actions(Verb.CANCEL, 7), running=7) == (
        "this pass would cancel or replace 7 of 7 unfinished jobs (run-0, run-1, run-2, run-3, run-4 and 2 more), "
        "more than 5 and 30 %: look at `reconcile plan`, then pass --allow-mass-change"
    )


@pytest.mark.parametrize(
    ("planned", "jobs", "classes", "refused"),
    [
        pytest.param(actions(Verb.CANCEL, 1), 0, 1, True, id="the last job"),
        pytest.param(actions(Verb.PRUNE, 1), 0, 1, True, id="the last ended job"),
        pytest.param(actions(Verb.CANCEL, 1), 1, 0, False, id="a job, no class declared"),
        pytest.param(actions(Verb.PRUNE, 1, "PriorityClass"), 1, 0, True, id="the last class"),
        pytest.param(actions(Verb.PRUNE, 1, "PriorityClass"), 0, 1, False, id="a class, no job declared"),
        pytest.param([], 0, 0, False, id="nothing to delete"),
    ],
)
def test_empty_source(planned: list[Action], jobs: int, classes: int, *, refused: bool) -> None:
    """A commit with nothing left of some is more often a wrong folder than a wish."""
    assert (check(planned, jobs=jobs, classes=classes) is not None) == refused
    assert check(planned, jobs=jobs, classes=classes, allow_empty_source=True) is None


def test_empty_source_says_which_and_what_to_do() -> None:
    assert check(actions(Verb.CANCEL, 2), jobs=0) == (
        "the commit declares no job any more, and this pass would delete run-0, run-1: "
        "if that is meant, pass --allow-empty-source"
    )


def test_empty_source_gives_no_run_up_on_record() -> None:
    """A run whose Job is gone has no action, and its file is all that still asks for it."""
    lost = [f"lost-{number}" for number in range(7)]

    assert check([], jobs=0, abandoned=lost) == (
        "the commit declares no job any more, and this pass would give up lost-0, lost-1, lost-2, lost-3, lost-4 and 2 "
        "more: if that is meant, pass --allow-empty-source"
    )
    assert "delete run-0 and give up lost-0" in (check(actions(Verb.CANCEL, 1), jobs=0, abandoned=lost[:1]) or "")
    assert check([], jobs=1, abandoned=lost) is None
    assert check([], jobs=0, abandoned=lost, allow_empty_source=True) is None


def test_another_cluster_under_a_known_name() -> None:
    """All jobs of the first cluster would be LOST on the second."""
    known = {"schema_version": 1, "contexts": {"prod": "uid-1"}}

    assert check_cluster(None, "prod", "uid-2", "us") is None
    assert check_cluster(known, "prod", "uid-1", "us") is None
    assert check_cluster(known, "test", "uid-2", "us") is None
    assert check_cluster(known, "prod", "uid-2", "us") == (
        "the status branch knows context prod as the cluster uid-1, and this is uid-2: "
        "use another --status-branch, or pass --allow-cluster-change if the old cluster is gone for good"
    )


def test_a_record_of_another_owner() -> None:
    """A renamed remote is no reason to lose all jobs and run them again."""
    known = {"schema_version": 1, "owner": "abc", "contexts": {"prod": "uid-1"}}

    assert check_cluster(known, "prod", "uid-1", "abc") is None
    refusal = check_cluster(known, "prod", "uid-1", "def")
    assert refusal is not None
    assert refusal.startswith("the status branch was written for the owner abc, and this pass is def")
    assert "set `owner: abc` in reconciler.yaml" in refusal


def test_a_record_that_somebody_broke() -> None:
    """Garbage is no reason to take one cluster for another."""
    refusal = check_cluster({"schema_version": 1, "contexts": True}, "prod", "uid-1", "us")

    assert refusal is not None
    assert refusal.startswith("cluster.yaml on the status branch is not as it was written: restore it")
