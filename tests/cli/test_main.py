"""How the command line ends, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from reconciler.cli.main import COMMANDS, _report_bug, cli


def test_help_of_every_command_has_examples_or_says_what_happens() -> None:
    """--help teaches; a command that can't be imported would show here too."""
    for name in COMMANDS:
        shown = CliRunner().invoke(cli, [name, "--help"])

        assert shown.exit_code == 0, shown.output
        assert shown.output.startswith(f"Usage: cli {name}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["plam"], "there is no command 'plam'. Did you mean 'plan'?", id="a typo"),
        pytest.param(["xyz"], "there is no command 'xyz'. There are: plan, validate", id="no such command"),
        pytest.param(
            ["--repo", "/nowhere", "plan"],
            "--repo stands before the command; options come after it: reconcile plan --repo ...",
            id="an option that would be ignored",
        ),
        pytest.param(
            ["queue", "--ref", ""], "'--ref': it is empty; leave the option out, or say which", id="an empty ref"
        ),
        pytest.param(["plan", "--cluster", " "], "'--cluster': it is empty;", id="an empty cluster"),
        pytest.param(["--once", "queue"], "--once stands before the command", id="a flag of the pass"),
    ],
)
def test_what_is_meant_otherwise_is_refused(arguments: list[str], message: str) -> None:
    """Nothing that somebody typed is silently left out."""
    refused = CliRunner().invoke(cli, arguments)

    assert refused.exit_code == 2
    assert message in refused.output


def test_a_bug_report_says_where_and_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    """The message of an exception quotes what it was about, and that may be a secret."""
    try:
        int("hf_s3cr3t")
    except ValueError as error:
        _report_bug(error)
    said = capsys.readouterr().err

    assert "hf_s3cr3t" not in said.replace('int("hf_s3cr3t")', "")
    assert "ValueError" in said
    assert "this is a bug in reconcile" in said


def test_importing_the_command_line_is_cheap() -> None:
    """--help answers at once: no client, no git, no tables before they are needed."""
    heavy = "[m for m in ('kubernetes', 'git', 'rich', 'yaml', 'watchfiles') if m in sys.modules]"
    code = f"import sys, reconciler.cli.main; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
