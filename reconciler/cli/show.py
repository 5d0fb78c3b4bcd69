"""`reconcile show`: one job, its attempts, its runs and its history."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from reconciler.cli.options import cluster_option, output_option, ref_option, repo_option, status_branch_option
from reconciler.cli.output import note, print_json, print_problems, print_table, state_cell
from reconciler.cli.repositories import job_argument, open_repository
from reconciler.core.document import problem_of
from reconciler.model import Document


@click.command(name="show")
@click.argument("job", metavar="JOB")
@repo_option
@ref_option
@cluster_option
@status_branch_option
@output_option("json")
def command(
    *, job: str, repo: str, ref: str | None, cluster: str | None, status_branch: str | None, output: str
) -> None:
    """Show one job: why it is where it is, its attempts, its earlier runs, and the commits that tell its story.

    \b
    reconcile show train                  or by its file: jobs/train.yaml
    reconcile show train -o json | jq .job.recoveries
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.engine.options import Options
    from reconciler.engine.record import read_job

    with open_repository(repo) as repository:
        job = job_argument(repository, job)
        document, history = read_job(repository, Options(ref=ref, status_branch=status_branch), cluster, job)
    if output == "json":
        print_json(job=document)
        return
    print_document(document)
    if job in {f"{document['job']}-{run['number']}" for run in document["runs"]}:
        note(f"{job} is an earlier run; what is told is the newest one, {document['job']}-{document['run']['number']}")
    if history:
        click.echo("\nHistory")
        for line in history:
            click.echo(f"  {line}")
    print_problems(problem_of(entry) for entry in document["problems"])


def print_document(document: Document) -> None:
    """Print what a document tells, but for its problems."""
    _print_facts(document)
    _print_attempts(document)
    _print_runs(document)


def _print_facts(document: Document) -> None:
    from reconciler.core.status.queue import rows, run_id

    row = rows([document], datetime.now(UTC))[0]
    recoveries = str(document["recoveries"]) + ("" if document["exact"] else " (not exact)")
    facts = [
        ("run", run_id(document), ""),
        ("state", *state_cell(document["state"])),
        ("reason", document["reason"], ""),
        ("message", document["message"], ""),
        ("file", document["file"] or "(removed)", ""),
        ("commit", document["commit"], ""),
        ("priority", _priority(document), ""),
        ("resources", document["resources"], ""),
        ("where", f"{document['context']}, namespace {document['namespace']}" if document["run"] else None, ""),
        ("recoveries", recoveries, ""),
        ("restarts on error", str(document["restarts_on_error"]), ""),
        ("submitted", document["submitted_at"], ""),
        ("started", document["started_at"], ""),
        ("ended", document["ended_at"], ""),
        ("total duration", row.total, ""),
        ("job duration", row.job, ""),
        ("time queued", _span(document["queued_seconds"]), ""),
        ("time recovering", _span(document["recovering_seconds"]), ""),
    ]
    print_table((document["job"], ""), [((name, "dim"), (value, style)) for name, value, style in facts if value])


def _span(seconds: int | None) -> str:
    """Return a duration of which nothing differs from not known."""
    from reconciler.core.status.queue import duration_text

    return "0s" if seconds == 0 else duration_text(seconds)


def _priority(document: Document) -> str | None:
    priority = document["priority"] or {}
    if priority.get("value") is None:
        return priority.get("class")
    return f"{priority.get('class') or 'no class'} ({priority['value']})"


def _print_attempts(document: Document) -> None:
    if not document["attempts"]:
        return
    click.echo("\nAttempts" + ("" if document["attempts_complete"] else " (those that were seen)"))
    keys = ("started_at", "ended_at", "node", "reason", "exit_code", "pod")
    rows = [
        [(str(attempt[key]) if attempt[key] is not None else "-", "") for key in keys]
        for attempt in document["attempts"]
    ]
    print_table(("STARTED", "ENDED", "NODE", "REASON", "EXIT CODE", "POD"), rows)


def _print_runs(document: Document) -> None:
    if not document["runs"]:
        return
    click.echo("\nEarlier runs")
    rows = [
        (
            (f"{document['job']}-{run['number']}", ""),
            state_cell(run["state"]),
            (str(run["recoveries"]), ""),
            (run["ended_at"] or "-", ""),
        )
        for run in document["runs"]
    ]
    print_table(("ID", "STATUS", "#RECOVERIES", "ENDED"), rows, numbers=("#RECOVERIES",))
