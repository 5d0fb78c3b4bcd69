"""Foretell what the Job controller does about an ended pod, by the Job's own podFailurePolicy.

Between the end of a pod and the controller's verdict lies a moment in which a reader would take a failed job for a
recovering one. The policy stands in the Job, so nobody has to guess.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.core.encoding import job_spec
from reconciler.core.manifest import mapping, objects
from reconciler.model import Manifest


def policy_action(job: Manifest, pod: Manifest) -> str | None:
    """Return the action of the first rule that an ended pod matches (`FailJob`, `FailIndex`, `Count`, `Ignore`).

    `job` may be a JobSet: its child Job has the policy.
    """
    status = mapping(pod.get("status"))
    for rule in objects(mapping(job_spec(job).get("podFailurePolicy")).get("rules")):
        if _matches_condition(rule, status) or _matches_exit_code(rule, status):
            return str(rule.get("action"))
    return None


def _matches_condition(rule: Manifest, status: Manifest) -> bool:
    patterns = {(p.get("type"), p.get("status", "True")) for p in objects(rule.get("onPodConditions"))}
    return any((c.get("type"), c.get("status")) in patterns for c in objects(status.get("conditions")))


def _matches_exit_code(rule: Manifest, status: Manifest) -> bool:
    """As the controller does: a container that ended with 0, or has no end, is not looked at."""
    wanted = mapping(rule.get("onExitCodes"))
    name, values = wanted.get("containerName"), wanted.get("values") or []
    codes = [code for container, code in _exit_codes(status) if name in (None, container)]
    if wanted.get("operator") == "In":
        return any(code in values for code in codes)
    return wanted.get("operator") == "NotIn" and any(code not in values for code in codes)


def _exit_codes(status: Manifest) -> Iterator[tuple[object, int]]:
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in objects(status.get(kind)):
            code = mapping(mapping(container.get("state")).get("terminated")).get("exitCode")
            if isinstance(code, int) and code != 0:
                yield container.get("name"), code


def is_failed_index(job: Manifest, index: int) -> bool:
    """Whether the controller has given an index up already, as `status.failedIndexes` (`0,2-4`) says."""
    for part in str(mapping(job.get("status")).get("failedIndexes") or "").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and int(first) <= index <= int(last or first):
            return True
    return False
