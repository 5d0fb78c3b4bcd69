"""The rules of the Job controller as a pure function: one Job and its pods now → its status, and what to do with pods.

For Indexed Jobs with parallelism 1 and backoffLimitPerIndex, after `pkg/controller/job` of Kubernetes 1.35. As there,
a failed pod that is to be retried at its index is counted only when its replacement is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from reconciler.core.failure_policy import matching_rule
from reconciler.core.indexes import COMPLETION_INDEX, index_ranges
from reconciler.core.status.times import rfc3339
from reconciler.model import Manifest

TRACKING = "batch.kubernetes.io/job-tracking"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
_NO_LIMIT = 2**31 - 1
_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at a Job leads to.

    `create` is the pod to make now: its index, and how often that index has failed before. `stop` and `release` are
    names of pods: to end gracefully, and to track no longer.
    """

    status: Manifest
    create: tuple[int, int] | None
    stop: frozenset[str]
    release: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed pod that isn't counted yet, and what the Job's policy says about it."""

    name: str
    index: int
    times: int
    finished: datetime
    action: str
    message: str


@dataclass(frozen=True, slots=True)
class _View:
    """A Job's pods, sorted by what they mean to it, and its indexes with what these pods add to them."""

    running: Sequence[Manifest]
    active: frozenset[str]
    ended: frozenset[str]
    failures: Sequence[_Failure]
    completed: frozenset[int]
    failed: frozenset[int]


def step(job: Manifest, pods: Sequence[Manifest], now: datetime, *, may_create: bool = True) -> Step:
    """Decide what follows for an unfinished Job from its pods; the same state again leads to nothing.

    `may_create` is False when admission would refuse the next pod: what waits for its retry then waits on.
    """
    spec, status = job["spec"], job.get("status") or {}
    view = _view(spec, status, pods)
    outcome = _outcome(spec, status, view)
    suspended = bool(spec.get("suspend")) and not outcome
    stop = view.active if suspended or outcome else frozenset[str]()
    done = view.completed | view.failed
    waiting = {} if outcome else {failure.index: failure for failure in view.failures if failure.index not in done}
    idle = not (view.running or outcome or suspended)
    create = _next(spec, done, waiting, now) if idle and may_create else None
    kept = {failure.name for index, failure in waiting.items() if create is None or create[0] != index}
    active = [pod for pod in view.running if _name(pod) in view.active - stop]
    counts = {
        "active": len(active) + (create is not None),
        "succeeded": len(view.completed),
        "failed": status.get("failed", 0) + sum(f.name not in kept and f.action != "Ignore" for f in view.failures),
        "completedIndexes": format_indexes(view.completed),
    }
    updated = {key: value for key, value in status.items() if key not in counts} | {
        **{key: value for key, value in counts.items() if value},
        "ready": sum(is_true(pod["status"], "Ready") for pod in active),
        "terminating": len(view.running) - len(active),
        "failedIndexes": format_indexes(view.failed),
        "uncountedTerminatedPods": {},
    }
    updated = _suspension(updated, rfc3339(now), suspended=suspended)
    if outcome:
        updated = _conclusion(updated, outcome, rfc3339(now), over=not view.running)
    return Step(updated, create, stop, (view.ended - kept) | (stop if suspended else frozenset()))


def _view(spec: Manifest, status: Manifest, pods: Sequence[Manifest]) -> _View:
    running = [pod for pod in pods if not has_ended(pod)]
    ended = [pod for pod in pods if has_ended(pod) and TRACKING in pod["metadata"].get("finalizers", ())]
    succeeded = {_index(pod) for pod in ended if pod["status"]["phase"] == "Succeeded"}
    failures = [_failure(spec, pod) for pod in ended if pod["status"]["phase"] == "Failed"]
    limit = spec.get("backoffLimitPerIndex", _NO_LIMIT)
    given_up = {failure.index for failure in failures if failure.action == "FailIndex" or failure.times > limit}
    return _View(
        running=running,
        active=frozenset(_name(pod) for pod in running if "deletionTimestamp" not in pod["metadata"]),
        ended=frozenset(map(_name, ended)),
        failures=failures,
        completed=parse_indexes(status.get("completedIndexes")) | succeeded,
        failed=parse_indexes(status.get("failedIndexes")) | given_up,
    )


def _failure(spec: Manifest, pod: Manifest) -> _Failure:
    times = int(pod["metadata"]["annotations"].get(FAILURES, 0)) + 1
    return _Failure(_name(pod), _index(pod), times, _finished(pod), *judge(spec.get("podFailurePolicy") or {}, pod))


def judge(policy: Manifest, pod: Manifest) -> tuple[str, str]:
    """Return the action of the first rule that matches a failed pod (`Count` if none does), and why in words."""
    found = matching_rule(policy, pod)
    if found is None:
        return "Count", ""
    number, action, why = found
    return action, f"{why} matching {action} rule at index {number}"


def _outcome(spec: Manifest, status: Manifest, view: _View) -> tuple[str, str, str] | None:
    """Return the condition that decides the Job as (type, reason, message), in the controller's order."""
    for condition in status.get("conditions") or ():
        if condition["type"] in ("SuccessCriteriaMet", "FailureTarget"):
            return condition["type"], condition["reason"], condition["message"]
    return next(chain(_failed(spec, status, view), _succeeded(spec, view)), None)


def _failed(spec: Manifest, status: Manifest, view: _View) -> Iterator[tuple[str, str, str]]:
    for failure in view.failures:
        if failure.action == "FailJob":
            yield "FailureTarget", "PodFailurePolicy", failure.message
    if status.get("failed", 0) + len(view.failures) > spec.get("backoffLimit", _NO_LIMIT):
        yield "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if len(view.failed) > spec.get("maxFailedIndexes", _NO_LIMIT):
        text = "Job has exceeded the specified maximal number of failed indexes"
        yield "FailureTarget", "MaxFailedIndexesExceeded", text
    if view.failed and len(view.failed | view.completed) >= spec["completions"]:
        yield "FailureTarget", "FailedIndexes", "Job has failed indexes"


def _succeeded(spec: Manifest, view: _View) -> Iterator[tuple[str, str, str]]:
    for number, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
        listed = parse_indexes(rule.get("succeededIndexes"))
        if len(view.completed & (listed or view.completed)) >= rule.get("succeededCount", len(listed)):
            yield "SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {number}"
    if len(view.completed) >= spec["completions"]:
        yield "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"


def _next(spec: Manifest, done: frozenset[int], waiting: dict[int, _Failure], now: datetime) -> tuple[int, int] | None:
    """Choose the lowest index that is not done; one that failed waits 10 s, doubled each time up to 10 minutes."""
    index = min(frozenset(range(spec["completions"])) - done)
    failure = waiting.get(index)
    if failure is None:
        return index, 0
    delay = min(_FIRST_DELAY * 2 ** min(failure.times - 1, 10), _LONGEST_DELAY)
    return (index, failure.times) if failure.finished + delay <= now else None


def _suspension(status: Manifest, moment: str, *, suspended: bool) -> Manifest:
    """Note the start, a suspension and its end; the start after a suspension is a new one."""
    before = is_true(status, "Suspended")
    if suspended and not before:
        status = with_condition(status, "Suspended", ("True", "JobSuspended", "Job suspended"), moment)
    if before and not suspended:
        status = with_condition(status, "Suspended", ("False", "JobResumed", "Job resumed"), moment)
    started = not suspended and (before or "startTime" not in status)
    return status | {"startTime": moment} if started else status


def _conclusion(status: Manifest, outcome: tuple[str, str, str], moment: str, *, over: bool) -> Manifest:
    kind, reason, message = outcome
    status = with_condition(status, kind, ("True", reason, message), moment)
    if not over:
        return status
    if kind == "FailureTarget":
        return with_condition(status, "Failed", ("True", reason, message), moment)
    return with_condition(status, "Complete", ("True", reason, message), moment) | {"completionTime": moment}


def with_condition(status: Manifest, kind: str, value: tuple[str, str, str], moment: str) -> Manifest:
    """Return a status with one condition as (status, reason, message); its time moves with the first of them."""
    fresh = dict(zip(("status", "reason", "message"), value, strict=True)) | {"type": kind}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    old = conditions.get(kind, {})
    since = old["lastTransitionTime"] if old.get("status") == value[0] else moment
    return status | {"conditions": [*(conditions | {kind: fresh | {"lastTransitionTime": since}}).values()]}


def is_true(status: Manifest, kind: str, value: str = "True") -> bool:
    """Tell whether a status has this condition with this value."""
    return any((c["type"], c["status"]) == (kind, value) for c in status.get("conditions") or ())


def has_ended(pod: Manifest) -> bool:
    """Tell whether a pod's phase is final."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def parse_indexes(text: str | None) -> frozenset[int]:
    """Read `"0,2-4"`."""
    return frozenset(chain.from_iterable(index_ranges(text)))


def format_indexes(indexes: Iterable[int]) -> str:
    """Write `"0,2-4"`; two neighbours stand as `"0,1"`, as Kubernetes has it."""
    ranges: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1] = (ranges[-1][0], index)
        else:
            ranges.append((index, index))
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in ranges)


def _finished(pod: Manifest) -> datetime:
    metadata = pod["metadata"]
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
    asked = datetime.fromisoformat(metadata.get("deletionTimestamp", metadata["creationTimestamp"])) - grace
    return max((datetime.fromisoformat(ended["finishedAt"]) for _, ended in _terminated(pod)), default=asked)


def _terminated(pod: Manifest) -> Iterator[tuple[str, Manifest]]:
    for status in pod["status"].get("containerStatuses") or ():
        if ended := status["state"].get("terminated"):
            yield status["name"], ended


def _index(pod: Manifest) -> int:
    return int(pod["metadata"]["annotations"][COMPLETION_INDEX])


def _name(pod: Manifest) -> str:
    return str(pod["metadata"]["name"])
