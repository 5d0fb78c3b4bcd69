"""The form that we give a Kubernetes Job, and how to read recoveries, errors and the outcome of a run back from it.

Form and formula belong together, so both live here and nowhere else. The Job controller recovers, so it works while
nobody watches, and its status must be the count. An ordinary Job can't: `Ignore` on disruptions leaves no trace, and
restarts wait ever longer. So attempts are the indexes of an Indexed Job with parallelism 1 that is complete when one
of them succeeds:

    what ended the attempt               no restarts on errors (default)    N restarts on errors
    DisruptionTarget                     FailIndex: next starts at once     Count: same index, with back-off
    main exits 217, 255, a recover code  Count: same index, with back-off   Count
    a clone exits 75, 217, 255           Count                              Count
    any container exits with non-zero    FailJob                            FailIndex: next starts at once

217 must not be FailIndex: the eviction of a pod over its own storage limit ends with it too, and would spin.

    recoveries = status.failed + len(uncountedTerminatedPods.failed) - user errors

A user error is the pod of reason PodFailurePolicy in the default form, and each failed index in the other. A pod that
ended the Job by another reason was not recovered from either. Only the Job is read: Events over-count and vanish, pods
are missed. With back-off the number follows when the next attempt starts: it may be one behind, never ahead.

A run on several nodes is a JobSet; `core.jobset` has its form and formula. What reads a run here takes either kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.core import jobset
from reconciler.core.exit_codes import CLONE_INTERRUPTED, PEER_LOST, RUNTIME_LOST, SETUP_FAILED, TOLD_TO_STOP
from reconciler.core.indexes import index_ranges
from reconciler.core.manifest import integer
from reconciler.model import JOBSET, Manifest, State
from reconciler.runs import Counts, Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_RESTARTS_PER_INDEX = 1_000_000
_TOO_MANY = "MaxFailedIndexesExceeded"
_NEEDED = ("successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "podFailurePolicy", "podReplacementPolicy")
_SUCCEEDED = ("SuccessCriteriaMet", "Complete")
_FAILED = ("FailureTarget", "Failed")


def job_form(
    *,
    max_restarts_on_errors: int,
    max_recoveries: int,
    recover_on_exit_codes: Sequence[int],
    main_container: str,
    clone_containers: Sequence[str] = (),
) -> Manifest:
    """Return the fields of a Job's spec that are ours, which is all but `template` and `suspend`.

    Code 0 never fails a pod, and what the supervisor doesn't pass on never arrives: in `recover_on_exit_codes` both are
    without effect. `max_recoveries` bounds the default form only. `clone_containers` are those of the template.
    """
    on_errors = max_restarts_on_errors > 0
    most_failed = max_restarts_on_errors if on_errors else max_recoveries
    recoverable = {TOLD_TO_STOP, RUNTIME_LOST} | (set(recover_on_exit_codes) - {0, PEER_LOST, SETUP_FAILED})
    codes = {main_container: recoverable} | dict.fromkeys(clone_containers, CLONE_INTERRUPTED)
    return {
        "completionMode": "Indexed",
        "parallelism": 1,
        # One index more than can fail: else all could be finished, some failed, before the success is looked at.
        "completions": most_failed + 2,
        "maxFailedIndexes": most_failed,
        "backoffLimitPerIndex": _RESTARTS_PER_INDEX,
        "podReplacementPolicy": "Failed",
        "successPolicy": {"rules": [{"succeededCount": 1}]},
        "podFailurePolicy": {"rules": _rules(codes, on_errors=on_errors)},
    }


def _rules(codes: Mapping[str, Collection[int]], *, on_errors: bool) -> list[Manifest]:
    """Return what each end of an attempt means; `codes` are a container's exit codes that are no error."""
    return [
        {
            "action": "Count" if on_errors else "FailIndex",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        },
        *(
            {"action": "Count", "onExitCodes": {"containerName": name, "operator": "In", "values": sorted(own)}}
            for name, own in codes.items()
        ),
        # Of any container: a failing init container is an error too, and must not loop for ever.
        {
            "action": "FailIndex" if on_errors else "FailJob",
            "onExitCodes": {"operator": "NotIn", "values": [0]},
        },
    ]


def counts(job: Manifest) -> Counts:
    """Read the numbers from one Job or JobSet as the server holds it; its form is told from its own policy.

    Evictions by a queueing system are not in the Job and stay 0.
    """
    if is_jobset(job):
        return jobset.counts(job)
    status, spec = job.get("status") or {}, job.get("spec") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    failed = (integer(status.get("failed")) or 0) + len(uncounted)
    ended = outcome(job)
    reason = ended.reason if ended is not None and ended.state is State.FAILED else None
    action = _action_on_error(spec)
    errors = sum(map(len, index_ranges(status.get("failedIndexes")))) if action == "FailIndex" else 0
    # The pod that ended the Job was not recovered from, and it is among the failed indexes only where errors fail them.
    last = reason is not None and not (action == "FailIndex" and reason == _TOO_MANY)
    return Counts(
        recoveries=max(0, failed - errors - last),
        restarts_on_error=min(errors, integer(spec.get("maxFailedIndexes")) or 0),
        inexact=_doubt(action, reason),
    )


def outcome(job: Manifest) -> Outcome | None:
    """Tell how a Job or a JobSet ended, or None while it goes on.

    FailureTarget and SuccessCriteriaMet decide already: Failed and Complete follow when the last pod has stopped, and
    under Kueue perhaps never. They come first here, so that the time does not move when the others follow. A condition
    whose status isn't "True" says nothing.
    """
    if is_jobset(job):
        return jobset.outcome(job)
    conditions = (job.get("status") or {}).get("conditions") or ()
    stand = {condition.get("type"): condition for condition in conditions if condition.get("status") == "True"}
    for types, state in ((_SUCCEEDED, State.SUCCEEDED), (_FAILED, State.FAILED)):
        for kind in types:
            if (condition := stand.get(kind)) is not None:
                reason, message = condition.get("reason") or kind, condition.get("message") or ""
                return Outcome(state, reason, message, condition.get("lastTransitionTime"))
    return None


def is_jobset(run: Manifest) -> bool:
    """Whether a run is on several nodes."""
    return run.get("kind") == JOBSET


def job_spec(run: Manifest) -> Manifest:
    """Return the spec of the Job that makes a run's pods: its own, or that of the JobSet's child."""
    return jobset.child_spec(run) if is_jobset(run) else run.get("spec") or {}


def pod_template(run: Manifest) -> Manifest:
    """Return what the pods of a run are made from."""
    template: Manifest = job_spec(run).get("template") or {}
    return template


def nodes(run: Manifest) -> int:
    """Return how many pods of a run there are at a time."""
    return integer(job_spec(run).get("parallelism")) or 1


def check_echo(manifest: Manifest) -> str | None:
    """Tell what a server would lose of a Job that it gave back from a dry run, or None if it keeps our form.

    Kubernetes before 1.31 drops fields that it doesn't know, and says nothing.
    """
    if is_jobset(manifest):
        return jobset.check_echo(manifest)
    spec = manifest.get("spec") or {}
    lost = [f"spec.{name}" for name in _NEEDED if spec.get(name) is None]
    if not lost:
        return None
    harm = "would run a finished job again" if "spec.successPolicy" in lost else "could not count recoveries"
    return f"this server drops {', '.join(lost)} of a Job, so it {harm}; Kubernetes 1.31 or newer is needed"


def _action_on_error(spec: Manifest) -> str | None:
    """Return what the Job does about an exit code that no other rule names: FailJob, FailIndex, or None if not ours."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if (rule.get("onExitCodes") or {}).get("operator") == "NotIn":
            action = rule.get("action")
            return action if action in ("FailJob", "FailIndex") else None
    return None


def _doubt(action: str | None, reason: str | None) -> str | None:
    if action is None:
        return "the Job's podFailurePolicy is not the one that it was created with: errors may count as recoveries"
    if reason in (None, _TOO_MANY, "PodFailurePolicy"):
        return None
    return f"{reason} ended the Job, which counts the pod that it stops as failed"
