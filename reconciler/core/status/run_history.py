"""What a document knows of a run's past: its attempts, whether those are all, and how long it took."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

from reconciler.core.attempt import DELETED
from reconciler.core.status.times import seconds_between
from reconciler.model import TERMINAL_STATES, Document, State
from reconciler.runs import Attempt

_MOST_ATTEMPTS = 50
_HAS_ATTEMPT = TERMINAL_STATES - {State.CANCELLED} | {State.STARTING, State.RUNNING}

PREEMPTED = "PreemptionByScheduler"  # as the condition on the pod says
SUSPENDED = "Suspended"
AttemptEntry = dict[str, str | int | None]


@dataclass(frozen=True, slots=True)
class Pause:
    """A suspension: since when, if that was seen, and whether the run goes on again."""

    since: str | None
    is_over: bool


def merge_attempts(
    recorded: Sequence[AttemptEntry],
    seen: Sequence[Attempt],
    *,
    pause: Pause | None = None,
    preempted_pods: Collection[str] = (),
) -> list[AttemptEntry]:
    """Return recorded attempts with those seen now, in the order in which they came; one pod is one attempt.

    What is seen now is newer, but what was known stays known: a status can lose what it had, and a start does not move.
    The end of an attempt whose pod went unseen is when its successor was made: the Job controller waits for one before
    the other. What a `pause` ended was over when that began; where nobody saw when, its end stays unknown. The newest
    50 are kept. `preempted_pods` tells of pods that are gone.
    """
    entries = {str(entry["pod"]): entry for entry in recorded}
    seen = [_told_apart(attempt, entries) for attempt in seen]
    for attempt in _not_dropped(entries.keys(), seen):
        old = entries.get(attempt.pod, {})
        was_paused = old.get("reason") == SUSPENDED and attempt.reason == DELETED
        entries[attempt.pod] = {
            "started_at": old.get("started_at") or attempt.started_at,
            "ended_at": attempt.ended_at or old.get("ended_at"),
            "node": attempt.node or old.get("node"),
            "reason": old["reason"] if was_paused else attempt.reason or (old.get("ended_at") and old.get("reason")),
            "exit_code": attempt.exit_code if attempt.exit_code is not None else old.get("exit_code"),
            "pod": attempt.pod,
        }
    made = {attempt.pod: attempt.created_at for attempt in seen}
    for pod, entry in entries.items():
        if pod in preempted_pods and entry["reason"] is None:
            entries[pod] = entry | {"reason": PREEMPTED}
    if pause is not None:
        before = [str(entry["pod"]) for entry in recorded]
        entries |= _paused(entries, before if pause.is_over else [*entries], made, pause)
    for pod, successor in pairwise(entries):
        if pod not in made and entries[pod]["ended_at"] is None and entries[pod]["reason"] != SUSPENDED:
            entries[pod] |= {"ended_at": made.get(successor)}
    return list(entries.values())[-_MOST_ATTEMPTS:]


def _told_apart(attempt: Attempt, recorded: Mapping[str, AttemptEntry]) -> Attempt:
    """Name an attempt anew if a pause has ended the one of its name: a JobSet goes on without a restart."""
    for number in count(1):
        entry = recorded.get(attempt.pod, {})
        if entry.get("reason") != SUSPENDED or (attempt.created_at or "") <= str(entry.get("ended_at") or "~"):
            break
        attempt = replace(attempt, pod=f"{attempt.pod.partition(', resumed')[0]}, resumed {number}")
    return attempt


def _paused(
    entries: Mapping[str, AttemptEntry], order: Sequence[str], made: Collection[str], pause: Pause
) -> dict[str, AttemptEntry]:
    """Return the entry of the attempt that a pause ended: the last one, if that is over by nothing else."""
    entry = entries.get(order[-1]) if order else None
    if entry is None or (entry["pod"] in made and entry["reason"] not in (DELETED, SUSPENDED)):
        return {}
    ended_before = entry["ended_at"] and (pause.since is None or str(entry["ended_at"]) < pause.since)
    if entry["reason"] not in (None, DELETED, SUSPENDED) or ended_before:
        return {}
    return {order[-1]: entry | {"ended_at": entry["ended_at"] or pause.since, "reason": SUSPENDED}}


def _not_dropped(known: Collection[object], seen: Sequence[Attempt]) -> Sequence[Attempt]:
    """Leave out what is older than all that a full record keeps: it would come back as the newest."""
    if len(known) < _MOST_ATTEMPTS:
        return seen
    first = next((index for index, attempt in enumerate(seen) if attempt.pod in known), 0)
    return seen[first:]


def is_complete(run: Document) -> bool:
    """Whether no attempt is missing: one for each recovery and restart, and the one that runs or ended the run.

    An attempt can be seen before the Job counts it, and suspending ends one that is never counted: more is complete.
    """
    lost = run["recoveries"] + run["restarts_on_error"]
    return bool(len(run["attempts"]) >= lost + (run["state"] in _HAS_ATTEMPT))


def durations(run: Document) -> Document:
    """Return how long a run waited, ran and recovered, up to its last transition; None while that can't be known."""
    known = {"queued_seconds": seconds_between(run["submitted_at"], run["started_at"])}
    attempts = [attempt for attempt in run["attempts"] if attempt["started_at"]]
    if not (attempts and run["attempts_complete"]):
        return known | {"run_seconds": None, "recovering_seconds": None}
    *earlier, last = attempts
    last_end = last["ended_at"] or (run["ended_at"] if run["state"] in TERMINAL_STATES else last["started_at"])
    ran = [seconds_between(attempt["started_at"], attempt["ended_at"]) for attempt in earlier]
    ran.append(seconds_between(last["started_at"], last_end))
    lost = [
        seconds_between(one["ended_at"], two["started_at"]) if one["reason"] != SUSPENDED else 0
        for one, two in pairwise(attempts)
    ]
    return known | {"run_seconds": _sum(ran), "recovering_seconds": _sum(lost)}


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
