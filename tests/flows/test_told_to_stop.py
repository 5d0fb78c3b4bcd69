"""Losing its place never ends a job, whatever its command makes of the signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team


@pytest.mark.parametrize(
    "trap",
    [
        pytest.param("trap 'exit 0' TERM", id="ends with 0"),
        pytest.param("trap 'exit 3' TERM", id="ends with an error"),
        pytest.param("trap '' TERM", id="goes on until it is killed"),
    ],
)
def test_a_preempted_task_recovers(team: Team, trap: str) -> None:
    """An attempt that was told to stop has neither succeeded nor failed: the job is RECOVERING, and runs again."""
    team.commit(
        {
            "priorities/classes.yaml": team.classes(high=200, low=100),
            "jobs/low.yaml": team.task(f"{trap}\n{team.gated('low')}", priority="low", slot=True, grace=1),
        }
    )
    team.reach("low", "RUNNING")
    team.until(lambda: "started" in team.log("low"), "the trap to be set")
    team.commit({"jobs/high.yaml": team.task(team.gated("high"), priority="high", slot=True)})
    team.reach("high", "RUNNING")
    waiting = team.document("low")
    assert (waiting["state"], waiting["recoveries"], waiting["restarts_on_error"]) == ("RECOVERING", 1, 0)

    team.open("high")
    team.reach("low", "RUNNING", recoveries=1, restarts_on_error=0)
    team.open("low")
    team.reach("low", "SUCCEEDED", recoveries=1, restarts_on_error=0)

    *before, last = team.states_of("low")
    assert (last, {"FAILED", "SUCCEEDED"} & {*before}) == ("SUCCEEDED", set())
