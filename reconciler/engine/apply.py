"""Carry out a plan: PriorityClasses in their order, then jobs, then what may be pruned.

One action's failure is its result, not an exception: the rest goes on. Deletions carry the uid and resourceVersion of
the object they were decided for, and creations are idempotent, so that a pass may die anywhere or meet another pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from reconciler.cluster.interface import Cluster
from reconciler.core.decide import completion, is_incomplete
from reconciler.core.encoding import check_echo, outcome, pod_template
from reconciler.core.manifest import title
from reconciler.engine.owned import Owned, incomplete, objects_of
from reconciler.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnauthorized,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    SourceError,
    WebhookFailed,
)
from reconciler.model import DEFAULT_GRACE, OWNER_LABEL, TASK_HASH, Action, Manifest, Result, Verb

WRITES = frozenset({Verb.CREATE, Verb.UPDATE, Verb.REPLACE, Verb.CANCEL, Verb.PRUNE})
JOB_ORDER = {Verb.CANCEL: 0, Verb.UPDATE: 1, Verb.REPLACE: 2, Verb.CREATE: 3}
ONE_BY_ONE = 32  # so many creations or fewer go one after another, so that they queue in order of path
WORKERS = 8
CONFLICT_TRIES = 5
PATIENCE_BEYOND_GRACE = 30.0  # seconds
STALE_DEFAULT_DELAYS = (0.2, 0.4, 0.8, 1.6, 2.0)  # the admission plugin's cache may not know yet that a default ended


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the engine needs it; tests and the loop bring their own `sleep`."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def apply(cluster: Cluster, actions: Sequence[Action], clock: Clock | None = None) -> tuple[Action, ...]:
    """Carry out the actions and return them with their results, in the order they came in."""
    applier = _Applier(cluster, clock or Clock())
    results: dict[int, Action] = {}
    for stage in _stages(actions):
        results.update(applier.run(stage))
    results.update(applier.start_successors({index: a for index, a in results.items() if a.result is None}))
    return tuple(results.get(index) or _without_write(action) for index, action in enumerate(actions))


def skip(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return the actions of a pass that a guard refused: none was carried out."""
    return tuple(
        replace(action, result=Result.SKIPPED) if action.verb in WRITES else _without_write(action)
        for action in actions
    )


def _without_write(action: Action) -> Action:
    """Give the result of an action that asks nothing of the cluster."""
    return replace(action, result=Result.DONE if action.verb is Verb.KEEP else Result.SKIPPED)


def _stages(actions: Sequence[Action]) -> Iterable[list[tuple[int, Action]]]:
    """Group the actions in order of need: classes, what frees room, what takes it, prunes. Classes stay in order."""
    numbered = list(enumerate(actions))
    writes = [(i, a) for i, a in numbered if a.verb in WRITES and a.verb is not Verb.PRUNE]
    for pair in writes:
        if pair[1].kind == "PriorityClass":
            yield [pair]
    for verb in sorted(JOB_ORDER, key=JOB_ORDER.__getitem__):
        yield [(i, a) for i, a in writes if a.kind != "PriorityClass" and a.verb is verb]
    prunes = [(i, a) for i, a in numbered if a.verb is Verb.PRUNE]
    yield [pair for pair in prunes if pair[1].kind != "PriorityClass"]
    yield [pair for pair in prunes if pair[1].kind == "PriorityClass"]


class _Applier:
    """Carries out single actions on one cluster."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.owned = Owned(cluster)
        self.away: ClusterError | None = None
        self.unwritable: dict[str, WebhookFailed] = {}
        self.server_problems: dict[str, str] = {}
        self.checked_kinds: set[str] = set()

    def run(self, stage: list[tuple[int, Action]]) -> dict[int, Action]:
        if len(stage) <= ONE_BY_ONE:
            return {index: self.carry_out(action) for index, action in stage}
        first, *rest = stage  # the first one settles whether this server can be trusted with the others
        results = {first[0]: self.carry_out(first[1])}
        pool = ThreadPoolExecutor(WORKERS)
        try:
            results.update(zip((i for i, _ in rest), pool.map(self.carry_out, (a for _, a in rest)), strict=True))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for a server that is silent
        return results

    def carry_out(self, action: Action) -> Action:
        return self._guarded(action, self._act)

    def _guarded(self, action: Action, act: Callable[[Action], Action]) -> Action:
        """Act, and make a failure the action's result."""
        try:
            if self.away:  # it was asked patiently already; the next pass asks again
                raise self.away
            if action.kind in self.unwritable and action.verb not in (Verb.CANCEL, Verb.PRUNE):
                raise self.unwritable[action.kind]
            return act(action)
        except WebhookFailed as error:
            self.unwritable[action.kind] = error
            return replace(action, result=Result.FAILED, reason=str(error), needs_attention=True)
        except (ClusterUnreachable, ClusterUnauthorized) as error:
            self.away = error
            return replace(action, result=Result.FAILED, reason=str(error), needs_attention=True)
        except (ClusterError, SourceError) as error:
            return replace(action, result=Result.FAILED, reason=str(error), needs_attention=True)

    def _act(self, action: Action) -> Action:
        match action.verb:
            case Verb.CREATE if action.kind == "PriorityClass":
                return self._write_class(action, self.cluster.create)
            case Verb.UPDATE if action.kind == "PriorityClass":
                return self._write_class(action, lambda m: self.cluster.patch(_live(action), m))
            case Verb.CREATE:
                return self._create(action)
            case Verb.UPDATE:
                self.owned.make(action, objects_of(action), _live(action))
                self.cluster.patch(_live(action), _manifest(action))
                return replace(action, result=Result.DONE)
            case Verb.REPLACE:
                return self._retire(action)
            case _:
                return self._delete(action, foreground=action.verb is Verb.CANCEL)

    def _write_class(self, action: Action, write: Callable[[Manifest], Manifest]) -> Action:
        """Write a class, patient with the admission plugin's stale idea of the default.

        One that another pass, or our own request whose answer was lost, has made already is fine when it is the same.
        """
        for delay in (*STALE_DEFAULT_DELAYS, None):
            try:
                write(_manifest(action))
            except Forbidden as error:
                if delay is None or "already marked as default" not in str(error):
                    raise
                self.clock.sleep(delay)
            except AlreadyExists:
                if not _says(self.cluster.get(action.kind, action.name), _manifest(action)):
                    raise
                break
            else:
                break
        return replace(action, result=Result.DONE)

    def _create(self, action: Action) -> Action:
        manifest = _manifest(action)
        self._check_server(manifest)
        if problem := self.server_problems.get(action.kind):
            return replace(action, result=Result.FAILED, reason=problem, needs_attention=True)
        objects = objects_of(action)
        if refusal := self.owned.refusal(action, objects):
            return refusal
        try:
            created = self.cluster.create(incomplete(manifest) if objects else manifest)
        except AlreadyExists:
            return self._judge_existing(action, self.cluster.get(action.kind, action.name, namespace=action.namespace))
        self._complete(action, objects, created)
        return replace(action, result=Result.DONE)

    def _complete(self, action: Action, objects: tuple[Manifest, ...], created: Manifest) -> None:
        """Make what a new run needs, and let it go."""
        if objects:
            self.owned.make(action, objects, created)
            self.cluster.patch(created, completion(created, suspend=bool(_manifest(action)["spec"].get("suspend"))))

    def _check_server(self, manifest: Manifest) -> None:
        """Ask once a pass and kind whether the server keeps the fields that make a finished job stay finished."""
        kind = manifest["kind"]
        if kind in self.checked_kinds:
            return
        try:
            if problem := check_echo(self.cluster.create(manifest, dry_run=True)):
                self.server_problems[kind] = problem
        except AlreadyExists:
            return
        self.checked_kinds.add(kind)

    def _judge_existing(self, action: Action, existing: Manifest) -> Action:
        """Tell another pass's creation of this very run from somebody else's object."""
        wanted, found = _manifest(action)["metadata"], existing["metadata"]
        if found.get("labels", {}).get(OWNER_LABEL) != wanted["labels"][OWNER_LABEL]:
            reason = (
                f"{action.kind}/{action.namespace}/{action.name} exists and is not ours: "
                "rename the job or remove that object"
            )
            return replace(action, verb=Verb.CONFLICT, result=Result.SKIPPED, reason=reason, needs_attention=True)
        if found.get("deletionTimestamp"):
            reason = f"{action.kind}/{action.namespace}/{action.name} is still being deleted: created on the next pass"
            return replace(action, verb=Verb.HOLD, result=Result.SKIPPED, reason=reason)
        if found.get("annotations", {}).get(TASK_HASH) != wanted["annotations"][TASK_HASH]:
            reason = f"another pass created {action.name} for another version of the file: the next pass decides anew"
            return replace(action, verb=Verb.HOLD, result=Result.SKIPPED, reason=reason)
        if is_incomplete(existing):  # by a pass that was killed, is still at it, or is this one whose answer was lost
            self._complete(action, objects_of(action), existing)
        return replace(action, result=Result.DONE, reason="another pass created it")

    def _retire(self, action: Action) -> Action:
        """Delete the predecessor, but only when the server accepts the successor; that one has no result yet."""
        try:
            problem = check_echo(self.cluster.create(_manifest(action), dry_run=True))
            if problem:
                return replace(action, result=Result.FAILED, reason=problem, needs_attention=True)
            if refusal := self.owned.refusal(action, objects_of(action)):
                return refusal
        except AlreadyExists:
            return self._judge_existing(action, self.cluster.get(action.kind, action.name, namespace=action.namespace))
        except (Invalid, Forbidden) as error:
            reason = f"{title(_live(action))} goes on, its successor was refused: {error}"
            return replace(action, result=Result.FAILED, reason=reason, needs_attention=True)
        ended = self._delete(action, foreground=True)
        return replace(ended, result=None) if ended.deleted else ended

    def start_successors(self, retired: dict[int, Action]) -> dict[int, Action]:
        """Create each successor when its predecessor is gone; all together wait as long as the longest grace period."""
        graces = [
            pod_template(_live(action))["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
            for action in retired.values()
        ]
        end = self.clock.monotonic() + max(graces, default=0) + PATIENCE_BEYOND_GRACE
        started: dict[int, Action] = {}
        while waiting := {index: action for index, action in retired.items() if index not in started}:
            late = self.clock.monotonic() > end
            for index, action in waiting.items():
                done = self._guarded(action, lambda action: self._succeed(action, late=late))  # noqa: B023 - called at once
                if done.result is not None:
                    started[index] = done
            if len(started) < len(retired):
                self.clock.sleep(0.3)
        return started

    def _succeed(self, action: Action, *, late: bool) -> Action:
        if self._current(_live(action)) is None:
            return self._create(action)
        if not late:
            return action
        reason = f"{title(_live(action))} is still ending: {action.name} is created by the next pass"
        return replace(action, verb=Verb.HOLD, result=Result.SKIPPED, reason=reason)

    def _delete(self, action: Action, *, foreground: bool) -> Action:
        """Delete what the action names, and return it with the object as it was when it was deleted.

        NB: the resourceVersion makes sure that the count we record is the last one. A status update in between is no
        reason to give up: read again and retry, as long as it is the same object and has not come to its own end.
        """
        live = _live(action)
        for _ in range(CONFLICT_TRIES):
            try:
                self.cluster.delete(live, foreground=foreground)
            except NotFound:
                break
            except Conflict:
                current = self._current(live)
                if current is None:
                    break
                if action.verb is not Verb.PRUNE and outcome(current):
                    reason = f"{title(current)} ended by itself meanwhile: the next pass decides anew"
                    return replace(action, verb=Verb.HOLD, result=Result.SKIPPED, reason=reason)
                live = current
            except ClusterUnreachable:
                if not self._is_going(live):
                    raise
                break
            else:
                break
        else:
            raise Conflict(f"{action.kind}/{action.namespace}/{action.name} keeps changing: the next pass tries again")
        return replace(action, result=Result.DONE, live=live, deleted=True)

    def _is_going(self, live: Manifest) -> bool:
        """Whether a deletion was accepted whose answer was lost: else it would pass for somebody else's."""
        current = self._current(live)
        return current is None or "deletionTimestamp" in current["metadata"]

    def _current(self, live: Manifest) -> Manifest | None:
        """Return the object as it is now; None when it is gone or its name belongs to another one."""
        metadata = live["metadata"]
        try:
            current = self.cluster.get(live["kind"], metadata["name"], namespace=metadata.get("namespace"))
        except NotFound:
            return None
        return current if current["metadata"]["uid"] == metadata["uid"] else None


def _says(live: Manifest, wanted: Manifest) -> bool:
    """Whether a class has all that its file says; what it has besides is somebody else's business."""
    fields = ("value", "globalDefault", "preemptionPolicy", "description")
    return all(live.get(field) == wanted[field] for field in fields if field in wanted)


def _manifest(action: Action) -> Manifest:
    if action.manifest is None:
        raise ValueError(f"{action.verb} {action.kind}/{action.name} has no manifest")
    return action.manifest


def _live(action: Action) -> Manifest:
    if action.live is None:
        raise ValueError(f"{action.verb} {action.kind}/{action.name} has no live object")
    return action.live
