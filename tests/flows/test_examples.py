"""The project's own `jobs/` and `priorities/`, which the README runs, are a repository that works."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
    for folder in ("jobs", "priorities")
    for file in sorted((ROOT / folder).rglob("*"))
    if file.is_file()
}
ROOM = "cpu=16,memory=8Gi"
FIRST_WORDS = {
    "checkpoint": "goes on after step 0\n",
    "counter": "counter 1\n",
    "urgent": "urgent 1\n",
    "words": "17 words\n",
}


@pytest.fixture
def examples(local_team: Team) -> Team:
    """Have a team whose repository is made of the examples, and a machine with room for all of them at once."""
    local_team.commit(FILES, "Copy the examples")
    return replace(local_team, environment={**local_team.environment, "RECONCILER_LOCAL_CAPACITY": ROOM})


def test_nothing_is_wrong_with_the_examples(examples: Team) -> None:
    """There is no error in them, and nothing to warn of."""
    ran = examples.run("validate")

    assert (ran.code, ran.stderr) == (0, "")
    read = [path for path in FILES if path.endswith(".yaml")]
    assert ran.stdout == f"{len(read) + 1} files, 0 invalid\n"  # and the team's own reconciler.yaml


def test_every_example_starts(examples: Team) -> None:
    """Each of them runs on this machine, and begins with what its file says."""
    ran = examples.run("--once", "--wait", "started", "--timeout", "60s")
    assert ran.code == 0, ran.stderr
    said = {job: examples.until(partial(examples.log, job), f"the output of {job}") for job in examples.queue()}

    assert examples.states() == dict.fromkeys(FIRST_WORDS, "RUNNING")
    assert {job: text.splitlines(keepends=True)[0] for job, text in said.items()} == FIRST_WORDS
