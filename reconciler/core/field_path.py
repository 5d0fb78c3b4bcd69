"""The path of a value in a file, and how people write it: `spec.containers[0].env`."""

from __future__ import annotations

import ast
import re

from reconciler.core.schema.masking import masked_key

FieldPath = tuple[str | int, ...]

_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_/-]*")
_FIELD_STEP = re.compile(r"""\[(\d+)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.?([^.\[\]]+)""")
_SHOWN_KEY = 60


def field_name(path: FieldPath) -> str:
    """Write a path as people do: `spec.containers[0].env`; a key with dots or blanks in it stands in brackets.

    Of a key only so much is shown as is no value: of `TOKEN=x` what stands before it.
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif len(step) <= _SHOWN_KEY and _SIMPLE_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown_key(step)!r}]"
    return text


def field_path(name: str) -> FieldPath:
    """Return the path that `field_name` wrote; a key that it cut stays cut."""
    return tuple(
        int(index) if index else ast.literal_eval(quoted) if quoted else word
        for index, quoted, word in _FIELD_STEP.findall(name)
    )


def shown_key(key: str) -> str:
    """Return so much of a key as `field_name` shows."""
    shown = masked_key(key)
    return shown if len(shown) <= _SHOWN_KEY else shown[:_SHOWN_KEY] + "..."
