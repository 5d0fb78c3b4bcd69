"""Write YAML: the documents of the status branch, and manifests for people and for kubectl.

The same value is the same bytes, keys keep their order, and nothing is an alias. Whoever reads it may use another YAML
parser than ours, and parsers disagree on what `1e3`, `0o17`, `12:30`, `no` or a commit of digits alone is: all that
doesn't begin like a word is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from yaml import SafeDumper as _BaseDumper
else:
    _BaseDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_TEXT = "tag:yaml.org,2002:str"
_WORD = re.compile(r"[A-Za-z_/]")
_NO_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity", "none"])
_ONE_LINE = 1_000_000


class _Dumper(_BaseDumper):
    """Writes a value on one line, so that a diff shows a changed value as one changed line."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def represent_text(self, value: str) -> yaml.ScalarNode:
        if not value.isprintable():
            return self.represent_scalar(_TEXT, value.encode("utf-8", "replace").decode(), style='"')
        plain = _WORD.match(value) and value.lower() not in _NO_WORDS
        return self.represent_scalar(_TEXT, value, style=None if plain else "'")


class _ManifestDumper(_Dumper):
    """Writes scripts as blocks, to be read."""

    def represent_text(self, value: str) -> yaml.ScalarNode:
        if "\n" in value:
            return self.represent_scalar(_TEXT, value, style="|")
        return super().represent_text(value)


_Dumper.add_representer(str, _Dumper.represent_text)
_ManifestDumper.add_representer(str, _ManifestDumper.represent_text)


def dump(document: Mapping[str, Any]) -> str:
    """Return a document, one line a value. Half a surrogate pair becomes `?`."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ONE_LINE)
    return text


def dump_manifests(manifests: Iterable[Mapping[str, Any]]) -> str:
    """Return manifests as a stream of documents."""
    text: str = yaml.dump_all(
        manifests, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=_ONE_LINE
    )
    return text
