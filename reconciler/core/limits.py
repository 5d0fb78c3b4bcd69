"""Check what a task asks for against what its repository may have.

Every layer of pod_config that could reach the pod is looked at, before they are merged: a limit must hold whichever of
them wins. `.sky.yaml` is such a layer, because it can be changed by the same pull request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from reconciler.core.manifest import objects
from reconciler.core.quantity import parse_quantity
from reconciler.core.render import priority_class_field
from reconciler.core.schema.fields import listed, shown
from reconciler.core.schema.pod_config import MAIN_ALIASES
from reconciler.model import MAIN_CONTAINER, Limits, Manifest, Problem, Severity, Site, Task

Allowed = Sequence[tuple[str, tuple[str, ...] | None]]
"""Files and what each allows; None is all."""

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_GPU = ("gpu", "mig-", "neuron", "gaudi", "tpu")  # how the names of device plugins' resources begin

_CLAIMS = "config.kubernetes.pod_config.spec.resourceClaims"


def check_limits(task: Task, limits: Sequence[Limits], site: Site) -> list[Problem]:
    """Return a problem for each thing that a task asks for beyond one of the limits or `site.allowed_contexts`.

    What several limits forbid in the same way is one problem.

    A job without a PriorityClass of its own has the cluster's default, which no limit forbids. A namespace that neither
    the task nor the site names is the kubeconfig's, unknown here: with a limit on namespaces one must be named, or
    `site.namespace` filled in by the caller.
    """
    layers = [task.pod_config, site.pod_config, *(layer.get("pod_config", {}) for layer in _contexts(task, site))]
    specs = [spec for layer in layers if isinstance(spec := layer.get("spec"), dict)]
    contexts = [task.context] if task.context is not None else []
    classes = [(each.file, each.priority_classes) for each in limits]
    namespaces = [(each.file, each.namespaces) for each in limits]
    return [
        *_outside(task, "context", contexts, [(site.limits.file, site.allowed_contexts)], "resources.infra"),
        *_outside(task, "priority class", _classes(task, specs), classes, priority_class_field(task)),
        *_outside(task, "image", _images(task, site, specs), _images_allowed(limits), "resources.image_id"),
        *_outside(task, "namespace", _namespaces(task, site), namespaces, "config.kubernetes.namespace"),
        *_too_many_gpus(task, specs, limits),
    ]


def check_clone(task: Task, limits: Sequence[Limits], site: Site) -> list[Problem]:
    """Return a problem when the image that clones for a task is not allowed."""
    return list(_outside(task, "image", [site.git_image], _images_allowed(limits), "workdir"))


def _images_allowed(limits: Sequence[Limits]) -> Allowed:
    return [(each.file, each.images) for each in limits]


def _contexts(task: Task, site: Site) -> list[Manifest]:
    return list(site.contexts.values()) if task.context is None else [site.contexts.get(task.context, {})]


def _classes(task: Task, specs: list[Manifest]) -> list[str]:
    if task.priority_class is not None:
        return [task.priority_class]
    return [name for spec in specs if isinstance(name := spec.get("priorityClassName"), str)]


def _images(task: Task, site: Site, specs: list[Manifest]) -> list[str]:
    found = [container.get("image") for spec in specs for container in _containers(spec)]
    for spec in specs:
        found += [
            source.get("reference")
            for volume in objects(spec.get("volumes"))
            for source in objects([volume.get("image")])
        ]
    asked = [*task.resources.image_by_context.values()] or [task.resources.image or site.default_image]
    return [*asked, *(image for image in found if isinstance(image, str))]


def _namespaces(task: Task, site: Site) -> list[str]:
    if task.namespace is not None:
        return [task.namespace]
    named = [layer["namespace"] for layer in _contexts(task, site) if "namespace" in layer]
    return [*named, site.sky_namespace or site.namespace or ""]


def _outside(task: Task, what: str, found: list[str], allowed: Allowed, field: str) -> Iterator[Problem]:
    for value in dict.fromkeys(found):
        against = [
            f"{file} allows ({listed(patterns) or 'none'})"
            for file, patterns in allowed
            if patterns is not None and not any(fnmatchcase(value, pattern) for pattern in patterns)
        ]
        if against:
            named = f"the {what} {shown(value)} is not" if value else f"no {what} is named, and its default is not"
            message = f"{named} among those that {', nor that '.join(dict.fromkeys(against))}"
            yield Problem(Severity.ERROR, "not-allowed", task.path, message, field=field)


def _too_many_gpus(task: Task, specs: list[Manifest], limits: Sequence[Limits]) -> Iterator[Problem]:
    of_container = {MAIN_CONTAINER: task.resources.accelerators.count if task.resources.accelerators else 0}
    for container in (container for spec in specs for container in _containers(spec)):
        name = str(container.get("name") or MAIN_CONTAINER)
        name = MAIN_CONTAINER if name in MAIN_ALIASES else name
        of_container[name] = max(of_container.get(name, 0), _gpus(container.get("resources")))
    total = sum(of_container.values()) * task.num_nodes
    most, file = min(((each.gpus, each.file) for each in limits if each.gpus is not None), default=(total, ""))
    if file and any(spec.get("resourceClaims") for spec in specs):
        message = f"what resourceClaims ask for can't be counted, and {file} limits GPUs: write accelerators"
        yield Problem(Severity.ERROR, "not-allowed", task.path, message, field=_CLAIMS)
    if total > most:
        message = f"{total} GPUs on {task.num_nodes} node(s) are more than the {most} that {file} allows a job"
        yield Problem(Severity.ERROR, "not-allowed", task.path, message, field="resources.accelerators")


def _containers(spec: Manifest) -> list[Manifest]:
    return [container for key in _CONTAINERS for container in objects(spec.get(key))]


def _gpus(resources: Any) -> int:
    """Count the GPUs of a container by the larger of request and limit; what is no quantity the API refuses anyway."""
    return max(_sum(resources.get(key)) for key in ("requests", "limits")) if isinstance(resources, dict) else 0


def _sum(quantities: Any) -> int:
    total = 0
    for name, quantity in quantities.items() if isinstance(quantities, dict) else ():
        if name.rpartition("/")[2].startswith(_GPU):
            with suppress(ValueError):
                total += math.ceil(parse_quantity(quantity))
    return total
