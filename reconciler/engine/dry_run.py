"""Let the server judge what a plan would create, without creating it."""

from __future__ import annotations

from dataclasses import replace

from reconciler.cluster.interface import Cluster
from reconciler.core.compose import layer_title
from reconciler.core.explain import explain_field
from reconciler.core.render import run_of
from reconciler.engine.declare import locate
from reconciler.engine.owned import Owned, objects_of
from reconciler.engine.plan import Plan
from reconciler.engine.read import Source
from reconciler.errors import AlreadyExists, ClusterRefusal, WebhookFailed
from reconciler.model import FILE, Action, Problem, Severity, Verb


def dry_run(cluster: Cluster, plan: Plan, source: Source) -> tuple[tuple[Action, ...], list[Problem]]:
    """Return the actions as the server sees them, and problems for each object that it would refuse.

    A name that is taken turns a creation into a conflict. A job whose class the same plan creates can't be judged in
    full, because that class is not there yet: the API server looks at classes when pods are made, not Jobs.
    """
    judged: list[Action] = []
    problems: list[Problem] = []
    unwritable: dict[str, WebhookFailed] = {}
    for action in plan.actions:
        if action.verb not in (Verb.CREATE, Verb.REPLACE) or action.manifest is None:
            judged.append(action)
            continue
        try:
            if action.kind in unwritable:  # it was asked patiently already
                raise unwritable[action.kind]
            cluster.create(action.manifest, dry_run=True)
            refusal = Owned(cluster).refusal(action, objects_of(action))
        except AlreadyExists:
            reason = f"{action.kind} {action.name} exists and is not ours: rename one of them"
            judged.append(replace(action, verb=Verb.CONFLICT, reason=reason, needs_attention=True))
        except ClusterRefusal as error:
            if isinstance(error, WebhookFailed):
                unwritable[action.kind] = error
            problems += _causes(action, error, plan, source, cluster.context) or [refused(action, str(error))]
            judged.append(replace(action, reason=f"the server refuses it: {error}", needs_attention=True))
        else:
            judged.append(replace(refusal, result=None) if refusal else action)
    return tuple(judged), locate(problems, source.revision.files)


def refused(action: Action, why: str) -> Problem:
    """Describe an object that the server would not take, as a problem of its file."""
    annotations = (action.manifest or {}).get("metadata", {}).get("annotations") or {}
    return Problem(Severity.ERROR, "refused-by-cluster", annotations.get(FILE, ""), why)


def _causes(action: Action, error: ClusterRefusal, plan: Plan, source: Source, context: str) -> list[Problem]:
    """Name the settings behind the fields that the server names; nothing when there is none behind one of them."""
    file = plan.files.get(action.job or "")
    if action.manifest is None or file is None or file.task is None:
        return []
    files, _ = source.files.of(file.task)
    problems = []
    for field, message in error.causes:
        found = explain_field(file.task, source.site, run_of(action.manifest, context), field, files)
        if found is None or found.setting is None:
            return []
        text = f"{layer_title(found.layer)}: the server would refuse {field}: {message}"
        problems.append(replace(refused(action, text), field=found.setting))
    return problems
