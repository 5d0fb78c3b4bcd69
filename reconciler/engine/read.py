"""Read the inputs of a pass: the files of one commit, the status branch, and the cluster's objects.

Everything is read before anything is decided, and each read is whole or an error: an outage must not look like absence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

from reconciler.cluster.interface import LOCAL, Cluster
from reconciler.core.document import is_unfinished, runs_as_jobset
from reconciler.core.identity import recorded_identities, strays
from reconciler.core.names import KnownJob, keep_moved_names, resolve_names
from reconciler.core.observe import live_runs
from reconciler.core.render import home_namespace
from reconciler.core.status.times import rfc3339
from reconciler.engine.declare import JOBS, Declared, declare
from reconciler.engine.events import preempted_pods, refusals
from reconciler.engine.files import Files
from reconciler.engine.options import Options
from reconciler.engine.record import CLUSTERS, StatusPlace, read_documents, read_setting
from reconciler.errors import Forbidden, GuardError
from reconciler.model import FILE, JOBSET, OWNER_LABEL, Document, Manifest, Problem, Severity, Site, TaskFile
from reconciler.runs import LiveRun
from reconciler.source.record import Record, read_record
from reconciler.source.remote import is_superseded, ls_remote, owner_hash, source_tip
from reconciler.source.repository import Repository
from reconciler.source.revision import Revision
from reconciler.source.tree import CommittedTree, clone_url

BRANCH_GONE = "gone"
UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Git:
    """All that a pass reads from git, unparsed but for the settings.

    `status` is None when no status is kept. `superseded_by` is the newer tip, if any; `unpushed` tells that the remote
    lacks this commit.
    """

    revision: Revision
    owner: str
    status: StatusPlace | None
    record: Record
    superseded_by: str | None
    unpushed: bool


@dataclass(frozen=True, slots=True)
class Source(Git):
    """What that says: the desired state of one commit, and what is recorded about its jobs.

    `documents` are the job documents by name; the names in `unreadable` have one that can't be read, and nothing may be
    decided about them. `files` finds those that tasks take from this commit.
    """

    declared: Declared
    documents: dict[str, Document]
    unreadable: dict[str, Problem]
    files: Files

    @property
    def site(self) -> Site:
        """The settings for all jobs."""
        return self.declared.site


@dataclass(frozen=True, slots=True)
class Live:
    """What the cluster says: our runs, their pods, and all PriorityClasses with the names of those in use.

    `strays` are Jobs and JobSets with our owner label that can't be told to be any run. `seen_at` is the time of this
    machine. `forbidden` maps the namespaces that could not be looked into to the API's words: what is there is not
    known. `preempted_pods` are gone, and on record as attempts whose end nobody saw. `no_jobset` maps the namespaces
    whose JobSets can't be seen to the reason. Of the jobs on record as running on several nodes there `unseen_jobsets`
    says why nothing is known of them: their JobSets are not gone because the API is.
    """

    seen_at: str
    cluster_uid: str
    runs: tuple[LiveRun, ...]
    strays: tuple[Manifest, ...]
    forbidden: dict[str, str]
    pods: tuple[Manifest, ...]
    preempted_pods: frozenset[str]
    priority_classes: tuple[Manifest, ...]
    used_classes: frozenset[str]
    no_jobset: Mapping[str, str] = field(default_factory=dict)
    unseen_jobsets: Mapping[str, str] = field(default_factory=dict)


def read_git(repository: Repository, revision: Revision, options: Options, context: str) -> Git:
    """Read what git has beside the commit: settings, the remote's branches, the status branch. Raises SourceError."""
    setting = read_setting(repository, revision, options, context)
    site, status = setting.site, setting.status
    refs = ls_remote(repository, revision.remote) if revision.remote else None
    newer, unpushed = _newer_tip(repository, revision, site, refs)
    record = read_record(repository, status.branch, status.remote, refs) if status else Record(None, {})
    if status and status.remote and record.tip is None:
        _refuse_forgotten_record(repository, status)
    if status and record.tip is not None and CLUSTERS not in record.files:
        raise GuardError(
            f"{status.branch} is there and is no status branch, for it has no {CLUSTERS}: choose another name with "
            "--status-branch or status_branch, or restore that file"
        )
    return Git(revision, setting.owner, status, record, superseded_by=newer, unpushed=unpushed)


def newer_tip(repository: Repository, source: Source) -> str | None:
    """Return by what the commit has been superseded by now: a pass can take a while until it writes.

    Raises SourceError.
    """
    revision = source.revision
    refs = ls_remote(repository, revision.remote) if revision.remote else None
    return _newer_tip(repository, revision, source.site, refs)[0]


def _newer_tip(
    repository: Repository, revision: Revision, site: Site, refs: dict[str, str] | None
) -> tuple[str | None, bool]:
    """Return the newer tip of the source branch, if there is one, and whether the remote lacks this commit."""
    tip = source_tip(repository, revision, source_branch=site.source_branch, environ=os.environ, refs=refs)
    if is_superseded(repository, revision.commit, tip):
        return tip or BRANCH_GONE, False
    return None, revision.remote is not None and tip != revision.commit


def _refuse_forgotten_record(repository: Repository, status: StatusPlace) -> None:
    """Refuse to begin a new record on a remote where the repository has one of its own, from before it had a remote.

    Without it every job would run again, under another owner, beside the runs that are there.
    """
    if repository.resolve(f"refs/heads/{status.branch}") is None:
        return
    raise GuardError(
        f"{status.remote} has no branch {status.branch}, and this repository has one from before it had that remote: "
        f"push it (git push {status.remote} {status.branch}), and set `owner: {owner_hash(repository, None)}` in "
        "reconciler.yaml, so that the jobs on the cluster are known again; or delete that branch to begin anew"
    )


def parse_source(repository: Repository, git: Git, options: Options) -> Source:
    """Turn the files of the commit and of the status branch into what they say."""
    documents, unreadable = read_documents(git.record)
    declared = declare(git.revision.files, options.limits)
    files = Files(
        CommittedTree(repository, git.revision.commit),
        declared.tasks,
        clone_url(repository, git.revision.remote),
        declared.site,
        (options.limits, declared.site.limits),
    )
    return Source(
        revision=git.revision,
        owner=git.owner,
        status=git.status,
        record=git.record,
        superseded_by=git.superseded_by,
        unpushed=git.unpushed,
        declared=declared,
        documents=documents,
        unreadable=unreadable,
        files=files,
    )


class Listing:
    """The LISTs of a pass, sent at once and awaited when they are needed. A context manager.

    NB: begin only when the status branch was read. What it says was true then, so a run that is recorded and not listed
    is gone; the other way round it might be one that another pass has just made.

    JobSets are looked for in every pass, whatever files and record say: a pass may die between making one and
    recording it, and then only the cluster knows.
    """

    KINDS = ("Job", JOBSET, "Pod", "PriorityClass")

    def __init__(self, cluster: Cluster, owner: str) -> None:
        labels = f"{OWNER_LABEL}={owner}"
        self._pool = ThreadPoolExecutor(1)  # in turn: pods older than their Job would lack the end it tells of
        self._serves = self._pool.submit(cluster.serves, JOBSET)

        def ask(kind: str) -> list[Manifest]:
            if kind == JOBSET and not self._serves.result():
                return []
            return cluster.list(kind, labels=None if kind == "PriorityClass" else labels)

        self._answers = {kind: self._pool.submit(ask, kind) for kind in self.KINDS}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def has_jobset(self) -> bool:
        """Wait for whether the cluster has JobSet at all. Raises ClusterError."""
        return self._serves.result()

    def of(self, kind: str) -> list[Manifest]:
        """Wait for the list of a kind. Raises ClusterError."""
        return self._answers[kind].result()


def read_live(cluster: Cluster, source: Source, listing: Listing | None = None) -> Live:
    """List our Jobs and JobSets, their pods and the PriorityClasses: one LIST a kind where the rights allow it.

    Events are listed only where nothing else explains what is missing. Raises ClusterError.
    """
    with listing or Listing(cluster, source.owner) as begun:
        jobs, forbidden_jobs = _ours(cluster, source, "Job", begun)
        jobsets, no_jobset = _jobsets(cluster, source, begun)
        pods, forbidden_pods = _ours(cluster, source, "Pod", begun)
        classes = tuple(begun.of("PriorityClass"))
    recorded = recorded_identities(source.documents.values())
    jobs, forbidden = [*jobs, *jobsets], forbidden_pods | forbidden_jobs
    runs = live_runs(jobs, pods, refusals(cluster, jobs, pods), recorded=recorded)
    return Live(
        seen_at=rfc3339(datetime.now(UTC)),
        cluster_uid=cluster.uid(),
        runs=runs,
        strays=strays(jobs, recorded),
        forbidden=forbidden,
        pods=tuple(pods),
        preempted_pods=preempted_pods(cluster, source.documents.values(), pods, forbidden),
        priority_classes=classes,
        used_classes=_used_classes(cluster, source, runs, classes),
        no_jobset=no_jobset,
        unseen_jobsets=_unseen_jobsets(source, cluster.context, runs, no_jobset),
    )


def with_last_states(after: Live, before: Live, source: Source, deleted: Iterable[Manifest]) -> Live:
    """Return what is there after a pass, with what it deleted as that was at the moment of deletion.

    That is what the record keeps: on its way out a Job counts what we did to it. One that was resumed no longer says
    since when it had been suspended.
    """
    recorded = recorded_identities(source.documents.values())
    last = {run.uid: run for run in live_runs(tuple(deleted), before.pods, recorded=recorded)}
    suspended = {run.uid: run.observation.suspended_at for run in before.runs}
    known = (
        replace(run, observation=replace(run.observation, suspended_at=suspended[run.uid]))
        if suspended.get(run.uid) and not run.observation.suspended_at
        else run
        for run in after.runs
    )
    runs = (*(run for run in known if run.uid not in last), *last.values())
    return replace(after, runs=runs, preempted_pods=before.preempted_pods | after.preempted_pods)


def resolve_files(source: Source, runs: Iterable[LiveRun]) -> tuple[dict[str, TaskFile], list[Problem]]:
    """Return which file speaks for which job; what git could not show (a link, a submodule) holds its names too.

    A name belongs to a file only by a run: that it was once on record as invalid gives it no right.
    """
    recorded = {
        n: KnownJob(d["file"], d["run"]["task_hash"]) for n, d in source.documents.items() if d["file"] and d["run"]
    }
    unfinished = {run.job: KnownJob(_file_of(run), run.task_hash) for run in runs if not run.finished}
    files = keep_moved_names(source.declared.task_files, unfinished | recorded)
    recorded_paths, live_paths = ({n: job.path for n, job in known.items()} for known in (recorded, unfinished))
    hidden = [p for p in source.revision.problems if p.severity is Severity.ERROR and p.path.startswith(JOBS)]
    known = {*recorded_paths.values(), *live_paths.values()}
    unread = [
        TaskFile(path, None, None, (problem,))
        for problem in hidden
        for path in sorted({problem.path, *(p for p in known if p.startswith(f"{problem.path}/"))})
    ]
    return resolve_names([*files, *unread], recorded_paths, live_paths)


def _file_of(run: LiveRun) -> str:
    return str((run.manifest["metadata"].get("annotations") or {}).get(FILE, ""))


def job_namespaces(cluster: Cluster, declared: Declared, documents: Iterable[Document] = ()) -> list[str]:
    """Name every namespace of this cluster where a job of ours may be, for when the rights don't reach over all."""
    here = cluster.context
    home = home_namespace(declared.site, here, cluster.default_namespace)
    wanted = {task.namespace or home for task in declared.tasks if task.context in (None, here)}
    recorded = {document["namespace"] for document in documents if document["context"] == here}
    return sorted(filter(None, wanted | recorded)) or [home]


def _ours(cluster: Cluster, source: Source, kind: str, listing: Listing) -> tuple[list[Manifest], dict[str, str]]:
    """Return our objects as `_allowed` does. Raises Forbidden when they can be seen nowhere."""
    found, forbidden = _allowed(cluster, source, kind, listing)
    if forbidden and len(forbidden) == len(_namespaces(cluster, source)):
        raise next(reversed(forbidden.values()))
    return found, {namespace: str(error) for namespace, error in forbidden.items()}


def _allowed(
    cluster: Cluster, source: Source, kind: str, listing: Listing
) -> tuple[list[Manifest], dict[str, Forbidden]]:
    """Return our objects everywhere, or where they can be when the rights don't reach over all namespaces.

    Also the namespaces that are forbidden, each with the API's refusal.
    """
    try:
        return listing.of(kind), {}
    except Forbidden:
        found: list[Manifest] = []
        forbidden: dict[str, Forbidden] = {}
    for namespace in _namespaces(cluster, source):
        try:
            found += cluster.list(kind, namespace=namespace, labels=f"{OWNER_LABEL}={source.owner}")
        except Forbidden as error:
            forbidden[namespace] = error
    return found, forbidden


def _namespaces(cluster: Cluster, source: Source) -> list[str]:
    return job_namespaces(cluster, source.declared, source.documents.values())


def _jobsets(cluster: Cluster, source: Source, listing: Listing) -> tuple[list[Manifest], dict[str, str]]:
    """Return our JobSets, and the namespaces where they can't be seen, each with the reason.

    It is no reason to hold other jobs: who has none of several nodes needs neither JobSet nor the rights to it.
    """
    if not listing.has_jobset:
        why = f"{cluster.context} does not have it; install it (https://jobset.sigs.k8s.io), or set num_nodes: 1"
        if cluster.context == LOCAL:
            why = "this machine is one node; set num_nodes: 1, or take a cluster"
        return [], dict.fromkeys(_namespaces(cluster, source), why)
    found, forbidden = _allowed(cluster, source, JOBSET, listing)
    return found, {namespace: str(error) for namespace, error in forbidden.items()}


def _unseen_jobsets(
    source: Source, context: str, runs: Iterable[LiveRun], no_jobset: Mapping[str, str]
) -> dict[str, str]:
    """Say of each job whose newest run is on record as a JobSet that goes on here why nothing is known of it now.

    An earlier run that is still there tells nothing of it.
    """
    newest: dict[str, int] = {}
    for run in runs:
        newest[run.job] = max(run.number, newest.get(run.job, 0))
    return {
        name: f"{name}-{run['number']} is a JobSet, and what became of it can't be seen: {why}"
        for name, document in source.documents.items()
        if is_unfinished(document, context) and runs_as_jobset(document)
        if (run := document["run"])["number"] > newest.get(name, 0)
        if (why := no_jobset.get(document["namespace"]))
    }


def _used_classes(
    cluster: Cluster, source: Source, runs: Iterable[LiveRun], classes: Iterable[Manifest]
) -> frozenset[str]:
    """Name the classes that unfinished work uses; others' pods matter only when one of ours may be pruned."""
    used = {run.observation.priority_class for run in runs if not run.finished}
    declared = {priority_class.name for priority_class in source.declared.priority_classes}
    ours = {m["metadata"]["name"] for m in classes if m["metadata"].get("labels", {}).get(OWNER_LABEL) == source.owner}
    if ours - declared:
        try:
            pods = cluster.list("Pod", fields=UNFINISHED_PODS)
        except Forbidden:
            used |= ours  # whether others use them can't be known, so they stay
        else:
            used |= {pod["spec"].get("priorityClassName") for pod in pods}
    return frozenset(name for name in used if name)
