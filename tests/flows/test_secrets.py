"""Values of secrets reach nobody who has no right to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

VALUE = "hf_s3cr3t-Value"
COMMANDS = ("validate", "plan -o json", "--once", "queue -o json", "show train", "render train -o json")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"run: 'true'\nsecrets: {{HF_TOKEN: {VALUE}}}\n", id="in a good file"),
        pytest.param(f"run: 'true'\nsecrets: {{A B: {VALUE}}}\n", id="under a name that can't be"),
        pytest.param(f"run: 'true'\nsecrets: {{HF_TOKEN: [{VALUE}]}}\n", id="in a list"),
        pytest.param(f"run: 'true'\nsecrets: {VALUE}\n", id="without a name"),
        pytest.param(f"run: 'true'\nsecrets: {{HF_TOKEN: {VALUE}\n", id="in a file that is not YAML"),
        pytest.param(
            f"run: 'true'\nsecrets: {{HF_TOKEN: {VALUE}}}\nsecrets: {{HF_TOKEN: {VALUE}}}\n", id="in a file twice"
        ),
        pytest.param(f"run: 'true'\nenvs: {{'A=B': {VALUE}}}\n", id="in a variable that can't be"),
    ],
)
def test_no_command_prints_a_secret(local_team: Team, text: str) -> None:
    """Neither a good file nor a broken one leads any command, or the status branch, to show its value."""
    local_team.commit({"jobs/train.yaml": text})
    shown = [local_team.run(*command.split()) for command in COMMANDS]
    branch = local_team.git(local_team.folder, "log", "--patch", local_team.status_branch)

    assert [ran for ran in shown if VALUE in ran.stdout + ran.stderr] == []
    assert VALUE not in branch
