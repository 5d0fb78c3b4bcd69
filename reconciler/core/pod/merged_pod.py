"""Look for what the merge of pod_config onto a pod has broken, which no layer shows by itself.

The merge stays SkyPilot's; this tells what would come of it: a pod that the API refuses, or one whose end would no
longer say what became of the job.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reconciler.core.compose import layer_title
from reconciler.core.field_path import field_name
from reconciler.core.manifest import mapping, objects
from reconciler.core.schema.fields import shown
from reconciler.core.schema.pod_schema import check_pod
from reconciler.model import MAIN_CONTAINER, Manifest, Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.core.field_path import FieldPath
    from reconciler.core.provenance import Origin

    Findings = Iterator[tuple[FieldPath, str, str]]

_CONTAINERS: FieldPath = ("spec", "containers")
_OUR_COMMAND = "what starts in the container main watches over the job; write setup and run"
_TERMINATION_LOG = "/dev/termination-log"


def check_merged_pod(
    pod: Manifest, rendered: Manifest, origin: Callable[[FieldPath], Origin], path: str
) -> list[Problem]:
    """Return what is wrong with a pod, without its nulls, that was `rendered` before its layers went onto it.

    `origin` names the layer with the last word on a field, and the field in that layer.
    """
    problems = []
    errors = list(_errors(pod, rendered))
    told = [field for field, _, _ in errors]
    errors += [found for found in _schema_errors(pod) if not any(found[0][: len(field)] == field for field in told)]
    for severity, findings in ((Severity.ERROR, errors), (Severity.WARNING, list(_warnings(pod)))):
        for field, code, message in findings:
            place = origin(field)
            text = f"{layer_title(place.layer)}: {message}"
            problems.append(Problem(severity, code, path, text, field=place.setting or None))
    return problems


def _schema_errors(pod: Manifest) -> Findings:
    for fault in check_pod(pod):
        yield fault.path, fault.code, f"{field_name(fault.path)} {fault.text}"


def _errors(pod: Manifest, rendered: Manifest) -> Findings:
    spec = mapping(pod.get("spec"))
    if spec.get("restartPolicy") != "Never":
        yield ("spec", "restartPolicy"), "unsupported-field", "restartPolicy must be Never: the Job makes a new pod"
    if "activeDeadlineSeconds" in spec:
        message = "an expired pod would look interrupted and come back; write job-reconciler/timeout"
        yield ("spec", "activeDeadlineSeconds"), "unsupported-field", message
    main = [(at, item) for at, item in _numbered(spec.get("containers")) if item.get("name") == MAIN_CONTAINER]
    if not main:
        yield _CONTAINERS, "no-main-container", "the container main, which runs the job, is gone"
        return
    yield from _main_errors(main[0][1], (*_CONTAINERS, main[0][0]), rendered["spec"]["containers"][0])
    yield from _volume_errors(spec)
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        for at, container in _numbered(spec.get(kind)):
            place = ("spec", kind, at)
            yield from _container_errors(container, place, spec)
            if (name := _name(container)) in names:
                yield (*place, "name"), "duplicate-name", f"two containers of the pod are called {name!r}"
            names |= {name} if name else set()


def _main_errors(main: Manifest, place: FieldPath, rendered: Manifest) -> Findings:
    for key in ("command", "args"):
        if main.get(key) != rendered[key]:
            yield (*place, key), "unsupported-field", _OUR_COMMAND
    if "restartPolicy" in main:
        message = "a container main that restarts in place would not be counted; leave restartPolicy out"
        yield (*place, "restartPolicy"), "unsupported-field", message
    if main.get("terminationMessagePath", _TERMINATION_LOG) != _TERMINATION_LOG:
        message = f"{_TERMINATION_LOG} is where the job's phase is written; leave terminationMessagePath out"
        yield (*place, "terminationMessagePath"), "unsupported-field", message


def _volume_errors(spec: Manifest) -> Findings:
    for at, volume in _numbered(spec.get("volumes")):
        sources = sorted(volume.keys() - {"name"})
        if _name(volume) is not None and len(sources) > 1:
            message = f"volume {_name(volume)!r} has {len(sources)} sources after the merge ({', '.join(sources)})"
            yield ("spec", "volumes", at), "two-sources", f"{message}: set the one from below to null"


def _container_errors(container: Manifest, place: FieldPath, spec: Manifest) -> Findings:
    name = _name(container)
    if name is not None and not container.get("image"):
        advice = f"; to change the job's own, leave its name out or write {MAIN_CONTAINER}"
        yield place, "no-image", f"container {name!r} has no image{advice if name != MAIN_CONTAINER else ''}"
    for at, variable in _numbered(container.get("env")):
        if _name(variable) is not None and "value" in variable and "valueFrom" in variable:
            message = (
                f"variable {shown(_name(variable))} of container {name!r} has a value and a valueFrom after the merge"
            )
            yield (*place, "env", at), "two-sources", f"{message}: set the one from below to null"
    for port, number in _repeated(container.get("ports")):
        yield (*place, "ports"), "duplicate-name", f"container {name!r} has {number} ports named {port!r}"
    volumes = [volume.get("name") for volume in objects(spec.get("volumes"))]
    for at, mount in _numbered(container.get("volumeMounts")):
        if mount.get("name") not in volumes:
            message = f"container {name!r} mounts the volume {mount.get('name')!r}, which spec.volumes doesn't have"
            yield (*place, "volumeMounts", at), "no-volume", message


def _warnings(pod: Manifest) -> Findings:
    for at, container in _numbered(mapping(pod.get("spec")).get("containers")):
        for variable, number in _repeated(container.get("env")):
            message = (
                f"container {_name(container)!r} has variable {shown(variable)} {number} times; the last one counts"
            )
            yield (*_CONTAINERS, at, "env"), "duplicate-name", message


def _numbered(items: object) -> list[tuple[int, Manifest]]:
    """Return the mappings of a list with their places in it."""
    numbered = enumerate(items) if isinstance(items, list) else ()
    return [(at, item) for at, item in numbered if isinstance(item, dict)]


def _repeated(items: object) -> list[tuple[str, int]]:
    """Return the names that stand there more than once, and how often."""
    counts = Counter(name for item in objects(items) if (name := _name(item)) is not None)
    return [(name, number) for name, number in counts.items() if number > 1]


def _name(item: Manifest) -> str | None:
    name = item.get("name")
    return name if isinstance(name, str) else None
