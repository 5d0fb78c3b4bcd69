"""Leave out of a text from a file what may be a secret, before a message or the name of a field shows it.

People put values where names belong: `HF_TOKEN=...` or `HF_TOKEN:...` as a key, a URL with a password or a token in it.
What follows such a sign is never shown, whatever it is.
"""

from __future__ import annotations

import re

_LOGIN = re.compile(r"([^\s/:@]*):[^\s/@]+@")
_ASSIGNED = re.compile(r"=.*", re.DOTALL)
_VARIABLE_AND_VALUE = re.compile(r"([A-Z_][A-Z0-9_]*:).+", re.DOTALL)


def masked(text: str) -> str:
    """Return a value without what stands behind `=`, and without the password of `user:password@host`."""
    return _ASSIGNED.sub("=...", _LOGIN.sub(r"\1:...@", text))


def masked_key(key: str) -> str:
    """Return a key, or the name of a variable, without a value behind it, as in `HF_TOKEN:value` too."""
    return masked(_VARIABLE_AND_VALUE.sub(r"\1...", key))
