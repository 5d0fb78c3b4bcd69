"""The keys of a job's document, and what stands under each: the one table that writer and reader share.

A document can be edited by anybody who may push the status branch. It is checked whole when it is read, so that nothing
behind has to expect anything else. Keys that are not in the table are somebody's addition, or a later release's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.core.schema.fields import kind, shown
from reconciler.model import RUN_KINDS, Document, Severity, State

_NAMES = {str: "text", int: "an integer", bool: "true or false", type(None): "null"}


@dataclass(frozen=True, slots=True)
class _Entries:
    """A mapping with these keys, or a list of such mappings."""

    keys: Mapping[str, Any]
    many: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class _Later:
    """A key that a later release has added: documents of before lack it."""

    shape: Any


_TEXT, _NUMBER, _BOOLEAN = (str,), (int,), (bool,)
_STATE, _SEVERITY = frozenset(map(str, State)), frozenset(map(str, Severity))
_SOME_TEXT, _SOME_NUMBER = (str, type(None)), (int, type(None))
_RUN = {"number": _NUMBER, "task_hash": _TEXT, "uid": _TEXT, "kind": _Later(frozenset(RUN_KINDS))}
_EARLIER_RUN = {**_RUN, "state": _STATE, "recoveries": _NUMBER, "ended_at": _SOME_TEXT}
_ATTEMPT = {
    **dict.fromkeys(("started_at", "ended_at", "node", "reason"), _SOME_TEXT),
    "exit_code": _SOME_NUMBER,
    "pod": _TEXT,
}
_PROBLEM = {
    "severity": _SEVERITY,
    **dict.fromkeys(("code", "path", "message"), _TEXT),
    **dict.fromkeys(("line", "column"), _SOME_NUMBER),
    "field": _SOME_TEXT,
}
DOCUMENT: Mapping[str, Any] = {
    "schema_version": _NUMBER,
    "job": _TEXT,
    "file": _SOME_TEXT,
    "commit": _SOME_TEXT,
    "run": _Entries(_RUN, optional=True),
    "state": _STATE,
    **dict.fromkeys(("reason", "message"), _SOME_TEXT),
    "priority": _Entries({"class": _SOME_TEXT, "value": _SOME_NUMBER}),
    **dict.fromkeys(("resources", "context", "namespace"), _SOME_TEXT),
    **dict.fromkeys(("recoveries", "restarts_on_error", "evictions"), _NUMBER),
    "exact": _BOOLEAN,
    **dict.fromkeys(("submitted_at", "started_at", "ended_at"), _SOME_TEXT),
    **dict.fromkeys(("queued_seconds", "run_seconds", "recovering_seconds"), _SOME_NUMBER),
    "attempts": _Entries(_ATTEMPT, many=True),
    "attempts_complete": _BOOLEAN,
    "runs": _Entries(_EARLIER_RUN, many=True),
    "problems": _Entries(_PROBLEM, many=True),
}


def check_document(document: Document, job: str) -> None:
    """Raise ValueError for a document that lost its form, and say where, or that speaks of another job."""
    wrong = next(_entries(document, DOCUMENT, ""), None)
    if wrong is None and document["job"] != job:
        wrong = f"speaks of job {shown(document['job'])}"
    if wrong is not None:
        raise ValueError(wrong)


def _entries(value: Document, keys: Mapping[str, Any], place: str) -> Iterator[str]:
    shapes = {key: each.shape if isinstance(each, _Later) else each for key, each in keys.items()}
    if missing := [key for key in keys if key not in value and shapes[key] is keys[key]]:
        yield f"lacks {', '.join(place + key for key in missing)}"
        return
    for key, shape in shapes.items():
        if key not in value:
            continue
        found = value[key]
        if type(shape) is tuple:
            if type(found) not in shape:
                yield _wrong(place + key, found, " or ".join(_NAMES[each] for each in shape))
        elif isinstance(shape, _Entries):
            yield from _nested(found, shape, place + key)
        elif type(found) is not str or found not in shape:
            yield _wrong(place + key, found, f"one of {', '.join(sorted(shape))}")


def _nested(value: Any, shape: _Entries, place: str) -> Iterator[str]:
    if value is None and shape.optional:
        return
    if type(value) is not (list if shape.many else dict):
        yield _wrong(place, value, "a list" if shape.many else "a mapping")
    elif not shape.many:
        yield from _entries(dict(value), shape.keys, f"{place}.")
    else:
        for index, item in enumerate(value):
            if type(item) is not dict:
                yield _wrong(f"{place}[{index}]", item, "a mapping")
            else:
                yield from _entries(item, shape.keys, f"{place}[{index}].")


def _wrong(place: str, found: Any, expected: str) -> str:
    return f"has {kind(found)} as {place}, which is {expected}"
