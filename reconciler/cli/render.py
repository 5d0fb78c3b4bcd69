"""`reconcile render`: the manifests of a job as they would be sent."""

from __future__ import annotations

import sys

import click

from reconciler.cli.options import cluster_option, output_option, ref_option, repo_option
from reconciler.cli.output import print_json, print_problems
from reconciler.cli.repositories import open_repository
from reconciler.core.document import problem_entry
from reconciler.errors import ExitCode
from reconciler.model import Severity


@click.command(name="render")
@click.argument("job", metavar="JOB")
@repo_option
@ref_option
@cluster_option
@output_option("json")
def command(*, job: str, repo: str, ref: str | None, cluster: str | None, output: str) -> None:
    """Print what a pass would send for a job, as a stream of YAML documents. Needs no cluster.

    \b
    reconcile render train
    reconcile render train | kubectl diff -f -
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.core.yaml_output import dump_manifests
    from reconciler.engine.options import Options
    from reconciler.engine.render import render

    with open_repository(repo) as repository:
        manifests, problems = render(repository, Options(ref=ref), job, context=cluster)
    if output == "json":
        print_json(manifests=manifests, problems=[problem_entry(problem) for problem in problems])
    else:
        click.echo(dump_manifests(manifests), nl=False)
    print_problems(problems)
    sys.exit(ExitCode.PARTLY if any(p.severity is Severity.ERROR for p in problems) else ExitCode.FINE)
