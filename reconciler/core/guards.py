"""Refuse a pass that would do what only a person should decide; each message names the flag that lifts it."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.core.decide import has_not_begun
from reconciler.model import RUN_KINDS, Action, Document, Verb

_ALWAYS_FINE = 5
_PERCENT = 30
_CLASS = ("PriorityClass",)


def check_guards(  # noqa: PLR0913 - one flag a guard
    actions: Sequence[Action],
    *,
    running: int,
    declared_jobs: int,
    declared_classes: int,
    abandoned: Sequence[str] = (),
    allow_mass_change: bool = False,
    allow_empty_source: bool = False,
) -> str | None:
    """Return why these actions must not be carried out, or None.

    `running` counts the unfinished runs on the cluster before the pass, but for those that never had a pod: to end
    such a one is no loss. The declared numbers count the files of the commit that declare something, valid or not.
    `abandoned` are runs without a Job that no file asks for any more: the pass would give them up on record. Nothing at
    all left of some is more often a wrong folder or branch than a wish.
    """
    ending = [
        action
        for action in actions
        if action.kind in RUN_KINDS
        and action.verb in (Verb.CANCEL, Verb.REPLACE)
        and not (action.live and has_not_begun(action.live))
    ]
    if not allow_mass_change and len(ending) > _ALWAYS_FINE and 100 * len(ending) > _PERCENT * running:
        return (
            f"this pass would cancel or replace {len(ending)} of {running} unfinished jobs "
            f"({_some([action.name for action in ending])}), more than {_ALWAYS_FINE} and {_PERCENT} %: "
            "look at `reconcile plan`, then pass --allow-mass-change"
        )
    for kinds, word, declared in ((RUN_KINDS, "job", declared_jobs), (_CLASS, "PriorityClass", declared_classes)):
        gone = [action.name for action in actions if action.kind in kinds and action.verb in (Verb.CANCEL, Verb.PRUNE)]
        given_up = abandoned if kinds is RUN_KINDS else ()
        if (gone or given_up) and not declared and not allow_empty_source:
            ends = (f"delete {_some(gone)}" if gone else "", f"give up {_some(given_up)}" if given_up else "")
            return (
                f"the commit declares no {word} any more, and this pass would {' and '.join(filter(None, ends))}: "
                "if that is meant, pass --allow-empty-source"
            )
    return None


def check_cluster(document: Document | None, context: str, uid: str, owner: str) -> str | None:
    """Return why a status branch must not be used by this pass, or None; `document` is its `cluster.yaml`.

    A kubeconfig can name another cluster tomorrow by the name of today's, and a remote that is renamed, added or forked
    makes another owner: all jobs would then be LOST, and run a second time beside the first.
    """
    contexts = (document or {}).get("contexts") or {}
    if not isinstance(contexts, dict):
        return "cluster.yaml on the status branch is not as it was written: restore it, or pass --allow-cluster-change"
    known = contexts.get(context)
    recorded = (document or {}).get("owner", owner)
    if recorded != owner:
        return (
            f"the status branch was written for the owner {recorded}, and this pass is {owner} (a hash of the remote's "
            f"URL): set `owner: {recorded}` in reconciler.yaml to keep its jobs, use another --status-branch, or pass "
            "--allow-cluster-change to leave them to themselves"
        )
    if known in (None, uid):
        return None
    return (
        f"the status branch knows context {context} as the cluster {known}, and this is {uid}: "
        "use another --status-branch, or pass --allow-cluster-change if the old cluster is gone for good"
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _ALWAYS_FINE
    return ", ".join(names[:_ALWAYS_FINE]) + (f" and {more} more" if more > 0 else "")
