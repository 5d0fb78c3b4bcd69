"""Jobs of one priority take turns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.flows.conftest import Team


def test_equal_jobs_run_one_after_the_other_as_they_were_submitted(team: Team) -> None:
    """Where one fits, the next one starts when it has ended; none preempts another, and the names don't matter."""
    files = {"priorities/classes.yaml": team.classes(low=100)}
    order = ["zebra", "ape", "mole"]
    for name in order:
        files[f"jobs/{name}.yaml"] = team.task("sleep 0.2", priority="low", slot=True)
        team.commit(files)
        assert team.reconcile().actions[-1] == ("create", "done", f"{name}-1")
    for name in order:
        team.reach(name, "SUCCEEDED", recoveries=0)
    attempts = [team.document(name)["attempts"] for name in order]

    assert [len(of_job) for of_job in attempts] == [1, 1, 1]
    assert all(first["ended_at"] <= second["started_at"] for (first,), (second,) in pairwise(attempts))
