"""What a pass does about PriorityClasses, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.decide_priorities import decide_priority_classes
from reconciler.model import OWNER_LABEL, Action, Manifest, PriorityClass, Verb

PATH = "priorities/classes.yaml"
NOW = "2026-03-01T12:00:00Z"


def declared(name: str, value: int = 100, **changes: Any) -> PriorityClass:
    metadata = {"name": name, **changes.pop("metadata", {})}
    fields: dict[str, Any] = {
        "path": PATH,
        "line": 1,
        "name": name,
        "value": value,
        "global_default": False,
        "preemption_policy": "PreemptLowerPriority",
        "description": "",
        "manifest": {"kind": "PriorityClass", "metadata": metadata, "value": value},
    }
    if changes.get("global_default"):
        fields["manifest"]["globalDefault"] = True
    return PriorityClass(**(fields | changes))


def there(name: str, value: int = 100, *, owner: str | None = "us", **changes: Any) -> Manifest:
    labels = {OWNER_LABEL: owner} if owner else {}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels, **changes.pop("metadata", {})}
    return {
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority",
        **changes,
    }


def decide(
    wanted: list[PriorityClass], live: list[Manifest], *, used: tuple[str, ...] = (), held: bool = False
) -> list[Action]:
    actions = decide_priority_classes(wanted, live, owner="us", used=frozenset(used), held=held, now=NOW)
    assert {(action.kind, action.namespace, action.job) for action in actions} <= {("PriorityClass", None, None)}
    return actions


ADVICE = (
    ", and Kubernetes never changes it in place: declare a class of another name, or run `kubectl delete "
    "priorityclass a` and the next pass makes it anew; pods that are there keep the old one"
)
THEIRS = "differs from priorities/classes.yaml: rename yours, make it the same, or have theirs deleted"
UNDEFAULTED = "no file declares it any more, and another class becomes the default"


@pytest.mark.parametrize(
    ("wanted", "live", "verb", "reason", "attention"),
    [
        pytest.param(declared("a"), None, "create", "priorities/classes.yaml declares it", False, id="new"),
        pytest.param(declared("a"), there("a"), "keep", "as in priorities/classes.yaml", False, id="as it is"),
        pytest.param(
            declared("a"),
            {"metadata": {"name": "a", "labels": {OWNER_LABEL: "us"}}, "value": 100},
            "keep",
            "as in priorities/classes.yaml",
            False,
            id="fields that the server left out",
        ),
        pytest.param(
            declared("a", description="Batch"),
            there("a", description="batch"),
            "update",
            "description as in priorities/classes.yaml",
            False,
            id="description",
        ),
        pytest.param(
            declared("a", metadata={"labels": {"team": "x"}}),
            there("a"),
            "update",
            "metadata as in priorities/classes.yaml",
            False,
            id="label",
        ),
        pytest.param(
            declared("a", global_default=True),
            there("a"),
            "update",
            "globalDefault as in priorities/classes.yaml",
            False,
            id="becomes the default",
        ),
        pytest.param(
            declared("a", 200),
            there("a", 100),
            "hold",
            f"value is 100 on the cluster and 200 in {PATH}{ADVICE}",
            True,
            id="value",
        ),
        pytest.param(
            declared("a", preemption_policy="Never"),
            there("a"),
            "hold",
            f"preemptionPolicy is PreemptLowerPriority on the cluster and Never in {PATH}{ADVICE}",
            True,
            id="preemptionPolicy",
        ),
        pytest.param(
            declared("a"),
            there("a", owner=None),
            "keep",
            "adopted: somebody else made the same one, so it is never pruned",
            False,
            id="made by hand, the same",
        ),
        pytest.param(
            declared("a", metadata={"labels": {"team": "x"}}),
            there("a", owner="them"),
            "keep",
            "adopted: somebody else made the same one, so it is never pruned",
            False,
            id="another owner's, the same but for labels",
        ),
        pytest.param(
            declared("a", 200, description="x"),
            there("a", 100, owner="them"),
            "conflict",
            f"somebody else made a class of that name, and its description and value {THEIRS}",
            True,
            id="another owner's, different",
        ),
    ],
)
def test_one_class(wanted: PriorityClass, live: Manifest | None, verb: str, reason: str, *, attention: bool) -> None:
    """A class is created, patched, held or left alone; what we didn't make is never changed."""
    [action] = decide([wanted], [live] if live is not None else [])

    assert (action.verb.value, action.name, action.reason, action.needs_attention) == (verb, "a", reason, attention)


def test_create_sends_our_label_with_the_file_s_own() -> None:
    wanted = declared("a", metadata={"labels": {"team": "x"}, "annotations": {"note": "y"}})
    [action] = decide([wanted], [])

    assert action.manifest == {
        "kind": "PriorityClass",
        "metadata": {"name": "a", "labels": {"team": "x", OWNER_LABEL: "us"}, "annotations": {"note": "y"}},
        "value": 100,
    }
    assert wanted.manifest["metadata"]["labels"] == {"team": "x"}


def test_update_patches_what_differs_and_nothing_else() -> None:
    """Labels that others put on the class are none of our business."""
    live = there("a", description="old", metadata={"labels": {OWNER_LABEL: "us", "theirs": "1", "team": "y"}})
    [action] = decide([declared("a", description="new", metadata={"labels": {"team": "x"}})], [live])

    assert action.manifest == {"description": "new", "metadata": {"labels": {"team": "x"}}}
    assert action.live == live


GONE = "no file declares it any more"


@pytest.mark.parametrize(
    ("live", "used", "held", "expected"),
    [
        pytest.param(there("old"), (), False, ("prune", GONE), id="unused"),
        pytest.param(
            there("old"),
            ("old",),
            False,
            ("hold", f"{GONE}; pruned when the unfinished jobs and pods that name it have ended"),
            id="used",
        ),
        pytest.param(there("old"), (), True, ("hold", f"{GONE}, but a file that can't be read may"), id="held"),
        pytest.param(there("old", owner="them"), (), False, None, id="another owner's"),
        pytest.param(there("old", owner=None), (), False, None, id="made by hand"),
    ],
)
def test_prune(live: Manifest, used: tuple[str, ...], expected: tuple[str, str] | None, *, held: bool) -> None:
    """Only what we made goes, when nothing needs it and every file could be read."""
    actions = decide([declared("new")], [live], used=used, held=held)

    assert [(action.verb.value, action.reason) for action in actions if action.name == "old"] == (
        [expected] if expected else []
    )
    assert not any(action.needs_attention for action in actions)


@pytest.mark.parametrize(
    ("wanted", "live", "expected"),
    [
        pytest.param(
            [declared("b", global_default=True), declared("c"), declared("a")],
            [there("a", globalDefault=True)],
            [("update", "a"), ("create", "c"), ("create", "b")],
            id="the default moves to a new class",
        ),
        pytest.param(
            [declared("b", global_default=True), declared("a", description="x")],
            [there("a", globalDefault=True), there("b")],
            [("update", "a"), ("update", "b")],
            id="the default moves between two",
        ),
        pytest.param(
            [declared("b", global_default=True)],
            [there("a", globalDefault=True)],
            [("update", "a"), ("create", "b"), ("prune", "a")],
            id="the old default is declared no more",
        ),
        pytest.param(
            [declared("b")],
            [there("a", globalDefault=True)],
            [("create", "b"), ("prune", "a")],
            id="no default any more",
        ),
    ],
)
def test_order(wanted: list[PriorityClass], live: list[Manifest], expected: list[tuple[str, str]]) -> None:
    """The server allows one default at a time: un-default, then the rest, then the new default, and prune last."""
    actions = decide(wanted, live)

    assert [(action.verb.value, action.name) for action in actions] == expected


def test_undefaulting_what_nobody_declares_touches_that_field_alone() -> None:
    undefault, *_ = decide([declared("b", global_default=True)], [there("a", globalDefault=True)])

    assert (undefault.manifest, undefault.reason) == ({"globalDefault": False}, UNDEFAULTED)


@pytest.mark.parametrize("there_already", [True, False])
def test_default_of_somebody_else_stays(*, there_already: bool) -> None:
    """Taking the default away from another owner would change jobs that aren't ours."""
    live = [there("theirs", globalDefault=True, owner="them"), *([there("b")] if there_already else [])]
    [action] = decide([declared("b", global_default=True)], live)

    assert (action.verb, action.needs_attention) == (Verb.CONFLICT, True)
    assert action.reason == "can't be the default: theirs is, and was not made by this repository"


def test_other_classes_go_on_beside_a_held_one() -> None:
    """vtmocanu/uzi#1414: one changed value aborted the whole sync until somebody deleted the class by hand."""
    wanted = [declared("a", 200), *(declared(f"c{number}") for number in range(10))]
    actions = decide(wanted, [there("a", 100)])

    assert [action.verb for action in actions] == [Verb.HOLD, *[Verb.CREATE] * 10]


@pytest.mark.parametrize(
    ("since", "attention"),
    [pytest.param("2026-03-01T11:59:00Z", False, id="it goes"), pytest.param("2026-03-01T10:00:00Z", True, id="stuck")],
)
@pytest.mark.parametrize("wanted", [[], [declared("a")]])
def test_a_class_on_its_way_out_is_waited_for(wanted: list[PriorityClass], since: str, *, attention: bool) -> None:
    """It is not deleted again at each pass, and one that does not go names who keeps it."""
    live = there("a", metadata={"deletionTimestamp": since, "finalizers": ["example.com/audit"]})
    (action,) = decide(wanted, [live])

    assert (action.verb, action.needs_attention) == (Verb.HOLD, attention)
    assert ("its finalizers example.com/audit" in action.reason) is attention
