"""Make the pod of a task as it is before anybody's pod_config goes onto it.

After SkyPilot 0.14.1's pod, without what serves SkyPilot itself (ssh, ray, its service account), and with GiB where
SkyPilot asks for GB. The image's own working directory and user stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.pod import gpu_nodes
from reconciler.core.pod.delivery import Delivery, secret_name
from reconciler.core.pod.several_nodes import rank_variables
from reconciler.core.pod.supervisor import container_command, literal
from reconciler.core.quantity import format_quantity, parse_quantity
from reconciler.model import JOB_LABEL, MAIN_CONTAINER, Manifest, Resources, Site, Task, Volume

NO_CONTEXT = ""
"""Stands for the cluster where none is known: nothing that depends on it can be judged."""

_CPU_STEP = Fraction(1, 1000)
_MEMORY_STEP = Fraction(2) ** 20
_MAIN: FieldPath = ("spec", "containers", 0)
_SETTINGS: dict[FieldPath, str] = {
    ("metadata", "labels"): "resources.labels",
    (*_MAIN, "image"): "resources.image_id",
    (*_MAIN, "args"): "run",
    (*_MAIN, "volumeMounts", 0): "",  # /dev/shm
    (*_MAIN, "volumeMounts"): "volumes",
    ("spec", "volumes", 0): "",
    ("spec", "volumes"): "volumes",
    ("spec", "tolerations"): "resources.accelerators",
    ("spec", "affinity"): "resources.accelerators",
}
_SIZES: tuple[FieldPath, ...] = ((*_MAIN, "resources", "requests"), (*_MAIN, "resources", "limits"))
_SIZE_SETTINGS = {"cpu": "cpus", "memory": "memory", "ephemeral-storage": "disk_size"}


def rendered_pod(task: Task, site: Site, context: str, delivery: Delivery) -> Manifest:
    """Return metadata and spec of the pod for a cluster, with what delivers the files of a run.

    Variables and GPU models come after the merge, since they win; their empty lists let the merge check the types.
    """
    command, args = container_command(delivery.setup, delivery.run, task.timeout_seconds, nodes=task.num_nodes)
    factor = site.set_pod_resource_limits if task.set_pod_resource_limits is None else task.set_pod_resource_limits
    volumes, mounts = _volumes(task.volumes)
    main = {
        "name": MAIN_CONTAINER,
        "image": _image(task.resources, context) or site.default_image,
        "command": command,
        "args": args,
        "env": [],
        "resources": _resources(task.resources, factor),
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own
            *mounts,
            *delivery.mounts,
        ],
    }
    spec: Manifest = {
        "restartPolicy": "Never",
        "containers": [main],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}, *volumes, *delivery.volumes],
    }
    if delivery.init_containers:
        spec["initContainers"] = list(delivery.init_containers)
    gpus = task.resources.accelerators
    if gpus:
        toleration = {"key": gpu_nodes.resource_name(gpus.names[0]), "operator": "Exists", "effect": "NoSchedule"}
        spec["tolerations"] = [toleration]
        spec["affinity"] = gpu_nodes.affinity_for([]) | gpu_nodes.fill_nodes_up()
    if task.num_nodes > 1:
        spec.setdefault("affinity", {})["podAntiAffinity"] = _apart(task.name)
    labels = task.resources.labels | (gpu_nodes.LABELS if gpus else {})
    return {"metadata": {"labels": labels, "annotations": {}}, "spec": spec}


def variables(task: Task, site: Site, run_name: str, task_id: str) -> list[Manifest]:
    """Return the container's variables: SkyPilot's own, then the task's, which may override them.

    SKYPILOT_TASK_ID is the same in all attempts of a run, and in no other run: people name their checkpoints by it.
    """
    gpus = task.resources.accelerators.count if task.resources.accelerators else 0
    own = {
        "SKYPILOT_TASK_ID": task_id,
        "SKYPILOT_TASK_IDS": task_id,
        "SKYPILOT_MANAGED_JOB_ID": run_name,
        "SKYPILOT_NUM_NODES": "1",
        "SKYPILOT_NODE_RANK": "0",
        "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus),
        "SKYPILOT_SETUP_NODE_RANK": "0",
        "SKYPILOT_SETUP_NUM_GPUS_PER_NODE": str(gpus),
    }
    entries: list[Manifest] = [{"name": name, "value": value} for name, value in own.items()]
    if task.num_nodes == 1:
        entries += [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            for name in ("SKYPILOT_NODE_IPS", "SKYPILOT_SETUP_NODE_IPS")
        ]
    else:
        entries += rank_variables(task.num_nodes)
    entries += [{"name": name, "value": literal(value)} for name, value in task.env.items()]
    secret = task.secret or site.secret
    for name, key in task.secrets.items():
        entries.append(_from_secret(name, secret, key))
    entries += [_from_secret(name, secret_name(run_name), name) for name in task.secret_values]
    return list({entry["name"]: entry for entry in entries}.values())


def _from_secret(name: str, secret: str, key: str) -> Manifest:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": False}}}


def task_setting(path: FieldPath) -> str:
    """Name the field of a task that makes a field of the rendered pod; empty for what is so in every pod."""
    field = next((field for begin, field in _SETTINGS.items() if path[: len(begin)] == begin), "")
    if field == "resources.labels":
        return field_name(("resources", "labels", *path[2:]))
    if path[:-1] in _SIZES:
        return f"resources.{_SIZE_SETTINGS.get(str(path[-1]), 'accelerators')}"
    return field


def _image(resources: Resources, context: str) -> str | None:
    images = resources.image_by_context
    if images and context == NO_CONTEXT:
        return next(iter(images.values()))
    return images.get(context, resources.image)


def _volumes(mounted: Sequence[Volume]) -> tuple[list[Manifest], list[Manifest]]:
    """Return the volumes of a pod, each source once, and where they are mounted."""
    sources: list[Manifest] = []
    mounts = []
    for volume in mounted:
        if volume.source not in sources:
            sources.append(volume.source)
        mount = {"name": f"volume-{sources.index(volume.source)}", "mountPath": volume.mount_path}
        mounts.append(mount | ({"subPath": volume.sub_path} if volume.sub_path else {}))
    return [{"name": f"volume-{number}"} | source for number, source in enumerate(sources)], mounts


def _apart(job: str) -> Manifest:
    """Ask for a machine for each node of a job, where there are enough, as SkyPilot does."""
    others = {"labelSelector": {"matchLabels": {JOB_LABEL: job}}, "topologyKey": "kubernetes.io/hostname"}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": others}]}


def _resources(resources: Resources, limits_factor: float | None) -> Manifest:
    """Return requests, and limits of so many times as much; without a factor only GPUs are limited, as they must be."""
    requests = {"cpu": resources.cpus, "memory": resources.memory}
    if resources.disk:
        requests["ephemeral-storage"] = resources.disk
    limits = {}
    if limits_factor:
        limits = {name: _times(quantity, limits_factor, name) for name, quantity in requests.items()}
    if gpus := resources.accelerators:
        key = gpu_nodes.resource_name(gpus.names[0])
        requests[key] = limits[key] = str(gpus.count)
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _times(quantity: str, factor: float, name: str) -> str:
    step = _CPU_STEP if name == "cpu" else _MEMORY_STEP
    return format_quantity(math.ceil(parse_quantity(quantity) * Fraction(str(factor)) / step) * step)
