"""Decide which file speaks for which job name.

A name is worth a run: whoever loses it would see its job cancelled. So a name stays with the file that had it, and a
file that can't be read keeps what it last declared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.core.schema.name_rules import job_name
from reconciler.model import Problem, Severity, TaskFile


@dataclass(frozen=True, slots=True)
class KnownJob:
    """Where a job's file was when it was last seen, and the task hash of its newest run."""

    path: str
    task_hash: str


def keep_moved_names(files: Sequence[TaskFile], known: Mapping[str, KnownJob]) -> tuple[TaskFile, ...]:
    """Return the files, with those that moved under their job's old name.

    Only a file that declares no name needs it, since its name comes from its path. It keeps the name that its path has
    on record, or that of a job whose file is gone and whose newest run is of this very version, when there is just one
    of each.
    """
    tasks = {file.path: file.task for file in files if file.task}
    claimed = {task.name for task in tasks.values() if task.original_name is not None}
    unclaimed = {name: job for name, job in known.items() if name not in claimed}
    unnamed = {path: t for path, t in tasks.items() if t.original_name is None and t.name not in known}
    named_at = {job.path: name for name, job in sorted(known.items(), reverse=True)}
    came = _unique({path: task.task_hash for path, task in unnamed.items() if path not in named_at})
    paths = {file.path for file in files}
    left = _unique({name: job.task_hash for name, job in unclaimed.items() if job.path not in paths})
    old_names = named_at | {came[task_hash]: left[task_hash] for task_hash in came.keys() & left.keys()}
    return tuple(_named(file, old_names.get(file.path)) if file.path in unnamed else file for file in files)


def _unique(hashes: Mapping[str, str]) -> dict[str, str]:
    """Return who has each task hash; of those that several have, nobody can tell which is which."""
    found = Counter(hashes.values())
    return {task_hash: who for who, task_hash in hashes.items() if found[task_hash] == 1}


def _named(file: TaskFile, name: str | None) -> TaskFile:
    return replace(file, name=name, task=replace(file.task, name=name)) if file.task and name else file


def resolve_names(
    files: Sequence[TaskFile], recorded_file_of: Mapping[str, str], live_file_of: Mapping[str, str]
) -> tuple[dict[str, TaskFile], list[Problem]]:
    """Return the file that each job name belongs to, and a problem for each file that claims a name in vain.

    A returned file without a task holds its name: nothing of that job may be started, changed or ended. Such are
    invalid files, for the name that they give and for those that they gave before (or, if there are none, for their
    path's), and files that claim a name in vain, for those that they gave before. The two mappings tell a name's path
    by the status branch and by unfinished Jobs.
    """
    declared_before: dict[str, list[str]] = defaultdict(list)
    for name, path in [*recorded_file_of.items(), *live_file_of.items()]:
        declared_before[path].append(name)
    claims: dict[str, list[TaskFile]] = defaultdict(list)
    for file in files:
        if file.task is not None or file.problems:
            for name in [file.name] if file.name else declared_before[file.path]:
                claims[name].append(file)
    names: dict[str, TaskFile] = {}
    losers: list[TaskFile] = []
    for name, claimants in sorted(claims.items()):
        owner = _owner(claimants, recorded_file_of.get(name), live_file_of.get(name))
        lost = [_in_vain(file, name, owner, claimants) for file in claimants if file is not owner]
        names[name] = owner or lost[0]
        losers += lost
    for file in [*losers, *files]:
        if file.task is None and file.problems:
            for name in declared_before[file.path]:
                names.setdefault(name, file)
            if file.name is None and not declared_before[file.path] and (of_path := _name_of_path(file.path)):
                names.setdefault(of_path, file)
    return names, [file.problems[-1] for file in losers]


def _name_of_path(path: str) -> str | None:
    """Return what a file would be called that can't be read far enough to tell: it is to be seen among the jobs."""
    try:
        return job_name(path, None)
    except ValueError:
        return None


def _owner(claimants: Sequence[TaskFile], *paths: str | None) -> TaskFile | None:
    """Return who had the name before, else who is alone in asking for it."""
    for path in paths:
        for file in claimants:
            if file.path == path:
                return file
    return claimants[0] if len(claimants) == 1 else None


def _in_vain(file: TaskFile, name: str, owner: TaskFile | None, claimants: Sequence[TaskFile]) -> TaskFile:
    if owner is not None:
        reason = f'the name "{name}" belongs to {owner.path}; give this job another name'
    else:
        others = ", ".join(other.path for other in claimants if other is not file)
        reason = f'the name "{name}" is also claimed by {others}, and none of them had it before; rename all but one'
    problem = Problem(Severity.ERROR, "duplicate-name", file.path, reason, field="name")
    return replace(file, task=None, problems=(*file.problems, problem))
