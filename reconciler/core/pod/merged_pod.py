"""Look for what the merge of pod_config onto a pod has broken, which no layer shows by itself.

The merge stays SkyPilot's; this tells what would come of it: a pod that the API refuses, or one whose end would no
longer say what became of the job.
"""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING

from reconciler.core.compose import layer_of, layer_title, setting_name
from reconciler.core.manifest import mapping, objects
from reconciler.model import MAIN_CONTAINER, Manifest, Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.core.compose import Layers
    from reconciler.core.yaml import FieldPath

    Findings = Iterator[tuple[FieldPath, str, str]]

_CONTAINERS: FieldPath = ("spec", "containers")
_OUR_COMMAND = "what starts in the container main watches over the job; write setup and run"
_TERMINATION_LOG = "/dev/termination-log"


def check_merged_pod(pod: Manifest, rendered: Manifest, layers: Layers, path: str) -> list[Problem]:
    """Return what is wrong with a pod that was `rendered` before, naming the layer with the last word on the field.

    Which item of a list it is about, the message says: by its name, since its number differs from layer to layer.
    """
    problems = []
    for severity, findings in ((Severity.ERROR, _errors(pod, rendered)), (Severity.WARNING, _warnings(pod))):
        for field, code, message in findings:
            layer = layer_of(layers, field)
            name = setting_name(layer, "pod_config", tuple(takewhile(lambda step: isinstance(step, str), field)))
            problems.append(Problem(severity, code, path, f"{layer_title(layer)}: {message}", field=name))
    return problems


def _errors(pod: Manifest, rendered: Manifest) -> Findings:
    spec = mapping(pod.get("spec"))
    if spec.get("restartPolicy") != "Never":
        yield ("spec", "restartPolicy"), "unsupported-field", "restartPolicy must be Never: the Job makes a new pod"
    if "activeDeadlineSeconds" in spec:
        message = "an expired pod would look interrupted and come back; write job-reconciler/timeout"
        yield ("spec", "activeDeadlineSeconds"), "unsupported-field", message
    for key, value in mapping(spec.get("nodeSelector")).items():
        if not isinstance(value, str):
            message = f"the value of nodeSelector {key!r} must be text: quote it"
            yield ("spec", "nodeSelector", key), "wrong-type", message
    containers = objects(spec.get("containers"))
    main = next((item for item in containers if item.get("name") == MAIN_CONTAINER), None)
    if main is None:
        yield _CONTAINERS, "no-main-container", "the container main, which runs the job, is gone"
        return
    yield from _main_errors(main, rendered["spec"]["containers"][0])
    yield from _volume_errors(spec)
    for container in containers:
        yield from _container_errors(container, _CONTAINERS, spec)
    for container in objects(spec.get("initContainers")):
        yield from _container_errors(container, ("spec", "initContainers"), spec)


def _main_errors(main: Manifest, rendered: Manifest) -> Findings:
    for key in ("command", "args"):
        if main.get(key) != rendered[key]:
            yield (*_CONTAINERS, 0, key), "unsupported-field", _OUR_COMMAND
    if "restartPolicy" in main:
        message = "a container main that restarts in place would not be counted; leave restartPolicy out"
        yield (*_CONTAINERS, 0, "restartPolicy"), "unsupported-field", message
    if main.get("terminationMessagePath", _TERMINATION_LOG) != _TERMINATION_LOG:
        message = f"{_TERMINATION_LOG} is where the job's phase is written; leave terminationMessagePath out"
        yield (*_CONTAINERS, 0, "terminationMessagePath"), "unsupported-field", message


def _volume_errors(spec: Manifest) -> Findings:
    for volume in objects(spec.get("volumes")):
        sources = sorted(volume.keys() - {"name"})
        if _name(volume) is None:
            yield ("spec", "volumes"), "no-name", "a volume has no name"
        elif len(sources) > 1:
            message = f"volume {_name(volume)!r} has {len(sources)} sources after the merge ({', '.join(sources)})"
            yield ("spec", "volumes"), "two-sources", f"{message}: set the one from below to null"


def _container_errors(container: Manifest, place: FieldPath, spec: Manifest) -> Findings:
    name = _name(container)
    if name is None:
        yield (*place, 0), "no-name", "a container has no name"
    elif not container.get("image"):
        advice = f"; to change the job's own, leave its name out or write {MAIN_CONTAINER}"
        yield place, "no-image", f"container {name!r} has no image{advice if name != MAIN_CONTAINER else ''}"
    for variable in objects(container.get("env")):
        if _name(variable) is None:
            yield (*place, 0, "env"), "no-name", f"a variable of container {name!r} has no name"
        elif "value" in variable and "valueFrom" in variable:
            message = f"variable {_name(variable)!r} of container {name!r} has a value and a valueFrom after the merge"
            yield (*place, 0, "env"), "two-sources", f"{message}: set the one from below to null"
    for port, number in _repeated(container.get("ports")):
        yield (*place, 0, "ports"), "duplicate-name", f"container {name!r} has {number} ports named {port!r}"
    volumes = [volume.get("name") for volume in objects(spec.get("volumes"))]
    for mount in objects(container.get("volumeMounts")):
        if mount.get("name") not in volumes:
            message = f"container {name!r} mounts the volume {mount.get('name')!r}, which spec.volumes doesn't have"
            yield (*place, 0, "volumeMounts"), "no-volume", message


def _warnings(pod: Manifest) -> Findings:
    for container in objects(mapping(pod.get("spec")).get("containers")):
        name = _name(container)
        if name not in (None, MAIN_CONTAINER) and container.get("image"):
            message = (
                f"the job ends when container {name!r} has ended too; a helper that runs for ever "
                "belongs under initContainers, with restartPolicy: Always"
            )
            yield _CONTAINERS, "sidecar", message
        for variable, number in _repeated(container.get("env")):
            message = f"container {name!r} has variable {variable!r} {number} times; the last one counts"
            yield (*_CONTAINERS, 0, "env"), "duplicate-name", message


def _repeated(items: object) -> list[tuple[str, int]]:
    """Return the names that stand there more than once, and how often."""
    counts = Counter(name for item in objects(items) if (name := _name(item)) is not None)
    return [(name, number) for name, number in counts.items() if number > 1]


def _name(item: Manifest) -> str | None:
    name = item.get("name")
    return name if isinstance(name, str) else None
