"""Tell when to look again: the only module that imports watchfiles.

It never says what happened: a missed or a needless wake-up costs time, never a wrong decision.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from watchfiles import DefaultFilter, watch

from reconciler.errors import SourceError
from reconciler.source.remote import ls_remote
from reconciler.source.revision import FOLDERS, SETTINGS, SUFFIXES

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterator

    from reconciler.source.repository import Repository

_TICK_MS = 100
_REMOTE_TIMEOUT = 20.0


def watch_commits(
    repository: Repository, *, remote: str | None, status_branch: str, interval: float, stop: threading.Event
) -> Iterator[None]:
    """Yield when it is worth looking again, until `stop` is set.

    That is once when watching has begun, whenever HEAD or a branch of the repository moves, and whenever a branch of
    the remote does, which is asked every `interval` seconds. The status branch wakes nobody. A remote that can't be
    asked wakes every time: the pass is what reports it. Raises SourceError when the folder can't be watched.
    """
    ignored = f"refs/heads/{status_branch}"
    known: dict[str, str] | None = None
    due = 0.0
    while not stop.is_set():
        folders = _ref_folders(repository)
        begun = False
        for changes in _changes(folders, stop):
            wake = not begun or any(_moves_a_ref(repository, path, ignored) for path in changes)
            begun = True
            if remote is not None and time.monotonic() >= due:
                known, before = _poll(repository, remote, ignored), known
                wake = wake or known is None or known != before
                due = time.monotonic() + interval
            if wake:
                yield
            if changes and _ref_folders(repository) != folders:
                break  # a folder of branches is new, and not watched yet


def watch_files(root: Path, stop: threading.Event, sources: Collection[str]) -> Iterator[None]:
    """Yield once when watching has begun, and whenever a file below `root` changes that is ours or one of `sources`.

    Those are the files and folders that jobs take from the repository, `""` for all of it. Who looks knows them only
    then, and may change them at each look: what is new begins the watch anew. Raises SourceError when a folder can't be
    watched.
    """
    while not stop.is_set():
        taken = frozenset(sources)
        folders = _file_folders(root, taken)
        begun = False
        for changes in _changes(folders, stop):
            moved = bool(changes) and _file_folders(root, taken) != folders
            if not begun or moved or any(_is_ours(root, path, taken) for path in changes):
                yield
            begun = True
            if moved or taken != frozenset(sources):
                break  # a folder is not watched yet


def _file_folders(root: Path, taken: Collection[str]) -> list[Path]:
    return sorted({root, *(folder for name in (*FOLDERS, *taken) for folder in _folders_of(root / name))})


def _folders_of(place: Path) -> Iterator[Path]:
    """Yield a folder and all in it; of a file, or of what is not there yet, the folder that tells of it."""
    if not place.is_dir():
        yield next(folder for folder in place.parents if folder.is_dir())
        return
    for folder, inside, _ in os.walk(place):
        inside[:] = [name for name in inside if name not in DefaultFilter.ignore_dirs]  # .git, .venv, node_modules, ...
        yield Path(folder)


def _is_ours(root: Path, path: str, taken: Collection[str]) -> bool:
    name = path.removeprefix(f"{root}/")
    if any(name == source or name.startswith(f"{source}/") or not source for source in taken):
        return True
    return name in SETTINGS or (name.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and name.endswith(SUFFIXES))


def _changes(folders: list[Path], stop: threading.Event) -> Iterator[list[str]]:
    """Yield the paths that changed; nothing at each tick, the first of which says that watching has begun."""
    try:
        for changes in watch(
            *folders,
            watch_filter=None,  # the default one ignores .git
            debounce=_TICK_MS,
            rust_timeout=_TICK_MS,
            yield_on_timeout=True,
            recursive=False,
            stop_event=stop,
        ):
            yield [path for _, path in changes]
    except (OSError, RuntimeError) as error:  # the latter when its own thread fails
        raise SourceError(f"{folders[0]} can't be watched: {error}") from error


def _ref_folders(repository: Repository) -> list[Path]:
    """List the folders whose entries are the refs: not the objects, which may be many thousand folders."""
    common = repository.common_dir
    branches = [Path(folder) for folder, _, _ in os.walk(common / "refs" / "heads")]
    return sorted({repository.git_dir, common, *branches, *(p for p in [common / "reftable"] if p.is_dir())})


def _moves_a_ref(repository: Repository, path: str, ignored: str) -> bool:
    for base in (repository.git_dir, repository.common_dir):
        if path.startswith(f"{base}/") and not path.endswith(".lock"):
            name = path.removeprefix(f"{base}/")
            if name in {"HEAD", "packed-refs", "reftable/tables.list"} or name.startswith("refs/heads/"):
                return name != ignored
    return False


def _poll(repository: Repository, remote: str, ignored: str) -> dict[str, str] | None:
    try:
        refs = ls_remote(repository, remote, timeout=_REMOTE_TIMEOUT)
    except SourceError:
        return None
    return {ref: commit for ref, commit in refs.items() if ref != ignored}
