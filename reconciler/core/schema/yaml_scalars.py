"""Say what the text of a scalar without quotes means; `yaml`, which is the only caller, states the rules."""

from __future__ import annotations

import math
import re
from typing import Any

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(?:(0x[0-9a-fA-F]+)|(0b[01]+)|(0o?[0-7]+)|0|[1-9][0-9]*)")
_LONGEST_INTEGER = 67  # 64 bits in binary, with a sign and 0b
_FLOAT = re.compile(r"[-+]?(?=[0-9.]*[.eE])(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def typed(text: str) -> Any:
    """Return null, a bool, a number, or the text itself."""
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
