"""Say of each field of a rendered pod which layer has set it, and by which setting of which file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.core.compose import RENDERED
from reconciler.core.provenance import Marked, leaves
from reconciler.core.render import RunIdentity, explain_template
from reconciler.core.settings import SKY_FILE
from reconciler.core.yaml import field_name
from reconciler.model import MAIN_CONTAINER, Manifest, Site, Task

if TYPE_CHECKING:
    from reconciler.core.yaml import FieldPath

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


def explain_job(task: Task, site: Site, run: RunIdentity) -> list[SetField]:
    """Explain a task that renders, field by field in the order of its pod template."""
    template = explain_template(task, site, run)
    return [_explained(task, template, path, leaf) for path, leaf in leaves(template)]


def _explained(task: Task, template: Manifest, path: FieldPath, leaf: Any) -> SetField:
    name = field_name(path)
    if not isinstance(leaf, Marked):
        layer, setting = _made(task, template, path)
        return SetField(name, leaf, layer, task.path if setting else None, setting)
    setting = leaf.naming(leaf.path) or None
    file = task.path if leaf.layer in ("task", RENDERED) else SKY_FILE
    return SetField(name, leaf.value, leaf.layer, file if setting else None, setting)


def _made(task: Task, template: Manifest, path: FieldPath) -> tuple[str, str | None]:
    """Return layer and setting of what the merge has not brought: most of it is the run's own."""
    if path[:2] == ("spec", "affinity"):
        return RENDERED, "resources.accelerators"
    if path == ("spec", "priorityClassName"):
        return "task", "resources.priority_class"
    if path[:2] == ("spec", "containers") and path[3:4] == ("env",):
        container = template["spec"]["containers"][path[2]]
        name = str(container["env"][path[4]]["name"]) if container["name"] == MAIN_CONTAINER else ""
        if name in task.env:
            return "task", field_name(("envs", name))
        if name in task.secrets:
            return "task", field_name(("secrets", name))
    return RUN, None
