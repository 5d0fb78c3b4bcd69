"""Turn the files of a commit into what they declare: the parse stage for every command that reads files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.core.field_path import FieldPath, field_path
from reconciler.core.limits import check_limits
from reconciler.core.priority import check_priority_files, parse_priority_file
from reconciler.core.render import priority_class_field
from reconciler.core.schema.fields import bounded
from reconciler.core.settings import parse_site
from reconciler.core.task import parse_task_file
from reconciler.core.yaml import MarkedDocument, parse_documents
from reconciler.model import ALL_ALLOWED, Limits, PriorityClass, PriorityFile, Problem, Severity, Site, Task, TaskFile
from reconciler.source.revision import SETTINGS

JOBS = "jobs/"
PRIORITIES = "priorities/"


@dataclass(frozen=True, slots=True)
class Declared:
    """What the files of one commit declare, with everything that is wrong with them.

    `task_files` and `priority_files` are in order of path. A task that breaks a limit is invalid like one that does not
    parse. `site_problems` stop everything when they hold an error: without its settings no file can be read right.
    """

    site: Site
    site_problems: tuple[Problem, ...]
    task_files: tuple[TaskFile, ...]
    priority_files: tuple[PriorityFile, ...]
    problems_across: tuple[Problem, ...]

    @property
    def site_is_sound(self) -> bool:
        """Whether the settings can be read right; else no job may be made by them."""
        return not any(problem.severity is Severity.ERROR for problem in self.site_problems)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The valid tasks, in order of path."""
        return tuple(file.task for file in self.task_files if file.task)

    @property
    def priority_classes(self) -> tuple[PriorityClass, ...]:
        """The valid classes, in order of path and document; those that contradict another file are left out."""
        refused = {(p.path, p.line) for p in self.problems_across if p.severity is Severity.ERROR}
        return tuple(c for f in self.priority_files for c in f.classes if (c.path, c.line) not in refused)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every problem: settings first, then classes, then jobs, each in order of file."""
        tasks = [p for file in self.task_files for p in file_problems(file)]
        return (*self.site_problems, *self.class_problems, *tasks)

    @property
    def class_problems(self) -> tuple[Problem, ...]:
        """What is wrong with classes: within each file, then across the files."""
        across: dict[str, list[Problem]] = {}
        for problem in self.problems_across:
            across.setdefault(problem.path, []).append(problem)
        within = (p for file in self.priority_files for p in file.problems)
        return (*within, *(p for problems in across.values() for p in bounded(problems)))


def declare(files: Mapping[str, bytes], limits: Limits = ALL_ALLOWED) -> Declared:
    """Parse every file; the problems of one never hide those of another.

    A task must keep within `limits`, which no file can change, and within those of the site.
    """
    site, site_problems = parse_site({path: files[path] for path in SETTINGS if path in files})
    paths = sorted(files)
    priority_files = tuple(parse_priority_file(p, files[p]) for p in paths if p.startswith(PRIORITIES))
    task_files = tuple(_within_limits(parse_task_file(p, files[p]), limits, site) for p in paths if p.startswith(JOBS))
    return Declared(
        site=site,
        site_problems=tuple(site_problems),
        task_files=task_files,
        priority_files=priority_files,
        problems_across=tuple(check_priority_files(priority_files)),
    )


def file_problems(file: TaskFile) -> tuple[Problem, ...]:
    """Return what is wrong with a file, or what its valid task warns of."""
    return (*file.problems, *(file.task.warnings if file.task else ()))


def class_missing(task: Task, name: str, severity: Severity, where: str) -> Problem:
    """Describe a task that names a PriorityClass which is not there."""
    return Problem(
        severity=severity,
        code="unknown-priority-class",
        path=task.path,
        field=priority_class_field(task),
        message=f"PriorityClass {name!r} is {where}: add it under priorities/ or name another",
    )


def _within_limits(file: TaskFile, limits: Limits, site: Site) -> TaskFile:
    """Make a file invalid whose task asks for more than is allowed."""
    if file.task is None:
        return file
    broken = check_limits(file.task, (limits, site.limits), site)
    if not broken:
        return file
    return TaskFile(path=file.path, name=file.name, task=None, problems=(*file.problems, *bounded(broken)))


def locate(problems: Iterable[Problem], files: Mapping[str, bytes]) -> list[Problem]:
    """Add line and column to problems that know only their field: what a later stage found wrong with a file.

    A field that the file itself lacks, because another layer or a default brought it, keeps no line.
    """
    places = Places(files)
    located = []
    for problem in problems:
        place = places.of(problem.path, problem.field) if problem.line is None and problem.field else None
        located.append(replace(problem, line=place[0], column=place[1]) if place else problem)
    return located


class Places:
    """Finds fields in files, each of which is parsed when it is first asked for."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._documents: dict[str, MarkedDocument | None] = {}

    def of(self, path: str, field: str, *, exactly: bool = False) -> tuple[int, int] | None:
        """Return line and column of a field, or of its nearest parent unless `exactly` it is meant; else None."""
        if path not in self._documents:
            parsed, _ = parse_documents(self._files.get(path, b""), path)
            self._documents[path] = next(iter(parsed), None)
        document = self._documents[path]
        if document is None or (exactly and not _has(document.value, field_path(field))):
            return None
        return document.find(field)


def _has(value: object, path: FieldPath) -> bool:
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step in range(len(value)):
            value = value[int(step)]
        else:
            return False
    return True
