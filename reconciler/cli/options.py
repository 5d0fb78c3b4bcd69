"""The options that several commands share, and what they stand for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from reconciler.core.durations import parse_duration
from reconciler.errors import UsageError
from reconciler.model import Limits, Severity

Command = TypeVar("Command", bound=Callable[..., Any])


class _Word(click.ParamType[str]):
    """A text that says something: an empty one is a variable that somebody forgot to set."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text. Fails for an empty one."""
        if not value.strip():
            self.fail("it is empty; leave the option out, or say which", param, ctx)
        return value


WORD = _Word()

repo_option = click.option(
    "--repo", type=WORD, metavar="PATH|URL", default=".", help="The repository (default: the one around this folder)."
)
ref_option = click.option("--ref", type=WORD, metavar="REF", help="The commit to read (default: HEAD).")
cluster_option = click.option(
    "--cluster",
    type=WORD,
    metavar="local|CONTEXT",
    help="A kubeconfig context, or this machine (default: the current context).",
)
status_branch_option = click.option(
    "--status-branch",
    type=WORD,
    metavar="NAME",
    help="Where the status is kept, or none (default: reconciler.yaml, job-status).",
)
limits_option = click.option(
    "--limits",
    type=WORD,
    metavar="FILE",
    envvar="RECONCILER_LIMITS",
    help="What jobs may ask for, beside the limits of reconciler.yaml: a file that no commit can change.",
)

GUARDS = {
    "allow_mass_change": "Go on although many running jobs would be cancelled or replaced.",
    "allow_empty_source": "Go on although no job, or no class, is left of some.",
    "allow_cluster_change": "Go on although another cluster stands under a recorded name.",
    "allow_superseded": "Apply a commit that is no longer the tip of its branch.",
    "recreate_lost": "Start lost jobs again: those whose Job somebody deleted.",
}


def flags(command: Command) -> Command:
    """Add the options of a pass: the status branch, limits, and the flags that lift a guard."""
    for name, text in reversed(GUARDS.items()):
        command = click.option(f"--{name.replace('_', '-')}", is_flag=True, help=text)(command)
    return status_branch_option(limits_option(command))


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Add `-o`, with the formats that the command has beside its text for people."""
    choice = click.Choice(["text", *formats])
    return click.option("-o", "--output", type=choice, default="text", help="How to print the result.")


def duration(text: str | None, *, option: str) -> float | None:
    """Read `30s`, `5m`, `2h` or bare seconds. Raises UsageError for anything else."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def read_limits(path: str | None) -> Limits:
    """Read the file that `--limits` names. Raises UsageError when it can't be read right: it guards something."""
    from reconciler.core.settings import parse_limits

    if not path:
        return Limits()
    try:
        limits, problems = parse_limits(path, Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"--limits {path}: {error.strerror}") from error
    wrong = [f"{p.path}:{p.line or 1}: {p.message}" for p in problems if p.severity is Severity.ERROR]
    if wrong:
        raise UsageError("; ".join(wrong))
    return limits


def in_ci() -> bool:
    """Whether a CI system runs us, by the variable that they all set."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
