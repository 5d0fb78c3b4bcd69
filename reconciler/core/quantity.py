"""Kubernetes quantities (`500m`, `16Gi`, `1e3`), exactly: no floating point, so nothing rounds.

The grammar is that of `k8s.io/apimachinery/pkg/api/resource`. Kubernetes rounds up below 1n and caps at 2^63-1; here a
number stays what was written, and an exponent has at most two digits.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_QUANTITY = re.compile(
    r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]))?",
    re.ASCII,
)
_BINARY = {suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", *"MGTPE"), -3)}
_SUFFIXES = _DECIMAL | _BINARY
_LONGEST = 64
_EXPECTED = "write a number such as 4, 500m, 16Gi or 1e3"


def parse_quantity(text: str | float) -> Fraction:
    """Return the number that a quantity stands for.

    A YAML number is taken as its shortest text, so `0.1` is a tenth. Raises ValueError for anything else: bool, NaN,
    spaces, unknown suffixes, a suffix after an exponent.
    """
    if isinstance(text, str | int | float) and not isinstance(text, bool):
        return _parse(str(text))
    raise ValueError(f"{str(text)[:64]!r} is not a quantity; {_EXPECTED}")


@lru_cache(maxsize=4096)
def _parse(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match[2] or match[3]) or len(text) > _LONGEST:
        raise ValueError(f"{text[:64]!r} is not a quantity; {_EXPECTED}")
    sign, whole, part, exponent, suffix = match.groups(default="")
    number = Fraction(int(whole + part), 10 ** len(part)) * Fraction(10) ** int(exponent or 0) * _SUFFIXES[suffix]
    return -number if sign == "-" else number


def format_quantity(number: Fraction) -> str:
    """Write a number as the shortest quantity that is exactly it: binary suffixes first, as memory is written.

    Raises ValueError for what Kubernetes can't hold: finer than 1n.
    """
    for suffix, unit in [*reversed(_BINARY.items()), *reversed(_DECIMAL.items())]:
        if (number / unit).denominator == 1 and (abs(number) >= unit or unit <= 1):
            return f"{number / unit}{suffix}"
    raise ValueError(f"{number} is finer than 1n, the smallest quantity")
