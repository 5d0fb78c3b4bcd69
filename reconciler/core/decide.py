"""Decide what one pass does about one job: what its file wants, what runs, and what is on record.

The table stands in `tests/core/test_decide.py`, a row a case. Two rules carry it. A version of a file (its task hash)
runs once: the Job object and the record prove it, each alone. And nothing ends without a reason to: what is unreadable,
elsewhere or on its way out is held. Manifests are attached later; deciding needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.core.deletion import going
from reconciler.model import (
    ANNOTATION_PREFIX,
    INCOMPLETE,
    JOBSET,
    SITE_HASH,
    TERMINAL_STATES,
    Action,
    Manifest,
    OnChange,
    State,
    Task,
    Verb,
)
from reconciler.runs import LiveRun, RecordedRun

ALREADY_RAN = "already ran"
_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a valid file asks for, and the namespace that it comes to with the site's settings."""

    task: Task
    namespace: str


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for every job of a pass: when it looked, the cluster it speaks to, the site's settings, the flags.

    `no_jobset` maps the namespaces where no job of several nodes can be started to the reason.
    """

    context: str
    now: str
    site_hash: str = ""
    history_limit: int = 3
    recreate_lost: bool = False
    no_jobset: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Job:
    """All that is known about one job."""

    name: str
    live: Sequence[LiveRun]
    recorded: Sequence[RecordedRun]
    options: Options

    @property
    def unfinished(self) -> list[LiveRun]:
        """The runs that still hold or want a place, the newest first."""
        return sorted((run for run in self.live if not run.finished), key=lambda run: run.number, reverse=True)

    @property
    def next_number(self) -> int:
        return 1 + max([run.number for run in self.live] + [run.number for run in self.recorded], default=0)

    def run_name(self, number: int) -> str:
        return f"{self.name}-{number}"

    def last_run_of(self, task_hash: str) -> tuple[int, State] | None:
        """Return number and state of a version's last run: by its Job, else by the record.

        A Job on its way out has nothing to say against the record: of a run that we cancelled it may make anything.
        """
        recorded = [run for run in self.recorded if run.task_hash == task_hash]
        live = [run for run in self.live if run.task_hash == task_hash]
        states = {run.number: run.observation.state for run in live if run.deleting}
        states |= {run.number: run.state for run in recorded}
        states |= {run.number: run.observation.state for run in live if not run.deleting}
        return max(states.items(), default=None)


def decide_job(  # noqa: PLR0913 - the columns of the table
    name: str,
    wanted: Wanted | None,
    live: Sequence[LiveRun],
    recorded: Sequence[RecordedRun],
    *,
    held: str | None,
    options: Options,
) -> list[Action]:
    """Return the actions for one job, in the order in which they must happen.

    `wanted` is None when no file asks for the job, or none that can be read: then `held` says why nothing may be
    started, changed or ended. A Job of the same name that is not ours shows when the run is created.
    """
    job = _Job(name, live, recorded, options)
    if wanted is None:
        actions = [_end(job, run, "no file asks for it any more") for run in job.unfinished]
    else:
        actions = _settle(job, wanted)
    if held is not None:
        return [_withhold(action, held) for action in actions]
    return actions + _prunes(job, wanted.task.task_hash if wanted is not None else None)


def _settle(job: _Job, wanted: Wanted) -> list[Action]:
    """Bring one job to the version that its file wants."""
    task, unfinished = wanted.task, job.unfinished
    if task.context not in (None, job.options.context):
        reason = f"asks for context {task.context}; this pass speaks to {job.options.context}"
        moving = [_hold(job, run, f"moves at the next run: {reason}") for run in unfinished]
        return moving or [_new(Verb.HOLD, job, wanted, reason)]
    same = next((run for run in unfinished if run.task_hash == task.task_hash and not run.deleting), None)
    if same is not None:
        why = f"{job.run_name(same.number)} is what its file asks for"
        return [_go_on(job, same, wanted), *(_end(job, run, why) for run in unfinished if run is not same)]
    if any(run.deleting for run in unfinished):
        return [_going(job, run) for run in unfinished if run.deleting]
    return _start_once(job, wanted)


def _go_on(job: _Job, run: LiveRun, wanted: Wanted) -> Action:
    """Leave a run of the wanted version alone, but for what can change in a running Job: whether it is suspended."""
    spec, metadata = run.manifest.get("spec") or {}, run.manifest.get("metadata") or {}
    suspend = wanted.task.suspend
    by_kueue = _is_by_kueue(run.manifest)
    if is_incomplete(run.manifest):
        update = _on(Verb.UPDATE, job, run, "is made, but not yet all that it needs")
        return replace(update, manifest=completion(run.manifest, suspend=suspend))
    if suspend != bool(spec.get("suspend")) and not by_kueue:
        patch: Manifest = {"spec": {"suspend": suspend}}
        return replace(_on(Verb.UPDATE, job, run, "suspend" if suspend else "resume"), manifest=patch)
    if run.namespace != wanted.namespace:
        return _hold(job, run, _moves(run, wanted))
    made_for = (metadata.get("annotations") or {}).get(SITE_HASH)
    if made_for and job.options.site_hash and made_for != job.options.site_hash:
        since = f"site settings changed since run {job.run_name(run.number)} was made"
        now = f"to have it now, {_rerun(job, wanted.task.path)}"
        return _hold(job, run, f"outdated: {since}; takes effect at the next run; {now}")
    return _on(Verb.KEEP, job, run, f"is what its file asks for ({run.observation.state})")


def completion(manifest: Manifest, *, suspend: bool) -> Manifest:
    """Return the patch that lets an incomplete Job go, or leaves it suspended if its file or Kueue wants that."""
    unmarked: Manifest = {"metadata": {"annotations": {INCOMPLETE: None}}}
    return unmarked if _is_by_kueue(manifest) else unmarked | {"spec": {"suspend": suspend}}


def _is_by_kueue(manifest: Manifest) -> bool:
    """Tell whether Kueue suspends and resumes a Job; a second hand would be undone."""
    return _KUEUE_QUEUE in (manifest["metadata"].get("labels") or {})


def is_incomplete(manifest: Manifest) -> bool:
    """Tell whether a Job waits for objects that its pods need: it is suspended until they are there."""
    return INCOMPLETE in (manifest["metadata"].get("annotations") or {})


def has_not_begun(manifest: Manifest) -> bool:
    """Tell whether a run has never had a pod: it waits for what it needs, and not even Kueue has let it go."""
    status = manifest.get("status") or {}
    active = [each.get("active") for each in (status, *(status.get("replicatedJobsStatus") or ()))]
    return is_incomplete(manifest) and bool(manifest["spec"].get("suspend")) and not any(active)


def _start_once(job: _Job, wanted: Wanted) -> list[Action]:
    """Start the wanted version, unless a run of it stands on the cluster or on record."""
    path = wanted.task.path
    match job.last_run_of(wanted.task.task_hash):
        case None:
            return _start(job, wanted, f"a new version of {path}" if job.next_number > 1 else f"{path} is new")
        case number, State.CANCELLED:
            return _start(job, wanted, f"its last run {job.run_name(number)} was cancelled")
        case number, state if state in TERMINAL_STATES:
            reason = f"{ALREADY_RAN} as {job.run_name(number)} ({state}); to run it again, {_rerun(job, path)}"
            kept = replace(_new(Verb.KEEP, job, wanted, reason), name=job.run_name(number))
            return [
                kept,
                *_leave(job, wanted, f"{path} is back at the version that already ran as {job.run_name(number)}"),
            ]
        case number, _ if job.options.recreate_lost:
            return _start(job, wanted, f"{job.run_name(number)} was lost, and lost runs are to be made again")
        case number, _:
            reason = (
                f"LOST: {job.run_name(number)} is not on the cluster and no end of it is on record, "
                f"so somebody deleted it; to run it again, pass --recreate-lost or {_rerun(job, path)}"
            )
            lost = _new(Verb.HOLD, job, wanted, reason)
            return [replace(lost, name=job.run_name(number), needs_attention=True)]


def _start(job: _Job, wanted: Wanted, reason: str) -> list[Action]:
    """Create the next run, in the place of unfinished ones of other versions where there are any."""
    task, unfinished = wanted.task, job.unfinished
    if task.num_nodes > 1 and (why := job.options.no_jobset.get(wanted.namespace)):
        needs = f"needs JobSet for its {task.num_nodes} nodes: {why}"
        held = [_hold(job, run, f"goes on, its successor {needs}") for run in unfinished]
        held = held or [_new(Verb.HOLD, job, wanted, needs)]
        return [replace(action, needs_attention=True) for action in held]
    if not unfinished:
        return [_new(Verb.CREATE, job, wanted, reason)]
    newest, *older = unfinished
    if newest.namespace != wanted.namespace:
        return [_hold(job, newest, _moves(newest, wanted))]
    if task.on_change is OnChange.WAIT:
        return [_hold(job, newest, f"{reason}, and waits until {job.run_name(newest.number)} ends")]
    replaced = replace(
        _new(Verb.REPLACE, job, wanted, f"{reason}, in the place of {job.run_name(newest.number)}"),
        live=newest.manifest,
    )
    return [*(_end(job, run, reason) for run in older), replaced]


def _leave(job: _Job, wanted: Wanted, why: str) -> list[Action]:
    """End the unfinished runs of versions that the file has left, or let them end, as it says."""
    if wanted.task.on_change is OnChange.WAIT:
        return [_hold(job, run, f"{why}; goes on until it ends") for run in job.unfinished]
    return [_end(job, run, why) for run in job.unfinished]


def _prunes(job: _Job, wanted_hash: str | None) -> list[Action]:
    """Delete finished Jobs beyond the history limit: of no wanted version, and only once their end is on record."""
    recorded = {run.uid for run in job.recorded if run.state in TERMINAL_STATES}
    old = [run for run in job.live if run.finished and run.task_hash != wanted_hash]
    old.sort(key=lambda run: run.number, reverse=True)
    reason = f"ended, on record, and older than the last {job.options.history_limit} that are kept"
    return [
        _on(Verb.PRUNE, job, run, reason)
        for run in old[job.options.history_limit :]
        if run.uid in recorded and not run.deleting
    ]


def _withhold(action: Action, held: str) -> Action:
    """Turn what would change the cluster into a hold, for a person to look at."""
    if action.verb in (Verb.KEEP, Verb.HOLD, Verb.CONFLICT):
        return action
    return replace(action, verb=Verb.HOLD, reason=held, manifest=None, needs_attention=True)


def _end(job: _Job, run: LiveRun, reason: str) -> Action:
    return _going(job, run) if run.deleting else _on(Verb.CANCEL, job, run, reason)


def _going(job: _Job, run: LiveRun) -> Action:
    reason, stuck = going(run.manifest, job.options.now)
    return replace(_hold(job, run, reason), needs_attention=stuck)


def _hold(job: _Job, run: LiveRun, reason: str) -> Action:
    return _on(Verb.HOLD, job, run, reason)


def _on(verb: Verb, job: _Job, run: LiveRun, reason: str) -> Action:
    kind = str(run.manifest["kind"])
    return Action(verb, kind, run.namespace, job.run_name(run.number), job.name, reason, live=run.manifest)


def _new(verb: Verb, job: _Job, wanted: Wanted, reason: str) -> Action:
    kind = JOBSET if wanted.task.num_nodes > 1 else "Job"
    return Action(verb, kind, wanted.namespace, job.run_name(job.next_number), job.name, reason)


def _moves(run: LiveRun, wanted: Wanted) -> str:
    return f"moves at the next run: it runs in namespace {run.namespace}, and is to run in {wanted.namespace}"


def _rerun(job: _Job, path: str) -> str:
    return rerun_advice(job.next_number, path)


def rerun_advice(number: int, path: str) -> str:
    """Say how to have a version that ran already as run `number`."""
    return f'set the annotation {ANNOTATION_PREFIX}rerun: "{number}" in {path}'
