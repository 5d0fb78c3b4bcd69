"""`reconcile queue`: the jobs as the status branch tells of them."""

from __future__ import annotations

import click

from reconciler.cli.options import cluster_option, output_option, ref_option, repo_option, status_branch_option
from reconciler.cli.output import note, print_json, print_problems, print_queue
from reconciler.cli.repositories import open_repository
from reconciler.model import TERMINAL_STATES


@click.command(name="queue")
@click.option("--all", "everything", is_flag=True, help="Also ended jobs whose file is gone.")
@repo_option
@ref_option
@cluster_option
@status_branch_option
@output_option("json")
def command(
    *, everything: bool, repo: str, ref: str | None, cluster: str | None, status_branch: str | None, output: str
) -> None:
    """List the jobs: state, durations, and how often each was interrupted.

    It reads the status branch, so it needs no cluster and is as fresh as the last pass; --cluster local reads the
    branch of the jobs on this machine.

    \b
    reconcile queue
    reconcile queue -o json | jq '.jobs[] | select(.state == "FAILED") | .job'
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.core.repository_files import FILES_CHANGED
    from reconciler.core.status.queue import is_current
    from reconciler.engine.options import Options
    from reconciler.engine.record import read_status

    with open_repository(repo) as repository:
        status = read_status(repository, Options(ref=ref, status_branch=status_branch), cluster)
    jobs = [document for document in status.documents.values() if everything or is_current(document)]
    if output == "json":
        print_json(commit=status.commit, jobs=jobs)
        return
    print_queue(jobs)
    note(status.freshness)
    for document in jobs:
        if document["state"] not in TERMINAL_STATES and document["message"]:
            note(f"{document['job']}: {document['message']}")
        for problem in document["problems"]:
            if problem["code"] == FILES_CHANGED:
                note(f"{document['job']}: {problem['message']}")
    print_problems(status.problems)
