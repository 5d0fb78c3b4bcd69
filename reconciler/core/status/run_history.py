"""What a document knows of a run's past: its attempts, whether those are all, and how long it took."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from reconciler.core.status.times import seconds_between
from reconciler.model import TERMINAL_STATES, Attempt, Document, State

_MOST_ATTEMPTS = 50
_HAS_ATTEMPT = TERMINAL_STATES - {State.CANCELLED} | {State.STARTING, State.RUNNING}

PREEMPTED = "PreemptionByScheduler"  # as the condition on the pod says
AttemptEntry = dict[str, str | int | None]


def merge_attempts(
    recorded: Sequence[AttemptEntry],
    seen: Sequence[Attempt],
    *,
    suspended: bool = False,
    preempted_pods: Collection[str] = (),
) -> list[AttemptEntry]:
    """Return recorded attempts with those seen now, in the order in which they came; one pod is one attempt.

    What is seen now is newer, but what was known stays known: a status can lose what it had. The end of an attempt
    whose pod went unseen is when its successor was made: the Job controller waits for one before the other. The newest
    50 are kept. Of an attempt that was `suspended`, and not seen to end, the end stays unknown. `preempted_pods` tells
    of pods that are gone.
    """
    entries = {entry["pod"]: entry for entry in recorded}
    for attempt in _not_dropped(entries.keys(), seen):
        old = entries.get(attempt.pod, {})
        entries[attempt.pod] = {
            "started_at": attempt.started_at or old.get("started_at"),
            "ended_at": attempt.ended_at or old.get("ended_at"),
            "node": attempt.node or old.get("node"),
            "reason": attempt.reason or (old.get("reason") if old.get("ended_at") else None),
            "exit_code": attempt.exit_code if attempt.exit_code is not None else old.get("exit_code"),
            "pod": attempt.pod,
        }
    made = {attempt.pod: attempt.created_at for attempt in seen}
    for pod, successor in pairwise(entries):
        if pod not in made and entries[pod]["ended_at"] is None and not suspended:
            entries[pod] |= {"ended_at": made.get(str(successor))}
    for pod, entry in entries.items():
        if pod in preempted_pods and entry["reason"] is None:
            entries[pod] |= {"reason": PREEMPTED}
    return list(entries.values())[-_MOST_ATTEMPTS:]


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
    lost = [seconds_between(one["ended_at"], two["started_at"]) for one, two in pairwise(attempts)]
    return known | {"run_seconds": _sum(ran), "recovering_seconds": _sum(lost)}


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
