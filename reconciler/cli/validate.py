"""`reconcile validate`: check the files of a repository without a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import output_option, repo_option
from reconciler.cli.output import print_json, print_problems
from reconciler.cli.repositories import open_repository
from reconciler.core.document import problem_entry
from reconciler.errors import ExitCode

if TYPE_CHECKING:
    from reconciler.engine.validate import CheckedFile


@click.command(name="validate")
@repo_option
@click.option("--ref", metavar="REF", help="Check a commit (default: the files as they stand in the work tree).")
@output_option("json")
def command(*, repo: str, ref: str | None, output: str) -> None:
    """Check task files, PriorityClasses and settings; say path, line and field of everything that is wrong.

    \b
    reconcile validate                    the work tree, before you commit
    reconcile validate --ref HEAD         what a pass would read
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.engine.validate import validate

    with open_repository(repo) as repository:
        files = validate(repository, ref)
    ok = all(file.ok for file in files)
    if output == "json":
        print_json(ok=ok, files=[_file_json(file) for file in files])
    else:
        for file in files:
            print_problems(file.problems)
        invalid = sum(not file.ok for file in files)
        click.echo(f"{len(files)} files, {invalid} invalid" if files else "no files under jobs/ or priorities/")
    sys.exit(ExitCode.FINE if ok else ExitCode.PARTLY)


def _file_json(file: CheckedFile) -> dict[str, object]:
    return {
        "path": file.path,
        "jobs": list(file.jobs),
        "priority_classes": list(file.priority_classes),
        "problems": [problem_entry(problem) for problem in file.problems],
    }
