"""Commit the status files and deliver them, whoever else writes to that branch.

A commit is made on the tip as it was read and delivered by compare-and-swap: `git update-ref` with the old value, or a
push that is never forced. Who loses a race reads the new tip, builds again and retries, a bounded number of times. A
refusal that will not heal is raised at once. Until the swap nothing points to the commit, so dying anywhere is safe.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from reconciler.errors import PublishError, SourceError
from reconciler.source.commit import write_commit
from reconciler.source.record import Record, read_record
from reconciler.source.repository import error_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reconciler.source.repository import Repository

_PUSH_TIMEOUT = 120.0
# What git, its transports and the known hosts say when the same push fails for ever ...
_FINAL = re.compile(
    r"declined|denied|protected|forbidden|not allowed|authentication|could not read (username|password)|\bnot found"
    r"|returned error: 40[0134]|host key verification|not appear to be a git repository|does not exist|cannot create"
    r"|read-only",
    re.IGNORECASE,
)
# ... and when somebody else was faster, or holds the ref's lock at this moment.
_RACE = re.compile(
    r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to update ref|incorrect old value|already exists",
    re.IGNORECASE,
)


class _Kind(Enum):
    """Why a delivery failed; the value is how many of these are borne."""

    FINAL = 1
    UNREACHABLE = 3
    RACE = 20


@dataclass(frozen=True, slots=True)
class _Failure:
    kind: _Kind
    text: str


def _pause(failures: int) -> None:
    """Sleep for a time that no two losers of a race are likely to share, and that grows up to 2 s."""
    time.sleep(min(2.0, 0.02 * 2.0**failures) * (0.1 + random.random()))  # noqa: S311 - no secret


def publish(  # noqa: PLR0913 - beyond five by name only
    repository: Repository,
    branch: str,
    remote: str | None,
    build: Callable[[Record], Mapping[str, bytes | None]],
    message: str | Callable[[Record], str],
    *,
    record: Record | None = None,
    pause: Callable[[int], None] = _pause,
) -> str | None:
    """Commit what `build` returns for the record and deliver it; return the commit, or None if nothing differs.

    `build` and `message` are called again for each new tip. None as contents removes a file; files that `build` does
    not name stay. `record` is the branch as it was just read, and saves reading it again for the first try. Raises
    PublishError when the remote refuses for good, does not answer, or others win every race. `pause` waits, longer
    after more failures.
    """
    failures: Counter[_Kind] = Counter()
    made: str | None = None
    while True:
        try:
            current = read_record(repository, branch, remote) if record is None or failures else record
            changes = {path: data for path, data in build(current).items() if current.files.get(path) != data}
            if not changes:  # if the tip is ours, the answer to a push that did arrive was lost
                return made if current.tip == made else None
            text = message if isinstance(message, str) else message(current)
            made = write_commit(repository, current.tip, changes, text)
            failure = _deliver(repository, branch, remote, commit=made, tip=current.tip)
        except SourceError as error:
            failure = _failure(str(error))
        if failure is None:
            return made
        failures[failure.kind] += 1
        if failures[failure.kind] == failure.kind.value:
            raise PublishError(_refusal(branch, remote, failure))
        pause(failures.total())


def _deliver(
    repository: Repository, branch: str, remote: str | None, *, commit: str, tip: str | None
) -> _Failure | None:
    if remote is None:
        return _move(repository, f"refs/heads/{branch}", commit, tip)
    pushed = repository.execute(
        *("-c", f"remote.{remote}.mirror=false", "-c", "push.pushOption="),
        *("push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"),
        *("--", remote, f"{commit}:refs/heads/{branch}"),
        timeout=_PUSH_TIMEOUT,
    )
    if pushed.returncode == 0:
        # So that git keeps its objects and fetches only what is new; if another process is at it, it does the same.
        repository.execute("update-ref", f"refs/reconciler/{branch}", commit)
        return None
    answers = [line for line in pushed.stdout.decode("utf-8", "backslashreplace").splitlines() if line.startswith("!")]
    if not answers:
        return _failure(error_line(pushed.stderr), pushed.stderr)
    told = "\n".join(line.removeprefix("remote:") for line in pushed.stderr.splitlines() if line.startswith("remote:"))
    text = answers[0].rpartition("\t")[2] + (f": {error_line(told)}" if told.strip() else "")
    failure = _failure(text)
    decided = text.startswith(("[rejected]", "[remote rejected]"))  # otherwise the connection broke
    return _Failure(_Kind.FINAL, text) if decided and failure.kind is _Kind.UNREACHABLE else failure


def _move(repository: Repository, ref: str, commit: str, tip: str | None) -> _Failure | None:
    """Move a branch of the repository itself, unless it is in use or has moved meanwhile."""
    in_use = repository.run("for-each-ref", "--format=%(worktreepath)", ref).decode("utf-8", "backslashreplace").strip()
    if in_use:
        return _Failure(_Kind.FINAL, f"it is checked out in {in_use}")
    moved = repository.execute("update-ref", ref, commit, tip or "0" * len(commit))
    return _failure(error_line(moved.stderr)) if moved.returncode else None


def _failure(text: str, details: str = "") -> _Failure:
    if _FINAL.search(f"{text}\n{details}"):
        return _Failure(_Kind.FINAL, text)
    return _Failure(_Kind.RACE if _RACE.search(text) else _Kind.UNREACHABLE, text)


def _refusal(branch: str, remote: str | None, failure: _Failure) -> str:
    place = f"branch {branch} of {remote}" if remote else f"the repository's branch {branch}"
    advice = {
        _Kind.FINAL: "allow this account to write to that branch, or choose another with --status-branch",
        _Kind.UNREACHABLE: "the next pass tries again",
        _Kind.RACE: f"in {_Kind.RACE.value} tries others were faster, or a lock file was left behind; "
        "the next pass tries again",
    }
    return f"the status was not delivered to {place}: {failure.text}; {advice[failure.kind]}"
