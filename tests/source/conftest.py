"""A bare remote, and a clone of it in a folder with a difficult name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep git from looking for a repository above the test's folder."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory, git: Callable[..., str]) -> Path:
    """Make the two repositories once: a copy takes a tenth of the time."""
    folder = tmp_path_factory.mktemp("template")
    git(folder, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", "remote.git")
    git(folder, "init", "--quiet", "--template=", "--initial-branch=main", "work")
    (folder / "work/jobs").mkdir()
    (folder / "work/jobs/train.yaml").write_text("run: echo\n")
    git(folder / "work", "add", "--all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_COMMITTER_DATE", "1767225600 +0000")
        git(folder / "work", "commit", "--quiet", "--message", "First commit")
    git(folder / "work", "remote", "add", "origin", "../remote.git")
    git(folder / "work", "push", "--quiet", "--set-upstream", "origin", "main")
    return folder


@pytest.fixture
def remote(tmp_path: Path, _template: Path) -> Path:
    """Make a bare repository with one job on its branch main."""
    return Path(shutil.copytree(_template / "remote.git", tmp_path / "remote.git"))


@pytest.fixture
def work(tmp_path: Path, remote: Path, _template: Path) -> Path:
    """Make a clone of the remote."""
    return Path(shutil.copytree(_template / "work", tmp_path / "my jobs (é)"))
