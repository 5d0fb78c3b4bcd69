"""Render a task as the Kubernetes Job of one run, or as its JobSet where the task has several nodes.

Layers of pod_config meet first among themselves (global, context, task), then go onto the rendered pod, then
custom_metadata goes over its labels and annotations: SkyPilot's order. What is the run's own comes last and can't be
overridden: the form of the Job, the variables (a task's `envs` win over pod_config's, as they do there), the priority
class, the demand for a GPU model, and our labels and annotations.

Pure and deterministic: the same task, settings and run give the same manifest, to the byte.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from reconciler.core.compose import RENDERED, Layers, compose_layers
from reconciler.core.encoding import job_form
from reconciler.core.jobset import API_VERSION as JOBSET_VERSION
from reconciler.core.jobset import jobset_form
from reconciler.core.manifest import without_nulls
from reconciler.core.pod import gpu_nodes
from reconciler.core.pod.clone import CLONE_CONTAINERS
from reconciler.core.pod.delivery import RunFiles, check_delivery, deliver
from reconciler.core.pod.merged_pod import check_merged_pod
from reconciler.core.pod.pod_layers import check_layers, custom_metadata_layers, pod_config_layers
from reconciler.core.pod.rendered_pod import NO_CONTEXT, rendered_pod, task_setting, variables
from reconciler.core.pod.several_nodes import search_variables
from reconciler.core.pod.sidecars import with_native_sidecars
from reconciler.core.pod.supervisor import FAILURES_ANNOTATION, FAILURES_VARIABLE, GRACE_VARIABLE
from reconciler.core.provenance import Origins, mark, mark_layers
from reconciler.core.schema.fields import bounded, listed
from reconciler.model import (
    ANNOTATION_PREFIX,
    COMMIT,
    DEFAULT_GRACE,
    FILE,
    FILES_HASH,
    JOB_LABEL,
    JOBSET,
    MAIN_CONTAINER,
    OWNER_LABEL,
    RENDER_HASH,
    RUN_LABEL,
    SITE_HASH,
    TASK_HASH,
    Manifest,
    Problem,
    Severity,
    Site,
    Task,
)

ABOUT = ANNOTATION_PREFIX + "about"
ORIGINAL_NAME = ANNOTATION_PREFIX + "original-name"
PRIORITY_CLASS_ANNOTATION = "skypilot-priority-class"

_NOT_HASHED = frozenset({RENDER_HASH, COMMIT, FILE, SITE_HASH})


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Which run a Job is made for, and where: `number` counts the runs of its job, `commit` is the source's."""

    number: int
    owner: str
    commit: str
    context: str
    namespace: str


def render_job(
    task: Task, site: Site, run: RunIdentity, files: RunFiles | None = None
) -> tuple[Manifest | None, list[Problem]]:
    """Return the Job or JobSet of a run, or None with all that stops it. Warnings come with a Job too.

    What its pods need besides, `core.pod.delivery.owned_objects` makes of it.
    """
    composed, problems = _compose(task, site, run, files)
    if any(problem.severity is Severity.ERROR for problem in problems):
        return None, problems
    custom = without_nulls(composed.custom)
    template = _template(task, site, run, merged=composed.merged, pod=composed.pod, custom=custom)
    return _job(task, site, run, template, custom, files=files), problems


def check_job(task: Task, site: Site, run: RunIdentity, files: RunFiles | None = None) -> list[Problem]:
    """Return the problems that `render_job` returns, and spare what is made of a pod that has no errors."""
    return _compose(task, site, run, files)[1]


def explain_template(task: Task, site: Site, run: RunIdentity, files: RunFiles | None = None) -> Manifest:
    """Return the pod template of a task that renders, with scalars that are marked by the layer that has set them.

    Those without a mark are the run's own.
    """
    inputs = _inputs(task, site, run, files)
    rendered = mark(inputs.rendered, RENDERED, task_setting)
    merged, _ = compose_layers(mark_layers(inputs.layers, "pod_config"), task.path, onto=rendered)
    of_metadata = mark_layers(inputs.metadata_layers, "custom_metadata")
    custom, _ = compose_layers(of_metadata, task.path, root="custom_metadata", onto={"labels": {}, "annotations": {}})
    return _template(task, site, run, merged=merged, pod=without_nulls(merged), custom=without_nulls(custom))


def run_of(job: Manifest, context: str) -> RunIdentity:
    """Return the run that a Job of ours was made for, on the cluster where it is to go."""
    metadata = job["metadata"]
    return RunIdentity(
        number=int(metadata["labels"][RUN_LABEL]),
        owner=metadata["labels"][OWNER_LABEL],
        commit=metadata["annotations"][COMMIT],
        context=context,
        namespace=metadata["namespace"],
    )


def namespace_of(task: Task, site: Site, context: str, default: str | None) -> str:
    """Return where a task's Job goes; `default` is the namespace of the kubeconfig's context."""
    return task.namespace or home_namespace(site, context, default)


def home_namespace(site: Site, context: str, default: str | None) -> str:
    """Return where the Jobs go of tasks that name no namespace."""
    of_context: str | None = site.contexts.get(context, {}).get("namespace")
    return of_context or site.sky_namespace or site.namespace or default or "default"


def priority_class_field(task: Task) -> str:
    """Return the field by which a task names its PriorityClass, or could."""
    in_pod_config = "priorityClassName" in (task.pod_config.get("spec") or {})
    return "config.kubernetes.pod_config.spec.priorityClassName" if in_pod_config else "resources.priority_class"


def priority_class_of(task: Task, site: Site, context: str) -> str | None:
    """Return the class that the task names, else what the highest layer that has the field says: null is none."""
    if task.priority_class is not None:
        return task.priority_class
    for _, content in reversed(pod_config_layers(task, site, context)):
        spec = content.get("spec")
        if isinstance(spec, dict) and "priorityClassName" in spec:
            name = spec["priorityClassName"]
            return name if isinstance(name, str) and name else None
    return None


@dataclass(frozen=True, slots=True)
class _Composed:
    """The layers put together; `pod` is `merged` without its nulls."""

    merged: Manifest
    pod: Manifest
    custom: Manifest


def _compose(task: Task, site: Site, run: RunIdentity, files: RunFiles | None) -> tuple[_Composed, list[Problem]]:
    inputs = _inputs(task, site, run, files)
    merged, problems = compose_layers(inputs.layers, task.path, onto=inputs.rendered)
    nothing: Manifest = {"labels": {}, "annotations": {}}
    custom, of_metadata = compose_layers(inputs.metadata_layers, task.path, root="custom_metadata", onto=nothing)
    pod = without_nulls(merged)
    if not problems and any(content for _, content in inputs.layers):
        problems = check_merged_pod(pod, inputs.rendered, Origins(inputs.layers, inputs.rendered), task.path)
    names = [variable["name"] for variable in inputs.variables]
    problems += [*of_metadata, *check_layers(inputs.layers, inputs.metadata_layers, names, task.path)]
    problems += [*_check_gpus(task), *_check_image(task, run.context), *check_delivery(task, files)]
    return _Composed(merged, pod, custom), [*bounded(problems)]


@dataclass(frozen=True, slots=True)
class _Inputs:
    layers: Layers
    metadata_layers: Layers
    rendered: Manifest
    variables: list[Manifest]


def _inputs(task: Task, site: Site, run: RunIdentity, files: RunFiles | None) -> _Inputs:
    own = _variables(task, site, run)
    return _Inputs(
        pod_config_layers(task, site, run.context),
        custom_metadata_layers(task, site, run.context),
        rendered_pod(task, site, run.context, deliver(task, site, files, _name(task, run), own)),
        own,
    )


def _variables(task: Task, site: Site, run: RunIdentity) -> list[Manifest]:
    return variables(task, site, _name(task, run), f"sky-managed-{run.owner}_{task.name}_{run.number}-0")


def _template(  # noqa: PLR0913 - by name
    task: Task, site: Site, run: RunIdentity, *, merged: Manifest, pod: Manifest, custom: Manifest
) -> Manifest:
    """Put what is the run's own over the merged pod; `pod` and `custom` are without nulls, and are used up."""
    of_pod = pod.get("metadata", {})
    labels, annotations = (of_pod.get(kind, {}) | custom.get(kind, {}) for kind in ("labels", "annotations"))
    own = [*_variables(task, site, run), *_supervised(task, run, pod["spec"])]
    spec = _pod_spec(task, merged["spec"], pod["spec"], own)
    if "priorityClassName" in spec:
        annotations[PRIORITY_CLASS_ANNOTATION] = spec["priorityClassName"]
    return {"metadata": {"labels": labels | _own_labels(task, run), "annotations": annotations}, "spec": spec}


def _pod_spec(task: Task, merged: Manifest, spec: Manifest, own: list[Manifest]) -> Manifest:
    """Put what is the run's own over the merged spec; what `merged` has as null is said on purpose."""
    names = {variable["name"] for variable in own}
    for container in spec["containers"]:
        if container["name"] == MAIN_CONTAINER:
            others = [variable for variable in container.get("env", []) if variable["name"] not in names]
            container["env"] = [*others, *own]
    if not merged.keys() & {"automountServiceAccountToken", "serviceAccountName", "serviceAccount"}:
        spec["automountServiceAccountToken"] = False
    for empty in ("priorityClassName", "runtimeClassName"):  # both are cleared by "", as in SkyPilot
        if not spec.get(empty, True):
            del spec[empty]
    if task.priority_class is not None and spec.get("priorityClassName") != task.priority_class:
        spec["priorityClassName"] = task.priority_class
    if task.resources.accelerators and not gpu_nodes.opted_out(merged):
        spec = gpu_nodes.require_models(spec, gpu_nodes.of_one_maker(task.resources.accelerators.names))
    return with_native_sidecars(spec)


def _supervised(task: Task, run: RunIdentity, spec: Manifest) -> list[Manifest]:
    """Return the variables for the supervisor, which nobody may override."""
    grace = {"name": GRACE_VARIABLE, "value": str(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE))}
    if task.num_nodes > 1:
        return [grace, *search_variables(_name(task, run), task.num_nodes)]
    count = {"fieldRef": {"fieldPath": f"metadata.annotations['{FAILURES_ANNOTATION}']"}}
    return [grace, {"name": FAILURES_VARIABLE, "valueFrom": count}]


def _spec(task: Task, run: RunIdentity, template: Manifest) -> Manifest:
    names = [container["name"] for container in template["spec"].get("initContainers", ())]
    clones = [name for name in names if name in CLONE_CONTAINERS]
    if task.num_nodes > 1:
        return jobset_form(
            template,
            name=_name(task, run),
            nodes=task.num_nodes,
            max_restarts_on_errors=task.max_restarts_on_errors,
            recover_on_exit_codes=task.recover_on_exit_codes,
            main_container=MAIN_CONTAINER,
            clone_containers=clones,
        )
    form = job_form(
        max_restarts_on_errors=task.max_restarts_on_errors,
        max_recoveries=task.max_recoveries,
        recover_on_exit_codes=task.recover_on_exit_codes,
        main_container=MAIN_CONTAINER,
        clone_containers=clones,
    )
    return form | {"template": template}


def _job(  # noqa: PLR0913 - what a Job is made of
    task: Task, site: Site, run: RunIdentity, template: Manifest, custom: Manifest, *, files: RunFiles | None
) -> Manifest:
    spec = _spec(task, run, template)
    annotations: dict[str, str] = {
        ABOUT: _about(task, run, spec),
        TASK_HASH: task.task_hash,
        FILE: task.path,
        COMMIT: run.commit,
        SITE_HASH: site.site_hash,
    }
    if files:
        annotations[FILES_HASH] = files.chosen.digest
    if task.original_name is not None and task.original_name != task.name:
        annotations[ORIGINAL_NAME] = task.original_name
    metadata: Manifest = {
        "name": _name(task, run),
        "namespace": run.namespace,
        "labels": custom.get("labels", {}) | _own_labels(task, run),
        "annotations": annotations | custom.get("annotations", {}),
    }
    kind, version = (JOBSET, JOBSET_VERSION) if task.num_nodes > 1 else ("Job", "batch/v1")
    job: Manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    metadata["annotations"][RENDER_HASH] = _render_hash(job)
    if task.suspend:
        job["spec"] = {"suspend": True} | job["spec"]
    return job


def _name(task: Task, run: RunIdentity) -> str:
    return f"{task.name}-{run.number}"


def _own_labels(task: Task, run: RunIdentity) -> dict[str, str]:
    return {JOB_LABEL: task.name, RUN_LABEL: str(run.number), OWNER_LABEL: run.owner}


def _about(task: Task, run: RunIdentity, spec: Manifest) -> str:
    wait = f"--timeout=-1s --namespace={run.namespace}"
    if task.num_nodes > 1:
        return (
            f"Its {task.num_nodes} nodes are the pods of one child Job, and all of them start again when one is lost. "
            f"Wait for it with: kubectl wait --for=condition=Completed {wait} jobset/{_name(task, run)}"
        )
    completions = spec["completions"]
    return (
        f"Each attempt is an index, and the first that succeeds completes the Job: 0/{completions} is no progress, "
        f"1/{completions} is success. Wait for it with: kubectl wait --for=condition=complete {wait} "
        f"job/{_name(task, run)}"
    )


def _render_hash(job: Manifest) -> str:
    """Hash what a run would notice: not where its file stands, when it was rendered, nor that it is suspended."""
    annotations = {key: text for key, text in job["metadata"]["annotations"].items() if key not in _NOT_HASHED}
    content = {**job, "metadata": {**job["metadata"], "annotations": annotations}}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check_gpus(task: Task) -> list[Problem]:
    """Warn of alternatives that a pod can't ask for at once, and of models whose nodes may go by another name."""
    gpus = task.resources.accelerators
    if gpus is None:
        return []
    usable = gpu_nodes.of_one_maker(gpus.names)
    messages = [
        f"{name} is left out: a pod asks for GPUs of one maker, and {gpus.names[0]} comes first"
        for name in gpus.names
        if name not in usable
    ]
    messages += [
        f"{name} is not a name of a GPU that is known here: the job waits for a node whose labels call it so, such as "
        f"skypilot.co/accelerator={name.lower()}"
        for name in usable
        if not gpu_nodes.is_known(name)
    ]
    return [
        Problem(Severity.WARNING, "accelerators", task.path, message, field="resources.accelerators")
        for message in messages
    ]


def _check_image(task: Task, context: str) -> list[Problem]:
    images = task.resources.image_by_context
    if not images or context in (*images, NO_CONTEXT):
        return []
    message = f"image_id names no image for the context {context}; it has {listed(list(images))}"
    return [Problem(Severity.ERROR, "no-image", task.path, message, field="resources.image_id")]
