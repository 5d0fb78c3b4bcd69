"""Read the status branch: what is recorded about the jobs.

With a remote, the remote's branch is the record, and its absence is proven by `ls-remote`: a depth-1 checkout lacks it
and proves nothing. What was fetched is kept under `refs/reconciler/`; no branch of the user's is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.core.git_tree import EXECUTABLE, REGULAR
from reconciler.core.schema.name_rules import is_branch
from reconciler.errors import SourceError, UsageError
from reconciler.source.objects import list_tree, read_blobs
from reconciler.source.remote import ls_remote, normalise_url
from reconciler.source.repository import error_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.source.repository import Repository

_MAX_FILE_BYTES = 16 << 20
_FETCH_TIMEOUT = 300.0
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Record:
    """The files of the status branch at its commit `tip`; None and no files when there is no such branch yet.

    `unreadable` are paths where there is something that is no file of ours: a link, a submodule, more than 16 MiB.
    """

    tip: str | None
    files: dict[str, bytes]
    unreadable: tuple[str, ...] = ()


def read_record(
    repository: Repository, branch: str, remote: str | None, refs: Mapping[str, str] | None = None
) -> Record:
    """Read the status branch of the remote, or the repository's own without a remote.

    `refs` is what `ls_remote` said; it is asked if None. Only what is not here yet is fetched. Names that are not UTF-8
    are not ours and left out. Raises SourceError when it can't be read whole, or when it is the branch that HEAD is on;
    UsageError for a name that git does not allow.
    """
    if not is_branch(branch):
        raise UsageError(f"{branch!r} can't be the name of a branch; correct status_branch or --status-branch")
    tip = _fetched(repository, branch, remote, refs) if remote else _local_tip(repository, branch)
    _refuse_source_branch(repository, branch, tip)
    if tip is None:
        return Record(None, {})
    entries = [entry for entry in list_tree(repository, tip) if _is_utf8(entry.path)]
    files = [entry for entry in entries if entry.mode in {REGULAR, EXECUTABLE} and entry.size <= _MAX_FILE_BYTES]
    read = {path.decode(): data for path, data in read_blobs(repository, files).items()}
    return Record(tip, read, tuple(e.path.decode() for e in entries if e.path.decode() not in read))


def _local_tip(repository: Repository, branch: str) -> str | None:
    """Return the tip of the repository's own branch.

    NB: this lists refs instead of asking for one, because a list that fails is an error, and never looks like absence.
    """
    listing = repository.run("for-each-ref", "--format=%(refname) %(objectname)", f"refs/heads/{branch}").decode()
    refs = dict(line.split(" ") for line in listing.splitlines())
    return refs.get(f"refs/heads/{branch}")


def _fetched(repository: Repository, branch: str, remote: str, refs: Mapping[str, str] | None) -> str | None:
    """Return the remote's tip once it is here. Between asking and fetching the branch may move: then ask again."""
    place = _status_place(repository, remote)
    known = refs if place == remote else None
    problem = ""
    for _ in range(_TRIES):
        tip = (ls_remote(repository, place) if known is None else known).get(f"refs/heads/{branch}")
        if tip is None or repository.has_commit(tip):
            return tip
        fetched = repository.execute(
            *("fetch", "--quiet", "--no-write-fetch-head", "--no-tags", "--no-auto-maintenance", "--no-prune"),
            *("--no-recurse-submodules", "--no-filter", "--refmap="),
            *(["--depth=1"] if repository.shallow_commits else []),
            *("--", place, f"+refs/heads/{branch}:refs/reconciler/{branch}"),
            timeout=_FETCH_TIMEOUT,
        )
        # The objects arrive before the ref is moved: that another process held its lock does no harm.
        if repository.has_commit(tip):
            return tip
        known, problem = (
            None,
            error_line(fetched.stderr) if fetched.returncode else "it moves faster than it is fetched",
        )
    raise SourceError(f"the status branch {branch} of {remote} can't be fetched: {problem}")


def _status_place(repository: Repository, remote: str) -> str:
    """Return where the status branch is read: the remote, or its push URL where that leads to another repository."""
    push_url = repository.config.get(f"remote.{remote}.pushurl")
    url = repository.config.get(f"remote.{remote}.url")
    if push_url is None or url is None or normalise_url(push_url) == normalise_url(url):
        return remote
    return push_url


def _refuse_source_branch(repository: Repository, branch: str, tip: str | None) -> None:
    """Refuse to take the jobs' own branch for the status branch: its files would be read as documents, and replaced."""
    commit, name = repository.head()
    if commit is not None and (commit == tip or name == f"refs/heads/{branch}"):
        raise SourceError(
            f"HEAD of {repository.folder} is on {branch!r}, which is to be the status branch: "
            "switch to the branch that holds jobs/, or choose another with --status-branch"
        )


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True
