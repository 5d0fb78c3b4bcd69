"""Let the server judge what a plan would create, without creating it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reconciler.cluster.interface import Cluster
from reconciler.errors import AlreadyExists, ClusterRefusal
from reconciler.model import FILE, Action, Problem, Severity, Verb


def dry_run(cluster: Cluster, actions: Sequence[Action]) -> tuple[tuple[Action, ...], list[Problem]]:
    """Return the actions as the server sees them, and a problem for each object that it would refuse.

    A name that is taken turns a creation into a conflict. A job whose class the same plan creates can't be judged in
    full, because that class is not there yet: the API server looks at classes when pods are made, not Jobs.
    """
    judged, problems = [], []
    for action in actions:
        if action.verb not in (Verb.CREATE, Verb.REPLACE) or action.manifest is None:
            judged.append(action)
            continue
        try:
            cluster.create(action.manifest, dry_run=True)
        except AlreadyExists:
            reason = f"{action.kind} {action.name} exists and is not ours: rename one of them"
            judged.append(replace(action, verb=Verb.CONFLICT, reason=reason, needs_attention=True))
        except ClusterRefusal as error:
            problems.append(refused(action, str(error)))
            judged.append(replace(action, needs_attention=True))
        else:
            judged.append(action)
    return tuple(judged), problems


def refused(action: Action, why: str) -> Problem:
    """Describe an object that the server would not take, as a problem of its file."""
    annotations = (action.manifest or {}).get("metadata", {}).get("annotations") or {}
    return Problem(Severity.ERROR, "refused-by-cluster", annotations.get(FILE, ""), why)
