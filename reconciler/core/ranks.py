"""Read the pods of a run as its attempts: of a Job each pod is one, of a JobSet one is the pods of all its ranks.

An attempt on several nodes runs when all of its ranks do, and is over when one of them is lost. That one speaks for it:
what ended the others, which are stopped for its sake, explains nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from reconciler.core import encoding
from reconciler.core.attempt import DELETED, PodReading, Stage, read_pod, text, true_condition
from reconciler.core.indexes import COMPLETION_INDEX
from reconciler.core.jobset import RESTART_ANNOTATION, restarts, was_ready
from reconciler.core.manifest import mapping
from reconciler.model import Manifest

Seen = Sequence[tuple[Manifest, PodReading]]

_STOPPED_FOR_OTHERS = frozenset({DELETED, "PeerLost", "Terminated"})
_OVER = (Stage.TERMINATING, Stage.ENDED)
_LATEST = "~"  # sorts after every time


def read_attempts(run: Manifest, pods: Sequence[Manifest]) -> Seen:
    """Return the attempts of a run whose pods are these, the oldest first, each with the pod that speaks for it."""
    read = [(pod, read_pod(pod)) for pod in sorted(pods, key=_age)]
    if not encoding.is_jobset(run):
        return read
    ranks: dict[int, dict[int, tuple[Manifest, PodReading]]] = defaultdict(dict)
    for pod, reading in read:
        ranks[restart_of(pod)][index_of(pod)] = pod, reading  # a rank has a second pod after a suspension
    return [_together(run, restart, dict(sorted(ranks[restart].items()))) for restart in sorted(ranks)]


def index_of(pod: Manifest) -> int:
    """Return a pod's completion index: of a Job the attempt, of a JobSet the rank."""
    return _number(pod, COMPLETION_INDEX)


def restart_of(pod: Manifest) -> int:
    """Return how often the JobSet had been restarted when it made this pod."""
    return _number(pod, RESTART_ANNOTATION)


def doubt_about_failure(run: Manifest, pods: Sequence[Manifest]) -> str | None:
    """Say why the error that a JobSet failed with may be no error: another rank was being stopped at the time.

    The supervisor waits for that before it tells an error, but not for ever.
    """
    last = max(map(restart_of, pods), default=0)
    for pod in pods if encoding.is_jobset(run) else ():
        cause = true_condition(mapping(pod.get("status")), "DisruptionTarget")
        if cause is not None and restart_of(pod) == last:
            return (
                f"rank {index_of(pod)} was being stopped ({cause.get('reason')}) when another one failed, "
                "which may be why it did"
            )
    return None


def _together(
    run: Manifest, restart: int, ranks: dict[int, tuple[Manifest, PodReading]]
) -> tuple[Manifest, PodReading]:
    """Return one attempt as a whole, told by the rank that decides where it is."""
    rank = _decisive(ranks)
    pod, reading = ranks[rank]
    readings = [reading for _, reading in ranks.values()]
    stage, reason, message = (
        reading.stage,
        reading.reason,
        f"rank {rank}: {reading.message}" if reading.message else None,
    )
    missing = next((rank for rank in range(encoding.nodes(run)) if rank not in ranks), None)
    if stage not in _OVER and missing is not None:
        stage = Stage.UNBOUND
        if was_ready(run) and restart == restarts(run):  # else it is not made yet
            stage, reason, message = Stage.TERMINATING, DELETED, f"rank {missing}: its pod is gone"
    started = [one.attempt.started_at for one in readings]
    attempt = replace(
        reading.attempt,
        pod=f"{mapping(run.get('metadata')).get('name')} restart {restart}",
        started_at=max(filter(None, started)) if all(started) and stage is not Stage.UNBOUND else None,
        node=text(", ".join(dict.fromkeys(one.attempt.node for one in readings if one.attempt.node))),
        created_at=min(one.attempt.created_at or _LATEST for one in readings),
    )
    return pod, replace(reading, attempt=attempt, stage=stage, reason=reason, message=text(message))


def _decisive(ranks: dict[int, tuple[Manifest, PodReading]]) -> int:
    """Return the rank that tells most: what was lost first, else who is behind the others, else who ended last."""
    readings = {rank: reading for rank, (_, reading) in ranks.items()}
    if lost := {rank: one for rank, one in readings.items() if one.stage in _OVER and not one.succeeded}:
        return min(lost, key=lambda rank: (_weight(lost[rank]), lost[rank].attempt.ended_at or _LATEST, rank))
    if going_on := {rank: one for rank, one in readings.items() if not one.succeeded}:
        return min(going_on, key=lambda rank: (going_on[rank].stage.value, rank))
    return max(readings, key=lambda rank: (readings[rank].attempt.ended_at or "", -rank))


def _weight(lost: PodReading) -> int:
    """Sort an error before an interruption, as the JobSet's rules do, and both before what follows from them."""
    if not lost.disrupted and lost.stage is Stage.ENDED:
        return 0
    return 2 if lost.reason in _STOPPED_FOR_OTHERS else 1


def _age(pod: Manifest) -> tuple[str, int, str]:
    """Sort pods by when they were made; within one second, by index: a burnt index is followed by the next one."""
    metadata = mapping(pod.get("metadata"))
    return str(metadata.get("creationTimestamp", "")), index_of(pod), str(metadata.get("name"))


def _number(pod: Manifest, annotation: str) -> int:
    number = str(mapping(mapping(pod.get("metadata")).get("annotations")).get(annotation, ""))
    return int(number) if number.isdecimal() else 0
