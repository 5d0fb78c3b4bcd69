"""`reconcile validate`: check the files of a repository without a cluster."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from reconciler.cli.options import WORD, limits_option, output_option, read_limits, repo_option
from reconciler.cli.output import note, print_annotations, print_json, print_problems
from reconciler.cli.repositories import open_repository
from reconciler.core.document import problem_entry
from reconciler.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from reconciler.engine.validate import CheckedFile
    from reconciler.model import Limits
    from reconciler.source.repository import Repository


@click.command(name="validate")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@repo_option
@click.option(
    "--ref", type=WORD, metavar="REF", help="Check a commit (default: the files as they stand in the work tree)."
)
@click.option("--watch", is_flag=True, help="Check again at each change, until Ctrl-C.")
@limits_option
@output_option("json", "github")
def command(
    *, paths: tuple[str, ...], repo: str, ref: str | None, watch: bool, limits: str | None, output: str
) -> None:
    """Check task files, PriorityClasses and settings; say path, line and field of everything that is wrong.

    With PATHs only these files and folders are reported; what they mean is still judged among all files.

    \b
    reconcile validate                    the work tree, before you commit
    reconcile validate jobs/train.yaml    one file of it
    reconcile validate --watch            the work tree, again at each change
    reconcile validate --ref HEAD         what a pass would read
    reconcile validate -o github          annotations for GitHub Actions
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.engine.validate import validate

    allowed = read_limits(limits)
    with open_repository(repo) as repository:
        chosen = {_from_root(path, repository.work_tree) for path in paths}
        if watch:
            _watch(repository, chosen, allowed, ref=ref, output=output)
        files = validate(repository, ref, chosen, allowed)
    _print(files, output)
    sys.exit(ExitCode.FINE if all(file.ok for file in files) else ExitCode.PARTLY)


def _from_root(path: str, root: Path | None) -> str:
    """Return a path as git writes it. A relative one counts from this folder, or from the root of another repository.

    Raises UsageError for what lies outside.
    """
    base = Path.cwd() if root is None or Path.cwd().is_relative_to(root) else root
    full = os.path.normpath(base / path)
    above = root or base
    if not Path(full).is_relative_to(above):
        raise UsageError(f"{path} lies outside the repository {above}")
    return Path(full).relative_to(above).as_posix()


def _watch(repository: Repository, chosen: set[str], limits: Limits, *, ref: str | None, output: str) -> NoReturn:
    """Check at each change; a path that is gone for a moment, as editors save files, doesn't end it."""
    from reconciler.engine.validate import validate
    from reconciler.source.watch import watch_files

    if ref is not None or output != "text" or repository.work_tree is None:
        raise UsageError("--watch is for the files of a work tree, and for people: not with --ref, -o or a URL")
    sources: set[str] = set()
    try:
        for _ in watch_files(repository.work_tree, threading.Event(), sources):
            try:
                files = validate(repository, None, chosen, limits)
            except UsageError as error:
                note(str(error))
                continue
            sources.clear()
            sources.update(source for file in files for source in file.sources)
            if sys.stdout.isatty():
                click.clear()
            _print(files, output)
            note("watching; Ctrl-C ends this")
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    raise AssertionError("nothing else ends this")


def _print(files: list[CheckedFile], output: str) -> None:
    if output == "json":
        print_json(ok=all(file.ok for file in files), files=[_file_json(file) for file in files])
        return
    for file in files:
        if output == "github":
            print_annotations(file.problems)
        else:
            print_problems(file.problems)
    invalid = sum(not file.ok for file in files)
    click.echo(
        f"{len(files)} file{'s'[: len(files) > 1]}, {invalid} invalid"
        if files
        else "no files under jobs/ or priorities/"
    )


def _file_json(file: CheckedFile) -> dict[str, object]:
    return {
        "path": file.path,
        "jobs": list(file.jobs),
        "priority_classes": list(file.priority_classes),
        "problems": [problem_entry(problem) for problem in file.problems],
    }
