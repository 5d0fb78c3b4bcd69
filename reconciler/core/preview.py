"""Foretell what the kube-scheduler would do with one pod: it fits, takes others' place, waits, or never fits.

This models the default profile on the nodes and pods as they stand: node name, cordon, taints, node selector, required
node affinity, requests, nominated pods, and preemption with its choice of victims
(`pkg/scheduler/framework/preemption`, `plugins/noderesources`). The local cluster schedules by the same code.

It ignores, so that a verdict can be wrong where these matter: PodDisruptionBudgets, pod affinity, topology spread,
volumes, host ports, resource claims, scheduling gates, LimitRange defaults, resizes in place, other scheduler profiles,
Kueue, and nodes that an autoscaler may add. Where several nodes fit, the real one also scores them; above 100 nodes it
looks for victims on a sample only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

from reconciler.core.quantity import format_quantity, parse_quantity
from reconciler.model import DEFAULT_GRACE, Manifest, Placement, Verdict

Amounts = dict[str, int]  # in the scheduler's units: thousandths of a CPU, whole numbers of all else

_CORDON: Manifest = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_NOT_STARTED = "~"  # sorts after every time: the scheduler takes "now"


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod that holds room on a node: bound to it, terminating or not, or nominated for it."""

    name: str
    priority: int
    started: str
    grace: int
    requests: Amounts
    terminating: bool
    stays: bool


@dataclass(frozen=True, slots=True)
class Room:
    """A node and who holds room on it; `free` is what the bound pods leave."""

    name: str
    node: Manifest
    allocatable: Amounts
    free: Amounts
    bound: tuple[Occupant, ...]
    nominated: tuple[Occupant, ...]


def place(pod_spec: Manifest, priority: int, nodes: Sequence[Manifest], pods: Sequence[Manifest]) -> Placement:
    """Say where a pod would go, and whose place it would take.

    `pods` are those of all namespaces without the one in question; ended and unbound ones don't count. What admission
    fills in, `preemptionPolicy` above all, is read from `pod_spec`: put it there before. To place several pods on the
    same cluster, call `survey` once, then `place_in` and `with_placement` for each.
    """
    return place_in(survey(nodes, pods), pod_spec, priority)


def survey(nodes: Sequence[Manifest], pods: Iterable[Manifest]) -> tuple[Room, ...]:
    """Sort the pods by node, once for any number of placements."""
    bound: dict[str, list[Occupant]] = {node["metadata"]["name"]: [] for node in nodes}
    nominated: dict[str, list[Occupant]] = {name: [] for name in bound}
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            continue
        if (node := pod["spec"].get("nodeName")) in bound:
            bound[node].append(_occupant(pod, status))
        elif not node and (node := status.get("nominatedNodeName")) in nominated:
            nominated[node].append(_occupant(pod, status))
    return tuple(_room(node, bound[node["metadata"]["name"]], nominated[node["metadata"]["name"]]) for node in nodes)


def with_placement(rooms: Sequence[Room], placement: Placement, pod: Manifest) -> tuple[Room, ...]:
    """Return the nodes as they are once the pod has its place and the victims are gone; unchanged if it has none."""
    return tuple(
        room
        if room.name != placement.node
        else _room(
            room.node,
            [*(o for o in room.bound if o.name not in placement.victims), _occupant(pod, {})],
            room.nominated,
        )
        for room in rooms
    )


def _room(node: Manifest, bound: Sequence[Occupant], nominated: Sequence[Occupant]) -> Room:
    allocatable = _amounts(node.get("status", {}).get("allocatable") or {})
    free = _minus(allocatable, *bound)
    return Room(node["metadata"]["name"], node, allocatable, free, tuple(bound), tuple(nominated))


def place_in(rooms: Sequence[Room], pod_spec: Manifest, priority: int) -> Placement:
    """Say where a pod would go among surveyed nodes; see `place`."""
    try:
        need = pod_requests(pod_spec)
    except ValueError as error:
        return Placement(Verdict.NEVER, None, (), f"the API server will refuse its requests: {error}")
    obstacles = {room.name: obstacle for room in rooms if (obstacle := _obstacle(pod_spec, room))}
    allowed = [room for room in rooms if room.name not in obstacles]
    lacking = {room.name: _lacking(need, _free(room, priority)) for room in allowed}
    fitting = [name for name, names in lacking.items() if not names]
    if fitting:
        where = f"on {fitting[0]}" if len(fitting) == 1 else f"on {len(fitting)} nodes, such as {fitting[0]}"
        return Placement(Verdict.FITS, fitting[0], (), f"fits now {where}")
    best = {room.name: _lasting(room, priority) for room in allowed}
    if all(_lacking(need, amounts) for amounts in best.values()):
        return Placement(Verdict.NEVER, None, (), _why_never(rooms, best, obstacles, need))
    missing = Counter(obstacles.values())
    missing.update(
        "Too many pods" if name == "pods" else f"Insufficient {name}" for n in lacking.values() for name in n
    )
    unavailable = f"0/{len(rooms)} nodes are available: {_count(missing)}"
    if pod_spec.get("preemptionPolicy") == "Never":
        return Placement(Verdict.WAITS, None, (), f"{unavailable}; its preemptionPolicy is Never, so it takes no place")
    return _preempt(allowed, need, priority, unavailable)


def _preempt(allowed: Sequence[Room], need: Amounts, priority: int, unavailable: str) -> Placement:
    candidates = [(room.name, victims) for room in allowed if (victims := _victims(room, need, priority))]
    if not candidates:
        reason = f"{unavailable}; no pods of lower priority whose place would be enough"
        return Placement(Verdict.WAITS, None, (), reason)
    node, victims = _best(candidates)
    leaving = [victim for victim in victims if not victim.terminating]
    grace = max(victim.grace for victim in victims)
    if not leaving:
        reason = f"{unavailable}; {_names(victims)} on {node} already stops, in at most {grace} s"
        return Placement(Verdict.WAITS, node, (), reason)
    reason = f"takes the place of {_names(leaving)} on {node}, after at most {grace} s of grace"
    return Placement(Verdict.PREEMPTS, node, tuple(victim.name for victim in leaving), reason)


def _names(pods: Sequence[Occupant]) -> str:
    names = ", ".join(f"{pod.name} (priority {pod.priority})" for pod in pods[:3])
    return f"{names} and {len(pods) - 3} more" if len(pods) > 3 else names  # noqa: PLR2004


def _victims(room: Room, need: Amounts, priority: int) -> tuple[Occupant, ...]:
    """Return who must leave this node: all lower ones, less those that can be put back, the most important first."""
    lower = [pod for pod in room.bound if pod.priority < priority]
    free = dict(_free(room, priority))
    for pod in lower:
        _add(free, pod.requests)
    if _lacking(need, free):
        return ()
    victims = []
    for pod in sorted(lower, key=lambda pod: (-pod.priority, pod.started)):
        without = _minus(free, pod)
        if _lacking(need, without):
            victims.append(pod)
        else:
            free = without
    return tuple(victims)


def _best(candidates: Sequence[tuple[str, tuple[Occupant, ...]]]) -> tuple[str, tuple[Occupant, ...]]:
    """Choose the node as the scheduler ranks them; PDB violations, its first key, count as none."""

    def harm(candidate: tuple[str, tuple[Occupant, ...]]) -> tuple[int, int, int]:
        priorities = [victim.priority for victim in candidate[1]]
        # NB: each is shifted to be positive, so that of two sums of negative priorities the one of fewer pods is lower
        return max(priorities), sum(priority + 2**31 for priority in priorities), len(priorities)

    def started(candidate: tuple[str, tuple[Occupant, ...]]) -> str:
        highest = max(victim.priority for victim in candidate[1])
        return min(victim.started for victim in candidate[1] if victim.priority == highest)

    least = min(map(harm, candidates))
    return max((candidate for candidate in candidates if harm(candidate) == least), key=started)


def _lasting(room: Room, priority: int) -> Amounts:
    """Return what a node could give at best: DaemonSets' and static pods stay unless their priority is lower."""
    return _minus(room.allocatable, *(pod for pod in room.bound if pod.stays and pod.priority >= priority))


def _why_never(rooms: Sequence[Room], best: Mapping[str, Amounts], obstacles: Mapping[str, str], need: Amounts) -> str:
    if not rooms:
        return "the cluster has no node"
    reasons = Counter(obstacles.values())
    reasons["node(s) too small"] = len(best)
    reason = f"0/{len(rooms)} nodes can hold it, whoever leaves: {_count(reasons)}"
    if not best:
        return reason

    def shortfall(name: str) -> float:
        return max(need[key] / max(best[name].get(key, 0), 0.001) for key in _lacking(need, best[name]))

    nearest = min(best, key=shortfall)
    short = _lacking(need, best[nearest])
    asked = ", ".join(f"{_text(key, need[key])} {key} of {_text(key, best[nearest].get(key, 0))}" for key in short)
    return f"{reason}; the nearest, {nearest}: asks for {asked}"


def _occupant(pod: Manifest, status: Manifest) -> Occupant:
    metadata, spec = pod["metadata"], pod["spec"]
    grace = metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE))
    return Occupant(
        name=f"{metadata.get('namespace', 'default')}/{metadata['name']}",
        priority=spec.get("priority") or 0,
        started=status.get("startTime") or _NOT_STARTED,
        grace=grace,
        requests=pod_requests(spec),
        terminating="deletionTimestamp" in metadata,
        stays=any(owner.get("kind") in ("DaemonSet", "Node") for owner in metadata.get("ownerReferences") or ()),
    )


def pod_requests(spec: Manifest) -> Amounts:
    """Return what the scheduler reserves for a pod (KEP-753, KEP-2837): limits stand in for missing requests.

    Raises ValueError for what is no quantity.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _container_requests(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _container_requests(container)
        _add(own, sidecars)
        peak = _most(peak, own)
        if container.get("restartPolicy") == "Always":
            sidecars = own
    _add(total, sidecars)
    total = _most(total, peak) | _container_requests(spec)  # pod-level requests take the place of the sum
    _add(total, _amounts(spec.get("overhead") or {}))
    total["pods"] = 1
    return total


def _container_requests(container: Manifest) -> Amounts:
    resources = container.get("resources") or {}
    return _amounts((resources.get("limits") or {}) | (resources.get("requests") or {}))


def _obstacle(spec: Manifest, room: Room) -> str | None:
    """Return the scheduler's words for what keeps a pod off this node whoever leaves it, or None."""
    wanted = spec.get("nodeName")
    if wanted and wanted != room.name:
        return "node(s) didn't match the requested node name"
    tolerations = spec.get("tolerations") or ()
    node_spec = room.node.get("spec") or {}
    if node_spec.get("unschedulable") and not _tolerated(_CORDON, tolerations):
        return "node(s) were unschedulable"
    for taint in node_spec.get("taints") or ():
        if taint.get("effect") != "PreferNoSchedule" and not _tolerated(taint, tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not _selected(spec, room):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def _tolerated(taint: Manifest, tolerations: Iterable[Manifest]) -> bool:
    return any(
        toleration.get("effect") in (None, "", taint.get("effect"))
        and toleration.get("key") in (None, "", taint["key"])
        and (
            toleration.get("operator") == "Exists"
            or (bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", ""))
        )
        for toleration in tolerations
    )


def _selected(spec: Manifest, room: Room) -> bool:
    labels = room.node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_term_matches(term, labels, room.name) for term in required["nodeSelectorTerms"])


def _term_matches(term: Manifest, labels: Mapping[str, str], name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term selects nothing
    by_label = all(_expression_matches(expression, labels) for expression in expressions)
    return by_label and all(_expression_matches(field, {"metadata.name": name}) for field in fields)


def _expression_matches(expression: Manifest, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: Sequence[str] = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    try:
        actual, limit = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return actual > limit if expression["operator"] == "Gt" else actual < limit


def _free(room: Room, priority: int) -> Amounts:
    """Return what is left now: nobody takes the room that one of at least its own priority is nominated for."""
    return _minus(room.free, *(pod for pod in room.nominated if pod.priority >= priority))


def _lacking(need: Amounts, free: Amounts) -> list[str]:
    return [key for key, amount in need.items() if amount > free.get(key, 0) and amount > 0]


def _amounts(resources: Mapping[str, str | float]) -> Amounts:
    return {key: _amount(key, str(quantity)) for key, quantity in resources.items()}


@lru_cache(maxsize=4096)
def _amount(key: str, quantity: str) -> int:
    return ceil(parse_quantity(quantity) * (1000 if key == "cpu" else 1))


def _text(key: str, amount: int) -> str:
    return format_quantity(Fraction(amount, 1000 if key == "cpu" else 1))


def _count(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items() if number))


def _add(total: Amounts, more: Amounts) -> None:
    for key, amount in more.items():
        total[key] = total.get(key, 0) + amount


def _minus(total: Amounts, *pods: Occupant) -> Amounts:
    left = dict(total)
    for pod in pods:
        for key, amount in pod.requests.items():
            left[key] = left.get(key, 0) - amount
    return left


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in one | other}
