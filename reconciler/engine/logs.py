"""Follow the output of a job, or of one rank of it, through the pods that its attempts were."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from reconciler.cluster.interface import Cluster
from reconciler.core.encoding import is_jobset, nodes
from reconciler.core.manifest import mapping
from reconciler.core.observe import live_runs
from reconciler.core.ranks import index_of
from reconciler.core.schema.fields import did_you_mean
from reconciler.errors import ClusterUnreachable, Forbidden, NotFound, UsageError
from reconciler.model import FILE, JOB_LABEL, JOBSET, MAIN_CONTAINER, OWNER_LABEL, RUN_LABEL, Manifest, State
from reconciler.runs import LiveRun

SECONDS_BETWEEN_LOOKS = 1.0
_NAMES: tuple[Callable[[LiveRun], str], ...] = (
    lambda run: run.job,
    lambda run: f"{run.job}-{run.number}",
    lambda run: str(mapping(run.manifest["metadata"].get("annotations")).get(FILE, "")),
)


def stream_logs(  # noqa: PLR0913 - beyond five by name only
    cluster: Cluster, owner: str, job: str, *, home: str, follow: bool, say: Callable[[str], None], rank: int = 0
) -> Iterator[bytes]:
    """Yield the output of a job's newest run, or of the run that `job` names (`train-3`), attempt by attempt.

    What an attempt printed goes with its pod, so earlier attempts are often gone; `say` tells when another one begins.
    With `follow`, goes on until the run has ended, and tells once what it waits for. Of several nodes it is that of one
    `rank`. `home` is the namespace to look in for who may not look everywhere. Raises UsageError when the cluster has
    no such job, or the job no such rank.
    """
    printed: set[str] = set()
    told: set[object] = set()

    def once(text: str, key: object) -> None:
        if key not in told:
            told.add(key)
            say(text)

    while True:
        run, pods = _find(cluster, owner, job, home, rank)
        try:
            yield from _new_output(cluster, pods, printed, once, follow=follow)
        except _NotYet as error:
            if run.finished:
                raise
            once(f"waits for its output: {error}", _NotYet)
        if not any(map(_has_started, pods)) and not printed:
            once(f"{run.job}-{run.number} {_silence(run)}", (run.observation.state, run.observation.reason))
        if run.finished or not follow:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


class _NotYet(ClusterUnreachable):
    """The output of an attempt can't be read, and nothing of it was."""


def _new_output(
    cluster: Cluster, pods: Sequence[Manifest], printed: set[str], once: Callable[[str, object], None], *, follow: bool
) -> Iterator[bytes]:
    """Yield the output of the attempts that have started and are not among those `printed`, which they join.

    Raises _NotYet in the end if that of one could not be read: the others' is printed all the same.
    """
    unread = None
    for pod in pods:
        name = pod["metadata"]["name"]
        if name in printed or not _has_started(pod):
            continue
        if follow or len(pods) > 1:
            once(f"attempt {name}", name)
        try:
            for chunk in _output(cluster, pod, follow=follow):
                printed.add(name)
                yield chunk
        except ClusterUnreachable as error:
            if not follow or name in printed:
                raise
            unread = error
            continue
        printed.add(name)
    if unread is not None:
        raise _NotYet(str(unread)) from unread


def _silence(run: LiveRun) -> str:
    """Say why a run has no output."""
    state = run.observation.state
    if run.finished:
        return f"has ended ({state}), and its output went with its pods"
    if state is State.SUSPENDED:
        return f"has no output: {state}, until its file takes `suspend` away"
    return f"has no output yet: {state}, {run.observation.message or 'waiting'}"


def _find(cluster: Cluster, owner: str, job: str, home: str, rank: int) -> tuple[LiveRun, list[Manifest]]:
    """Return the run that is meant, and the pods of that rank, the oldest first."""
    runs = sorted(live_runs(_jobs(cluster, owner, home), ()), key=lambda run: run.number)
    run = _meant(runs, job)
    if run is None:
        newest = _meant(runs, job.rpartition("-")[0]) if job.rpartition("-")[2].isdecimal() else None
        if newest is not None:
            raise UsageError(
                f"{cluster.context} has no Job {job}, and its output went with it; the newest run there is "
                f"{newest.job}-{newest.number}, and `reconcile show {newest.job}` tells of earlier ones"
            )
        near = did_you_mean(job, (name(run) for name in _NAMES for run in runs))
        advice = near or "; `reconcile queue` lists them"
        raise UsageError(f"{cluster.context} has no job {job!r} of this repository{advice}")
    labels = f"{OWNER_LABEL}={owner},{JOB_LABEL}={run.job},{RUN_LABEL}={run.number}"
    pods = cluster.list("Pod", namespace=run.namespace, labels=labels)
    observed = live_runs([run.manifest], pods)[0]
    if rank >= nodes(run.manifest):
        raise UsageError(f"{run.job}-{run.number} has no rank {rank}: it is on {nodes(run.manifest)} node(s)")
    if is_jobset(run.manifest):
        pods = [pod for pod in pods if index_of(pod) == rank]
    return observed, sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))


def _meant(runs: Sequence[LiveRun], word: str) -> LiveRun | None:
    """Return the last of the runs that a word names: as their job, else as the run itself, else as their file."""
    for name in _NAMES:
        if meant := [run for run in runs if name(run) == word]:
            return meant[-1]
    return None


def _jobs(cluster: Cluster, owner: str, home: str) -> list[Manifest]:
    """List our Jobs and JobSets everywhere, or in one namespace for who may not look further."""
    found = _list(cluster, "Job", owner, home)
    with suppress(Forbidden):  # who may not see JobSets has none
        found += _list(cluster, JOBSET, owner, home) if cluster.serves(JOBSET) else []
    return found


def _list(cluster: Cluster, kind: str, owner: str, home: str) -> list[Manifest]:
    labels = f"{OWNER_LABEL}={owner}"
    try:
        return cluster.list(kind, labels=labels)
    except Forbidden:
        return cluster.list(kind, namespace=home, labels=labels)


def _has_started(pod: Manifest) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return any("running" in s.get("state", {}) or "terminated" in s.get("state", {}) for s in statuses)


def _output(cluster: Cluster, pod: Manifest, *, follow: bool) -> Iterator[bytes]:
    """Yield one pod's output; a pod that is gone meanwhile has no more to say."""
    try:
        yield from cluster.logs(pod, container=MAIN_CONTAINER, follow=follow)
    except NotFound:
        return
