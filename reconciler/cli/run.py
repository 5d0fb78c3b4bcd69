"""`reconcile` itself: one pass, a pass that waits, or the loop."""

from __future__ import annotations

import gc
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from reconciler.cli.clusters import open_cluster
from reconciler.cli.options import duration, in_ci, read_limits
from reconciler.cli.output import (
    action_json,
    note,
    print_actions,
    print_json,
    print_problems,
    print_queue,
)
from reconciler.cli.process import on_sigterm
from reconciler.cli.repositories import open_repository
from reconciler.core.document import problem_entry
from reconciler.core.status.times import rfc3339
from reconciler.errors import ExitCode, UsageError
from reconciler.model import Action, Document, Problem, Verb

if TYPE_CHECKING:
    from reconciler.cluster.interface import Cluster
    from reconciler.engine.loop import Loop
    from reconciler.engine.options import Options
    from reconciler.engine.report import Report
    from reconciler.source.repository import Repository

SECONDS_BETWEEN_POLLS = 15.0  # a remote can't call, so it is asked
QUIET = (Verb.KEEP, Verb.HOLD)
PATIENCE_WITH_LAST_PASS = 3.0  # seconds: SIGTERM ends the loop within five


def run(
    *,
    once: bool,
    dry_run: bool,
    wait: str | None,
    timeout: str | None,
    interval: str | None,
    repo: str,
    ref: str | None,
    cluster: str | None,
    output: str,
    limits: str | None,
    **flags: Any,
) -> NoReturn:
    """Make one pass, wait for its jobs, or loop; end with the exit code of what happened."""
    from reconciler.engine.options import Options
    from reconciler.engine.reconcile import plan, reconcile

    options = Options(ref=ref, in_ci=in_ci(), limits=read_limits(limits), **flags)
    looping = not (once or dry_run or wait)
    _check_combination(
        looping=looping, dry_run=dry_run, wait=wait, timeout=timeout, interval=interval, output=output, ref=ref
    )
    patience, seconds = duration(timeout, option="--timeout"), duration(interval, option="--interval")
    with open_cluster(cluster, runs_jobs=not dry_run) as live, open_repository(repo) as repository:
        if looping:
            _loop(repository, live, options, interval=seconds)
        if dry_run:
            report = plan(repository, live, options)
        elif wait:
            report = _wait(repository, live, options, goal=wait, timeout=patience, output=output)
        else:
            report = reconcile(repository, live, options)
    print_report(report, output, waited=bool(wait))
    sys.exit(report.exit_code)


def _check_combination(
    *,
    looping: bool,
    dry_run: bool,
    wait: str | None,
    timeout: str | None,
    interval: str | None,
    output: str,
    ref: str | None,
) -> None:
    """Refuse options that contradict each other, by their names."""
    if timeout and not wait:
        raise UsageError("--timeout belongs to --wait started or --wait finished")
    if wait and dry_run:
        raise UsageError("--dry-run writes nothing, so there is nothing for --wait to wait for: leave one")
    if interval and not looping:
        raise UsageError("--interval belongs to the loop: leave it, or leave --once, --dry-run and --wait")
    if looping and output == "json":
        raise UsageError("-o json prints one pass: add --once (the loop prints a line a change)")
    if looping and ref:
        raise UsageError("--ref names one commit: add --once (the loop follows the branch)")


def print_report(report: Report, output: str, *, waited: bool = False) -> None:
    """Print what a pass did, or after a wait, which has printed that, the jobs; problems and notes go to stderr."""
    if output == "json":
        print_json(
            commit=report.commit,
            cluster=report.context,
            actions=[action_json(action) for action in report.actions],
            problems=[problem_entry(problem) for problem in report.all_problems],
            status_commit=report.status_commit,
            superseded=report.superseded,
        )
    else:
        if not waited:
            print_actions(report.actions)
        else:
            print_queue(list(report.documents.values()))
        if report.status_commit:
            click.echo(f"status committed: {report.status_commit[:10]}")
    for text in report.notes:
        note(text)
    print_problems(report.all_problems)


def _one_of_many(repository: Repository, cluster: Cluster, options: Options) -> Report:
    """Make a pass, and collect cyclic garbage after it: `main` has switched off that it happens by itself."""
    from reconciler.engine.reconcile import reconcile

    try:
        return reconcile(repository, cluster, options)
    finally:
        gc.collect()


def _wait(
    repository: Repository, cluster: Cluster, options: Options, *, goal: str, timeout: float | None, output: str
) -> Report:
    from reconciler.engine.wait import wait_for

    progress = _Progress(actions=output != "json")

    def one_pass(commit: str | None) -> Report:
        return _one_of_many(repository, cluster, replace(options, ref=commit) if commit else options)

    try:
        return wait_for(goal, one_pass, timeout=timeout, progress=progress.show, complain=note)
    finally:
        progress.clear()


class _Story:
    """Tells what happened to the jobs from pass to pass, a line a transition, with the time at which it was seen."""

    def __init__(self) -> None:
        self._known: dict[str, Document] | None = None

    def lines(self, report: Report) -> list[str]:
        from reconciler.core.status.commit_message import one_line, transitions

        if report.refusal or report.superseded:
            return []
        before = report.recorded if self._known is None else self._known
        names = sorted(before.keys() | report.documents.keys())
        told = transitions(before, {name: report.documents.get(name) for name in names}, report.actions)
        self._known, now = report.documents, rfc3339(datetime.now(UTC))
        return [f"{now} {one_line(what, why)}" for what, why in told]


class _Progress:
    """Tells how a wait goes: first the actions, then on stderr the transitions and what it is waiting for.

    On a terminal that is a line which is written anew at each pass, elsewhere it is said once.
    """

    def __init__(self, *, actions: bool) -> None:
        self.on = sys.stderr.isatty()
        self.story = _Story()
        self._begins, self._prints_actions = True, actions

    def show(self, report: Report) -> None:
        if self._begins and self._prints_actions:
            print_actions(report.actions)
        if lines := self.story.lines(report):
            self.clear()
            click.echo("\n".join(lines), err=True)
        states = [document["state"] for document in report.documents.values()]
        text = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
        if self._begins and not self.on and text:
            note(f"waiting for the jobs: {text}")
        self._begins = False
        self._print(f"waiting: {text}")

    def clear(self) -> None:
        self._print("")

    def _print(self, text: str) -> None:
        if self.on:
            click.echo(f"\r\x1b[2K{text}", nl=False, err=True)


def _loop(repository: Repository, cluster: Cluster, options: Options, *, interval: float | None) -> NoReturn:
    """Keep the cluster in step until SIGTERM (exit 0) or Ctrl-C (130)."""
    from reconciler.engine.declare import declare
    from reconciler.engine.loop import Loop, Rhythm, watch_cluster, watched_kinds, watched_namespaces
    from reconciler.engine.read import job_namespaces
    from reconciler.engine.record import read_sound_setting
    from reconciler.source.watch import watch_commits

    setting = read_sound_setting(repository, options, cluster.context)
    rhythm = Rhythm(interval=interval or setting.site.interval, status_interval=setting.site.status_interval)

    log = _Log()

    def one_pass() -> bool:
        report = _one_of_many(repository, cluster, options)
        log.print(report)
        return report.status_commit is not None

    loop = Loop(one_pass, rhythm, note)
    _end_on_sigterm(loop)
    known = job_namespaces(cluster, declare(setting.revision.files))
    for namespace in watched_namespaces(cluster, setting.owner, known):
        for kind in watched_kinds(cluster):
            loop.follow(watch_cluster(cluster, kind, setting.owner, loop.stop, namespace=namespace))
    status_branch = setting.status.branch if setting.status else ""
    loop.follow(
        watch_commits(
            repository,
            remote=setting.revision.remote,
            status_branch=status_branch,
            interval=min(rhythm.interval, SECONDS_BETWEEN_POLLS),
            stop=loop.stop,
        )
    )
    note(f"keeping {cluster.context} in step with {repository.folder}; Ctrl-C or SIGTERM ends it")
    loop.run()
    sys.exit(ExitCode.FINE)


def _end_on_sigterm(loop: Loop) -> None:
    """Let SIGTERM end the loop after the pass that is under way, or in the middle of one that takes too long."""

    def abandon(signum: int, frame: FrameType | None) -> NoReturn:
        del signum, frame
        sys.exit(ExitCode.FINE)

    def finish() -> None:
        signal.signal(signal.SIGALRM, abandon)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_WITH_LAST_PASS)
        loop.end()

    on_sigterm(finish, ExitCode.FINE)


class _Log:
    """Prints what a loop does, a line a change, and what is wrong: when it begins, not at each look."""

    def __init__(self) -> None:
        self._story = _Story()
        self._lines: list[str] = []
        self._problems: tuple[Problem, ...] = ()

    def print(self, report: Report) -> None:
        lines = [_line(report, a) for a in report.actions if a.verb not in QUIET or a.needs_attention]
        for line in lines:
            if line not in self._lines:
                click.echo(line)
        for line in self._story.lines(report):
            click.echo(line)
        if report.status_commit:
            click.echo(f"{report.commit[:10]} status committed: {report.status_commit[:10]}")
        print_problems(problem for problem in report.all_problems if problem not in self._problems)
        self._lines, self._problems = lines, report.all_problems


def _line(report: Report, action: Action) -> str:
    result = f" {action.result}" if action.result else ""
    return f"{report.commit[:10]} {action.verb}{result} {action.kind}/{action.name}: {action.reason}"
