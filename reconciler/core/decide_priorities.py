"""Decide what one pass does about the PriorityClasses, in an order that the API server can follow.

It allows one `globalDefault` at a time and never a change of `value` or `preemptionPolicy`. So: whoever stops being the
default first, then what is new or different, then whoever becomes the default; after the jobs, what nobody needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reconciler.core.class_patch import class_patch, is_owned
from reconciler.core.deletion import going
from reconciler.model import OWNER_LABEL, Action, Manifest, PriorityClass, Verb

_IMMUTABLE = ("value", "preemptionPolicy")


def decide_priority_classes(  # noqa: PLR0913 - beyond two by name only
    wanted: Sequence[PriorityClass], live: Sequence[Manifest], *, owner: str, used: frozenset[str], held: bool, now: str
) -> list[Action]:
    """Return the actions on PriorityClasses, in the order in which they must happen; a `prune` comes after the jobs.

    `live` are all classes of the cluster: what somebody else made is adopted when it is the same, and else a conflict.
    `used` names those that an unfinished Job or pod needs. `held` stops pruning: a file that can't be read may declare
    what seems gone. `now` tells how long a deletion takes. A class that is both un-defaulted and pruned has another
    resourceVersion by then.
    """
    there = {manifest["metadata"]["name"]: manifest for manifest in live}
    names = {priority_class.name for priority_class in wanted}
    gone = [manifest for name, manifest in sorted(there.items()) if name not in names and is_owned(manifest, owner)]
    actions = [_decide(priority_class, there, owner, now) for priority_class in wanted]
    if any(priority_class.global_default for priority_class in wanted):
        actions += [_undefault(manifest) for manifest in gone if manifest.get("globalDefault")]
    return sorted(actions, key=_turn) + [_prune(manifest, used, now, held=held) for manifest in gone]


def _decide(wanted: PriorityClass, there: Mapping[str, Manifest], owner: str, now: str) -> Action:
    live = there.get(wanted.name)
    default = next(
        (name for name, m in there.items() if m.get("globalDefault") and not is_owned(m, owner)), wanted.name
    )
    if wanted.global_default and default != wanted.name and not (live or {}).get("globalDefault"):
        reason = f"can't be the default: {default} is, and was not made by this repository"
        return _attention(_act(Verb.CONFLICT, wanted.name, reason, live))
    if live is None:
        return _act(Verb.CREATE, wanted.name, f"{wanted.path} declares it", manifest=_manifest(wanted, owner))
    patch = class_patch(wanted, live)
    if not is_owned(live, owner):
        return _not_ours(wanted, live, patch)
    if live["metadata"].get("deletionTimestamp"):
        return _going(live, now)
    if any(name in patch for name in _IMMUTABLE):
        return _immutable(wanted, live, patch)
    if patch:
        return _act(Verb.UPDATE, wanted.name, f"{', '.join(sorted(patch))} as in {wanted.path}", live, manifest=patch)
    return _act(Verb.KEEP, wanted.name, f"as in {wanted.path}", live)


def _not_ours(wanted: PriorityClass, live: Manifest, patch: Manifest) -> Action:
    differs = sorted(name for name in patch if name != "metadata")
    if not differs:
        return _act(Verb.KEEP, wanted.name, "adopted: somebody else made the same one, so it is never pruned", live)
    reason = (
        f"somebody else made a class of that name, and its {' and '.join(differs)} differs from {wanted.path}: "
        "rename yours, make it the same, or have theirs deleted"
    )
    return _attention(_act(Verb.CONFLICT, wanted.name, reason, live))


def _immutable(wanted: PriorityClass, live: Manifest, patch: Manifest) -> Action:
    """Hold what can't be changed in place: making it anew changes who preempts whom, which a person should decide."""
    changes = " and ".join(
        f"{name} is {live.get(name)} on the cluster and {patch[name]} in {wanted.path}"
        for name in _IMMUTABLE
        if name in patch
    )
    advice = (
        f"{changes}, and Kubernetes never changes it in place: declare a class of another name, or run `kubectl delete "
        f"priorityclass {wanted.name}` and the next pass makes it anew; pods that are there keep the old one"
    )
    return _attention(_act(Verb.HOLD, wanted.name, advice, live))


def _undefault(live: Manifest) -> Action:
    reason = "no file declares it any more, and another class becomes the default"
    return _act(Verb.UPDATE, live["metadata"]["name"], reason, live, manifest={"globalDefault": False})


def _prune(live: Manifest, used: frozenset[str], now: str, *, held: bool) -> Action:
    name, gone = live["metadata"]["name"], "no file declares it any more"
    if live["metadata"].get("deletionTimestamp"):
        return _going(live, now)
    if held:
        return _act(Verb.HOLD, name, f"{gone}, but a file that can't be read may", live)
    if name in used:
        return _act(Verb.HOLD, name, f"{gone}; pruned when the unfinished jobs and pods that name it have ended", live)
    return _act(Verb.PRUNE, name, gone, live)


def _going(live: Manifest, now: str) -> Action:
    reason, stuck = going(live, now)
    return replace(_act(Verb.HOLD, live["metadata"]["name"], reason, live), needs_attention=stuck)


def _manifest(wanted: PriorityClass, owner: str) -> Manifest:
    metadata = wanted.manifest.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), OWNER_LABEL: owner}
    return {**wanted.manifest, "metadata": {**metadata, "labels": labels}}


def _turn(action: Action) -> int:
    default = (action.manifest or {}).get("globalDefault")
    if action.verb is Verb.UPDATE and default is False:
        return 0
    return 2 if default else 1


def _act(
    verb: Verb, name: str, reason: str, live: Manifest | None = None, *, manifest: Manifest | None = None
) -> Action:
    return Action(verb, "PriorityClass", None, name, None, reason, manifest=manifest, live=live)


def _attention(action: Action) -> Action:
    return replace(action, needs_attention=True)
