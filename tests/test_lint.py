"""The whole project is formatted, free of lint, typed, imports only downwards, and keeps to its limits."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_MODULE, LONGEST_FUNCTION = 400, 40


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


def test_no_module_and_no_function_is_too_long() -> None:
    """The limits that CONTRIBUTING states, in lines; decorators don't count."""
    too_long = []
    for path in sorted((ROOT / "reconciler").rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        if (lines := len(text.splitlines())) > LONGEST_MODULE:
            too_long.append(f"{name} has {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                too_long += [f"{name}: {node.name} has {lines} lines"] if lines > LONGEST_FUNCTION else []

    assert too_long == []
