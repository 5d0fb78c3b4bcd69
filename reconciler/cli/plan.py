"""`reconcile plan`: what a pass would do, and who would have to make room."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.clusters import open_cluster
from reconciler.cli.options import cluster_option, flags, in_ci, output_option, read_limits, ref_option, repo_option
from reconciler.cli.output import (
    action_json,
    note,
    print_actions,
    print_json,
    print_problems,
    print_table,
)
from reconciler.cli.repositories import open_repository
from reconciler.core.document import problem_entry
from reconciler.errors import ExitCode
from reconciler.model import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.engine.preview import Preview
    from reconciler.engine.report import Report

VERDICT_STYLES = {"fits": "green", "preempts": "yellow", "waits": "yellow", "never": "red"}


@click.command(name="plan")
@repo_option
@ref_option
@cluster_option
@flags
@click.option("--detailed-exitcode", is_flag=True, help="End with 6 when there is something to do, 0 when not.")
@output_option("json")
def command(
    *,
    repo: str,
    ref: str | None,
    cluster: str | None,
    limits: str | None,
    detailed_exitcode: bool,
    output: str,
    **given: Any,
) -> None:
    """Show what a pass would do now, and write nothing.

    \b
    reconcile plan
    reconcile plan --ref my-branch --cluster my-context
    reconcile plan --detailed-exitcode || echo "something to do"
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.engine.options import Options
    from reconciler.engine.preview import preview_jobs
    from reconciler.engine.reconcile import plan

    options = Options(ref=ref, in_ci=in_ci(), limits=read_limits(limits), **given)
    with open_repository(repo) as repository, open_cluster(cluster) as live:
        report = plan(repository, live, options)
        previews, why_not = preview_jobs(live, report.actions, report.waiting)
    _show(report, previews, output)
    for text in (*report.notes, *why_not):
        note(text)
    print_problems(report.all_problems)
    sys.exit(_exit_code(report, detailed=detailed_exitcode))


def _show(report: Report, previews: Sequence[Preview], output: str) -> None:
    if output == "json":
        print_json(
            commit=report.commit,
            cluster=report.context,
            actions=[action_json(action) for action in report.actions],
            preview=[asdict(preview) for preview in previews],
            problems=[problem_entry(problem) for problem in report.all_problems],
        )
    else:
        print_actions(report.actions)
        if previews:
            click.echo()
            rows = [
                ((p.job, ""), (p.verdict, VERDICT_STYLES[p.verdict]), (", ".join(p.victims) or "-", ""), (p.reason, ""))
                for p in previews
            ]
            print_table(("JOB", "VERDICT", "VICTIMS", "REASON"), rows)


def _exit_code(report: Report, *, detailed: bool) -> ExitCode:
    changes = any(action.verb not in (Verb.KEEP, Verb.HOLD) for action in report.actions)
    return ExitCode.CHANGES if detailed and changes and report.exit_code is ExitCode.FINE else report.exit_code
