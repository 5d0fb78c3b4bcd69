"""The whole project is formatted, free of lint, typed, and imports only downwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("ruff", "check", "--quiet"), id="lint"),
        pytest.param(("ruff", "format", "--check", "--quiet"), id="format: make format"),
        pytest.param(("mypy",), id="types"),
        pytest.param(("lint-imports",), id="layers"),
    ],
)
def test_the_project_is_clean(command: tuple[str, ...]) -> None:
    """What the tool has to say is the failure."""
    program = Path(sys.executable).with_name(command[0])
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
