"""Write documents of the status branch as YAML, and read them back.

The same document is the same bytes. Whoever reads them may use another YAML parser than ours, and parsers disagree on
what `1e3`, `0o17`, `12:30`, `no` or a commit of digits alone is: all that doesn't begin like a word is quoted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from reconciler.core.yaml import load_own
from reconciler.model import Document

if TYPE_CHECKING:
    from yaml import SafeDumper as _BaseDumper
else:
    _BaseDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

SCHEMA_VERSION = 1

_TEXT_TAG = "tag:yaml.org,2002:str"
_WORD_LIKE = re.compile(r"[A-Za-z_/]")
_VALUES = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity", "none"])
_ONE_LINE = 1_000_000


class _Dumper(_BaseDumper):
    """Quotes by our own rule, and repeats what occurs twice instead of pointing at it."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def represent_text(self, value: str) -> yaml.ScalarNode:
        if not value.isprintable():
            return self.represent_scalar(_TEXT_TAG, value.encode("utf-8", "replace").decode(), style='"')
        plain = _WORD_LIKE.match(value) and value.lower() not in _VALUES
        return self.represent_scalar(_TEXT_TAG, value, style=None if plain else "'")


_Dumper.add_representer(str, _Dumper.represent_text)


def dump(document: Document) -> str:
    """Return a document as YAML, one line a value, in the order of its keys. Half a surrogate pair becomes `?`."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ONE_LINE)
    return text


def load(text: str) -> Document:
    """Return a document of any kind. Raises ValueError for what is none, or is of a later release."""
    document = load_own(text)
    if not isinstance(document, dict):
        raise ValueError(f"is no mapping but {type(document).__name__}")  # noqa: TRY004 - a value of the file
    if document.get("schema_version") != SCHEMA_VERSION:
        found = repr(document.get("schema_version"))[:40]
        raise ValueError(f"has schema_version {found}, and this release knows {SCHEMA_VERSION}: upgrade it")
    return document
