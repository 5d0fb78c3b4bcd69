"""What the API server says to an object, and what it adds: validation, defaults, priority, a Job's pods.

Unknown fields are refused in a PriorityClass and down to a Job's `spec`; below, they pass. What only a real cluster can
do is refused by name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from reconciler.cluster.local.lifecycle import FAILURES, TRACKING
from reconciler.core.indexes import COMPLETION_INDEX
from reconciler.core.pod.delivery import FILES
from reconciler.core.preview import place
from reconciler.errors import Forbidden, Invalid
from reconciler.model import DEFAULT_GRACE, Manifest

_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_CLASS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_POD_NAME_LIMIT = 63
_HIGHEST = 1_000_000_000
_MUTABLE = {"suspend", "backoffLimit", "maxFailedIndexes", "ttlSecondsAfterFinished"}
_JOB_SPEC = _MUTABLE | {
    *("activeDeadlineSeconds", "backoffLimitPerIndex", "completionMode", "completions", "managedBy", "manualSelector"),
    *("parallelism", "podFailurePolicy", "podReplacementPolicy", "selector", "successPolicy", "template"),
}
_FIELDS = {
    "Job": {"spec", "status"},
    "PriorityClass": {"value", "globalDefault", "description", "preemptionPolicy"},
    "ConfigMap": {"data", "binaryData", "immutable"},
    "Secret": {"data", "stringData", "type", "immutable"},
}
_LARGEST = 1024 * 1024
_DEFAULTS = {"parallelism": 1, "suspend": False, "completions": 1}
_LOWER = "PreemptLowerPriority"
_ANY_NODE: Manifest = {
    "metadata": {"name": "any", "labels": {}},
    "spec": {"taints": [{"key": "any", "effect": "NoSchedule"}]},
}


def admit(new: Manifest, old: Manifest | None, classes: Sequence[Manifest]) -> Manifest:
    """Return an object, new or changed from `old`, with its defaults. Raises Invalid and Forbidden."""
    kind, name = new["kind"], new["metadata"]["name"]
    if kind not in _FIELDS:
        raise Invalid(f"{kind} {name!r}: the local cluster takes {', '.join(_FIELDS)}; it makes the rest itself")
    unknown = [*(new.keys() - _FIELDS[kind] - {"apiVersion", "kind", "metadata"})]
    unknown += [f"spec.{field}" for field in (new.get("spec") or {}).keys() - _JOB_SPEC]
    if unknown:
        raise Invalid(f'{kind} "{name}" on the local cluster: strict decoding error: unknown field "{min(unknown)}"')
    if kind in ("ConfigMap", "Secret"):
        return _admit_data(new, old)
    return _admit_job(new, old) if kind == "Job" else _admit_class(new, old, classes)


def _admit_data(new: Manifest, old: Manifest | None) -> Manifest:
    """Check a ConfigMap or a Secret; what it holds is shown to nobody."""
    title = f'{new["kind"]} "{new["metadata"]["name"]}" is invalid'
    encoded = {"Secret": new.get("data"), "ConfigMap": new.get("binaryData")}[new["kind"]] or {}
    plain = {"Secret": new.get("stringData"), "ConfigMap": new.get("data")}[new["kind"]] or {}
    try:
        sizes = [len(base64.b64decode(value, validate=True)) for value in encoded.values()]
    except ValueError as error:
        raise Invalid(f"{title}: a value is not base64") from error
    if sum([*sizes, *(len(value.encode()) for value in plain.values())]) > _LARGEST:
        raise Invalid(f"{title}: Too long: may not be more than {_LARGEST} bytes")
    fields = ("data", "binaryData", "immutable")
    if old and old.get("immutable") and any(new.get(field) != old.get(field) for field in fields):
        raise Invalid(f"{title}: Forbidden: field is immutable when `immutable` is set")
    if new["kind"] == "Secret" and plain:
        data = {**encoded, **{key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}}
        return {key: value for key, value in new.items() if key != "stringData"} | {"data": data}
    return new


def _admit_job(new: Manifest, old: Manifest | None) -> Manifest:
    name, spec = new["metadata"]["name"], {**_DEFAULTS, **(new.get("spec") or {})}
    for field in sorted(spec.keys() | old["spec"].keys()) if old else ():
        if field not in _MUTABLE and old and spec.get(field) != old["spec"].get(field):
            raise Invalid(f'Job.batch "{name}" is invalid: spec.{field}: Invalid value: field is immutable')
    pod = (spec.get("template") or {}).get("spec") or {}
    _check_shape(name, pod)
    commands = [container.get("command") for container in pod.get("containers") or ()]
    longest = f"{name}-{spec['completions'] - 1}"
    needs = {
        "names of pods that are DNS labels": len(longest) <= _POD_NAME_LIMIT and _POD_NAME.fullmatch(longest),
        "completionMode Indexed": spec.get("completionMode") == "Indexed",
        "parallelism 1": spec["parallelism"] == 1,
        "backoffLimitPerIndex": "backoffLimitPerIndex" in spec,
        "restartPolicy Never": pod.get("restartPolicy") == "Never",
        "one container, with a command": len(commands) == 1 and all(commands),
        "no initContainers (what is above 1 MiB or elsewhere is cloned in one)": not pod.get("initContainers"),
        "no volumes but emptyDir and the files of the run": all(map(_is_known, pod.get("volumes") or ())),
    }
    if missing := [need for need, met in needs.items() if not met]:
        raise Invalid(f'Job.batch "{name}" is invalid: the local cluster needs {", ".join(missing)}')
    return new | {"spec": spec}


def _is_known(volume: Manifest) -> bool:
    return "emptyDir" in volume or (volume["name"] == FILES and "configMap" in volume)


def _check_shape(name: str, pod: Manifest) -> None:
    """Refuse at the door what nobody here could read later: a list where a mapping belongs, text for a number."""
    try:
        place(pod, 0, [_ANY_NODE], [])
        _ = [container.get("command") for container in pod.get("containers") or ()]
        _ = [volume.keys() for volume in pod.get("volumes") or ()]
        int(pod.get("terminationGracePeriodSeconds", 0))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Invalid(
            f'Job.batch "{name}" is invalid: its pod is not of the form that Kubernetes knows: {error}'
        ) from error


def _admit_class(new: Manifest, old: Manifest | None, classes: Sequence[Manifest]) -> Manifest:
    name = new["metadata"]["name"]
    new = {"value": 0, "preemptionPolicy": _LOWER, **new}
    value, policy = new["value"], new["preemptionPolicy"]
    before = old or new
    refusals = {
        "metadata.name: Invalid value: must be a DNS subdomain": not _CLASS_NAME.fullmatch(name),
        "metadata.name: Forbidden: the prefix system- is reserved for system use only": name.startswith("system-"),
        f"value: Forbidden: maximum allowed value of a user defined priority is {_HIGHEST}": value > _HIGHEST,
        "preemptionPolicy: Unsupported value: must be Never or PreemptLowerPriority": policy not in (_LOWER, "Never"),
        "value: Forbidden: may not be changed in an update": value != before["value"],
        "preemptionPolicy: Invalid value: field is immutable": policy != before["preemptionPolicy"],
    }
    for refusal, applies in refusals.items():
        if applies:
            raise Invalid(f'PriorityClass.scheduling.k8s.io "{name}" is invalid: {refusal}')
    defaults = [other["metadata"]["name"] for other in classes if other.get("globalDefault")]
    if new.get("globalDefault") and defaults not in ([], [name]):
        text = f"PriorityClass {defaults[0]} is already marked as default. Only one default can exist"
        raise Forbidden(f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: {text}')
    return new


def make_pod(job: Manifest, index: int, failures: int, classes: Sequence[Manifest], added: Manifest) -> Manifest:
    """Return a Job's next pod as it passes admission, with `added` metadata: uid and creationTimestamp.

    Raises Forbidden when its PriorityClass is missing.
    """
    template, its = job["spec"]["template"], job["metadata"]
    given = template.get("metadata") or {}
    labels = {"job-name": its["name"], "controller-uid": its["uid"]}
    labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()} | {COMPLETION_INDEX: str(index)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": its["name"], "uid": its["uid"], "controller": True}
    container = template["spec"]["containers"][0]
    number = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{its['name']}-{index}-{added['uid'][:5]}",
            "namespace": its["namespace"],
            "labels": {**(given.get("labels") or {}), **labels},
            "annotations": {**(given.get("annotations") or {}), COMPLETION_INDEX: str(index), FAILURES: str(failures)},
            "ownerReferences": [owner],
            "finalizers": [TRACKING],
            **added,
        },
        "spec": {
            "terminationGracePeriodSeconds": DEFAULT_GRACE,
            **template["spec"],
            **_priority(template["spec"].get("priorityClassName"), classes),
            "containers": [container | {"env": [*(container.get("env") or ()), number]}],
        },
        "status": {"phase": "Pending"},
    }


def _priority(named: str | None, classes: Sequence[Manifest]) -> Manifest:
    for found in classes:
        if found["metadata"]["name"] == named or (named is None and found.get("globalDefault")):
            policy = {"priority": found["value"], "preemptionPolicy": found["preemptionPolicy"]}
            return policy | {"priorityClassName": found["metadata"]["name"]}
    if named:
        raise Forbidden(f"no PriorityClass with name {named} was found")
    return {"priority": 0, "preemptionPolicy": _LOWER}
