"""Our own annotations in a task: what SkyPilot has no field for, where SkyPilot allows free keys."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.core.durations import parse_duration
from reconciler.core.field_path import field_name
from reconciler.core.schema.fields import Shape, did_you_mean, shown, taken
from reconciler.core.schema.name_rules import is_dns_subdomain
from reconciler.core.schema.resources import MAX_ATTEMPTS
from reconciler.model import ANNOTATION_PREFIX, OnChange

if TYPE_CHECKING:
    from reconciler.core.field_path import FieldPath
    from reconciler.core.schema.fields import Fields, Reader

_T = TypeVar("_T")
_DIGITS = re.compile(r"[0-9]{1,6}")
_LONGEST_TIMEOUT = 2**31 - 1

RERUN = ANNOTATION_PREFIX + "rerun"
MAX_RECOVERIES = ANNOTATION_PREFIX + "max-recoveries"
DEFAULT_MAX_RECOVERIES = 1000

CONTROLS: Fields = {
    "rerun": taken("any text; another text is another run of the same task", Shape.TEXT),
    "suspend": taken("true stops the job and keeps its place in the count; false or nothing goes on", Shape.TEXT),
    "on-change": taken("what a new version does to a run that is not over: replace, the default, or wait", Shape.TEXT),
    "timeout": taken("how long one attempt may run: 30s, 5m, 2h, 3d or seconds", Shape.TEXT),
    "max-recoveries": taken(
        "how often a run comes back after an interruption; default 1000; for one node without max_restarts_on_errors",
        Shape.TEXT,
    ),
    "secret": taken("the Kubernetes Secret behind secrets; default the one in reconciler.yaml", Shape.TEXT),
}


@dataclass(frozen=True, slots=True)
class Controls:
    """What the annotations say, with the defaults for what they don't; `max_recoveries` is None where none does."""

    suspend: bool = False
    on_change: OnChange = OnChange.REPLACE
    timeout_seconds: int | None = None
    max_recoveries: int | None = None
    secret: str | None = None


def read_controls(reader: Reader, path: FieldPath, annotations: dict[str, Any]) -> Controls:
    """Read the annotations that are ours; the others are not looked at.

    Their text counts as it stands in the file, so `suspend: true` needs no quotes: they never reach Kubernetes.
    """
    texts: dict[str, str] = {}
    for key, value in annotations.items():
        name, place = key.removeprefix(ANNOTATION_PREFIX), (*path, key)
        if name == key:
            continue
        if name not in CONTROLS:
            names = [ANNOTATION_PREFIX + control for control in CONTROLS]
            message = f"there is no annotation {shown(key)}{did_you_mean(key, names)}"
            reader.error(place, "unknown-field", message)
        elif value is not None and reader.has_shape(place, value, Shape.TEXT, Shape.NUMBER, Shape.BOOLEAN):
            texts[name] = reader.document.source(place) or ""
    return _Controls(reader, path, texts).read() if texts else Controls()


class _Controls:
    """Reads the annotations one by one; a bad one is noted, and its default stands in."""

    def __init__(self, reader: Reader, path: FieldPath, texts: dict[str, str]) -> None:
        self._reader = reader
        self._path = path
        self._texts = texts

    def read(self) -> Controls:
        secret = self._texts.get("secret")
        if secret is not None and not is_dns_subdomain(secret):
            self._wrong("secret", "the name of a Kubernetes Secret")
        return Controls(
            suspend=self._word("suspend", {"true": True, "false": False}, default=False),
            on_change=self._word("on-change", {word.value: word for word in OnChange}, default=OnChange.REPLACE),
            timeout_seconds=self._timeout(),
            max_recoveries=self._max_recoveries(),
            secret=secret,
        )

    def _word(self, name: str, words: dict[str, _T], *, default: _T) -> _T:
        text = self._texts.get(name)
        if text is not None and text not in words:
            self._wrong(name, " or ".join(words))
        return words.get(text or "", default)

    def _timeout(self) -> int | None:
        if "timeout" not in self._texts:
            return None
        try:
            seconds = math.ceil(parse_duration(self._texts["timeout"]))
        except ValueError:
            seconds = 0
        if not 1 <= seconds <= _LONGEST_TIMEOUT:
            self._wrong("timeout", "a duration from 1s on: 30s, 5m, 2h, 3d or a number of seconds")
        return seconds

    def _max_recoveries(self) -> int | None:
        text = self._texts.get("max-recoveries")
        if text is None:
            return None
        number = int(text) if _DIGITS.fullmatch(text) else 0
        if not 1 <= number <= MAX_ATTEMPTS:
            self._wrong("max-recoveries", f"a number from 1 to {MAX_ATTEMPTS}")
        return number

    def _wrong(self, name: str, expected: str) -> None:
        place = (*self._path, ANNOTATION_PREFIX + name)
        message = f"{field_name(place)} must be {expected}, not {shown(self._texts[name])}"
        self._reader.error(place, "invalid-value", message)
