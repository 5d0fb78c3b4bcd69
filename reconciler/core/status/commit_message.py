"""Tell in a commit message of the status branch what changed: `git log --oneline` is the story of the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reconciler.core.status.queue import run_id
from reconciler.model import FAILED_STATES, RUN_KINDS, Action, Document, Result, State, Verb

_LONGEST_SUBJECT = 72
_MOST_LINES = 100
_LONGEST_REASON = 200
_DONE = {Verb.CREATE: "created", Verb.UPDATE: "updated", Verb.REPLACE: "replaced", Verb.PRUNE: "pruned"}
_FIRST = (*sorted(FAILED_STATES), State.LOST, State.INVALID, State.RECOVERING)


def commit_message(
    before: Mapping[str, Document],
    after: Mapping[str, Document | None],
    *,
    actions: Sequence[Action],
    source_commit: str,
) -> str:
    """Return the message for a commit that brings documents from `before` to `after`; both need hold changed ones only.

    What went wrong comes first; of many transitions the subject names some and counts the others. `actions` add what no
    job's document shows: PriorityClasses and pruned Jobs.
    """
    told = transitions(before, after, actions)
    told += [(f"{_subject(action)} {_DONE[action.verb]}", action.reason) for action in actions if _is_news(action)]
    lines = [f"- {one_line(what, why)}" for what, why in told[:_MOST_LINES]]
    if len(told) > _MOST_LINES:
        lines.append(f"- and {len(told) - _MOST_LINES} more")
    body = ["\n".join(lines)] if lines else []
    return "\n\n".join([_headline([what for what, _ in told]), *body, f"Source-Commit: {source_commit}"]) + "\n"


def transitions(
    before: Mapping[str, Document], after: Mapping[str, Document | None], actions: Sequence[Action] = ()
) -> list[tuple[str, str | None]]:
    """Return what happened to each job, in a few words and the worst first, and why; `actions` say why of a replace."""
    replaced = {a.job: a.reason for a in actions if a.verb is Verb.REPLACE and a.result is Result.DONE}
    lines = []
    for name, document in sorted(after.items(), key=lambda item: (_urgency(item[1]), item[0])):
        if line := _transition(name, before.get(name), document):
            lines.append(line)
        if left := _left_behind(before.get(name), document, replaced.get(name)):
            lines.append(left)
    return lines


def lines_about(job: str, body: str) -> list[str]:
    """Return what a message's body tells of one job and its runs, without the dashes."""
    about = re.compile(rf"- ({re.escape(job)}(?:-\d+)? .*)")
    return [found[1] for line in body.splitlines() if (found := about.fullmatch(line))]


def _left_behind(before: Document | None, after: Document | None, why: str | None) -> tuple[str, str | None] | None:
    """Return how the run ended in whose place another one came, unless that was known before."""
    if before is None or after is None or not before["run"]:
        return None
    entry = next((run for run in after.get("runs", ()) if run["uid"] == before["run"]["uid"]), None)
    if entry is None or entry["state"] == before["state"]:
        return None
    return f"{run_id(before)} {before['state']} -> {entry['state']}", why


def _transition(name: str, before: Document | None, after: Document | None) -> tuple[str, str | None] | None:
    """Return what happened to a job, in a few words, and why; None when only details changed."""
    if after is None:
        return f"{name} removed", None
    who, state, why = run_id(after) if after["run"] else name, after["state"], after["message"] or after["reason"]
    if after["run"] and (before is None or not before["run"] or before["run"]["uid"] != after["run"]["uid"]):
        return f"{who} created" if state == State.PENDING else f"{who} created, {state}", why
    if before is None:
        return f"{who} {state}", why
    if state != before["state"]:
        return f"{who} {before['state']} -> {state}", why
    if after["recoveries"] != before["recoveries"]:
        return f"{who} recoveries {before['recoveries']} -> {after['recoveries']}", None
    if after["reason"] and after["reason"] != before["reason"]:
        return f"{who} {state}, {after['reason']}", after["message"]
    return None


def one_line(what: str, why: str | None) -> str:
    """Put a cluster's or a file's words on the line of what they explain, where they can't pass for a trailer."""
    return f"{what}: {' '.join(why.split())[:_LONGEST_REASON]}" if why else what


def _headline(told: Sequence[str]) -> str:
    if not told:
        return "Update details"
    for number in range(len(told), 0, -1):
        rest = f" and {len(told) - number} more" if number < len(told) else ""
        line = ", ".join(told[:number]) + rest
        if len(line) <= _LONGEST_SUBJECT:
            return line
    return line


def _urgency(document: Document | None) -> int:
    state = document["state"] if document is not None else None
    return _FIRST.index(state) if state in _FIRST else len(_FIRST)


def _is_news(action: Action) -> bool:
    return (
        action.result is Result.DONE
        and action.verb in _DONE
        and (action.kind not in RUN_KINDS or action.verb is Verb.PRUNE)
    )


def _subject(action: Action) -> str:
    return action.name if action.kind in RUN_KINDS else f"{action.kind} {action.name}"
