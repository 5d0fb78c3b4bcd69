"""Check files without a cluster: what a pass would find wrong with them, file by file."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.core.names import resolve_names
from reconciler.core.render import RunIdentity, priority_class_of, render_job
from reconciler.engine.declare import Declared, class_missing, declare, locate
from reconciler.model import Problem, Severity
from reconciler.source.repository import Repository
from reconciler.source.revision import read_revision, worktree_files

UNKNOWN = RunIdentity(number=1, owner="unknown", commit="0" * 40, context="unknown", namespace="default")


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file, what it declares, and everything that is wrong with it or worth knowing."""

    path: str
    jobs: tuple[str, ...]
    priority_classes: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether a pass would apply it."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)


def validate(repository: Repository, ref: str | None) -> list[CheckedFile]:
    """Check the files of a commit, or of the work tree when `ref` is None, in order of path.

    Files that can't be read at all (links, names that are not UTF-8) are listed with the reason. Raises SourceError.
    """
    read, unreadable = _files(repository, ref)
    declared = declare(read)
    _, names = resolve_names(declared.task_files, {}, {})
    found = [*declared.problems, *names, *unreadable, *_unrenderable(declared), *_unknown_classes(declared)]
    by_path: dict[str, list[Problem]] = {path: [] for path in read}
    for problem in dict.fromkeys(locate(found, read)):
        by_path.setdefault(problem.path, []).append(problem)
    jobs = {file.path: (file.name,) for file in declared.task_files if file.name}
    classes = {file.path: tuple(c.name for c in file.classes) for file in declared.priority_files}
    return [
        CheckedFile(path, jobs.get(path, ()), classes.get(path, ()), tuple(problems))
        for path, problems in sorted(by_path.items())
    ]


def _files(repository: Repository, ref: str | None) -> tuple[dict[str, bytes], tuple[Problem, ...]]:
    if ref or repository.work_tree is None:
        revision = read_revision(repository, ref)
        return revision.files, revision.problems
    return worktree_files(repository.work_tree)


def _unrenderable(declared: Declared) -> list[Problem]:
    """Render each task as a pass would: the layers of pod_config may not fit together."""
    return [p for task in declared.tasks for p in render_job(task, declared.site, UNKNOWN)[1]]


def _unknown_classes(declared: Declared) -> list[Problem]:
    """Warn of classes that the repository lacks: offline nobody knows whether the cluster has them."""
    declared_names = {c.name for c in declared.priority_classes}
    return [
        class_missing(task, name, Severity.WARNING, "not in priorities/, and offline nobody knows the cluster's")
        for task in declared.tasks
        if (name := priority_class_of(task, declared.site, task.context or UNKNOWN.context))
        and name not in declared_names
    ]
