"""Foretell what the Job controller does about an ended pod, by the Job's own podFailurePolicy.

Between the end of a pod and the controller's verdict lies a moment in which a reader would take a failed job for a
recovering one. The policy stands in the Job, so nobody has to guess.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.core.encoding import job_spec
from reconciler.core.indexes import index_ranges
from reconciler.core.manifest import mapping, objects
from reconciler.model import Manifest


def policy_action(job: Manifest, pod: Manifest) -> str | None:
    """Return the action of the first rule that an ended pod matches (`FailJob`, `FailIndex`, `Count`, `Ignore`).

    `job` may be a JobSet: its child Job has the policy.
    """
    found = matching_rule(mapping(job_spec(job).get("podFailurePolicy")), pod)
    return found[1] if found else None


def matching_rule(policy: Manifest, pod: Manifest) -> tuple[int, str, str] | None:
    """Return the first rule that an ended pod matches: its number, its action, and what matched, as Kubernetes says."""
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    where = f"{metadata.get('namespace')}/{metadata.get('name')}"
    for number, rule in enumerate(objects(policy.get("rules"))):
        for kind in _matching_conditions(rule, status):
            return number, str(rule.get("action")), f"Pod {where} has condition {kind}"
        for container, code in _matching_exit_codes(rule, status):
            why = f"Container {container} for pod {where} failed with exit code {code}"
            return number, str(rule.get("action")), why
    return None


def _matching_conditions(rule: Manifest, status: Manifest) -> Iterator[object]:
    patterns = {(p.get("type"), p.get("status", "True")) for p in objects(rule.get("onPodConditions"))}
    return (c["type"] for c in objects(status.get("conditions")) if (c.get("type"), c.get("status")) in patterns)


def _matching_exit_codes(rule: Manifest, status: Manifest) -> Iterator[tuple[object, int]]:
    """As the controller does: a container that ended with 0, or has no end, is not looked at."""
    wanted = mapping(rule.get("onExitCodes"))
    name, values, operator = wanted.get("containerName"), wanted.get("values") or [], wanted.get("operator")
    for container, code in _exit_codes(status):
        if name in (None, container) and operator == ("In" if code in values else "NotIn"):
            yield container, code


def _exit_codes(status: Manifest) -> Iterator[tuple[object, int]]:
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in objects(status.get(kind)):
            code = mapping(mapping(container.get("state")).get("terminated")).get("exitCode")
            if isinstance(code, int) and code != 0:
                yield container.get("name"), code


def is_failed_index(job: Manifest, index: int) -> bool:
    """Whether the controller has given an index up already."""
    return any(index in part for part in index_ranges(mapping(job.get("status")).get("failedIndexes")))
