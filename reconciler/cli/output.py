"""Print results: tables for people, one JSON object for programs. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from reconciler.model import SCHEMA_VERSION, Action, Document, Problem, Result, Severity, State, Verb

STATE_STYLES = {
    State.RUNNING: "green",
    State.SUCCEEDED: "blue",
    State.RECOVERING: "yellow",
    State.CANCELLING: "yellow",
    State.SUSPENDED: "yellow",
    State.FAILED: "red",
    State.FAILED_SETUP: "red",
    State.FAILED_PRECHECKS: "red",
    State.LOST: "red",
    State.INVALID: "red",
}
VERB_STYLES = {
    Verb.CREATE: "green",
    Verb.UPDATE: "green",
    Verb.REPLACE: "yellow",
    Verb.CANCEL: "yellow",
    Verb.PRUNE: "yellow",
    Verb.CONFLICT: "red",
}
ANY_WIDTH = 10_000


def print_json(**fields: Any) -> None:
    """Print one object with `schema_version` first."""
    click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **fields}, indent=2, ensure_ascii=False))


def action_json(action: Action) -> dict[str, Any]:
    """Return an action as programs see it; `result` is null in a plan."""
    return {
        "action": action.verb,
        "result": action.result,
        "kind": action.kind,
        "namespace": action.namespace,
        "name": action.name,
        "job": action.job,
        "reason": action.reason,
    }


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[tuple[str, str]]], *, numbers: Sequence[str] = ()
) -> None:
    """Print aligned columns. A cell is its text and its style; the columns named in `numbers` align right.

    Nothing is folded or cut, however narrow the terminal: it wraps the line, and every name can be copied. Colours are
    for a terminal without NO_COLOR.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in header:
        table.add_column(title, justify="right" if title in numbers else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(text, style=style) for text, style in row))
    stdout = Console(width=ANY_WIDTH, highlight=False, markup=False, emoji=False)
    with stdout.capture() as printed:
        stdout.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def print_queue(documents: Sequence[Document]) -> None:
    """Print jobs as the queue shows them, under a line that counts them."""
    from reconciler.core.status.queue import COLUMNS, rows, summary

    click.echo(summary(documents))
    if documents:
        table = [row.cells() for row in rows(documents, datetime.now(UTC))]
        cells = [[*((text, "") for text in row[:-1]), state_cell(row[-1])] for row in table]
        print_table(COLUMNS, cells, numbers=("#RECOVERIES",))


def state_cell(state: str) -> tuple[str, str]:
    """Return a state with its colour."""
    return state, STATE_STYLES.get(State(state), "")


def print_actions(actions: Sequence[Action]) -> None:
    """Print what was done, or would be, a line each; what is merely kept is counted.

    But for a job that does not run because it already has: that may surprise somebody, and its reason has the advice.
    """
    from reconciler.core.decide import ALREADY_RAN

    shown = [action for action in actions if action.verb is not Verb.KEEP or action.reason.startswith(ALREADY_RAN)]
    kept = len(actions) - len(shown)
    if shown:
        planned = all(action.result is None for action in shown)
        rows = [_action_row(action) for action in shown]
        if planned:
            print_table(("ACTION", "OBJECT", "REASON"), [(verb, scope, reason) for verb, _, scope, reason in rows])
        else:
            print_table(("ACTION", "RESULT", "OBJECT", "REASON"), rows)
    if kept:
        click.echo(f"{kept} kept as {'they are' if kept > 1 else 'it is'}")


def _action_row(action: Action) -> Sequence[tuple[str, str]]:
    scope = f"{action.kind}/{action.namespace}/{action.name}" if action.namespace else f"{action.kind}/{action.name}"
    failed = action.result is Result.FAILED
    style = "red" if failed or action.needs_attention else VERB_STYLES.get(action.verb, "")
    return (action.verb, style), (action.result or "", "red" if failed else ""), (scope, ""), (action.reason, "")


def print_problems(problems: Iterable[Problem]) -> None:
    """Print problems to stderr as `path:line:column: severity: field: message [code]`, which editors can follow."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for problem in problems:
        place = ":".join(str(part) for part in (problem.path, problem.line, problem.column) if part)
        word = problem.severity.value
        if colour:
            word = click.style(word, fg="red" if problem.severity is Severity.ERROR else "yellow", bold=True)
        click.echo(f"{place or 'reconcile'}: {word}: {_with_field(problem)} [{problem.code}]", err=True)


def print_annotations(problems: Iterable[Problem]) -> None:
    """Print problems as workflow commands, which GitHub Actions shows at their lines."""
    for problem in problems:
        named = {"file": problem.path, "line": problem.line, "col": problem.column, "title": problem.code}
        properties = ",".join(
            f"{key}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}"
            for key, value in named.items()
            if value is not None
        )
        click.echo(f"::{problem.severity.value} {properties}::{_escaped(_with_field(problem))}")


def _escaped(text: str) -> str:
    """Escape what would end a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _with_field(problem: Problem) -> str:
    field = f"{problem.field}: " if problem.field and problem.field not in problem.message else ""
    return field + problem.message


def note(text: str) -> None:
    """Say something to the person at the terminal, beside the result."""
    click.echo(f"reconcile: {text}", err=True)
