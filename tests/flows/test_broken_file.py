"""A typo kills nothing: neither the other jobs, nor the run of the version before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.flows.conftest import Team

BROKEN = "run: sleep 60\nresources:\n  cpus: many\n"
PROBLEM = {
    "severity": "error",
    "code": "invalid-value",
    "path": "jobs/broken.yaml",
    "line": 3,
    "column": 3,
    "field": "resources.cpus",
}


def test_one_broken_file_among_ten_good_ones(team: Team) -> None:
    """The ten run; the broken one is INVALID and says where and why, in the pass, in its status and in `validate`."""
    good = {f"jobs/good-{i}.yaml": team.task("true") for i in range(10)}
    team.commit({**good, "jobs/broken.yaml": BROKEN})
    ran = team.reconcile()
    assert (ran.code, ran.actions) == (3, [("create", "done", f"good-{i}-1") for i in range(10)])
    document = team.document("broken")
    check_problem(ran.json["problems"])
    check_problem(document["problems"])
    assert (document["state"], document["run"], document["reason"]) == ("INVALID", None, "invalid-value")

    checked = team.run("validate", "-o", "json")
    assert (checked.code, checked.json["ok"]) == (3, False)
    (file,) = [file for file in checked.json["files"] if file["problems"]]
    assert (file["path"], file["jobs"]) == ("jobs/broken.yaml", ["broken"])
    check_problem(file["problems"])

    finished = team.run("--once", "--wait", "finished", "--timeout", "90s")
    assert finished.code == 3
    assert team.states() == {"broken": "INVALID", **{f"good-{i}": "SUCCEEDED" for i in range(10)}}


def check_problem(problems: list[dict[str, object]]) -> None:
    """Check that the problem names path, line, column and field, and its message what was found."""
    (problem,) = problems
    message = str(problem["message"])
    assert {key: value for key, value in problem.items() if key != "message"} == PROBLEM
    assert "many" in message
    assert "resources.cpus" in message


def test_a_file_that_breaks_keeps_its_run(team: Team) -> None:
    """The run of its last good version goes on, until the file is whole again and decides; its class stays too."""
    good = team.task(team.gated("broken"), priority="low")
    team.commit({"priorities/classes.yaml": team.classes(low=100), "jobs/broken.yaml": good})
    run = team.reach("broken", "RUNNING")["run"]

    team.commit({"jobs/broken.yaml": BROKEN, "priorities/classes.yaml": "kind: PriorityClass\nvalue: x\n"})
    ran = team.reconcile()
    document = team.document("broken")
    assert (ran.code, ran.actions) == (3, [("hold", "skipped", team.name("low")), ("hold", "skipped", "broken-1")])
    assert (document["state"], document["run"]) == ("RUNNING", run)
    check_problem(document["problems"])

    team.commit({"jobs/broken.yaml": good, "priorities/classes.yaml": team.classes(low=100)})
    ran = team.reconcile()
    assert (ran.code, ran.actions, team.document("broken")["run"]) == (0, [], run)
    assert team.document("broken")["problems"] == []
