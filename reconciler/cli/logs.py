"""`reconcile logs`: a job's output, across its interruptions."""

from __future__ import annotations

import sys

import click

from reconciler.cli.clusters import open_cluster
from reconciler.cli.options import cluster_option, repo_option
from reconciler.cli.output import note
from reconciler.cli.repositories import job_argument, open_repository


@click.command(name="logs")
@click.argument("job", metavar="JOB")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends, through preemption and recovery.")
@click.option("--rank", type=click.IntRange(min=0), default=0, help="Which of several nodes; default 0.")
@repo_option
@cluster_option
def command(*, job: str, follow: bool, rank: int, repo: str, cluster: str | None) -> None:
    """Print the output of a job's newest run: JOB is its name, its file, or a run such as train-3.

    \b
    reconcile logs train
    reconcile logs train -f               also what comes, until the job has ended
    reconcile logs train --rank 1         of the second of several nodes
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.core.render import home_namespace
    from reconciler.engine.logs import stream_logs
    from reconciler.engine.options import Options
    from reconciler.engine.record import read_sound_setting

    with open_repository(repo) as repository, open_cluster(cluster) as live:
        job = job_argument(repository, job)
        setting = read_sound_setting(repository, Options(), live.context)
        home = home_namespace(setting.site, live.context, live.default_namespace)
        for chunk in stream_logs(live, setting.owner, job, home=home, follow=follow, say=note, rank=rank):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
