"""Read the desired state: the files of one commit under `jobs/` and `priorities/`, and the two settings files.

Blobs are read, never the work tree: no symbolic link escapes, no uncommitted change leaks in, no filter runs. A read is
whole or it is a SourceError. Only `validate` looks at the work tree, by `worktree_files`, under the same rules.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from reconciler.core.git_tree import KINDS, printable
from reconciler.core.schema.yaml_syntax import MAX_BYTES
from reconciler.errors import SourceError
from reconciler.model import Problem, Severity
from reconciler.source.objects import list_tree, read_blobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reconciler.model import TreeEntry
    from reconciler.source.repository import Repository

FOLDERS = ("jobs", "priorities")
SETTINGS = (".sky.yaml", "reconciler.yaml")
SUFFIXES = (".yaml", ".yml")
_NO_FILTER = {".clean": "", ".process": "", ".required": "false"}


@dataclass(frozen=True, slots=True)
class Revision:
    """What one commit declares.

    `branch` is the branch that was asked for, else the one HEAD is on; None when detached. `remote` is the name of the
    remote that it belongs to, None when the repository has none. `files` has every file that can be read, `problems`
    those that can't: an error about a path means that nothing is known about it, or about what lies under it.
    `last_changed` lacks the files whose last change lies beyond the horizon of a shallow clone. `dirty` has what stands
    differently in the work tree; it is empty for any other commit than HEAD.
    """

    commit: str
    branch: str | None
    remote: str | None
    files: dict[str, bytes]
    problems: tuple[Problem, ...]
    last_changed: dict[str, str]
    dirty: tuple[str, ...]
    has_jobs_folder: bool


def read_revision(repository: Repository, ref: str | None = None) -> Revision:
    """Read the commit that `ref` names, HEAD if None; in the clone of a URL as the remote has it now.

    Raises SourceError when there is no such commit, and when any part of it is missing (a partial clone, a damaged
    object store).
    """
    if ref is None or not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", ref):  # a commit doesn't change
        repository.refresh()
    commit, branch, remote = _locate(repository, ref)
    listed = list_tree(repository, commit, *FOLDERS, *SETTINGS)
    judged = [(entry, _problem(entry.path, KINDS.get(entry.mode, "file"), entry.size)) for entry in listed]
    wanted = [entry for entry, problem in judged if problem is None and _is_wanted(entry.path)]
    contents = read_blobs(repository, wanted)
    return Revision(
        commit=commit,
        branch=branch,
        remote=remote,
        files={path.decode(): data for path, data in contents.items()},
        problems=tuple(problem for _, problem in judged if problem is not None),
        last_changed=_last_changes(repository, commit, wanted),
        dirty=_dirty(repository) if ref is None else (),
        has_jobs_folder=any(entry.path.startswith(b"jobs/") for entry in listed),
    )


def worktree_files(root: Path) -> tuple[dict[str, bytes], tuple[Problem, ...]]:
    """Read the same files as they stand in a folder, committed or not; what git ignores too.

    Symbolic links are not followed, and only regular files are opened. A file that vanishes meanwhile is left out;
    one that can't be read is a problem.
    """
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for name, kind, size in _walk(str(root)):
        path = os.fsencode(name)
        problem = _problem(path, kind, size)
        if problem is None and _is_wanted(path):
            try:
                files[name] = _read_regular(f"{root}/{name}")
            except FileNotFoundError:
                continue
            except OSError:
                problem = _problem(path, "unreadable", size)
        if problem is not None:
            problems.append(problem)
    return files, tuple(problems)


def _locate(repository: Repository, ref: str | None) -> tuple[str, str | None, str | None]:
    """Return the commit, its branch and that branch's remote.

    A branch that only the remote has is found too, as `git switch` finds it: CI's checkouts have no other.
    """
    commit, full = repository.head() if ref is None else _named(repository, ref)
    if commit is None:
        raise SourceError(
            f"{ref!r} names no commit of {repository.folder}; fetch it first, or correct --ref"
            if ref is not None
            else f"{repository.folder}: the repository has no commit yet; commit a file under jobs/ first"
        )
    if full.startswith("refs/remotes/"):
        remote, _, branch = full.removeprefix("refs/remotes/").partition("/")
        return commit, branch, remote
    on_branch = full.removeprefix("refs/heads/") if full.startswith("refs/heads/") else None
    return commit, on_branch, _remote_of(repository.config, on_branch)


def _named(repository: Repository, ref: str) -> tuple[str | None, str]:
    """Return the commit that `ref` names and the branch it is, or the one that HEAD is on for a tag or a commit."""
    name = ref
    commit = repository.resolve(name)
    if commit is None:
        name = f"refs/remotes/{_remote_of(repository.config, None)}/{ref}"
        commit = repository.resolve(name)
    full = _full_name(repository, name) if commit else ""
    return commit, full if full.startswith(("refs/heads/", "refs/remotes/")) else repository.head()[1]


def _full_name(repository: Repository, name: str) -> str:
    found = repository.execute("rev-parse", "--symbolic-full-name", "--end-of-options", name)
    # NB: git 2.39 repeats the option.
    return found.stdout.decode("utf-8", "backslashreplace").strip().removeprefix("--end-of-options\n")


def _remote_of(config: Mapping[str, str], branch: str | None) -> str | None:
    remotes = sorted({key[len("remote.") : -len(".url")] for key in config if _names_remote(key)})
    tracked = config.get(f"branch.{branch}.remote")
    for name in (tracked, "origin"):
        if name in remotes:
            return name
    if len(remotes) > 1:  # none of them would mean another owner, and a record that starts anew
        raise SourceError(
            f"there are several remotes ({', '.join(remotes)}), none is called origin and the branch tracks none: "
            "git branch --set-upstream-to=REMOTE/BRANCH says which one it belongs to"
        )
    return remotes[0] if remotes else None


def _names_remote(key: str) -> bool:
    return key.startswith("remote.") and key.endswith(".url")


def _problem(path: bytes, kind: str, size: int) -> Problem | None:
    """Tell why this entry can't be read, if it is one that somebody could expect us to read."""
    name = printable(path)
    suffix = PurePosixPath(name).suffix
    if kind == "unreadable":
        return _error("unreadable", name, "can't be read: see its permissions")
    if kind == "submodule":
        return _error("submodule", name, "is a submodule, whose files are not part of this commit: commit them here")
    if kind != "file" and suffix in {"", *SUFFIXES}:
        return _error("not-a-file", name, f"is a {kind}, which is not followed: commit the file itself")
    if name in FOLDERS:
        return _error("not-a-folder", name, "is a file where a folder is expected")
    if suffix not in SUFFIXES:
        if suffix.lower() in {*SUFFIXES, ".json"}:
            return Problem(Severity.WARNING, "ignored-file", name, "is ignored: the name has to end in .yaml or .yml")
        return None
    if name.encode() != path:
        return _error("file-name", name, "has a name that is not printable UTF-8: rename it")
    if size > MAX_BYTES:
        return _error("too-large", name, f"has {size} bytes, more than the {MAX_BYTES} that are read")
    return None


def _error(code: str, path: str, message: str) -> Problem:
    return Problem(Severity.ERROR, code, path, message)


def _is_wanted(path: bytes) -> bool:
    return path.endswith(tuple(suffix.encode() for suffix in SUFFIXES))


def _last_changes(repository: Repository, commit: str, entries: list[TreeEntry]) -> dict[str, str]:
    """Find for each file the newest commit that made it what it is now.

    Comparing blobs makes this right where two branches changed a file and a merge kept the older change. Most files
    of most repositories are found in the first round, without walking the whole history.
    """
    missing = {entry.path: entry.sha for entry in entries}
    found: dict[str, str] = {}
    horizon = repository.shallow_commits
    for limit in (100, 5_000, -1):
        history = _history(repository, commit, limit) if missing else []
        for changed_by, blobs in history:
            for path in [path for path in blobs if missing.get(path) == blobs[path]]:
                del missing[path]
                if changed_by not in horizon:  # where history ends, everything looks new
                    found[path.decode()] = changed_by
        if len(history) < limit:
            break
    return found


def _history(repository: Repository, commit: str, limit: int) -> list[tuple[str, dict[bytes, str]]]:
    """Return each commit with the blobs that it made, newest first; of a merge only what no parent had."""
    log = repository.run(
        *("log", f"--max-count={limit}", "--format=%H", "-z", "--raw", "-c", "--no-abbrev", "--root", "--no-renames"),
        *("--no-ext-diff", "--no-color", "--end-of-options", commit, "--", *FOLDERS, *SETTINGS),
    )
    history: list[tuple[str, dict[bytes, str]]] = []
    tokens = iter(log.split(b"\0"))
    for token in tokens:
        if token.lstrip(b"\n").startswith(b":"):
            history[-1][1][next(tokens)] = token.split(b" ")[-2].decode()
        elif token:
            history.append((token.decode(), {}))
    return history


def _dirty(repository: Repository) -> tuple[str, ...]:
    """Name the files that stand differently in the work tree.

    NB: git would run the user's filters on a file that it has to look into (`filter.NAME.clean`), so they are set to
    nothing; a file that one of them changes on commit, as git-lfs does, may be named here without need.
    """
    if repository.work_tree is None:
        return ()
    filters = [key for key in repository.config if key.startswith("filter.") and key.endswith(tuple(_NO_FILTER))]
    if any("=" in key for key in filters):  # not to be set on a command line
        return ()
    without = (("-c", f"{key}={_NO_FILTER[key[key.rindex('.') :]]}") for key in filters)
    status = repository.run(
        *chain.from_iterable(without),
        *("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all"),
        *("--", *FOLDERS, *SETTINGS),
    )
    return tuple(printable(record[3:]) for record in status.split(b"\0") if record)


def _walk(root: str) -> Iterator[tuple[str, str, int]]:
    """Yield path, kind and size of all that a folder holds in our places, in the order of their names."""
    waiting = [*FOLDERS, *SETTINGS][::-1]
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(f"{root}/{path}")
            if not stat.S_ISDIR(status.st_mode):
                yield path, _kind(status.st_mode), status.st_size
                continue
            with os.scandir(f"{root}/{path}") as entries:
                names = sorted((entry.name for entry in entries), reverse=True)
        except FileNotFoundError:
            continue
        except OSError:
            yield path, "unreadable", 0
            continue
        if ".git" in names:
            yield path, "submodule", 0
        else:
            waiting += [f"{path}/{name}" for name in names]


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "symbolic link" if stat.S_ISLNK(mode) else "special file"


def _read_regular(path: str) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
        return file.readall() or b""  # by the file's size: a bound would be set aside in memory for each
