"""Check files without a cluster: what a pass would find wrong with them, file by file."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from reconciler.core.names import resolve_names
from reconciler.core.pod.rendered_pod import NO_CONTEXT
from reconciler.core.render import RunIdentity, check_job, priority_class_of
from reconciler.core.repository_files import mounts_of
from reconciler.core.schema.fields import in_order, listed
from reconciler.engine.declare import Declared, class_missing, declare, locate
from reconciler.engine.files import Files, Tree
from reconciler.errors import UsageError
from reconciler.model import ALL_ALLOWED, Limits, Problem, Severity, Task
from reconciler.source.repository import Repository
from reconciler.source.revision import FOLDERS, SETTINGS, read_revision, worktree_files
from reconciler.source.tree import CommittedTree, WorkTree

UNKNOWN_URL = "https://unknown.invalid"  # whether a remote can be cloned from, only a pass knows
UNKNOWN = RunIdentity(number=1, owner="unknown", commit="0" * 40, context=NO_CONTEXT, namespace="default")


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file, what it declares, and everything that is wrong with it or worth knowing.

    `sources` are the files and folders of the repository that its job takes, by which it is judged, too.
    """

    path: str
    jobs: tuple[str, ...]
    priority_classes: tuple[str, ...]
    problems: tuple[Problem, ...]
    sources: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a pass would apply it."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)


def validate(
    repository: Repository, ref: str | None, paths: Collection[str] = (), limits: Limits = ALL_ALLOWED
) -> list[CheckedFile]:
    """Check the files of a commit, or of the work tree when `ref` is None, in order of path.

    With `paths`, files or folders from the root of the repository on, only what they hold is returned. What it means is
    still judged among all files: a name that another file has too is taken, a class that another file declares is
    there. Files that can't be read at all (links, names that are not UTF-8) are listed with the reason. Raises
    SourceError, and UsageError for a path with none of our files in it.
    """
    read, unreadable, tree = _files(repository, ref)
    wanted = _chosen({*read, *(problem.path for problem in unreadable)}, paths)
    declared = declare(read, limits)
    tasks = [task for task in declared.tasks if task.path in wanted]
    _, names = resolve_names(declared.task_files, {}, {})
    found = [*declared.problems, *names, *unreadable]
    files = Files(tree, tasks, UNKNOWN_URL, declared.site, (limits, declared.site.limits))
    found += _unrenderable(declared, tasks, files)
    found += _unknown_classes(declared, tasks)
    by_path: dict[str, list[Problem]] = {path: [] for path in wanted}
    for problem in dict.fromkeys(locate([problem for problem in found if problem.path in wanted], read)):
        by_path[problem.path].append(problem)
    jobs = {file.path: (file.name,) for file in declared.task_files if file.name}
    classes = {file.path: tuple(c.name for c in file.classes) for file in declared.priority_files}
    sources = {task.path: tuple(mount.source for mount in mounts_of(task)) for task in tasks}
    return [
        CheckedFile(path, jobs.get(path, ()), classes.get(path, ()), in_order(problems), sources.get(path, ()))
        for path, problems in sorted(by_path.items())
    ]


def _chosen(files: Collection[str], paths: Collection[str]) -> set[str]:
    """Return the files that are one of these paths, or below one; all of them without any path."""
    if not paths or "." in paths:
        return set(files)
    above = {path: {path, *(parent.as_posix() for parent in PurePosixPath(path).parents)} for path in files}
    missing = sorted(set(paths).difference(*above.values()))
    if missing:
        places = ", ".join((*(f"{folder}/**/*.yaml" for folder in FOLDERS), *SETTINGS))
        raise UsageError(f"{listed(missing)}: no such file among those that are read, which are {places}")
    return {path for path in files if not above[path].isdisjoint(paths)}


def _files(repository: Repository, ref: str | None) -> tuple[dict[str, bytes], tuple[Problem, ...], Tree]:
    if ref or repository.work_tree is None:
        revision = read_revision(repository, ref)
        return revision.files, revision.problems, CommittedTree(repository, revision.commit)
    return *worktree_files(repository.work_tree), WorkTree(repository, repository.work_tree)


def _unrenderable(declared: Declared, tasks: Iterable[Task], files: Files) -> list[Problem]:
    """Render each task as a pass would: files may be missing, the layers of pod_config may not fit together.

    With settings that are wrong themselves a pass would render none, and each job would repeat the same mistake.
    """
    if not declared.site_is_sound:
        return []
    problems = []
    for task in tasks:
        run_files, missing = files.of(task)
        problems += [*missing, *check_job(task, declared.site, _run_of(task), run_files)]
    return problems


def _run_of(task: Task) -> RunIdentity:
    return replace(UNKNOWN, context=task.context or NO_CONTEXT)


def _unknown_classes(declared: Declared, tasks: Iterable[Task]) -> list[Problem]:
    """Warn of classes that the repository lacks: offline nobody knows whether the cluster has them."""
    declared_names = {c.name for c in declared.priority_classes}
    return [
        class_missing(task, name, Severity.WARNING, "not in priorities/, and offline nobody knows the cluster's")
        for task in tasks
        if (name := priority_class_of(task, declared.site, task.context or NO_CONTEXT)) and name not in declared_names
    ]
