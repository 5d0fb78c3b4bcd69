"""Stay with a commit until its jobs have started, or finished: `--wait`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from reconciler.engine.loop import Loop, Rhythm
from reconciler.engine.report import Report
from reconciler.errors import ExitCode
from reconciler.model import TERMINAL_STATES, Document, Problem, Severity, State, Verb

STARTED = "started"
SECONDS_BETWEEN_PASSES = 1.0
SETTLED_STATES = TERMINAL_STATES | {State.SUSPENDED}  # that one waits for a person


def wait_for(
    goal: str,
    one_pass: Callable[[str | None], Report],
    *,
    timeout: float | None,
    progress: Callable[[Report], None],
    complain: Callable[[str], None],
) -> Report:
    """Pass at the same commit until every job that has a file and a run got to `goal`; return the joined report.

    `one_pass` gets the commit to stay at, None the first time. The actions are the first pass's: the later ones only
    look. `started` means once: a job that is recovering has started. Jobs that wait for a person are not waited for. A
    guard or an undelivered status ends the wait. When `timeout` seconds are over the report says for whom it waited.
    Errors of the first pass are raised, those of later ones (the cluster is away for a while) only complained of.
    """
    first = one_pass(None)
    reports = [first]
    progress(first)

    def look_again() -> bool:
        reports.append(one_pass(first.commit))
        progress(reports[-1])
        if _settled(reports[-1], goal):
            loop.end()
        return False

    loop = Loop(look_again, Rhythm(SECONDS_BETWEEN_PASSES, SECONDS_BETWEEN_PASSES), complain)
    if not _settled(first, goal):
        timer = threading.Timer(timeout, loop.end) if timeout is not None else None
        if timer:
            timer.daemon = True
            timer.start()
        loop.stop.wait(SECONDS_BETWEEN_PASSES)
        loop.run()
        if timer:
            timer.cancel()
    return _join(reports, goal)


def _settled(report: Report, goal: str) -> bool:
    return report.exit_code in (ExitCode.GUARD, ExitCode.STATUS_NOT_PUSHED) or not _waited_for(report, goal)


def _join(reports: list[Report], goal: str) -> Report:
    first, last = reports[0], reports[-1]
    commits = [report.status_commit for report in reports if report.status_commit]
    joined = replace(last, actions=first.actions, status_commit=commits[-1] if commits else None)
    waiting = _waited_for(last, goal)
    if not waiting or last.refusal or last.superseded or last.undelivered:
        return joined
    message = f"not {goal} in time: {', '.join(waiting)}; they go on, and the next pass looks again"
    return replace(joined, timed_out=Problem(Severity.ERROR, "timed-out", "", message))


def _waited_for(report: Report, goal: str) -> list[str]:
    """Say of each job that has not got to the goal where it is."""
    held = {action.job for action in report.actions if action.verb is Verb.HOLD and action.needs_attention}
    return [
        f"{name} {document['state']}" + (f" ({why})" if (why := _why(document)) else "")
        for name, document in sorted(report.documents.items())
        if name not in held and not _reached(document, goal)
    ]


def _why(document: Document) -> str:
    return ": ".join(filter(None, (document["reason"], document["message"])))


def _reached(document: Document, goal: str) -> bool:
    if document["file"] is None or document["run"] is None or document["state"] in SETTLED_STATES:
        return True
    return goal == STARTED and document["started_at"] is not None
