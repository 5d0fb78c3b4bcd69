"""What is asked of an API server, and how patiently: apart from the transport, whose client takes long to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.model import Manifest


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait: for a connection, for each part of an answer, and before each further try."""

    connect: float = 5.0
    read: float = 30.0
    read_list: float = 60.0
    delays: tuple[float, ...] = (0.25, 1.0, 3.0)
    longest_delay: float = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `attempt` names it in errors: `create Job default/train-1 on kind`.

    `repeatable` says that a second sending does no harm when nobody knows whether the first one arrived.
    `read_timeout` is the longest silence; None waits for ever, but for a peer that TCP finds dead.
    """

    method: str
    path: str
    attempt: str
    read_timeout: float | None
    query: Mapping[str, str] = field(default_factory=dict)
    body: Manifest | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    repeatable: bool = False
