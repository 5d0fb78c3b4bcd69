"""`reconcile render`: the manifests of a job as they would be sent, or who has set what in them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import cluster_option, output_option, ref_option, repo_option
from reconciler.cli.output import print_json, print_problems, print_table
from reconciler.cli.repositories import job_argument, open_repository
from reconciler.core.document import problem_entry
from reconciler.errors import ExitCode

if TYPE_CHECKING:
    from reconciler.engine.render import ExplainedField

MAX_VALUE = 50
MAX_FIELD = 60


@click.command(name="render")
@click.argument("job", metavar="JOB")
@repo_option
@ref_option
@cluster_option
@click.option("--explain", is_flag=True, help="Say of each field of the pods which layer has set it, and where.")
@output_option("json")
def command(*, job: str, repo: str, ref: str | None, cluster: str | None, explain: bool, output: str) -> None:
    """Print what a pass would send for a job, as a stream of YAML documents. Needs no cluster.

    JOB is its name, or the path of its file. A Secret with values of the file is left out, with a warning.

    \b
    reconcile render train
    reconcile render jobs/train.yaml | kubectl diff -f -
    reconcile render train --explain             which layer has set which field
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.core.yaml_output import dump_manifests
    from reconciler.engine.options import Options
    from reconciler.engine.render import render

    with open_repository(repo) as repository:
        job = job_argument(repository, job)
        rendered = render(repository, Options(ref=ref), job, context=cluster, explain=explain)
    if output == "json":
        more = {"fields": [_entry(field) for field in rendered.fields]} if explain else {}
        print_json(manifests=rendered.manifests, problems=[problem_entry(p) for p in rendered.problems], **more)
    elif explain:
        if rendered.fields:
            _print_fields(rendered.fields, width=MAX_FIELD if sys.stdout.isatty() else None)
    else:
        click.echo(dump_manifests(rendered.manifests), nl=False)
    print_problems(rendered.problems)
    sys.exit(ExitCode.FINE if rendered.manifests else ExitCode.PARTLY)


def _entry(field: ExplainedField) -> dict[str, object]:
    told = field.field
    return {
        "field": told.field,
        "layer": told.layer,
        "path": told.path,
        "line": field.line,
        "setting": told.setting,
    }


def folded(name: str, width: int) -> list[str]:
    """Break a field's name before its dots into lines of at most `width`; a part that is longer stays whole."""
    lines = [""]
    for part in re.split(r"(?=\.)", name):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("  ")
        lines[-1] += part
    return lines


def _print_fields(fields: Iterable[ExplainedField], *, width: int | None) -> None:
    """Print a row a field. On a terminal long names are folded, so that values stay on the screen."""
    rows = []
    for field in fields:
        told = field.field
        place = ":".join(str(part) for part in (told.path, field.line) if part)
        text = told.value if isinstance(told.value, str) else json.dumps(told.value)
        text = " ".join(text.split())
        shown = text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
        style = "" if told.path is None or told.layer == "rendered pod" else "bold"
        name, *rest = folded(told.field, width) if width else [told.field]
        where = f"{place} {told.setting or ''}".strip() or ("default" if told.layer == "rendered pod" else "")
        rows.append([(name, style), (told.layer, style), (where, ""), (shown, "")])
        rows += [[(line, style), ("", ""), ("", ""), ("", "")] for line in rest]
    print_table(("FIELD", "SET BY", "WHERE", "VALUE"), rows)
