"""Read one pod as an attempt of a run: where it is in its life, and what ended it or keeps it from starting.

Pods are the least reliable witnesses: they go away, and their status grows over several writes. So nothing here counts
(`encoding` does, from the Job alone), every field may be absent or odd, and a condition is worth its *status*: one that
stands at "False" says nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto

from reconciler.core.exit_codes import CLONE_INTERRUPTED, PEER_LOST, TOLD_TO_STOP
from reconciler.core.manifest import integer, mapping, objects
from reconciler.core.pod.clone import CLONE_CONTAINERS
from reconciler.model import MAIN_CONTAINER, Manifest
from reconciler.runs import Attempt

DELETED = "Deleted"
MAX_TEXT = 200
_PULL_BACKOFF = re.compile(r'^Back-off pulling image "[^"]*"(?:: (?:ErrImagePull: )?)?')
_RUNTIME_REASONS = frozenset({"StartError", "ContainerCannotRun"})


class Stage(Enum):
    """How far a pod is; TERMINATING is told to stop but not stopped, and never counts as running."""

    UNBOUND = auto()
    BOUND = auto()
    RUNNING = auto()
    TERMINATING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class PodReading:
    """What one pod says. `reason` and `message` tell what ended it, or what it waits for.

    `exit_code` is the main container's own, by which the Job is decided; the command's real one stands in `attempt`.
    `disrupted` means that something outside ended it: it is no evidence against the command.
    """

    attempt: Attempt
    stage: Stage
    reason: str | None
    message: str | None
    succeeded: bool
    disrupted: bool
    exit_code: int | None
    phase: str | None


def read_pod(pod: Manifest) -> PodReading:
    """Read a pod in whatever state it is."""
    status = mapping(pod.get("status"))
    stage = _stage(pod, status)
    main = _main_status(status)
    ended = mapping(mapping(main.get("state")).get("terminated"))
    said = _termination_message(ended)
    code = integer(ended.get("exitCode"))
    if stage in (Stage.ENDED, Stage.TERMINATING):
        reason, message = _why_ended(pod, status, ended, said)
    elif stage is Stage.RUNNING:
        reason, message = None, None
    else:
        reason, message = _why_waiting(status, main)
    cause = _disruption(status)
    return PodReading(
        attempt=_attempt(pod, stage, main, said, reason if stage in (Stage.ENDED, Stage.TERMINATING) else None),
        stage=stage,
        reason=reason,
        message=message,
        succeeded=status.get("phase") == "Succeeded",
        disrupted=bool(cause)
        or code in (TOLD_TO_STOP, PEER_LOST)
        or _clone_interrupted(status)
        or (stage is Stage.ENDED and not _any_ended(status)),
        exit_code=code,
        phase=text(said.get("phase")),
    )


def waits_for_node(pod: Manifest) -> bool:
    """Tell whether the scheduler looks for a node for a pod; behind a scheduling gate it does not yet."""
    unbound = _stage(pod, mapping(pod.get("status"))) is Stage.UNBOUND
    return unbound and not mapping(pod.get("spec")).get("schedulingGates")


def text(value: object) -> str | None:
    """Return a text that is not empty, on one line and cut to a length that a status can bear."""
    if not isinstance(value, str) or not value.strip():
        return None
    line = " ".join(value.split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def true_condition(status: Manifest, *kinds: str) -> Manifest | None:
    """Return the first condition of one of these types whose status is "True"."""
    for condition in objects(status.get("conditions")):
        if condition.get("type") in kinds and condition.get("status") == "True":
            return condition
    return None


def _stage(pod: Manifest, status: Manifest) -> Stage:
    if status.get("phase") in ("Failed", "Succeeded"):
        return Stage.ENDED
    if mapping(pod.get("metadata")).get("deletionTimestamp"):
        return Stage.TERMINATING
    state = mapping(_main_status(status).get("state"))
    if "running" in state or (status.get("phase") == "Running" and "waiting" not in state):
        return Stage.RUNNING
    return Stage.BOUND if mapping(pod.get("spec")).get("nodeName") else Stage.UNBOUND


def _main_status(status: Manifest) -> Manifest:
    for container in objects(status.get("containerStatuses")):
        if container.get("name") == MAIN_CONTAINER:
            return container
    return {}


def _any_ended(status: Manifest) -> bool:
    """Whether any container ended: a pod that the kubelet refused has none, and the command never ran."""
    containers = objects(status.get("containerStatuses")) + objects(status.get("initContainerStatuses"))
    return any("terminated" in mapping(container.get("state")) for container in containers)


def _clone_interrupted(status: Manifest) -> bool:
    return any(
        container.get("name") in CLONE_CONTAINERS
        and mapping(mapping(container.get("state")).get("terminated")).get("exitCode") in CLONE_INTERRUPTED
        for container in objects(status.get("initContainerStatuses"))
    )


def _disruption(status: Manifest) -> Manifest | None:
    """Return the condition that says that something outside ended the pod: Kubernetes' own, else Kueue's."""
    return true_condition(status, "DisruptionTarget") or true_condition(status, "TerminationTarget")


def _termination_message(ended: Manifest) -> Manifest:
    """Return what the supervisor wrote: one JSON line. A command may have written anything there."""
    message = ended.get("message")
    if not isinstance(message, str) or "{" not in message:
        return {}
    try:
        return mapping(json.loads(message.strip().rsplit("\n", 1)[-1]))
    except (ValueError, RecursionError):
        return {}


def _attempt(pod: Manifest, stage: Stage, main: Manifest, said: Manifest, reason: str | None) -> Attempt:
    state = mapping(main.get("state"))
    ended = mapping(state.get("terminated"))
    started = ended.get("startedAt") or mapping(state.get("running")).get("startedAt")
    finished = ended.get("finishedAt") or (_end_without_container(pod) if stage is Stage.ENDED else None)
    real_code = integer(said.get("exit_code"))
    return Attempt(
        pod=str(mapping(pod.get("metadata")).get("name", "")),
        started_at=text(started),
        ended_at=text(finished),
        node=text(mapping(pod.get("spec")).get("nodeName")),
        reason=reason,
        exit_code=real_code if real_code is not None else integer(ended.get("exitCode")),
        created_at=text(mapping(pod.get("metadata")).get("creationTimestamp")),
    )


def _end_without_container(pod: Manifest) -> object:
    """Return when a pod ended whose main container has no end: what the Job controller itself goes by."""
    cause = _disruption(mapping(pod.get("status"))) or {}
    return cause.get("lastTransitionTime") or mapping(pod.get("metadata")).get("deletionTimestamp")


def _why_ended(pod: Manifest, status: Manifest, ended: Manifest, said: Manifest) -> tuple[str | None, str | None]:
    """Return reason and message, the outermost cause first: why Kubernetes stopped it, else how the container ended."""
    if status.get("phase") == "Succeeded":
        return "Completed", None
    if cause := _disruption(status):
        return text(cause.get("reason")) or "Disrupted", text(cause.get("message"))
    if reason := text(status.get("reason")):
        return reason, text(status.get("message"))
    code = integer(ended.get("exitCode"))
    if code == PEER_LOST:
        return "PeerLost", None
    if mapping(pod.get("metadata")).get("deletionTimestamp"):
        return DELETED, _deadline(pod) if status.get("phase") != "Failed" else None
    if code == TOLD_TO_STOP:
        return "Terminated", "it was told to stop, and nothing says by whom"
    if not code and (failed_init := _failed_init(status)):
        return failed_init
    return _how_container_ended(pod, ended, said)


def _deadline(pod: Manifest) -> str:
    metadata, node = mapping(pod.get("metadata")), mapping(pod.get("spec")).get("nodeName")
    where = f" on node {node}" if node else ""
    return f"pod {metadata.get('name')}{where} has until {metadata.get('deletionTimestamp')} to end"


def _failed_init(status: Manifest) -> tuple[str, str | None] | None:
    for container in objects(status.get("initContainerStatuses")):
        ended = mapping(mapping(container.get("state")).get("terminated"))
        if code := integer(ended.get("exitCode")):
            reason = text(ended.get("reason")) or "Error"
            message = f"init container {container.get('name')} ended with exit code {code}"
            return f"Init:{reason}", text(": ".join(filter(None, (message, text(ended.get("message"))))))
    return None


def _how_container_ended(pod: Manifest, ended: Manifest, said: Manifest) -> tuple[str | None, str | None]:
    reason = text(ended.get("reason"))
    if reason == "OOMKilled":
        limit = _memory_limit(pod)
        return reason, f"OOMKilled (limit {limit})" if limit else "OOMKilled"
    if reason in _RUNTIME_REASONS:
        return reason, text(ended.get("message"))
    code = integer(said.get("exit_code"))
    code = code if code is not None else integer(ended.get("exitCode"))
    if code is None:
        return reason, None
    return reason or "Error", f"{'setup failed with ' if said.get('phase') == 'setup' else ''}exit code {code}"


def _memory_limit(pod: Manifest) -> str | None:
    for container in objects(mapping(pod.get("spec")).get("containers")):
        if container.get("name") == MAIN_CONTAINER:
            limits = mapping(mapping(container.get("resources")).get("limits"))
            return str(limits["memory"]) if limits.get("memory") else None
    return None


def _why_waiting(status: Manifest, main: Manifest) -> tuple[str | None, str | None]:
    """Return what keeps a pod from running: no node, else the first container that says what it waits for."""
    for condition in objects(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return text(condition.get("reason")), text(condition.get("message"))
    waiting = [mapping(mapping(c.get("state")).get("waiting")) for c in objects(status.get("initContainerStatuses"))]
    waiting = [state for state in waiting if state.get("reason") not in (None, "PodInitializing")]
    waiting.append(mapping(mapping(main.get("state")).get("waiting")))
    reason, message = text(waiting[0].get("reason")), text(waiting[0].get("message"))
    if reason in ("ErrImagePull", "ImagePullBackOff"):
        # The kubelet alternates between the two: one word for both, or each look would see a change.
        return "ImagePullBackOff", (_PULL_BACKOFF.sub("", message or "") or message)
    return reason, message
