"""A tier that is missing is never missing in silence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import binaries
import pytest

NO_CONTROL_PLANE = {"PATH": os.environ["PATH"], "COLUMNS": "300", binaries.FOLDER_VARIABLE: "/nowhere"}


@pytest.mark.parametrize(
    ("environment", "code", "end"),
    [
        pytest.param(
            NO_CONTROL_PLANE,
            0,
            r"Left out \d+ tests, the real tier is missing; to get it: make control-plane\n.*\d+ skipped.*",
            id="left out",
        ),
        pytest.param(
            {**NO_CONTROL_PLANE, "RECONCILER_REQUIRE_TIERS": "1"},
            1,
            r"ERROR .* the real tier is missing; to get it: make control-plane\n.*\d+ errors.*",
            id="required",
        ),
    ],
)
def test_a_missing_tier_is_named(environment: dict[str, str], code: int, end: str) -> None:
    """The end of a run says what was left out and how to get it; where all tiers must run, it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "real and not kubelet", "control_plane"],
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stdout
    assert re.fullmatch(end, "\n".join(done.stdout.splitlines()[-2:])), done.stdout
