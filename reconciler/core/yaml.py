"""Read YAML strictly, and remember where each value stood.

The parser is libyaml's; what a scalar means is decided here, and nothing else in this package decides it:

- null is `null`, `~` or nothing; a bool is `true` or `false` (also capitalised). `yes`, `no`, `on` and `off` stay text:
  YAML readers disagree on them, and text is never wrong in silence, because a field that wants a bool refuses text.
- an integer is decimal, `0x10`, `0o17`, `017` (octal, as kubectl reads `defaultMode: 0644`) or `0b101`. `08`, `1_000`,
  `1:30` and what 64 bits can't hold stay text.
- a float has a dot or an exponent: `1.5`, `1e3`. `.inf` and `.nan` stay text: JSON has no word for them.
- dates and `=` stay text. Keys are text always, as they were written.
- `<<` merges, as in YAML 1.1 and in kubectl.

Positions cost nothing until somebody asks: the nodes are kept, and walked when a problem needs a line.
"""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING, Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

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
    from collections.abc import Iterator

MAX_NODES = 10_000

FieldPath = tuple[str | int, ...]

_PLAIN = ""  # the tag of a scalar without quotes and without a tag of its own
_CORE = "tag:yaml.org,2002:"
_TEXT = _CORE + "str"
_TYPES = {_CORE + "null": type(None), _CORE + "bool": bool, _CORE + "int": int, _CORE + "float": float}
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(?:(0x[0-9a-fA-F]+)|(0b[01]+)|(0o?[0-7]+)|0|[1-9][0-9]*)")
_LONGEST_INTEGER = 67  # 64 bits in binary, with a sign and 0b
_FLOAT = re.compile(r"[-+]?(?=[0-9.]*[.eE])(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TOO_MANY = f"more than {MAX_NODES} keys and values in one file, aliases expanded: split it, or use fewer aliases"
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_/-]*")
_FIELD_STEP = re.compile(r"""\[(\d+)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.?([^.\[\]]+)""")
_SHOWN_KEY = 60


class _Hooks:
    """What the composer asks per node: keeps plain scalars apart from quoted ones, and bounds depth and number.

    NB: the bounds must hold here. libyaml's composer recurses on the C stack, and 100 000 brackets end the process.
    """

    _depth = 0
    _count = 0

    def descend_resolver(self, parent: Node | None, _index: object) -> None:
        """Enter a node below `parent`."""
        self._depth += 1
        self._count += 1
        if parent and self._depth > MAX_DEPTH:
            raise Fault.at(parent, "too-deep", TOO_DEEP)
        if parent and self._count > MAX_NODES:
            raise Fault.at(parent, "too-many-values", _TOO_MANY)

    def ascend_resolver(self) -> None:
        """Leave a node."""
        self._depth -= 1

    def resolve(self, _kind: type[Node], _value: str | None, implicit: object) -> str:
        """Tell a quoted scalar, which is (False, True), from a plain one, instead of guessing what that means."""
        return _TEXT if implicit == (False, True) else _PLAIN


class _PythonLoader(_Hooks, yaml.SafeLoader):
    """The loader where PyYAML comes without libyaml: the same answers, more slowly."""

    def resolve(self, kind: type[Node], value: str | None, implicit: object) -> str:
        (value or "").encode()  # ValueError: libyaml refuses \\ud800 by itself
        return super().resolve(kind, value, implicit)


try:
    from yaml._yaml import CParser
except ImportError:  # pragma: no cover
    _Loader: Any = _PythonLoader
else:

    class _LibyamlLoader(_Hooks, CParser):
        """The loader by libyaml."""

    _Loader = _LibyamlLoader


class _OwnLoader(_Loader):  # type: ignore[misc]  # one of two
    """The loader for what we have written: no bound on the number of nodes, and no aliases that could multiply them."""

    def descend_resolver(self, parent: Node | None, _index: object) -> None:
        self._depth += 1
        if parent and self._depth > MAX_DEPTH:
            raise Fault.at(parent, "too-deep", TOO_DEEP)


class MarkedDocument:
    """One document as plain data, with the place of each value.

    `value` is nothing but dict, list, str, int, float, bool and None.
    """

    __slots__ = ("_entries", "_root", "value")

    def __init__(self, value: Any, root: Node) -> None:
        self.value = value
        self._root = root
        self._entries: dict[int, dict[str, tuple[Node, Node]]] = {}

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column, from 1, of a key or of a list's item; of the nearest parent when it is missing."""
        mark = self._root.start_mark
        for key_node, _ in self._walk(path):
            mark = key_node.start_mark
        return mark.line + 1, mark.column + 1

    def find(self, field: str) -> tuple[int, int] | None:
        """Return line and column of a field by its name, or of its nearest parent; None without a trace of it."""
        path = field_path(field)
        return self.position(path) if any(True for _ in self._walk(path)) else None

    def source(self, path: FieldPath) -> str | None:
        """Return the text of a scalar as it was written, without its quotes; None when no scalar is there."""
        node = self._root
        steps = 0
        for _, node in self._walk(path):  # noqa: B007 - the last one counts
            steps += 1
        return str(node.value) if steps == len(path) and type(node) is ScalarNode else None

    def _walk(self, path: FieldPath) -> Iterator[tuple[Node, Node]]:
        node = self._root
        for step in path:
            if type(node) is MappingNode and isinstance(step, str):
                entry = self._mapping(node).get(step)
            elif type(node) is SequenceNode and isinstance(step, int) and 0 <= step < len(node.value):
                entry = (node.value[step], node.value[step])
            else:
                entry = None
            if entry is None:
                return
            yield entry
            node = entry[1]

    def _mapping(self, node: MappingNode) -> dict[str, tuple[Node, Node]]:
        """Index a mapping by its keys; what it merges comes after what it says itself."""
        entries = self._entries.get(id(node))
        if entries is None:
            entries = self._entries[id(node)] = {}
            merged: list[MappingNode] = []
            for key_node, value_node in node.value:
                if _is_merge(key_node):
                    merged.extend(value_node.value if type(value_node) is SequenceNode else [value_node])
                elif type(key_node) is ScalarNode:
                    entries.setdefault(key_node.value, (key_node, value_node))
            for source in merged:
                for key, entry in self._mapping(source).items() if type(source) is MappingNode else ():
                    entries.setdefault(key, entry)
        return entries


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
    builder = _Builder(faults)
    try:
        if fault := unreadable(raw):
            raise fault
        for root in yaml.compose_all(raw, _Loader):
            value = builder.build(root)
            if isinstance(value, str) and (fault := pasted_command(raw)):
                raise fault
            if value is not None:
                documents.append(MarkedDocument(value, root))
    except Fault as fault:
        faults.append(fault)
    except (yaml.YAMLError, ValueError) as error:
        faults.append(explain(error, raw))
    return documents, [_problem(fault, path) for fault in faults]


def field_name(path: FieldPath) -> str:
    """Write a path as people do: `spec.containers[0].env`; a key with dots or blanks in it stands in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif len(step) <= _SHOWN_KEY and _SIMPLE_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            shown = step if len(step) <= _SHOWN_KEY else step[:_SHOWN_KEY] + "..."
            text += f"[{shown!r}]"
    return text


def field_path(name: str) -> FieldPath:
    """Return the path that `field_name` wrote; a key that it cut stays cut."""
    return tuple(
        int(index) if index else ast.literal_eval(quoted) if quoted else word
        for index, quoted, word in _FIELD_STEP.findall(name)
    )


def load_own(text: str) -> Any:
    """Load one document that we have written, fast: the same types, but no positions, and of two like keys the last.

    Such documents have no aliases, and may be as long as they like. What could have some is read like anybody's file,
    for aliases multiply. Raises ValueError for what is none.
    """
    if "&" in text and "*" in text:
        documents, problems = parse_documents(text, "")
        if problems:
            raise ValueError(f"is not as we write it, line {problems[0].line}: {problems[0].message}")
        return documents[0].value if documents else None
    try:
        root = yaml.compose(text, _OwnLoader)
        return None if root is None else _own_value(root)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())[:200]}") from error
    except Fault as fault:
        raise ValueError(f"is not as we write it, line {fault.line}: {fault.message}") from fault


def _own_value(node: Node) -> Any:
    kind, tag = type(node), node.tag
    if kind is ScalarNode and tag == _TEXT:
        return node.value
    if tag != _PLAIN:
        raise Fault.at(node, "unsupported-tag", f"the tag {tag[:_SHOWN_KEY]} has no place here")
    if kind is ScalarNode:
        return _typed(node.value)
    if kind is MappingNode:
        return {key.value: _own_value(value) for key, value in node.value}
    return [_own_value(item) for item in node.value]


def _problem(fault: Fault, path: str) -> Problem:
    return Problem(
        Severity.ERROR, fault.code, path, fault.message, fault.line, fault.column, field_name(fault.field) or None
    )


def _is_merge(key_node: Node) -> bool:
    return type(key_node) is ScalarNode and key_node.value == "<<" and key_node.tag == _PLAIN


class _Builder:
    """Turns nodes into plain data; aliases are expanded, counted and bounded over all documents of a file."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults
        self._nodes = 0
        self._size = 0
        self._path: list[str | int] = []
        self._open: list[Node] = []

    def build(self, node: Node) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._fault(node, "too-many-values", _TOO_MANY)
        if type(node) is ScalarNode:
            return self._scalar(node)
        if node in self._open:
            raise self._fault(node, "self-reference", "this value refers to itself by an alias")
        if len(self._open) >= MAX_DEPTH:
            raise self._fault(node, "too-deep", TOO_DEEP)
        if node.tag not in (_PLAIN, _CORE + "map", _CORE + "seq"):
            self._faults.append(self._tag_fault(node))
        self._open.append(node)
        value = self._mapping(node) if type(node) is MappingNode else self._sequence(node)
        self._open.pop()
        return value

    def _scalar(self, node: ScalarNode) -> Any:
        text = node.value
        self._size += len(text)
        if self._size > MAX_BYTES:
            raise self._fault(node, "too-large", f"more than {MAX_BYTES} characters, aliases expanded")
        tag = node.tag
        if tag == _PLAIN:
            return _typed(text)
        if tag == _TEXT:
            return text
        value = _typed(text)
        if tag not in _TYPES or type(value) is not _TYPES[tag]:
            self._faults.append(self._tag_fault(node))
        return value

    def _sequence(self, node: Node) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            self._path.append(index)
            items.append(self.build(item))
            self._path.pop()
        return items

    def _mapping(self, node: MappingNode) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[tuple[Node, Node]] = []
        path = self._path
        for key_node, value_node in node.value:
            self._nodes += 1
            if type(key_node) is not ScalarNode:
                self._faults.append(self._key_fault(key_node))
                continue
            key = key_node.value
            if key == "<<" and _is_merge(key_node):
                merged.append((key_node, value_node))
                continue
            path.append(key)
            if key in result:
                self._faults.append(self._duplicate(node, key_node))
            else:
                result[key] = self.build(value_node)
            path.pop()
        return {**self._merged(merged), **result} if merged else result

    def _merged(self, merged: list[tuple[Node, Node]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in merged:
            for source in value_node.value if type(value_node) is SequenceNode else (value_node,):
                values = self.build(source)
                if isinstance(values, dict):
                    result = {**values, **result}
                else:
                    self._faults.append(self._fault(key_node, "bad-merge", "<< takes a mapping, or a list of mappings"))
        return result

    def _duplicate(self, node: MappingNode, key_node: ScalarNode) -> Fault:
        first = next(other for other, _ in node.value if type(other) is ScalarNode and other.value == key_node.value)
        name = field_name(tuple(self._path))
        lines = f"in line {first.start_mark.line + 1} and in line {key_node.start_mark.line + 1}"
        return self._fault(key_node, "duplicate-key", f"{name} stands twice, {lines}: leave one")

    def _key_fault(self, key_node: Node) -> Fault:
        if type(key_node) is MappingNode and key_node.flow_style:
            return self._fault(key_node, "unrendered-template", TEMPLATE)
        return self._fault(key_node, "bad-key", "a key must be text, not a list or a mapping")

    def _tag_fault(self, node: Node) -> Fault:
        tag = node.tag.replace(_CORE, "!!")[:_SHOWN_KEY]
        return self._fault(node, "unsupported-tag", f"the tag {tag} does not fit this value here: leave it out")

    def _fault(self, node: Node, code: str, message: str) -> Fault:
        return Fault.at(node, code, message, tuple(self._path))


def _typed(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    match = _INTEGER.fullmatch(text)
    if match:
        base = 16 if match[1] else 2 if match[2] else 8 if match[3] else 10
        number = int(text, base) if len(text) <= _LONGEST_INTEGER else 1 << 64
        return number if -(1 << 63) <= number < 1 << 64 else text
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else text
    return text
