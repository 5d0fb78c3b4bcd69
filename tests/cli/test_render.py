"""`reconcile render` finds a job by its name or file, and explains its pod in a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from reconciler.cli.main import cli
from reconciler.cli.render import folded
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Repo

FILES = {
    "jobs/team/train.yaml": "run: ./work\nresources:\n  cpus: 4\nenvs:\n  EPOCHS: 3\n",
    "jobs/broken.yaml": "name: 7\nrun: x\n",
    ".sky.yaml": "kubernetes:\n  pod_config:\n    spec:\n      nodeSelector: {pool: batch}\n",
    "reconciler.yaml": "# ours\ndefault_image: local/bash:1\n",
}


def render(repo: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["render", "--repo", str(repo), *arguments])


@pytest.fixture
def place(repo: Repo) -> Path:
    return repo(FILES)


def test_a_row_for_each_field(place: Path) -> None:
    shown = render(place, "team-train", "--explain")

    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    assert lines[0] == "FIELD SET BY WHERE VALUE"
    assert "spec.nodeSelector.pool global .sky.yaml:4 kubernetes.pod_config.spec.nodeSelector.pool batch" in lines
    assert "spec.containers[0].resources.requests.cpu rendered pod jobs/team/train.yaml:3 resources.cpus 4" in lines
    assert "spec.containers[0].resources.requests.memory rendered pod default 4Gi" in lines
    assert "spec.containers[0].image rendered pod reconciler.yaml:2 default_image local/bash:1" in lines
    assert "\x1b" not in shown.output
    assert (shown.exit_code, shown.stderr) == (0, "")


def test_no_table_of_an_invalid_file(place: Path) -> None:
    shown = render(place, "jobs/broken.yaml", "--explain")

    assert (shown.exit_code, shown.stdout) == (3, "")


def test_a_long_name_is_folded_before_its_dots() -> None:
    name = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"

    assert folded(name, 60) == [
        "spec.affinity.nodeAffinity",
        "  .preferredDuringSchedulingIgnoredDuringExecution[0].weight",
    ]
    assert folded("spec.nodeName", 60) == ["spec.nodeName"]


def test_the_same_as_json(place: Path) -> None:
    answer = json.loads(render(place, "team-train", "--explain", "-o", "json").output)

    assert {
        "field": "spec.nodeSelector.pool",
        "layer": "global",
        "path": ".sky.yaml",
        "line": 4,
        "setting": "kubernetes.pod_config.spec.nodeSelector.pool",
    } in answer["fields"]
    assert answer["manifests"] == json.loads(render(place, "team-train", "-o", "json").output)["manifests"]


@pytest.mark.parametrize("job", ["team-train", "jobs/team/train.yaml", "./jobs/team/train.yaml", "train.yaml"])
def test_by_name_or_file(place: Path, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place / "jobs" / "team")

    assert "name: team-train-1\n" in render(place, job).output


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("team-trian", "a job 'team-trian'; did you mean team-train?"),
        ("jobs/team/tran.yaml", "a job 'jobs/team/tran.yaml'; did you mean jobs/team/train.yaml?"),
        ("x", "a job 'x'; there are: broken, team-train"),
    ],
)
def test_a_job_that_there_is_not(place: Path, job: str, message: str) -> None:
    refused = render(place, job).exception

    assert isinstance(refused, UsageError)
    assert str(refused) == f"no file under jobs/ declares {message}"


def test_an_invalid_file_shows_its_problems(place: Path) -> None:
    """It has no name to be called by, but a path."""
    refused = render(place, "jobs/broken.yaml")

    assert (refused.exit_code, refused.stdout.strip()) == (3, "")
    assert refused.stderr.startswith("jobs/broken.yaml:1:1: error: name must be text, not an integer")
