"""Every exception that this package raises on purpose, and the exit code of each.

    ReconcilerError                exit 1: one clear line, no traceback
    ├── UsageError                 exit 2: the command line asks for what there is not
    ├── SourceError                exit 1: the repository or its remote can't be read
    ├── PublishError               exit 4: the status could not be delivered
    ├── GuardError                 exit 5: refused for safety; the message names the flag that lifts it
    └── ClusterError               exit 1: the cluster did not do what was asked
        ├── ClusterUnreachable         no answer, or one that says nothing about the object (5xx, 429)
        ├── ClusterUnauthorized        401: who are you
        └── ClusterRefusal             the API's own answer about one object
            ├── WebhookFailed              500: an admission webhook for this kind of object did not answer
            ├── NotFound                   404
            ├── AlreadyExists              409 on create
            ├── Conflict                   409: the object changed since it was read
            ├── Forbidden                  403: RBAC, quota or admission; the message tells which
            └── Invalid                    400 or 422: the object itself is wrong; never retried

What is wrong in a *file* is no exception but a `model.Problem`: all of them are reported, and other files go on.
Anything else that escapes is a bug of ours: exit 70 with a report.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What the process says when it ends; part of the interface for programs."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    PARTLY = 3
    STATUS_NOT_PUSHED = 4
    GUARD = 5
    CHANGES = 6
    BUG = 70
    INTERRUPTED = 130


class ReconcilerError(Exception):
    """An expected failure: its text is for people and says what to do."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class UsageError(ReconcilerError):
    """The command line asks for something that does not exist."""

    exit_code = ExitCode.USAGE


class SourceError(ReconcilerError):
    """The repository, one of its commits or its remote can't be read."""


class PublishError(ReconcilerError):
    """The status commit could not be delivered."""

    exit_code = ExitCode.STATUS_NOT_PUSHED


class GuardError(ReconcilerError):
    """The pass would do what only a person should decide."""

    exit_code = ExitCode.GUARD


class ClusterError(ReconcilerError):
    """The cluster did not do what was asked."""


class ClusterUnreachable(ClusterError):  # noqa: N818 - named for the situation, as the API's own reasons are
    """No answer, or one that says nothing about the object: unknown is neither absent nor failed."""


class ClusterUnauthorized(ClusterError):  # noqa: N818
    """The cluster does not accept our credentials (401)."""


class ClusterRefusal(ClusterError):  # noqa: N818
    """The API's answer about one object; `causes` are the fields that it names, each with what is wrong with it."""

    def __init__(self, text: str, causes: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.causes = causes


class WebhookFailed(ClusterRefusal):
    """An admission webhook did not answer, so that nobody may write this kind of object for now (500)."""


class NotFound(ClusterRefusal):
    """There is no such object (404)."""


class AlreadyExists(ClusterRefusal):
    """There is one of that name already (409 on create)."""


class Conflict(ClusterRefusal):
    """The object is not the one, or not in the state, that the request was made for (409)."""


class Forbidden(ClusterRefusal):
    """RBAC, a quota or an admission plugin says no (403)."""


class Invalid(ClusterRefusal):
    """The object itself is wrong (400, 422): the same request fails for ever."""
