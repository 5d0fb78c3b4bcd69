"""GPUs in all the ways that SkyPilot lets people spell them, and the choice between several."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import field_name
from reconciler.core.schema.fields import Shape, listed, shown
from reconciler.model import Accelerators

if TYPE_CHECKING:
    from reconciler.core.field_path import FieldPath
    from reconciler.core.schema.fields import Reader

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}")
_COUNT = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_TIMES = re.compile(r"(.*[0-9a-z])x([0-9]{1,2})", re.IGNORECASE)
_VENDOR = re.compile(r"nvidia[-_](?:tesla[-_])?(.+)", re.IGNORECASE)
_BY_MEMORY = re.compile(r"(?:[A-Za-z]+:)?[0-9.]+[GM]B\+?(?::.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The GPUs of a node, and how many were written: half a GPU gets half the default CPUs, but one whole GPU."""

    accelerators: Accelerators
    written: Decimal


def read_accelerators(reader: Reader, path: FieldPath, value: Any) -> Chosen | None:
    """Return the GPUs that are asked for; None when there are none, or when a problem was noted.

    Alternatives of one count stay a choice, which the scheduler makes. Of unequal ones the first counts, because a pod
    asks for one number.
    """
    spellings = _spellings(path, value)
    wanted = [gpu for place, name, count in spellings if (gpu := _read(reader, place, name, count))]
    if not wanted:
        if not spellings:
            reader.error(path, "invalid-value", f"{field_name(path)} names no GPU: write H100, H100:8 or {{H100: 8}}")
        return None
    count = wanted[0][1]
    names = tuple(dict.fromkeys(name for name, other in wanted if other == count))
    dropped = [f"{name}:{other}" for name, other in wanted if other != count]
    if dropped:
        message = f"{names[0]}:{count} is taken; {listed(dropped)} would need another number of GPUs in the pod"
        reader.warning(path, "alternative-dropped", f"of the alternatives in {field_name(path)}, {message}")
    if count != int(count):
        message = f"{count} GPUs become {math.ceil(count)}: Kubernetes hands out whole ones"
        reader.warning(path, "rounded-up", message)
    return Chosen(Accelerators(names, math.ceil(count)), count)


def _spellings(path: FieldPath, value: Any) -> list[tuple[FieldPath, Any, Any]]:
    """Split a value into (place, name or "name:count", count or None)."""
    if isinstance(value, dict):
        return [((*path, name), name, count) for name, count in value.items()]
    if isinstance(value, list):
        return [((*path, index), item, None) for index, item in enumerate(value)]
    return [(path, value, None)]


def _read(reader: Reader, path: FieldPath, name: Any, count: Any) -> tuple[str, Decimal] | None:
    if not reader.has_shape(path, name, Shape.TEXT) or (
        count is not None and not reader.has_shape(path, count, Shape.NUMBER)
    ):
        return None
    problem = None
    if count is None:
        name, colon, text = (part.strip() for part in name.partition(":"))
        count = text if colon else "1"
    if _BY_MEMORY.fullmatch(name):
        problem = "GPUs are asked for by name here, not by memory: write such as H100 or {A100-80GB, H100}"
    elif name.lower().startswith("tpu"):
        problem = "TPUs are not supported: ask for them by resources and nodeSelector in config.kubernetes.pod_config"
    elif not _NAME.fullmatch(name):
        problem = f"{shown(name)} is no name of a GPU: write H100, H100:8 or {{H100: 8}}"
    elif times := _TIMES.fullmatch(name):
        problem = f"{shown(name)} is no name of a GPU; did you mean {times[1]}:{times[2]}?"
    elif vendor := _VENDOR.fullmatch(name):
        problem = f"{shown(name)} is no name that SkyPilot has for a GPU; did you mean {vendor[1].upper()}?"
    elif not _COUNT.fullmatch(str(count)) or not Decimal(str(count)):
        problem = f"{shown(count)} is no number of GPUs: write a number above 0"
    if problem:
        reader.error(path, "invalid-value", f"{field_name(path)}: {problem}")
        return None
    return name, Decimal(str(count))
