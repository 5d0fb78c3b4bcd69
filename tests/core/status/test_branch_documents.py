"""The documents of the status branch that speak of no single job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reconciler.core.status.branch_documents import cluster_document, priorities_document
from reconciler.core.yaml_output import dump
from reconciler.model import OWNER_LABEL, Manifest, PriorityClass, Problem, Severity


def declared(name: str, value: int, **changes: Any) -> PriorityClass:
    fields: dict[str, Any] = {
        "path": "priorities/classes.yaml",
        "line": 1,
        "name": name,
        "value": value,
        "global_default": False,
        "preemption_policy": "PreemptLowerPriority",
        "description": "",
        "manifest": {"metadata": {"name": name}},
    }
    return PriorityClass(**(fields | changes))


def there(name: str, value: int, *, owner: str | None = "us", **changes: Any) -> Manifest:
    metadata = {"name": name, "labels": {OWNER_LABEL: owner} if owner else None}
    return {"metadata": metadata, "value": value, "preemptionPolicy": "PreemptLowerPriority", **changes}


def test_priorities(golden: Callable[[str, str], None]) -> None:
    """The classes as they stand, what differs from their files, and what is still there without one."""
    wanted = [
        declared("urgent", 2000),
        declared("low", 10, global_default=True),
        declared("missing", 5),
        declared("adopted", 7),
    ]
    live = [
        there("urgent", 1000),
        there("low", 10, globalDefault=True),
        there("leftover", 50),
        there("adopted", 7, owner=None),
        there("theirs", 3, owner="them"),
        there("system-node-critical", 2000001000, owner=None),
    ]
    problem = Problem(Severity.ERROR, "bad-value", "priorities/x.yaml", "value must be an integer", 3, 1, "value")

    golden("document/priorities.yaml", dump(priorities_document(wanted, live, owner="us", problems=[problem])))


def test_two_defaults_are_a_problem() -> None:
    """kubernetes#59987: two API servers can each accept a default at the same moment."""
    live = [there("b", 10, globalDefault=True), there("a", 20, owner=None, globalDefault=True)]
    [problem] = priorities_document([], live, owner="us")["problems"]

    assert (problem["code"], problem["severity"]) == ("two-defaults", "warning")
    assert problem["message"] == (
        "b and a are globalDefault at once; pods without a class get b: un-default the others"
    )


def test_cluster() -> None:
    """A branch may speak about several clusters, each under its context."""
    first = cluster_document(None, "prod", "uid-1", "us")

    assert first == {"schema_version": 1, "owner": "us", "contexts": {"prod": "uid-1"}}
    assert cluster_document(first, "prod", "uid-1", "us") == first
    assert list(cluster_document(first, "dev", "uid-2", "us")["contexts"].items()) == [
        ("dev", "uid-2"),
        ("prod", "uid-1"),
    ]
