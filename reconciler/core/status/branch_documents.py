"""The two documents of the status branch that speak of no single job: its clusters and their PriorityClasses."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.core.class_patch import class_patch, is_owned
from reconciler.core.document import problem_entry
from reconciler.model import SCHEMA_VERSION, Document, Manifest, PriorityClass, Problem, Severity


def cluster_document(previous: Document | None, context: str, uid: str, owner: str) -> Document:
    """Return `cluster.yaml`: whose branch it is, and the clusters that it speaks about, this one under its context."""
    known = (previous or {}).get("contexts")
    contexts = {**(known if isinstance(known, dict) else {}), context: uid}
    return {"schema_version": SCHEMA_VERSION, "owner": owner, "contexts": dict(sorted(contexts.items()))}


def priorities_document(
    wanted: Sequence[PriorityClass], live: Sequence[Manifest], *, owner: str, problems: Sequence[Problem] = ()
) -> Document:
    """Return `priorities.yaml`: the classes of this repository as they stand after the pass, the most urgent first.

    `differs` names what is not as in the file; `absent` stands for all of it. What a file doesn't declare any more is
    still there while something uses it: it has no `file`.
    """
    there = {manifest["metadata"]["name"]: manifest for manifest in live}
    declared = {priority_class.name: priority_class for priority_class in wanted}
    names = {*declared, *(name for name, manifest in there.items() if is_owned(manifest, owner))}
    classes = [_class_entry(name, declared.get(name), there.get(name), owner) for name in names]
    classes.sort(key=lambda entry: (-(entry["value"] or 0), entry["name"]))
    return {
        "schema_version": SCHEMA_VERSION,
        "classes": classes,
        "problems": [problem_entry(problem) for problem in (*problems, *_two_defaults(live))],
    }


def _class_entry(name: str, wanted: PriorityClass | None, live: Manifest | None, owner: str) -> Document:
    stands = live or {}
    patch = class_patch(wanted, live) if wanted is not None and live is not None else {}
    return {
        "name": name,
        "file": wanted.path if wanted is not None else None,
        "value": stands.get("value", 0) if live is not None else None,
        "preemption_policy": stands.get("preemptionPolicy"),
        "global_default": bool(stands.get("globalDefault")),
        "description": stands.get("description", ""),
        "owned": live is not None and is_owned(live, owner),
        "differs": sorted(patch) if live is not None else ["absent"],
    }


def _two_defaults(live: Sequence[Manifest]) -> list[Problem]:
    """Two API servers can each accept a default at the same moment; pods then get the lower one."""
    defaults = sorted(
        (m for m in live if m.get("globalDefault")), key=lambda m: (m.get("value", 0), m["metadata"]["name"])
    )
    names = [manifest["metadata"]["name"] for manifest in defaults]
    if len(names) <= 1:
        return []
    message = (
        f"{' and '.join(names)} are globalDefault at once; pods without a class get {names[0]}: un-default the others"
    )
    return [Problem(Severity.WARNING, "two-defaults", f"PriorityClass/{names[0]}", message, field="globalDefault")]
