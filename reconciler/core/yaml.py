"""Read YAML strictly, and remember where each value stood.

The parser is libyaml's; what a scalar means is decided here, and nothing else in this package decides it:

- null is `null`, `~` or nothing; a bool is `true` or `false` (also capitalised). `yes`, `no`, `on` and `off` stay text:
  YAML readers disagree on them, and text is never wrong in silence, because a field that wants a bool refuses text.
- an integer is decimal, `0x10`, `0o17`, `017` (octal, as kubectl reads `defaultMode: 0644`) or `0b101`. `08`, `1_000`,
  `1:30` and what 64 bits can't hold stay text.
- a float has a dot or an exponent: `1.5`, `1e3`. `.inf` and `.nan` stay text: JSON has no word for them.
- dates and `=` stay text. Keys are text always, as they were written.
- `<<` merges, as in YAML 1.1 and in kubectl.

The parser's events become plain data in one go, and each keeps its place, because a problem needs a line.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from reconciler.core.field_path import FieldPath, field_name, field_path, shown_key
from reconciler.core.schema.yaml_scalars import typed
from reconciler.core.schema.yaml_syntax import (
    MAX_BYTES,
    MAX_DEPTH,
    TEMPLATE,
    TOO_DEEP,
    Fault,
    explain,
    pasted_command,
    unreadable,
)
from reconciler.model import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # Where a value stood: the event of a scalar; of a mapping or a list its first event, and the places in it.
    Place = ScalarEvent | tuple[Event, dict[str, "Entry"]] | tuple[Event, list["Place"]]
    Entry = tuple[ScalarEvent, Place]
    Built = tuple[Any, Place]

MAX_NODES = 10_000

_CORE = "tag:yaml.org,2002:"
_TEXT = _CORE + "str"
_TYPES = {_CORE + "null": type(None), _CORE + "bool": bool, _CORE + "int": int, _CORE + "float": float}
_UNTAGGED = (None, "!", _CORE + "map", _CORE + "seq")
_TOO_MANY = f"more than {MAX_NODES} keys and values in one file, aliases expanded: split it, or use fewer aliases"
_TOO_LARGE = f"more than {MAX_BYTES} characters, aliases expanded: use fewer aliases"
_WRONG_TAG = "! begins a tag, and this one fits no value here: leave it out; a text that begins with ! needs quotes"
_NO_ANCHOR = "* begins an alias, and there is no anchor before it that it names: a text that begins with * needs quotes"


class _PythonLoader(yaml.SafeLoader):
    """The parser where PyYAML comes without libyaml: the same answers, more slowly."""

    def get_event(self) -> Event:
        event: Event = super().get_event()  # type: ignore[no-untyped-call]
        if isinstance(event, ScalarEvent):
            event.value.encode()  # ValueError: libyaml refuses \\ud800 by itself
        return event


try:
    from yaml._yaml import CParser
except ImportError:  # pragma: no cover
    _Loader: Any = _PythonLoader
else:
    _Loader = CParser


class MarkedDocument:
    """One document as plain data, with the place of each value.

    `value` is nothing but dict, list, str, int, float, bool and None.
    """

    __slots__ = ("_root", "value")

    def __init__(self, value: Any, root: Place) -> None:
        self.value = value
        self._root = root

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column, from 1, of a key or of a list's item; of the nearest parent when it is missing."""
        event = _event(self._root)
        for event, _ in self._walk(path):  # noqa: B007 - the last one counts
            pass
        mark = event.start_mark
        return mark.line + 1, mark.column + 1

    def find(self, field: str) -> tuple[int, int] | None:
        """Return line and column of a field by its name, or of its nearest parent; None without a trace of it."""
        path = self._uncut(field_path(field))
        return self.position(path) if any(True for _ in self._walk(path)) else None

    def is_anchor(self, path: FieldPath) -> bool:
        """Tell whether there stands `&name` and nothing else: null to YAML, and hardly what was meant."""
        place = self._place(path)
        return type(place) is ScalarEvent and bool(place.anchor) and place.implicit[0] and not place.value

    def source(self, path: FieldPath) -> str | None:
        """Return the text of a scalar as it was written, without its quotes; None when no scalar is there."""
        place = self._place(path)
        return str(place.value) if type(place) is ScalarEvent else None

    def is_plain(self, path: FieldPath) -> bool:
        """Tell whether a scalar stands without quotes."""
        place = self._place(path)
        return type(place) is ScalarEvent and bool(place.implicit[0])

    def _place(self, path: FieldPath) -> Any:
        place: Any = self._root
        try:
            for step in path:
                inside = place[1]
                place = inside[step][1] if type(inside) is dict else inside[step]
        except (KeyError, IndexError, TypeError):
            return None
        return place

    def _uncut(self, path: FieldPath) -> FieldPath:
        """Put whole keys for those that `field_name` has cut, where there is but one that they can be."""
        value: Any = self.value
        whole: list[str | int] = []
        for step in path:
            if isinstance(value, dict):
                likely = [] if step in value else [key for key in value if shown_key(key) == step]
                whole.append(likely[0] if len(likely) == 1 else step)
                value = value.get(whole[-1])
            else:
                whole.append(step)
                value = value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None
        return tuple(whole)

    def _walk(self, path: FieldPath) -> Iterator[tuple[Any, Place]]:
        place = self._root
        for step in path:
            inside = place[1] if type(place) is tuple else None
            if type(inside) is dict and step in inside:
                event, place = inside[step]
            elif type(inside) is list and isinstance(step, int) and 0 <= step < len(inside):
                place = inside[step]
                event = _event(place)
            else:
                return
            yield event, place


def parse_documents(data: bytes | str, path: str) -> tuple[list[MarkedDocument], list[Problem]]:
    """Parse a stream of documents, and name all that is wrong with its YAML.

    Documents of nothing or of comments alone are left out. Of a key that stands twice the first value is taken, so that
    one pass can name the other problems too; any problem here means that the file can't be used as it stands. After
    an error of syntax the documents before it are returned.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    documents: list[MarkedDocument] = []
    faults: list[Fault] = []
    try:
        if fault := unreadable(raw):
            raise fault
        for value, place in _Builder(_Loader(raw).get_event, faults, len(raw)).documents():
            if isinstance(value, str) and (fault := pasted_command(raw)):
                raise fault
            if value is not None:
                documents.append(MarkedDocument(value, place))
    except Fault as fault:
        faults.append(fault)
    except (yaml.YAMLError, ValueError) as error:
        explained = explain(error, raw)
        if not any(fault.code == "unrendered-template" for fault in faults):  # that breaks the rest, too
            faults.append(explained)
    faults.sort(key=lambda fault: (fault.line, fault.column))
    return documents, [_problem(fault, path) for fault in faults]


def load_own(text: str) -> Any:
    """Load one document that we have written: the same types, but as many values as it likes.

    Such documents have no aliases. What could have some is read like anybody's file, for aliases multiply. Raises
    ValueError for what is none.
    """
    faults: list[Fault] = []
    most = MAX_NODES if "&" in text and "*" in text else math.inf
    try:
        documents = list(_Builder(_Loader(text).get_event, faults, len(text), most).documents())
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())[:200]}") from error
    except Fault as fault:
        faults.append(fault)
    if faults:
        raise ValueError(f"is not as we write it, line {faults[0].line}: {faults[0].message}")
    if len(documents) > 1:
        raise ValueError(f"is not as we write it: it has {len(documents)} documents")
    return documents[0][0] if documents else None


def _problem(fault: Fault, path: str) -> Problem:
    return Problem(
        Severity.ERROR, fault.code, path, fault.message, fault.line, fault.column, field_name(fault.field) or None
    )


def _event(place: Place) -> Any:
    return place[0] if isinstance(place, tuple) else place


class _Builder:
    """Turns the events of a file into plain data and the places of it; aliases are expanded, counted and bounded.

    NB: nothing here may recurse without the bound on depth, nor copy without the bound on number.
    """

    def __init__(
        self, next_event: Callable[[], Any], faults: list[Fault], size: int, most_nodes: float = MAX_NODES
    ) -> None:
        self._next = next_event
        self._faults = faults
        self._size = size
        self._most_nodes = most_nodes
        self._nodes = 0
        self._depth = 0
        self._path: list[str | int] = []
        self._anchors: dict[str, Built | None] = {}

    def documents(self) -> Iterator[Built]:
        """Yield value and place of each document."""
        self._next()  # that the stream begins
        while type(self._next()) is DocumentStartEvent:
            self._anchors.clear()
            built = self._node(self._next())
            self._next()  # that the document ends
            yield built

    def _node(self, event: Any) -> Built:
        self._nodes += 1
        if self._nodes > self._most_nodes:
            raise self._fault(event, "too-many-values", _TOO_MANY)
        kind = type(event)
        if kind is ScalarEvent:
            built: Built = self._scalar(event), event
        elif kind is AliasEvent:
            return self._alias(event)
        else:
            built = self._collection(event)
        if event.anchor:
            self._anchors[event.anchor] = built
        return built

    def _scalar(self, event: ScalarEvent) -> Any:
        tag, text = event.tag, event.value
        if tag is None or tag == "!":
            return typed(text) if event.implicit[0] else text
        if tag == _TEXT:
            return text
        value = typed(text)
        if tag not in _TYPES or type(value) is not _TYPES[tag]:
            self._faults.append(self._tag_fault(event))
        return value

    def _collection(self, event: Any) -> Built:
        if self._depth >= MAX_DEPTH:
            raise self._fault(event, "too-deep", TOO_DEEP)
        if event.tag not in _UNTAGGED:
            self._faults.append(self._tag_fault(event))
        if event.anchor:
            self._anchors[event.anchor] = None
        self._depth += 1
        built = self._mapping(event) if type(event) is MappingStartEvent else self._sequence(event)
        self._depth -= 1
        return built

    def _sequence(self, start: Event) -> Built:
        values: list[Any] = []
        places: list[Place] = []
        path, next_event = self._path, self._next
        while type(event := next_event()) is not SequenceEndEvent:
            path.append(len(values))
            value, place = self._node(event)
            path.pop()
            values.append(value)
            places.append(place)
        return values, (start, places)

    def _mapping(self, start: Event) -> Built:
        values: dict[str, Any] = {}
        entries: dict[str, Entry] = {}
        merged: list[tuple[ScalarEvent, Any, Any]] = []
        path, next_event, node = self._path, self._next, self._node
        place: Any
        while type(key_event := next_event()) is not MappingEndEvent:
            self._nodes += 1
            if self._nodes > self._most_nodes:
                raise self._fault(key_event, "too-many-values", _TOO_MANY)
            if type(key_event) is not ScalarEvent or key_event.anchor:
                key_event = self._key(key_event)
            if key_event is None:
                node(next_event())
                continue
            key = key_event.value
            if key == "<<" and key_event.implicit[0]:
                merged.append((key_event, *node(next_event())))
                continue
            event = next_event()
            path.append(key)
            if type(event) is ScalarEvent and event.tag is None and not event.anchor:  # most are, and calls cost
                self._nodes += 1
                value, place = typed(event.value) if event.implicit[0] else event.value, event
            else:
                value, place = node(event)
            if key in entries:
                self._faults.append(self._duplicate(entries[key][0], key_event))
            else:
                values[key], entries[key] = value, (key_event, place)
            path.pop()
        if merged:
            over_values, over_entries = self._merged(merged)
            values, entries = {**over_values, **values}, {**over_entries, **entries}
        return values, (start, entries)

    def _key(self, event: Any) -> ScalarEvent | None:
        """Return the scalar that a key is or stands for; None, with a fault, where it is neither."""
        place = self._node(event)[1]
        if type(place) is ScalarEvent:
            return place
        if type(event) is MappingStartEvent and event.flow_style:
            self._faults.append(self._fault(event, "unrendered-template", TEMPLATE))
        else:
            self._faults.append(self._fault(event, "bad-key", "a key must be text, not a list or a mapping"))
        return None

    def _merged(self, merged: list[tuple[ScalarEvent, Any, Any]]) -> tuple[dict[str, Any], dict[str, Entry]]:
        """Put together what `<<` brings; the first source of a key wins."""
        values: dict[str, Any] = {}
        entries: dict[str, Entry] = {}
        for key_event, value, place in merged:
            sources = zip(value, place[1], strict=True) if isinstance(value, list) else ((value, place),)
            for source, source_place in sources:
                if isinstance(source, dict):
                    values, entries = {**source, **values}, {**source_place[1], **entries}
                else:
                    message = "<< takes a mapping, or a list of mappings"
                    self._faults.append(self._fault(key_event, "bad-merge", message))
        return values, entries

    def _alias(self, event: AliasEvent) -> Built:
        if event.anchor not in self._anchors:
            raise self._fault(event, "syntax", _NO_ANCHOR)
        built = self._anchors[event.anchor]
        if built is None:
            raise self._fault(event, "self-reference", "this value refers to itself, by an alias in it")
        return self._copy(event, built[0], self._depth), built[1]

    def _copy(self, alias: AliasEvent, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            self._size += len(value)
            if self._size > MAX_BYTES:
                raise self._fault(alias, "too-large", _TOO_LARGE)
        if not isinstance(value, dict | list):
            return value
        if depth >= MAX_DEPTH:
            raise self._fault(alias, "too-deep", TOO_DEEP)
        self._nodes += len(value) * (2 if isinstance(value, dict) else 1)
        if self._nodes > self._most_nodes:
            raise self._fault(alias, "too-many-values", _TOO_MANY)
        if isinstance(value, dict):
            return {key: self._copy(alias, item, depth + 1) for key, item in value.items()}
        return [self._copy(alias, item, depth + 1) for item in value]

    def _duplicate(self, first: Any, again: Any) -> Fault:
        lines = f"in line {first.start_mark.line + 1} and in line {again.start_mark.line + 1}"
        message = f"{field_name(tuple(self._path))} stands twice, {lines}: leave one"
        return self._fault(again, "duplicate-key", message)

    def _tag_fault(self, event: Any) -> Fault:
        return self._fault(event, "unsupported-tag", _WRONG_TAG)

    def _fault(self, event: Event, code: str, message: str) -> Fault:
        return Fault.at(event, code, message, tuple(self._path))
