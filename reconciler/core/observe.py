"""Tell the state of each run from its Job or JobSet, with its pods and Events as explanation.

The outcome and the three numbers come from that object alone, by `core.encoding`: right however late one looks.
Pods only tell what is going on now; Events only why there is no pod. Observing the same objects again gives the same
answer: nothing here depends on the time of looking.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from reconciler.core import encoding
from reconciler.core.attempt import PodReading, Stage, text, true_condition
from reconciler.core.deletion import foreign_finalizers
from reconciler.core.exit_codes import SETUP_FAILED
from reconciler.core.failure_policy import is_failed_index, policy_action
from reconciler.core.identity import Identity, identify
from reconciler.core.jobset import CHILD, UID_LABEL, fails_on_next_error, restarts, was_ready
from reconciler.core.manifest import mapping, objects
from reconciler.core.ranks import Seen, doubt_about_failure, index_of, read_attempts, restart_of
from reconciler.core.status.times import seconds_between
from reconciler.model import FILE, Manifest, Problem, Severity, State
from reconciler.runs import Counts, LiveRun, Observation, Outcome

_FAILED_WITH = re.compile(r"exit code (\d+)\b")
_FORBIDDEN = re.compile(r'^(?:Error creating: )?(?:pods? "[^"]*" is forbidden: )?')
_REFUSALS = frozenset({"FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed"})
_OFTEN, _SHORTLY = 5, 600

Said = tuple[State, str | None, str | None]


def live_runs(
    jobs: Sequence[Manifest],
    pods: Sequence[Manifest],
    events: Sequence[Manifest] = (),
    *,
    recorded: Mapping[str, Identity] = MappingProxyType({}),
) -> tuple[LiveRun, ...]:
    """Return the runs that these Jobs and JobSets are, each with its own pods and Events.

    `recorded` says who the runs on record are, by uid. An object that can't be told to be a run is left out.
    """
    pods_of, events_of = _by_owner(pods), _by_subject(events)
    runs = []
    for job in jobs:
        identity = identify(job, recorded)
        if identity is None:
            continue
        metadata = mapping(job.get("metadata"))
        uid = str(metadata.get("uid", ""))
        runs.append(
            LiveRun(
                job=identity.job,
                number=identity.number,
                task_hash=identity.task_hash,
                uid=uid,
                namespace=str(metadata.get("namespace", "")),
                manifest=job,
                observation=observe(
                    job, pods_of.get(uid, ()), [*events_of.get(uid, ()), *events_of.get(_child(job), ())]
                ),
                deleting=bool(metadata.get("deletionTimestamp")),
            )
        )
    return tuple(runs)


def observe(job: Manifest, pods: Sequence[Manifest], events: Sequence[Manifest] = ()) -> Observation:
    """Tell what a Job or a JobSet, its own pods and its own Events say.

    Without pods (collected, or not yet made) the state is still right; attempts, nodes and causes are missing then.
    """
    seen = read_attempts(job, pods)
    counts, outcome = encoding.counts(job), _outcome(job)
    if outcome is not None:
        state, reason, message = _ended(outcome, seen)
        if state is not State.SUCCEEDED:
            counts = replace(counts, inexact=counts.inexact or doubt_about_failure(job, pods))
    elif mapping(job.get("metadata")).get("deletionTimestamp"):
        message = next((r.message for _, r in seen if r.stage is Stage.TERMINATING), None)
        if message is None and (others := foreign_finalizers(job)):
            message = f"waits for its finalizers {', '.join(others)}"
        state, reason = State.CANCELLING, None
    elif mapping(job.get("spec")).get("suspend") is True:
        state, reason, message = State.SUSPENDED, None, None
    else:
        state, reason, message = _going_on(job, counts, seen, events)
    attempts = tuple(reading.attempt for _, reading in seen)
    priority_class, priority_value = _priority(job, seen)
    return Observation(
        state=state,
        reason=reason,
        message=message,
        counts=counts,
        submitted_at=text(mapping(job.get("metadata")).get("creationTimestamp")),
        started_at=min((attempt.started_at for attempt in attempts if attempt.started_at), default=None),
        ended_at=outcome.at if outcome is not None else None,
        attempts=attempts,
        priority_class=priority_class,
        priority_value=priority_value,
        problems=tuple(_problems(job, counts, seen)),
        suspended_at=text((true_condition(mapping(job.get("status")), "Suspended") or {}).get("lastTransitionTime")),
    )


def _outcome(job: Manifest) -> Outcome | None:
    """Return how a run ended; a failure after its own deletion is the deletion's work, and no outcome of the run."""
    outcome, deleted = encoding.outcome(job), mapping(job.get("metadata")).get("deletionTimestamp")
    if outcome is not None and outcome.state is State.FAILED and deleted and (outcome.at or "") > deleted:
        return None
    return outcome


def _ended(outcome: Outcome, seen: Seen) -> Said:
    """Name a finished run's state, with the cause from the attempt that ended it where that is still to be seen."""
    if outcome.state is State.SUCCEEDED:
        return State.SUCCEEDED, None, None
    last = seen[-1][1] if seen else None
    if last is not None and last.stage is Stage.ENDED and not (last.succeeded or last.disrupted):
        in_setup = last.phase == "setup" or last.exit_code == SETUP_FAILED
        return State.FAILED_SETUP if in_setup else State.FAILED, last.reason, last.message
    if match := _FAILED_WITH.search(outcome.message or ""):
        if int(match[1]) == SETUP_FAILED:
            return State.FAILED_SETUP, "Error", "setup failed"
        return State.FAILED, "Error", match[0]
    return State.FAILED, outcome.reason, outcome.message


def _going_on(job: Manifest, counts: Counts, seen: Seen, events: Sequence[Manifest]) -> Said:
    """Name the state of a run that has no outcome and that nobody stopped."""
    alive = next((r for _, r in reversed(seen) if r.stage in (Stage.UNBOUND, Stage.BOUND, Stage.RUNNING)), None)
    if alive is not None and alive.stage is Stage.RUNNING:
        return State.RUNNING, None, None
    if alive is None and seen and _decides(job, counts, *seen[-1]):
        return State.RUNNING, seen[-1][1].reason, seen[-1][1].message
    made = alive is not None and (alive.stage is not Stage.UNBOUND or alive.reason)
    waits_for = (alive.reason, alive.message) if alive is not None and made else _refused(events)
    lost = next((r for _, r in reversed(seen) if r.stage in (Stage.TERMINATING, Stage.ENDED)), None)
    if lost is not None:
        message = "; next attempt: ".join(filter(None, (lost.message or lost.reason, waits_for[1] or waits_for[0])))
        return State.RECOVERING, lost.reason, message
    if counts.recoveries or counts.restarts_on_error or (encoding.is_jobset(job) and was_ready(job)):
        return State.RECOVERING, *waits_for
    return State.STARTING if alive is not None and alive.stage is Stage.BOUND else State.PENDING, *waits_for


def _decides(job: Manifest, counts: Counts, pod: Manifest, reading: PodReading) -> bool:
    """Whether the run is over with this attempt, though the controller has not written the outcome yet.

    Such a run is still RUNNING: RECOVERING would be seen or not by chance, and then be wrong.
    """
    if reading.stage is not Stage.ENDED:
        return False
    action = "Complete" if reading.succeeded else policy_action(job, pod)
    if encoding.is_jobset(job):
        is_last = fails_on_next_error(job) and restart_of(pod) == restarts(job)
        return action == "Complete" or (action == "FailJob" and is_last)
    is_last_index = mapping(job.get("spec")).get("maxFailedIndexes") == counts.restarts_on_error
    counted = is_failed_index(job, index_of(pod))
    return action in ("Complete", "FailJob") or (action == "FailIndex" and is_last_index and not counted)


def _refused(events: Sequence[Manifest]) -> tuple[str | None, str | None]:
    """Return why the controller could not make a pod, by its newest Event; the pod's made-up name is left out."""
    refusals = [event for event in events if event.get("reason") in _REFUSALS]
    if not refusals:
        return None, None
    newest = max(refusals, key=_last_seen)
    return str(newest["reason"]), text(_FORBIDDEN.sub("", str(newest.get("message", ""))))


def _last_seen(event: Manifest) -> str:
    series = mapping(event.get("series")).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or "")


def _priority(job: Manifest, seen: Seen) -> tuple[str | None, int | None]:
    """Return class and number of the newest pod: a class made anew with another value leaves older pods as they are."""
    spec = mapping(seen[-1][0].get("spec")) if seen else {}
    template = mapping(encoding.pod_template(job).get("spec"))
    value = spec.get("priority")
    return spec.get("priorityClassName") or template.get("priorityClassName"), value if isinstance(value, int) else None


def _problems(job: Manifest, counts: Counts, seen: Seen) -> Iterable[Problem]:
    """Yield what looks like an interruption from outside and may be the job's own doing."""
    metadata = mapping(job.get("metadata"))
    path = str(
        mapping(metadata.get("annotations")).get(FILE)
        or f"{job.get('kind')}/{metadata.get('namespace')}/{metadata.get('name')}"
    )
    for pod, reading in reversed(seen):
        if reading.reason == "Evicted" and true_condition(mapping(pod.get("status")), "DisruptionTarget") is None:
            message = f"{reading.attempt.pod} was evicted for a limit of its own: {reading.message}; raise that limit"
            yield Problem(Severity.WARNING, "evicted-for-own-limit", path, message)
            break
    started = next((r.attempt.started_at for _, r in reversed(seen) if r.attempt.started_at), None)
    age = seconds_between(metadata.get("creationTimestamp"), started)
    if counts.recoveries >= _OFTEN and age is not None and age < counts.recoveries * _SHORTLY:
        message = (
            f"recovered {counts.recoveries} times, on average after less than {_SHORTLY // 60} minutes: "
            "if nothing preempts it, look at its own storage limits and probes, which look like interruptions"
        )
        yield Problem(Severity.WARNING, "recovers-often", path, message)


def _by_owner(pods: Sequence[Manifest]) -> dict[str, list[Manifest]]:
    owned = defaultdict(list)
    for pod in pods:
        metadata = mapping(pod.get("metadata"))
        owners = [o.get("uid") for o in objects(metadata.get("ownerReferences")) if o.get("controller")]
        labels = mapping(metadata.get("labels"))
        owner = owners[0] if owners else labels.get("batch.kubernetes.io/controller-uid")
        owned[str(labels.get(UID_LABEL) or owner)].append(pod)
    return owned


def _by_subject(events: Sequence[Manifest]) -> dict[str, list[Manifest]]:
    """Sort Events by the uid of what they are about, and by its name: of a JobSet's child only that is known."""
    said = defaultdict(list)
    for event in events:
        subject = mapping(event.get("involvedObject") or event.get("regarding"))
        said[str(subject.get("uid"))].append(event)
        said[f"{subject.get('namespace')}/{subject.get('name')}"].append(event)
    return said


def _child(run: Manifest) -> str:
    """Name the Job that a JobSet makes its pods by; nothing that exists if the run is a Job itself."""
    metadata = mapping(run.get("metadata"))
    return f"{metadata.get('namespace')}/{metadata.get('name')}-{CHILD}-0" if encoding.is_jobset(run) else ""
