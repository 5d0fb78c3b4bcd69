"""One pass, top to bottom: the page that is the product."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from reconciler.cluster.interface import Cluster
from reconciler.core.attempt import waits_for_node
from reconciler.engine.apply import WRITES, apply, skip
from reconciler.engine.dry_run import dry_run, refused
from reconciler.engine.options import Options
from reconciler.engine.plan import make_plan
from reconciler.engine.read import (
    BRANCH_GONE,
    Listing,
    Live,
    Source,
    newer_tip,
    parse_source,
    read_git,
    read_live,
    with_last_states,
)
from reconciler.engine.report import Report
from reconciler.engine.status import Facts, publish_status
from reconciler.errors import ClusterError
from reconciler.model import RUN_KINDS, Action, Problem, Result, Severity
from reconciler.source.repository import Repository
from reconciler.source.revision import SETTINGS, read_revision


def reconcile(repository: Repository, cluster: Cluster, options: Options) -> Report:
    """Make the cluster match one commit, and commit what became of its jobs to the status branch.

    A pass is a function of the commit, the cluster and the status branch: it may be repeated, interrupted anywhere and
    run twice at once. What fails for one object is in the report; raises ReconcilerError only when git or the cluster
    can't be read, and then nothing was changed.
    """
    revision = read_revision(repository, options.ref)  # before the cluster is asked for anything: it is opening
    git = read_git(repository, revision, options, cluster.context)
    with Listing(cluster, git.owner) as listing:  # the server answers while we parse
        source = parse_source(repository, git, options)
        stopped = _stopped(source, cluster, options)
        if stopped:
            return stopped
        before = read_live(cluster, source, listing)
    plan = make_plan(source, before, cluster, options)
    if plan.refusal:
        return replace(_report(source, cluster, skip(plan.actions), plan.problems), refusal=plan.refusal)
    writes = any(action.verb in WRITES for action in plan.actions)
    if writes and (
        overtaken := _stopped(replace(source, superseded_by=newer_tip(repository, source)), cluster, options)
    ):
        return overtaken
    outcomes = apply(cluster, plan.actions)
    after, blind = _look_again(cluster, source, before) if writes else (before, [])
    live = with_last_states(after, before, source, (a.live for a in outcomes if a.deleted and a.live))
    status = publish_status(repository, Facts(source, plan, live, outcomes, cluster.context, datetime.now(UTC)))
    return replace(
        _report(source, cluster, outcomes, (*plan.problems, *_failures(outcomes), *blind)),
        recorded=source.documents,
        documents=status.documents,
        status_commit=status.commit,
        undelivered=status.undelivered,
    )


def plan(repository: Repository, cluster: Cluster, options: Options) -> Report:
    """Decide what a pass would do now, have the server judge what would be created, and write nothing."""
    revision = read_revision(repository, options.ref)
    source = parse_source(repository, read_git(repository, revision, options, cluster.context), options)
    stopped = _stopped(source, cluster, options)
    if stopped:
        return stopped
    live = read_live(cluster, source)
    made = make_plan(source, live, cluster, options)
    actions, refused = dry_run(cluster, made, source)
    report = _report(source, cluster, actions, (*made.problems, *refused))
    return replace(report, refusal=made.refusal, waiting=tuple(pod for pod in live.pods if waits_for_node(pod)))


def _failures(outcomes: tuple[Action, ...]) -> list[Problem]:
    """Return what the server would not create, as problems of the files that ask for it."""
    failed = [
        action for action in outcomes if action.result is Result.FAILED and action.kind in RUN_KINDS and action.manifest
    ]
    return [refused(action, action.reason) for action in failed]


def _look_again(cluster: Cluster, source: Source, before: Live) -> tuple[Live, list[Problem]]:
    """Read what the pass has made; when the cluster is away by now, what was seen before is what is known."""
    try:
        return read_live(cluster, source), []
    except ClusterError as error:
        message = f"the status is that of before the actions, because the cluster did not answer after them: {error}"
        return before, [Problem(Severity.WARNING, "not-seen-after", "", message)]


def _stopped(source: Source, cluster: Cluster, options: Options) -> Report | None:
    """Return the report of a pass that must not begin: an old commit, or settings that can't be read right."""
    if source.superseded_by and not options.allow_superseded:
        message = (
            f"commit {source.revision.commit[:10]} is not the tip of its branch, which is "
            f"{'gone' if source.superseded_by == BRANCH_GONE else f'at {source.superseded_by[:10]}'}: "
            "nothing was applied; pull, or pass --allow-superseded"
        )
        problem = Problem(Severity.WARNING, "superseded", "", message)
        report = _report(source, cluster, (), (problem,))
        return replace(report, superseded=True, superseded_is_fine=options.in_ci)
    unread = tuple(p for p in source.revision.problems if p.path in SETTINGS and p.severity is Severity.ERROR)
    if unread or not source.declared.site_is_sound:
        return _report(source, cluster, (), (*unread, *source.declared.problems))
    return None


def _report(source: Source, cluster: Cluster, actions: tuple[Action, ...], problems: tuple[Problem, ...]) -> Report:
    notes = []
    if source.revision.dirty:
        first, *others = source.revision.dirty
        more_paths = f" and {len(others)} more" if others else ""
        notes.append(f"uncommitted changes were not looked at: {first}{more_paths}")
    if source.unpushed:
        notes.append(f"commit {source.revision.commit[:10]} is not pushed: a pass at what is pushed will undo it")
    if not source.revision.has_jobs_folder:
        notes.append(f"commit {source.revision.commit[:10]} has no file under jobs/")
    unique = tuple(dict.fromkeys(problems))
    return Report(source.revision.commit, cluster.context, actions, unique, notes=tuple(notes))
