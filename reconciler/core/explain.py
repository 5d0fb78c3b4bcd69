"""Say of each field of a rendered pod which layer has set it, and by which setting of which file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from reconciler.core.compose import RENDERED
from reconciler.core.field_path import FieldPath, field_name, field_path
from reconciler.core.pod.delivery import RunFiles
from reconciler.core.provenance import Marked, leaves, origin_of
from reconciler.core.render import RunIdentity, explain_template
from reconciler.core.settings import SKY_FILE
from reconciler.model import MAIN_CONTAINER, Manifest, Site, Task

_OF_JOB: FieldPath = ("spec", "template")
_OF_JOBSET: FieldPath = ("spec", "replicatedJobs", 0, "template", "spec", "template")
_ENV_INDEX = 4  # spec.containers[n].env[m]

RUN = "run"
"""The layer of what is made for one run and can't be overridden."""


@dataclass(frozen=True, slots=True)
class SetField:
    """One field of a pod template, and who has set it.

    `layer` is `global`, `context NAME`, `task`, `rendered pod` (what the task's own fields make) or `run`. `setting` is
    the field in `path` that holds the value, or that it was made from; both are None for what is so in every pod.
    """

    field: str
    value: Any
    layer: str
    path: str | None = None
    setting: str | None = None


def explain_job(task: Task, site: Site, run: RunIdentity, files: RunFiles | None = None) -> list[SetField]:
    """Explain a task that renders, field by field in the order of its pod template."""
    template = explain_template(task, site, run, files)
    return [_explained(task, template, path, leaf) for path, leaf in leaves(template)]


def explain_field(
    task: Task, site: Site, run: RunIdentity, field: str, files: RunFiles | None = None
) -> SetField | None:
    """Explain one field of a Job by the name that the API server gives it, such as `spec.template.spec.volumes[0]`.

    None for what is not in its pod template, or in no layer.
    """
    path = field_path(field)
    above = next((above for above in (_OF_JOB, _OF_JOBSET) if path[: len(above)] == above), None)
    if above is None:
        return None
    template = explain_template(task, site, run, files)
    return replace(_around(task, template, path[len(above) :]), field=field)


def _around(task: Task, template: Manifest, path: FieldPath) -> SetField:
    """Explain what has no mark of its own by the marks inside it, or else around it."""
    origin = origin_of(template, path)
    layer, setting = (origin.layer, origin.setting or None) if origin else _made(task, template, path)
    return SetField(field_name(path), None, layer, _file(task, layer) if setting else None, setting)


def _file(task: Task, layer: str) -> str:
    return task.path if layer in ("task", RENDERED) else SKY_FILE


def _explained(task: Task, template: Manifest, path: FieldPath, leaf: Any) -> SetField:
    name = field_name(path)
    if leaf in ({}, []):
        return replace(_around(task, template, path), value=leaf)
    if not isinstance(leaf, Marked):
        layer, setting = _made(task, template, path)
        return SetField(name, leaf, layer, task.path if setting else None, setting)
    setting = leaf.naming(leaf.path) or None
    return SetField(name, leaf.value, leaf.layer, _file(task, leaf.layer) if setting else None, setting)


def _made(task: Task, template: Manifest, path: FieldPath) -> tuple[str, str | None]:
    """Return layer and setting of what the merge has not brought: most of it is the run's own."""
    if path[:2] == ("spec", "affinity"):
        return RENDERED, "resources.accelerators"
    if path == ("spec", "priorityClassName"):
        return "task", "resources.priority_class"
    if path[:2] == ("spec", "containers") and path[3:4] == ("env",) and len(path) > _ENV_INDEX:
        container = template["spec"]["containers"][path[2]]
        name = str(container["env"][path[_ENV_INDEX]]["name"]) if container["name"] == MAIN_CONTAINER else ""
        if name in task.env:
            return "task", field_name(("envs", name))
        if name in task.secrets or name in task.secret_values:
            return "task", field_name(("secrets", name))
    return RUN, None
