"""Write down what became of a job: the status document that stands in `jobs/<name>.yaml` on the status branch.

A document is a function of the one before and of what the cluster says now, never of the time of writing, so the same
pass twice writes the same bytes. What was once known of a run stays known after its pods and its Job have gone:
attempts are merged by pod, recoveries never fall, an end stays the end, and an earlier run moves to `runs` for good.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from reconciler.core.status.document_shape import DOCUMENT
from reconciler.core.status.run_history import Pause, durations, is_complete, merge_attempts
from reconciler.model import JOBSET, SCHEMA_VERSION, TERMINAL_STATES, Document, Problem, Severity, State, Task, TaskFile
from reconciler.runs import LiveRun, RecordedRun

KEYS = tuple(DOCUMENT)
_CANCELLED = "Cancelled"
_STICKY = ("evicted-for-own-limit", "recovers-often")


_NUMBER = re.compile(r"(?<!exit code )(?<!\d)\d+")


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Our own deletion of a run's Job in this pass: when it was accepted, and why."""

    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class Known:
    """What a pass knows of one job when all its actions are done.

    `file` is who owns the name, valid or not; None when no file does. `commit` last changed it. `live` are all its
    Jobs, as they were last read; `cancelled` maps the uids that this pass deleted. `waits_for` says why a valid file
    has no run yet. `preempted_pods` are gone, and Events tell that they were preempted.
    """

    file: TaskFile | None
    commit: str | None
    live: Sequence[LiveRun]
    context: str
    cancelled: Mapping[str, Cancellation]
    problems: Sequence[Problem] = ()
    waits_for: str | None = None
    preempted_pods: Collection[str] = ()


def job_document(name: str, known: Known, previous: Document | None) -> Document | None:
    """Return a job's document, or None when there is nothing to say of it: then it is to be removed.

    What speaks of another context is left as it is: that cluster wasn't looked at.
    """
    before = previous if previous is not None and previous["run"] else None
    newest = max(known.live, key=lambda run: run.number, default=None)
    if newest is not None and before is not None and newest.number < before["run"]["number"]:
        newest = None
    if newest is None and _elsewhere(known, previous):
        return previous
    if newest is not None:
        same = before if before is not None and before["run"]["uid"] == newest.uid else None
        section = _observed(newest, same, known)
    elif before is not None:
        section = _without_job(before, known)
    elif known.file is not None:
        section = _without_run(known, previous)
    else:
        return None
    file, run = known.file, section["run"]
    same_run = before is not None and before["run"]["uid"] == run["uid"]
    commit = known.commit or (previous or {}).get("commit")
    document = {
        **section,
        "schema_version": SCHEMA_VERSION,
        "job": name,
        "file": file.path if file is not None else None,
        "commit": commit,
        "runs": _earlier_runs(previous, run, known),
        "problems": _problems(known, newest, before if same_run else None),
    }
    return {key: document[key] for key in KEYS}


def recorded_runs(document: Document) -> tuple[RecordedRun, ...]:
    """Return all runs that a document knows, the newest first."""
    entries = [_entry(document), *document["runs"]] if document["run"] else document["runs"]
    return tuple(_recorded(entry) for entry in entries)


def is_unfinished(document: Document, context: str) -> bool:
    """Whether the newest run of a job is on record as not over, on this cluster."""
    return bool(document["run"]) and document["context"] == context and document["state"] not in TERMINAL_STATES


def resources_text(task: Task) -> str:
    """Return what a task asks for as SkyPilot's queue writes it: `1x[CPU:4]`, `2x[H100:8]`, `1x[A100:1|L4:1][Spot]`."""
    gpus = task.resources.accelerators
    asked = "|".join(f"{gpu}:{gpus.count}" for gpu in gpus.names) if gpus else f"CPU:{task.resources.cpus}"
    return f"{task.num_nodes}x[{asked}]{'[Spot]' if task.resources.use_spot else ''}"


def runs_as_jobset(document: Document) -> bool:
    """Whether the newest run of a job is a JobSet. Documents of before `run.kind` tell by `resources_text`."""
    kind = (document["run"] or {}).get("kind")
    number = (document["resources"] or "").partition("x")[0]
    return bool(kind == JOBSET if kind else number.isdecimal() and int(number) > 1)


def _elsewhere(known: Known, previous: Document | None) -> bool:
    """Whether this job is another cluster's business: its run is there, or its file asks for it before it ever ran."""
    if previous is not None and previous["run"]:
        return bool(previous["context"] != known.context)
    task = known.file.task if known.file is not None else None
    return task is not None and task.context not in (None, known.context)


def _observed(run: LiveRun, before: Document | None, known: Known) -> Document:
    """Return what there is to say of a run whose Job is there; `before` is what was said of the same uid."""
    seen, old = run.observation, before or {}
    section = _verdict(run, old, known)
    value, old_value = seen.priority_value, (old.get("priority") or {}).get("value")
    task = known.file.task if known.file is not None else None
    same_version = task is not None and task.task_hash == run.task_hash
    section |= {
        "run": _identity(run),
        "priority": {"class": seen.priority_class, "value": old_value if value is None else value},
        "resources": resources_text(task) if task is not None and same_version else old.get("resources"),
        "context": known.context,
        "namespace": run.namespace,
        "submitted_at": seen.submitted_at or old.get("submitted_at"),
        "attempts": merge_attempts(
            old.get("attempts") or [],
            seen.attempts,
            pause=_pause(run, old),
            preempted_pods=known.preempted_pods,
        ),
    }
    starts = [attempt["started_at"] for attempt in section["attempts"]] + [old.get("started_at")]
    section["started_at"] = min(filter(None, starts), default=None)
    section["attempts_complete"] = is_complete(section)
    return section | durations(section)


def _pause(run: LiveRun, old: Document) -> Pause | None:
    seen = run.observation
    if State.SUSPENDED not in (seen.state, old.get("state")) and not seen.suspended_at:
        return None
    return Pause(seen.suspended_at, is_over=seen.state is not State.SUSPENDED)


def _identity(run: LiveRun) -> Document:
    return {"number": run.number, "task_hash": run.task_hash, "uid": run.uid, "kind": run.manifest["kind"]}


def _verdict(run: LiveRun, old: Document, known: Known) -> Document:
    """Return state and numbers. Once ended, a run has them for good: a Job on its way out counts its last pod, too."""
    seen = run.observation
    keys = ("state", "reason", "message", "ended_at", "recoveries", "restarts_on_error", "evictions", "exact")
    if old and old["state"] in TERMINAL_STATES:
        return {key: old[key] for key in keys}
    state, reason, message, ended_at = seen.state, seen.reason, seen.message, seen.ended_at
    if run.uid in known.cancelled and not run.finished:
        cancellation = known.cancelled[run.uid]
        state, reason, message, ended_at = State.CANCELLED, _CANCELLED, cancellation.reason, cancellation.at
    doubt = f"the count is not exact: {seen.counts.inexact}" if seen.counts.inexact else None
    message = "; ".join(filter(None, (message, doubt))) or None
    if old and (state, reason) == (old["state"], old["reason"]) and _same_words(message, old["message"]):
        message = old["message"]
    return {
        "state": state.value,
        "reason": reason,
        "message": message,
        "ended_at": ended_at,
        "recoveries": max(seen.counts.recoveries, old.get("recoveries", 0)),
        "restarts_on_error": max(seen.counts.restarts_on_error, old.get("restarts_on_error", 0)),
        "evictions": max(seen.counts.evictions, old.get("evictions", 0)),
        "exact": seen.counts.inexact is None,
    }


def _same_words(new: str | None, old: str | None) -> bool:
    """Whether two messages differ in numbers only: "3 Insufficient cpu" becomes 4 and 3 again while nothing happens."""
    return new == old or (bool(new and old) and _NUMBER.sub("", new or "") == _NUMBER.sub("", old or ""))


def _without_job(before: Document, known: Known) -> Document:
    """Return what there is to say of a recorded run whose Job is gone: its end if that is known, else that it's not."""
    run = before["run"]
    job_name = f"{before['job']}-{run['number']}"
    if before["state"] in TERMINAL_STATES:
        return before
    if run["uid"] in known.cancelled:
        cancellation = known.cancelled[run["uid"]]
        ended = {"reason": _CANCELLED, "message": cancellation.reason, "ended_at": cancellation.at}
        section = before | ended | {"state": State.CANCELLED.value}
    elif known.file is not None and known.file.task is not None and known.file.task.task_hash != run["task_hash"]:
        message = f"its file asks for another version, and Job {job_name} is gone; how far it came was not seen"
        section = before | {"state": State.CANCELLED.value, "reason": _CANCELLED, "message": message, "exact": False}
    elif known.file is None:
        message = f"its file is gone, and Job {job_name} too; how far it came was not seen, the last count stands"
        section = before | {"state": State.CANCELLED.value, "reason": _CANCELLED, "message": message, "exact": False}
    else:
        message = f"Job {job_name} is gone from the cluster and its end was not seen: somebody deleted it"
        section = before | {"state": State.LOST.value, "reason": "JobDeleted", "message": message, "exact": False}
    return section | durations(section)


def _without_run(known: Known, previous: Document | None) -> Document:
    """Return what there is to say of a file that never ran: that it is invalid, or what keeps it.

    Where it doesn't say which cluster, the first one that looked stays: two would else write in turn.
    """
    task = known.file.task if known.file is not None else None
    errors = [problem for problem in _all_problems(known) if problem.severity is Severity.ERROR]
    return dict.fromkeys(KEYS) | {
        "state": (State.INVALID if errors else State.PENDING).value,
        "reason": errors[0].code if errors else None,
        "message": _with_place(errors[0]) if errors else known.waits_for,
        "priority": {"class": task.priority_class if task is not None else None, "value": None},
        "resources": resources_text(task) if task is not None else None,
        "context": (task.context if task is not None else None) or (previous or {}).get("context") or known.context,
        "recoveries": 0,
        "restarts_on_error": 0,
        "evictions": 0,
        "exact": True,
        "attempts": [],
        "attempts_complete": True,
    }


def _with_place(problem: Problem) -> str:
    place = ":".join(str(part) for part in (problem.path, problem.line, problem.column) if part)
    return f"{place}: {problem.message}" if place else problem.message


def _earlier_runs(previous: Document | None, current: Document | None, known: Known) -> list[Document]:
    """Return the entries of all runs but the current one, the newest first; one that is known is never dropped."""
    if current is None:
        return []
    entries: dict[str, Document] = {}
    if previous is not None:
        recorded = [_entry(previous), *previous["runs"]] if previous["run"] else previous["runs"]
        entries = {entry["uid"]: entry for entry in recorded}
    for run in known.live:
        if entries.get(run.uid, {}).get("state") not in TERMINAL_STATES:
            entries[run.uid] = _live_entry(run, entries.get(run.uid), known)
    entries.pop(current["uid"], None)
    there = {run.uid for run in known.live}
    settled = [entry if entry["uid"] in there else _settled(entry, current, known) for entry in entries.values()]
    return sorted(settled, key=lambda entry: int(entry["number"]), reverse=True)


def _entry(document: Document) -> Document:
    keys = ("state", "recoveries", "ended_at")
    return {**document["run"], **{key: document[key] for key in keys}}


def _live_entry(run: LiveRun, old: Document | None, known: Known) -> Document:
    seen, cancellation = run.observation, known.cancelled.get(run.uid)
    cancelled = cancellation is not None and not run.finished
    return {
        **_identity(run),
        "state": State.CANCELLED.value if cancelled else seen.state.value,
        "recoveries": max(seen.counts.recoveries, (old or {}).get("recoveries", 0)),
        "ended_at": cancellation.at if cancellation is not None and cancelled else seen.ended_at,
    }


def _settled(entry: Document, current: Document, known: Known) -> Document:
    """Return an earlier run without a Job, with an end: another version took its place, else it was lost."""
    if entry["state"] in TERMINAL_STATES:
        return entry
    if (cancellation := known.cancelled.get(entry["uid"])) is not None:
        return entry | {"state": State.CANCELLED.value, "ended_at": cancellation.at}
    left = entry["task_hash"] != current["task_hash"] and entry["state"] != State.LOST
    return entry | {"state": (State.CANCELLED if left else State.LOST).value}


def _recorded(entry: Document) -> RecordedRun:
    return RecordedRun(
        **{field.name: entry[field.name] for field in fields(RecordedRun)} | {"state": State(entry["state"])}
    )


def _all_problems(known: Known) -> list[Problem]:
    file = known.file
    of_file = (*file.problems, *(file.task.warnings if file.task is not None else ())) if file is not None else ()
    return list(dict.fromkeys((*of_file, *known.problems)))


def _problems(known: Known, newest: LiveRun | None, before: Document | None) -> list[Document]:
    """Return the problems of the file, then those of the run: what a run once showed stays with it."""
    of_run = [problem_entry(problem) for problem in newest.observation.problems] if newest is not None else []
    codes = {entry["code"] for entry in of_run}
    remembered = [entry for entry in (before or {}).get("problems", []) if entry["code"] in _STICKY]
    return [
        *(problem_entry(problem) for problem in _all_problems(known)),
        *sorted(
            (*of_run, *(entry for entry in remembered if entry["code"] not in codes)),
            key=lambda entry: str(entry["code"]),
        ),
    ]


def problem_entry(problem: Problem) -> Document:
    """Return a problem as documents and JSON show it."""
    return {
        "severity": problem.severity.value,
        "code": problem.code,
        "path": problem.path,
        "line": problem.line,
        "column": problem.column,
        "field": problem.field,
        "message": problem.message,
    }


def problem_of(entry: Document) -> Problem:
    """Return the problem that a document tells of."""
    known = {field.name: entry[field.name] for field in fields(Problem)}
    return Problem(**known | {"severity": Severity(entry["severity"])})
