"""The pretend node: what its scheduler and its kubelet make of the pods of one moment."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from reconciler.cluster.local.container import Container
from reconciler.cluster.local.lifecycle import has_ended, is_true, with_condition
from reconciler.core.pod.delivery import FILES
from reconciler.core.preview import place
from reconciler.core.status.times import rfc3339
from reconciler.model import Manifest, Placement, Verdict

NODE = "local"
Lookup = Callable[[str, str, str], Manifest | None]
_KINDS = {
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
}
_LABEL = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class _ConfigError(Exception):
    """The container's environment needs what this cluster hasn't got."""


def make_node(capacity: Mapping[str, str]) -> Manifest:
    """Return the Node object."""
    metadata = {"name": NODE, "uid": NODE, "labels": {"kubernetes.io/hostname": NODE}}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it is this machine"}
    status = {"capacity": dict(capacity), "allocatable": dict(capacity), "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def terminate(pod: Manifest, now: datetime) -> Manifest:
    """Return a pod that is asked to stop; one that is already keeps its time."""
    if "deletionTimestamp" in pod["metadata"]:
        return pod
    grace = pod["spec"]["terminationGracePeriodSeconds"]
    end = {"deletionTimestamp": rfc3339(now + timedelta(seconds=grace)), "deletionGracePeriodSeconds": grace}
    return pod | {"metadata": pod["metadata"] | end}


def schedule(pods: Sequence[Manifest], node: Manifest, now: datetime) -> list[Manifest]:
    """Return the unfinished pods as the scheduler leaves them: bound, or told why not, or asked to make room."""
    current = {_key(pod): pod for pod in pods if not has_ended(pod)}
    pending = [pod for pod in current.values() if not _bound(pod) and "deletionTimestamp" not in pod["metadata"]]
    holders = {key: pod for key, pod in current.items() if _bound(pod) or "nominatedNodeName" in pod["status"]}
    for pod in sorted(pending, key=lambda pod: -pod["spec"]["priority"]):
        others = [other for key, other in holders.items() if key != _key(pod)]
        if _key(pod) in holders and any(_makes_room(other, pod) for other in others):
            continue
        placement = place(pod["spec"], pod["spec"]["priority"], [node], others)
        changed = {_key(pod): _placed(pod, placement, now)}
        for name in placement.victims:
            message = f"default-scheduler: preempting to accommodate a higher priority pod ({_key(pod)})"
            victim = terminate(current[name], now)
            changed[name] = _with(victim, now, "DisruptionTarget", "True", "PreemptionByScheduler", message)
        current |= changed
        if placement.node:
            holders |= changed
    return list(current.values())


def _placed(pod: Manifest, placement: Placement, now: datetime) -> Manifest:
    if placement.verdict is not Verdict.FITS:
        nominated = {"nominatedNodeName": placement.node} if placement.node else {}
        waiting = pod | {"status": pod["status"] | nominated}
        return _with(waiting, now, "PodScheduled", "False", "Unschedulable", placement.reason)
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    bound = pod | {"spec": pod["spec"] | {"nodeName": NODE}, "status": status | {"startTime": rfc3339(now)}}
    return _with(bound, now, "PodScheduled", "True")


def _makes_room(other: Manifest, pod: Manifest) -> bool:
    lower = other["spec"]["priority"] < pod["spec"]["priority"]
    return lower and "deletionTimestamp" in other["metadata"] and is_true(other["status"], "DisruptionTarget")


def run(pod: Manifest, container: Container, now: datetime, get: Lookup) -> Manifest:
    """Return an unfinished pod as its kubelet reports it, and lay out the container of one that is new on the node.

    `get` finds a ConfigMap or a Secret by kind, name and namespace.
    """
    deleting = "deletionTimestamp" in pod["metadata"]
    if not _bound(pod):
        return _never_ran(pod) if deleting else pod
    if not container.prepared:
        if deleting:
            return _never_ran(pod)
        try:
            files = mounted(pod, get)
            if files is None:
                return _report(pod, now, waiting={"reason": "ContainerCreating"})
            container.prepare(*command(pod, get), files)
        except _ConfigError as error:
            return _report(pod, now, waiting={"reason": "CreateContainerConfigError", "message": str(error)})
    record = container.look()
    if record is None:
        return _report(pod, now, waiting={"reason": "ContainerCreating"})
    if not record:
        return _never_ran(pod)
    if "exitCode" not in record:
        return _report(pod, now, running={"startedAt": record["startedAt"]})
    code = record["exitCode"]
    ended = {"reason": "Error" if code else "Completed", "message": container.last_words(), "finishedAt": rfc3339(now)}
    return _report(pod, now, terminated=ended | {key: value for key, value in record.items() if key != "pid"})


def _never_ran(pod: Manifest) -> Manifest:
    return pod | {"status": {**pod["status"], "phase": "Failed", "containerStatuses": []}}


def _report(pod: Manifest, now: datetime, **state: Manifest) -> Manifest:
    phase = "Running" if "running" in state else "Pending"
    if "terminated" in state:
        phase = "Failed" if state["terminated"]["exitCode"] else "Succeeded"
    main, ready = pod["spec"]["containers"][0], phase == "Running"
    status = {"name": main["name"], "image": main.get("image", ""), "restartCount": 0, "ready": ready, "state": state}
    reported = pod | {"status": {**pod["status"], "phase": phase, "containerStatuses": [status]}}
    return _with(reported, now, "Ready", str(ready))


def mounted(pod: Manifest, get: Lookup) -> dict[str, bytes] | None:
    """Return the files of the run by name; None as long as they are not there, for which a kubelet waits."""
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"] == FILES:
            found = get("ConfigMap", volume["configMap"]["name"], pod["metadata"]["namespace"])
            return _contents(found) if found else None
    return {}


def command(pod: Manifest, get: Lookup) -> tuple[list[str], dict[str, str]]:
    """Return what the container runs and its environment, expanded as a kubelet does.

    Raises _ConfigError for a Secret or ConfigMap that is not there, and for a field that isn't known here.
    """
    container = pod["spec"]["containers"][0]
    env: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        for key, reference in source.items():
            if key in _KINDS:
                env |= {f"{source.get('prefix') or ''}{k}": v for k, v in _texts(pod, key, reference, get).items()}
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        if not source:
            env[entry["name"]] = _expand(entry.get("value") or "", env)
        elif "fieldRef" in source:
            env[entry["name"]] = _field(pod, source["fieldRef"]["fieldPath"])
        else:
            env |= _one(pod, entry["name"], source, get)
    words = [*container["command"], *(container.get("args") or ())]
    return [_expand(word, env) for word in words], env


def _one(pod: Manifest, name: str, source: Manifest, get: Lookup) -> dict[str, str]:
    """Return one variable from a key of a Secret or ConfigMap; nothing for an optional one that is not there."""
    for key, reference in source.items():
        values = _texts(pod, key, reference, get)
        if reference.get("key") in values:
            return {name: values[reference["key"]]}
        if not reference.get("optional"):
            raise _ConfigError(f"couldn't find key {reference.get('key')} in {_KINDS.get(key)} {reference.get('name')}")
    return {}


def _texts(pod: Manifest, key: str, reference: Manifest, get: Lookup) -> dict[str, str]:
    kind = _KINDS.get(key)
    found = get(kind, reference.get("name", ""), pod["metadata"]["namespace"]) if kind else None
    if found is None and not reference.get("optional"):
        what = (kind or key).lower()
        raise _ConfigError(f'{what} "{reference.get("name")}" not found: the local cluster has no such thing')
    return {name: value.decode(errors="replace") for name, value in _contents(found or {}).items()}


def _contents(manifest: Manifest) -> dict[str, bytes]:
    """Return what a ConfigMap or a Secret holds."""
    encoded = manifest.get("binaryData" if manifest.get("kind") == "ConfigMap" else "data") or {}
    plain = (manifest.get("data") or {}) if manifest.get("kind") == "ConfigMap" else {}
    decoded = {key: base64.b64decode(value) for key, value in encoded.items()}
    return decoded | {key: value.encode() for key, value in plain.items()}


def _field(pod: Manifest, path: str) -> str:
    if match := _LABEL.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    fields = {f"metadata.{key}": pod["metadata"][key] for key in ("name", "namespace", "uid")}
    fields |= {"spec.nodeName": NODE, "status.podIP": "127.0.0.1", "status.hostIP": "127.0.0.1"}
    if path not in fields:
        raise _ConfigError(f"fieldRef {path} is not supported by the local cluster")
    return str(fields[path])


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` where it is known, and `$$` by `$`."""
    return re.sub(r"\$(?:\$|\(([^)]*)\))", lambda m: "$" if m[0] == "$$" else env.get(m[1], m[0]), text)


def _bound(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _with(pod: Manifest, now: datetime, kind: str, value: str, *why: str) -> Manifest:
    reason, message = why or ("", "")
    return pod | {"status": with_condition(pod["status"], kind, (value, reason, message), rfc3339(now))}


def _key(pod: Manifest) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
