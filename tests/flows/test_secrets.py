"""Values of secrets reach nobody who has no right to them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.flows.conftest import Ran, Team

VALUE = "hf_s3cr3t-Value"
HIDDEN = (VALUE, base64.b64encode(VALUE.encode()).decode().rstrip("="), VALUE.encode().hex(), VALUE[::-1])
WITH_JSON = ("validate", "plan", "--once", "queue --all", "show train", "render train", "--once --dry-run")
COMMANDS = (*WITH_JSON, *(f"{command} -o json" for command in WITH_JSON), "logs train")


def leaks(shown: list[Ran], *texts: str) -> list[str]:
    return [text for text in (*(ran.stdout + ran.stderr for ran in shown), *texts) if any(h in text for h in HIDDEN)]


def test_a_whole_run_shows_the_value_of_a_secret_to_the_job_alone(team: Team) -> None:
    """In no output of any command, no file, no commit, no status, and no object but its own Secret; the job has it."""
    text = team.task('echo "${#TOKEN} ${OTHER-}"', secrets={"TOKEN": VALUE}, workdir=".")
    team.commit({"jobs/train.yaml": text, "code.sh": "true\n"})
    before = [team.run(*command.split()) for command in ("validate", "plan", "plan -o json")]
    document = team.reach("train", "SUCCEEDED")
    shown = [team.run(*command.split()) for command in COMMANDS]
    branch = team.git(team.record, "log", "--patch", "--format=fuller", team.status_branch)
    objects = {kind: team.live(kind) for kind in ("Job", "Pod", "ConfigMap", "Secret", "Event")}
    holders = {kind: [item for item in items if HIDDEN[1] in json.dumps(item)] for kind, items in objects.items()}
    (holder,) = holders.pop("Secret")

    assert team.log("train") == f"{len(VALUE)} \n"
    assert leaks([*before, *shown], branch, *(json.dumps(items) for items in holders.values())) == []
    assert [problem["code"] for problem in document["problems"]] == ["inline-secret"]
    assert holder["metadata"]["name"] == "train-1-secrets"
    assert leaks([], *(json.dumps(objects[kind]) for kind in ("Job", "Pod", "ConfigMap", "Event"))) == []
    rendered = shown[COMMANDS.index("render train")]
    assert [made["kind"] for made in yaml.safe_load_all(rendered.stdout)] == ["ConfigMap", "Job"]
    assert "train-2-secrets, with the values that stand in the file, is left out here" in rendered.stderr


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"run: 'true'\nsecrets: {{A B: {VALUE}}}\n", id="under a name that can't be"),
        pytest.param(f"run: 'true'\nsecrets: {{HF_TOKEN: [{VALUE}]}}\n", id="in a list"),
        pytest.param(f"run: 'true'\nsecrets: {VALUE}\n", id="without a name"),
        pytest.param(f"run: 'true'\nsecrets: {{HF_TOKEN: {VALUE}\n", id="in a file that is not YAML"),
        pytest.param(
            f"run: 'true'\nsecrets: {{HF_TOKEN: {VALUE}}}\nsecrets: {{HF_TOKEN: {VALUE}}}\n", id="in a file twice"
        ),
        pytest.param(f"run: 'true'\nenvs: {{'A=B': {VALUE}}}\n", id="in a variable that can't be"),
        pytest.param(
            f"run: 'true'\nsecrets: {{T: {VALUE}}}\nworkdir: {{url: 'https://u:{VALUE}@a.invalid/b'}}\n", id="in a URL"
        ),
    ],
)
def test_no_command_prints_a_secret(local_team: Team, text: str) -> None:
    """No broken file leads any command, or the status branch, to show its value."""
    local_team.commit({"jobs/train.yaml": text})
    shown = [local_team.run(*command.split()) for command in COMMANDS]
    branch = local_team.git(local_team.folder, "log", "--patch", local_team.status_branch)

    assert leaks(shown, branch) == []
