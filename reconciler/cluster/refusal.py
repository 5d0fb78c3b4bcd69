"""Translate what an API server answered into the exception that says who must act.

Only a Kubernetes Status is an answer about the object. The same code from a load balancer or a proxy on the way says
nothing about it: a foreign 404 page read as "there is no such job" would start that job again.
"""

from __future__ import annotations

import json
import re
from typing import Any

from reconciler.errors import (
    AlreadyExists,
    ClusterError,
    ClusterRefusal,
    ClusterUnauthorized,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    WebhookFailed,
)

_TOO_MANY_REQUESTS = 429
_MAX_TEXT = 300
_MAX_CAUSES = 4
_MAX_VALUE = 60
_REFUSALS: dict[int, type[ClusterError]] = {
    400: Invalid,
    401: ClusterUnauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    422: Invalid,
}


class Expired(ClusterUnreachable):
    """A list's continue token, or a watch's place, is too old (410): read again from the start."""


def error_of(status: int, body: bytes, attempt: str) -> ClusterError:
    """Return what `attempt`, such as `create Job default/train-1 on kind`, failed with."""
    answer = status_of(body)
    if answer is None and status != 401:  # noqa: PLR2004 - proxies in front of a cluster answer 401 in their own way
        text = shorten(body.decode(errors="replace")) or "an empty body"
        return ClusterUnreachable(f"could not {attempt}: {status}, and not in Kubernetes' own words: {text}")
    answer = answer or {}
    kind = _kind_of(status, answer)
    detail = _causes(answer) or shorten(str(answer.get("message") or "no reason given"))
    text = f"could not {attempt}: {status} {answer.get('reason') or kind.__name__}: {detail}{_advice(kind, detail)}"
    if issubclass(kind, ClusterRefusal):
        causes = ((cause["field"], _without_value(cause.get("message") or "")) for cause in _field_causes(answer))
        return kind(text, tuple(causes))
    return kind(text)


def status_of(body: bytes) -> dict[str, Any] | None:
    """Return the Kubernetes Status that `body` is, or None when it is something else."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and answer.get("kind") == "Status" else None


def shorten(text: str, limit: int = _MAX_TEXT) -> str:
    """Put `text` on one line of about `limit` characters, keeping its end, where the API says what was wrong."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit // 3]} … {line[-limit * 2 // 3 :]}"


def _kind_of(status: int, answer: dict[str, Any]) -> type[ClusterError]:
    if status == 409 and answer.get("reason") == "AlreadyExists":  # noqa: PLR2004
        return AlreadyExists
    if status == 410:  # noqa: PLR2004
        return Expired
    if any(cause.get("field") == "metadata.uid" for cause in _field_causes(answer)):
        return Conflict  # a patch found another object under the name; for the API that is 422
    if status == 500 and "failed calling webhook" in str(answer.get("message")):  # noqa: PLR2004
        return WebhookFailed
    if status >= 500 or status == _TOO_MANY_REQUESTS:  # noqa: PLR2004
        return ClusterUnreachable
    return _REFUSALS.get(status, ClusterRefusal)


def _causes(answer: dict[str, Any]) -> str:
    """Say which fields are wrong, without long values: a whole pod template, with its environment, can be one."""
    causes = _field_causes(answer)
    shown = [f"{cause['field']}: {_without_value(cause.get('message') or '')}" for cause in causes[:_MAX_CAUSES]]
    more = [f"and {len(causes) - _MAX_CAUSES} more"] if len(causes) > _MAX_CAUSES else []
    return "; ".join(shown + more)


def _field_causes(answer: dict[str, Any]) -> list[dict[str, str]]:
    return [cause for cause in (answer.get("details") or {}).get("causes") or () if cause.get("field")]


def _without_value(message: str) -> str:
    """Take a long value out of `Invalid value: VALUE: what is wrong with it`."""
    value = re.fullmatch(r"([\w ]+: )(.*)(: .*?)", message, re.DOTALL)
    if value and len(value[2]) > _MAX_VALUE:
        message = f"{value[1]}…{value[3]}"
    return shorten(message, _MAX_TEXT // 2)


def _advice(kind: type[ClusterError], detail: str) -> str:
    if kind is WebhookFailed:
        return " (what serves that webhook is not running; the next pass tries again)"
    if kind is ClusterUnauthorized:
        return " (the credentials were read again and are still refused: log in again)"
    if kind is Forbidden and "system:anonymous" in detail:
        return " (the kubeconfig's user has no credentials, so the request went without any)"
    if kind is Forbidden and " cannot " in detail:
        return " (docs/operating.md lists the rights that are needed)"
    return ""
