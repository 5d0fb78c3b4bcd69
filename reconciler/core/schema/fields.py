"""Read a document by a table that states, for each field, what becomes of it.

The tables are data (`task_fields`, `settings_fields`, `priority`), so that reading, documentation and a JSON Schema
come from one place. A field is taken, ignored with one warning, or refused by name; what no table knows is refused with
the nearest name that one does. Null is absence everywhere.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.schema.masking import masked
from reconciler.core.yaml import MarkedDocument
from reconciler.model import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHOWN = 80
_LISTED = 10
_MOST_PROBLEMS = 50
_MORE = "more-problems"
_LONGEST_NAME = 64


class Fate(StrEnum):
    """What becomes of a field."""

    TAKEN = "taken"
    IGNORED = "ignored"
    REFUSED = "refused"


class Shape(Enum):
    """What a value may be: how people call it, and the types that it has when it was read."""

    TEXT = ("text", str)
    INTEGER = ("an integer", int)
    NUMBER = ("a number", int, float)
    BOOLEAN = ("true or false", bool)
    MAPPING = ("a mapping", dict)
    LIST = ("a list", list)

    def __init__(self, words: str, *types: type) -> None:
        self.words = words
        self.types = types


_WORDS = {kind: shape.words for shape in reversed(Shape) for kind in shape.types}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema.

    `text` says what a taken field does, why an ignored one has no effect here, and why a refused one can't work and
    what to write instead.
    """

    fate: Fate
    text: str
    shapes: tuple[Shape, ...] = ()


Fields = dict[str, Field]


def taken(text: str, *shapes: Shape) -> Field:
    """Describe a field that has its effect."""
    return Field(Fate.TAKEN, text, shapes)


def ignored(text: str) -> Field:
    """Describe a field without effect here; using it costs a warning."""
    return Field(Fate.IGNORED, text)


def refused(text: str) -> Field:
    """Describe a field that SkyPilot or Kubernetes knows and that can't work here."""
    return Field(Fate.REFUSED, text)


class Reader:
    """Reads one document, and gathers the problems on the way."""

    def __init__(self, document: MarkedDocument, file: str) -> None:
        self.document = document
        self._file = file
        self._problems: list[Problem] = []

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems so far, in the order of the file."""
        return in_order(self._problems)

    @property
    def failed(self) -> bool:
        """Whether one of the problems is an error."""
        return any(problem.severity is Severity.ERROR for problem in self._problems)

    def error(self, path: FieldPath, code: str, message: str) -> None:
        """Note what stops the file."""
        self._note(Severity.ERROR, path, code, message)

    def warning(self, path: FieldPath, code: str, message: str) -> None:
        """Note what its author should know."""
        self._note(Severity.WARNING, path, code, message)

    def section(self, path: FieldPath, mapping: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
        """Return the fields of a mapping that have an effect and the right shape; note what becomes of the others."""
        result = {}
        for key, value in mapping.items():
            field = fields.get(key)
            if field is None:
                self._unknown((*path, key), fields)
            elif value is None:
                continue
            elif field.fate is not Fate.TAKEN:
                self._no_effect((*path, key), value, field)
            elif fits(value, field.shapes) or self.has_shape((*path, key), value, *field.shapes):
                result[key] = value
        return result

    def _no_effect(self, path: FieldPath, value: object, field: Field) -> None:
        name = field_name(path)
        if field.fate is Fate.REFUSED:
            self.error(path, "unsupported-field", f"{name} can't be used here: {field.text}")
        elif value is not False:
            self.warning(path, "ignored-field", f"{name} has no effect here: {field.text}")

    def known(self, path: FieldPath, mapping: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
        """Return the fields of a mapping that are known and not null; refuse the unknown ones."""
        for key in mapping:
            if key not in fields:
                self._unknown((*path, key), fields)
        return {key: value for key, value in mapping.items() if key in fields and value is not None}

    def _unknown(self, path: FieldPath, fields: Fields) -> None:
        self.unknown(path, [name for name, field in fields.items() if field.fate is not Fate.REFUSED])

    def unknown(self, path: FieldPath, names: Iterable[str]) -> None:
        """Refuse a field that nobody knows, with the name that was probably meant."""
        self.error(path, "unknown-field", f"there is no field {field_name(path)}{did_you_mean(str(path[-1]), names)}")

    def has_shape(self, path: FieldPath, value: object, *shapes: Shape) -> bool:
        """Tell whether a value is of one of these shapes; note it when it isn't."""
        if fits(value, shapes):
            return True
        expected = " or ".join(shape.words for shape in shapes)
        quotes = ": write it in quotes" if Shape.TEXT in shapes and isinstance(value, bool | int | float) else ""
        self.error(path, "wrong-type", f"{field_name(path)} must be {expected}, not {kind(value)}{quotes}")
        return False

    def texts(self, path: FieldPath, mapping: Mapping[str, Any], what: str) -> dict[str, str]:
        """Return the texts of a mapping such as labels; note what is neither text nor null."""
        for key, value in mapping.items():
            if value is not None and not isinstance(value, str):
                place = (*path, key)
                message = f"{field_name(place)} must be text, not {kind(value)}: {what} are text, so write it in quotes"
                self.error(place, "wrong-type", message)
        return {key: value for key, value in mapping.items() if isinstance(value, str)}

    def _note(self, severity: Severity, path: FieldPath, code: str, message: str) -> None:
        line, column = self.document.position(path)
        self._problems.append(
            Problem(severity, code, self._file, message, line, column, field_name(path) if path else None)
        )


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort the problems of one file by their place in it; how many more there are stands last."""
    return tuple(sorted(problems, key=lambda one: (one.code == _MORE, one.line or 0, one.column or 0)))


def bounded(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Cut the problems of one file to what somebody reads, and to what a status document can hold.

    Errors stay before warnings do, so that a file with an error never looks like one without. The last one then says
    how many more there are.
    """
    found = tuple(problems)
    ranked = sorted(range(len(found)), key=lambda at: found[at].severity is not Severity.ERROR)
    kept, left = sorted(ranked[:_MOST_PROBLEMS]), [found[at] for at in ranked[_MOST_PROBLEMS:]]
    if not left:
        return found
    message = f"and {len(left)} more problem{'s' if len(left) > 1 else ''}"
    more = Problem(left[0].severity, _MORE, left[0].path, message)
    return (*(found[at] for at in kept), more)


def with_yaml_problems(broken: Sequence[Problem], found: Iterable[Problem]) -> tuple[Problem, ...]:
    """Add what is wrong with a file's YAML to what its reader found, bounded; of one field the former says all."""
    told = {problem.field for problem in broken if problem.field}
    return bounded(in_order([*broken, *(problem for problem in found if problem.field not in told)]))


def fits(value: object, shapes: Iterable[Shape]) -> bool:
    """Tell whether a value is of one of these shapes."""
    kind = type(value)
    for shape in shapes:  # noqa: SIM110 - any() takes twice as long, and this runs for every field of every file
        if kind in shape.types:
            return True
    return False


def kind(value: object) -> str:
    """Name what a value is, without saying what it holds."""
    return _WORDS.get(type(value), "nothing")


def shown(value: object) -> str:
    """Quote a value in a message, cut to a sane length. Never for what is meant as a secret."""
    text = str(value).lower() if isinstance(value, bool) else masked(str(value))
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def listed(items: Sequence[str]) -> str:
    """Join items for a message, the first few of many."""
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(item if len(item) <= _SHOWN else item[:_SHOWN] + "..." for item in items[:_LISTED]) + more


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest of the names, or nothing."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1) if len(word) <= _LONGEST_NAME else []
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
