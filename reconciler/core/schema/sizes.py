"""CPUs, memory and disks as SkyPilot spells them, and as Kubernetes does.

SkyPilot reads `16`, `16GB` and `16Gi` all as 16 GiB and then asks Kubernetes for 16 * 10^9 bytes; here GiB stay GiB. A
trailing `+` ("at least") is read and means nothing: a pod asks for a figure, not for a range.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from reconciler.core.schema.fields import shown

_SIZE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,2})?\s*(|x|[kmgtp][bi]?)", re.IGNORECASE | re.ASCII)
_GIB = {"k": Decimal(2) ** -20, "m": Decimal(2) ** -10, "g": Decimal(1), "t": Decimal(2) ** 10, "p": Decimal(2) ** 20}
_LONGEST = 40
_MOST_CPUS = 1_000_000
_MOST_GIB = 2**30
_LEAST = Decimal("0.001")


def parse_cpus(value: str | float) -> Decimal:
    """Return a number of CPUs. Raises ValueError with what was expected."""
    number, unit = _parse(value, plus=True) or (Decimal(0), "")
    if unit or not _LEAST <= number <= _MOST_CPUS:
        raise ValueError(f'{shown(value)} is no number of CPUs: write 4, 0.5 or "4+"')
    return number


def parse_memory(value: str | float, cpus: Decimal) -> Decimal:
    """Return GiB; `4x` is 4 for each CPU. Raises ValueError with what was expected."""
    number, unit = _parse(value, plus=True) or (Decimal(0), "")
    gib = number * cpus if unit == "x" else _gib(value, number, unit)
    if not _LEAST <= gib <= _MOST_GIB:
        raise ValueError(f"{shown(value)} is no amount of memory: write 16 for 16 GiB, 512MB or 16GB")
    return gib


def parse_disk(value: str | float) -> int:
    """Return whole GiB. Raises ValueError with what was expected."""
    number, unit = _parse(value, plus=False) or (Decimal(0), "")
    gib = Decimal(0) if unit == "x" else _gib(value, number, unit)
    if gib != int(gib) or not 1 <= gib <= _MOST_GIB:
        raise ValueError(f"{shown(value)} is no size of a disk: write whole GiB, such as 100 or 100GB")
    return int(gib)


def format_cpus(cpus: Decimal) -> str:
    """Write CPUs as a Kubernetes quantity, rounded up to a thousandth."""
    thousandths = math.ceil(cpus * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def format_memory(gib: Decimal) -> str:
    """Write GiB as a Kubernetes quantity, rounded up to a whole MiB."""
    mebibytes = math.ceil(gib * 1024)
    return f"{mebibytes}Mi" if mebibytes % 1024 else f"{mebibytes // 1024}Gi"


def _parse(value: str | float, *, plus: bool) -> tuple[Decimal, str] | None:
    text = str(value).strip()
    match = _SIZE.fullmatch(text.removesuffix("+") if plus else text) if len(text) <= _LONGEST else None
    return (Decimal(match[1] + (match[2] or "")), match[3].lower()) if match else None


def _gib(value: str | float, number: Decimal, unit: str) -> Decimal:
    if len(unit) == 1:
        raise ValueError(f"{shown(value)} has half a unit: write {number}{unit.upper()}i or {number}{unit.upper()}B")
    return number * _GIB[unit[0]] if unit else number
