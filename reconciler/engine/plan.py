"""Compose the plan of a pass: each job's and each class's decision, with the manifests that they need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.cluster.interface import LOCAL, Cluster
from reconciler.core import decide
from reconciler.core.decide_priorities import decide_priority_classes
from reconciler.core.document import is_unfinished, recorded_runs
from reconciler.core.encoding import pod_template
from reconciler.core.guards import check_cluster, check_guards
from reconciler.core.pod.delivery import RunFiles, clones_commit
from reconciler.core.render import RunIdentity, namespace_of, priority_class_of, render_job
from reconciler.core.repository_files import FILES_CHANGED
from reconciler.core.status.document_text import load
from reconciler.core.status.queue import run_id
from reconciler.engine.declare import class_missing, locate
from reconciler.engine.options import Options
from reconciler.engine.read import Live, Source, resolve_files
from reconciler.engine.record import CLUSTERS
from reconciler.model import (
    FILES_HASH,
    JOB_LABEL,
    JOBSET,
    RENDER_HASH,
    RUN_LABEL,
    Action,
    Document,
    Manifest,
    Problem,
    Severity,
    Task,
    TaskFile,
    Verb,
)
from reconciler.runs import LiveRun

OUTDATED = "outdated"
_ABSOLUTE = (
    "{} would be written on this very machine, where a job has no file system of its own: write a path below ~/, or "
    "run it on a cluster"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass is going to do, in which files the jobs stand, and what is wrong. `refusal` stops all of it."""

    actions: tuple[Action, ...]
    files: dict[str, TaskFile]
    problems: tuple[Problem, ...]
    refusal: Problem | None


def make_plan(source: Source, live: Live, cluster: Cluster, options: Options) -> Plan:
    """Decide everything that one pass does; nothing is written."""
    files, name_problems = resolve_files(source, live.runs)
    job_actions, job_problems = _decide_jobs(source, live, cluster, files, options)
    class_actions = _decide_classes(source, live, live.used_classes | _classes_of(job_actions))
    actions = (*class_actions, *job_actions)
    problems = (
        *source.revision.problems,
        *source.declared.problems,
        *name_problems,
        *source.unreadable.values(),
        *job_problems,
    )
    located = tuple(locate(problems, source.revision.files))
    made = Plan(actions, files, located, None)
    return replace(made, refusal=_refusal(source, live, cluster, made, options))


def _decide_classes(source: Source, live: Live, used: frozenset[str]) -> list[Action]:
    invalid = any(p.severity is Severity.ERROR for file in source.declared.priority_files for p in file.problems)
    across = any(p.severity is Severity.ERROR for p in source.declared.problems_across)
    hidden = any(p.severity is Severity.ERROR and p.path.startswith("priorities") for p in source.revision.problems)
    return decide_priority_classes(
        source.declared.priority_classes,
        live.priority_classes,
        owner=source.owner,
        used=used,
        held=invalid or across or hidden,
        now=live.seen_at,
    )


def _classes_of(actions: Iterable[Action]) -> frozenset[str]:
    """Name the classes that the jobs need which this pass creates: it must not prune them."""
    pods = [pod_template(a.manifest)["spec"] for a in actions if a.verb in (Verb.CREATE, Verb.REPLACE) and a.manifest]
    return frozenset(pod["priorityClassName"] for pod in pods if "priorityClassName" in pod)


def _decide_jobs(
    source: Source, live: Live, cluster: Cluster, files: dict[str, TaskFile], options: Options
) -> tuple[list[Action], list[Problem]]:
    """Decide each job by name: those with a file in order of path, then those whose file is gone."""
    runs: dict[str, list[LiveRun]] = defaultdict(list)
    for run in live.runs:
        runs[run.job].append(run)
    ours_here = {n for n, d in source.documents.items() if d["context"] in (None, cluster.context)}
    gone = sorted((runs.keys() | ours_here) - files.keys())
    jobs = _Jobs(source, live, cluster, options)
    actions: list[Action] = []
    for name in (*sorted(files, key=lambda n: files[n].path), *gone):
        actions += jobs.decide(name, files.get(name), runs.get(name, []))
    return [*actions, *(_conflict(stray) for stray in live.strays)], jobs.problems


def _conflict(stray: Manifest) -> Action:
    """Leave a run alone whose labels were changed before it was on record: whatever it is, it may be at work."""
    kind, metadata = str(stray["kind"]), stray["metadata"]
    name, namespace, labels = metadata["name"], metadata.get("namespace"), metadata.get("labels") or {}
    job, _, number = name.rpartition("-")
    reason = (
        f"{kind}/{namespace}/{name} is not run {labels.get(RUN_LABEL)} of job {labels.get(JOB_LABEL)}, as its labels "
        "say: somebody changed them; delete it, or put them back: "
        f"kubectl label {kind.lower()} {name} -n {namespace} --overwrite {JOB_LABEL}={job} {RUN_LABEL}={number}"
    )
    return Action(Verb.CONFLICT, kind, namespace, name, job or None, reason, needs_attention=True)


class _Jobs:
    """Decides jobs one by one against the same source and cluster, and collects what is wrong with rendering them."""

    def __init__(self, source: Source, live: Live, cluster: Cluster, options: Options) -> None:
        self.source = source
        self.live = live
        self.cluster = cluster
        self.classes = {m["metadata"]["name"] for m in live.priority_classes} | {
            c.name for c in source.declared.priority_classes
        }
        self.options = decide.Options(
            context=cluster.context,
            now=live.seen_at,
            site_hash=source.site.site_hash,
            history_limit=source.site.history_limit,
            recreate_lost=options.recreate_lost,
            no_jobset=live.no_jobset,
        )
        self.strays = {stray["metadata"]["name"].rpartition("-")[0]: _conflict(stray) for stray in live.strays}
        self.unseen_jobsets = {} if options.recreate_lost else live.unseen_jobsets
        self.problems: list[Problem] = []

    def decide(self, name: str, file: TaskFile | None, runs: Sequence[LiveRun]) -> list[Action]:
        """Return the actions of one job, ready to be carried out."""
        document = self.source.documents.get(name)
        task = file.task if file else None
        wanted = None
        if task:
            namespace = namespace_of(task, self.source.site, self.cluster.context, self.cluster.default_namespace)
            wanted = decide.Wanted(task, namespace)
        if not runs and document and _runs_elsewhere(document, self.cluster.context):
            return [_hold_elsewhere(name, document, self.cluster.context)]
        here = wanted and wanted.task.context in (None, self.cluster.context)
        if unseen := self._unseen(wanted.namespace if wanted and here else None, document):
            return [_hold_unseen(name, document, unseen, self.live.forbidden[unseen])]
        if document and name in self.unseen_jobsets:
            return [_hold_unseen_jobset(name, document, self.unseen_jobsets[name])]
        actions = decide.decide_job(
            name,
            wanted,
            runs,
            recorded_runs(document) if document else (),
            held=self._held(name, file),
            options=self.options,
        )
        if not task:
            return actions
        self._note_changed_files(task, runs)
        return [self._complete(action, task) for action in actions]

    def _note_changed_files(self, task: Task, runs: Sequence[LiveRun]) -> None:
        """Say when a run of this version has other files than this commit: they are no part of a version."""
        newest = max((r for r in runs if r.task_hash == task.task_hash), key=lambda run: run.number, default=None)
        made = (newest.manifest["metadata"].get("annotations") or {}).get(FILES_HASH) if newest else None
        files = self.source.files.of(task)[0] if made else None
        names = files.chosen.changed_since(made) if files and made else []
        if newest is None or not names:
            return
        advice = decide.rerun_advice(newest.number + 1, task.path)
        message = f"{' and '.join(names)} changed since run {newest.number}: to run it with what there is now, {advice}"
        self.problems.append(Problem(Severity.WARNING, FILES_CHANGED, task.path, message, field=names[0]))

    def _unseen(self, wanted: str | None, document: Document | None) -> str | None:
        """Return the namespace that this job is wanted or at work in, when we may not look into it."""
        at_work = document["namespace"] if document and is_unfinished(document, self.cluster.context) else None
        return next((namespace for namespace in (wanted, at_work) if namespace in self.live.forbidden), None)

    def _held(self, name: str, file: TaskFile | None) -> str | None:
        """Say why nothing may be started, changed or ended: its file, its record or a Job of its can't be read."""
        if name in self.source.unreadable:
            return self.source.unreadable[name].message
        if name in self.strays:
            return self.strays[name].reason
        if file is not None and file.task is None:
            first = next((p for p in file.problems if p.severity is Severity.ERROR), None)
            return f"{file.path} is invalid: {first.message}" if first else f"{file.path} declares no job"
        return None

    def _complete(self, action: Action, task: Task) -> Action:
        """Attach the manifest to send, or hold what can't be rendered or would be refused."""
        if action.verb is Verb.HOLD and action.live and action.reason.startswith(OUTDATED):
            return self._judge_outdated(action, task)
        completes = action.verb is Verb.UPDATE and action.live is not None and decide.is_incomplete(action.live)
        if not completes and action.verb not in (Verb.CREATE, Verb.REPLACE):
            return action
        manifest, problems = self._render(action, task)
        self.problems += problems
        wrong = next((p.message for p in problems if p.severity is Severity.ERROR), None) or self._class_missing(task)
        if manifest is None or wrong:
            held = replace(action, verb=Verb.HOLD, reason=wrong or "can't be rendered", needs_attention=True)
            return replace(held, manifest=None, live=action.live if completes else None)
        if completes and action.live:
            return self._complete_run(action, action.live, task, manifest)
        return replace(action, manifest=manifest, owned=self.source.files.maker(task, manifest))

    def _complete_run(self, action: Action, live: Manifest, task: Task, manifest: Manifest) -> Action:
        """Give a run what it still needs; one made for other files than there are now goes, unless it has begun."""
        if manifest["metadata"]["annotations"].get(FILES_HASH) == live["metadata"]["annotations"].get(FILES_HASH):
            return replace(action, owned=self.source.files.maker(task, manifest))
        changed = f"{action.name} was not yet complete, and its files have changed"
        if decide.has_not_begun(live):
            return replace(action, verb=Verb.CANCEL, reason=f"{changed}: the next pass makes it anew", manifest=None)
        number = int(live["metadata"]["labels"][RUN_LABEL])
        advice = f"it was let go, and may lack them; to run it anew, {decide.rerun_advice(number + 1, task.path)}"
        return replace(action, verb=Verb.HOLD, reason=f"{changed}: {advice}", manifest=None, needs_attention=True)

    def _render(self, action: Action, task: Task) -> tuple[Manifest | None, list[Problem]]:
        number = int(action.name.rpartition("-")[2])
        commit = self.source.revision.last_changed.get(task.path, self.source.revision.commit)
        namespace = action.namespace or self.cluster.default_namespace
        identity = RunIdentity(number, self.source.owner, commit, self.cluster.context, namespace)
        files, problems = self.source.files.of(task)
        manifest, of_pod = render_job(task, self.source.site, identity, files)
        return manifest, [*problems, *of_pod, *self._not_on_this_machine(task), *self._not_pushed(task, files)]

    def _not_pushed(self, task: Task, files: RunFiles | None) -> list[Problem]:
        """Refuse what pods would clone and can't find: such a run fails, and its version has run then."""
        if not self.source.unpushed or files is None or not clones_commit(task, files):
            return []
        message = f"pods clone these files at commit {files.chosen.commit[:10]}, which is not pushed: push it first"
        return [Problem(Severity.ERROR, "not-pushed", task.path, message, field=files.chosen.mounts[0].field)]

    def _not_on_this_machine(self, task: Task) -> list[Problem]:
        """Refuse what would write beside a pod's own folder, where there is no file system of its own."""
        return [
            Problem(Severity.ERROR, "files", task.path, _ABSOLUTE.format(mount.destination), field=mount.field)
            for mount in task.file_mounts
            if self.cluster.context == LOCAL and mount.destination.startswith("/")
        ]

    def _judge_outdated(self, action: Action, task: Task) -> Action:
        """Keep a run that the changed settings would render the same: most changes touch few jobs."""
        manifest, _ = self._render(action, task)
        live = action.live or {}
        made = live.get("metadata", {}).get("annotations", {}).get(RENDER_HASH)
        if manifest and made == manifest["metadata"]["annotations"][RENDER_HASH]:
            return replace(action, verb=Verb.KEEP, reason="as its file asks")
        return action

    def _class_missing(self, task: Task) -> str | None:
        name = priority_class_of(task, self.source.site, self.cluster.context)
        if name is None or name in self.classes:
            return None
        problem = class_missing(task, name, Severity.ERROR, "neither in priorities/ nor on the cluster")
        self.problems.append(problem)
        return problem.message


def _runs_elsewhere(document: Document, context: str) -> bool:
    """Whether a job's newest run is on record as unfinished on another cluster, which this pass can't see."""
    return document["context"] != context and is_unfinished(document, document["context"])


def _hold_elsewhere(name: str, document: Document, context: str) -> Action:
    run = run_id(document)
    reason = f"{run} is {document['state']} on {document['context']}, and this pass speaks to {context}: not looked at"
    return Action(Verb.HOLD, "Job", document["namespace"], run, name, reason)


def _hold_unseen(name: str, document: Document | None, namespace: str, why: str) -> Action:
    run = run_id(document) if document and document["run"] else name
    reason = f"namespace {namespace} can't be looked into, so nothing is done there: {why}"
    return Action(Verb.HOLD, "Job", namespace, run, name, reason, needs_attention=True)


def _hold_unseen_jobset(name: str, document: Document, reason: str) -> Action:
    run = run_id(document)
    return Action(Verb.HOLD, JOBSET, document["namespace"], run, name, reason, needs_attention=True)


def _refusal(source: Source, live: Live, cluster: Cluster, plan: Plan, options: Options) -> Problem | None:
    """Return the guard that stops the pass, if one does."""
    if not options.allow_cluster_change and CLUSTERS in source.record.files:
        try:
            known = load(source.record.files[CLUSTERS].decode())
            message = check_cluster(known, cluster.context, live.cluster_uid, source.owner)
        except ValueError as error:
            message = f"{CLUSTERS} on the status branch {error}: restore it, or pass --allow-cluster-change"
        if message:
            return Problem(Severity.ERROR, "cluster-change", CLUSTERS, message)
    message = check_guards(
        plan.actions,
        running=sum(not run.finished and not decide.has_not_begun(run.manifest) for run in live.runs),
        declared_jobs=sum(bool(file.task or file.problems) for file in source.declared.task_files),
        declared_classes=sum(bool(file.classes or file.problems) for file in source.declared.priority_files),
        abandoned=_abandoned(source, live, cluster, plan.files),
        allow_mass_change=options.allow_mass_change,
        allow_empty_source=options.allow_empty_source,
    )
    return Problem(Severity.ERROR, "guard", "", message) if message else None


def _abandoned(source: Source, live: Live, cluster: Cluster, files: Mapping[str, TaskFile]) -> list[str]:
    """Name the runs on record that are not over, whose file and whose Job are gone."""
    there = {run.job for run in live.runs} | files.keys() | live.unseen_jobsets.keys()
    return [
        run_id(document)
        for name, document in sorted(source.documents.items())
        if name not in there
        and is_unfinished(document, cluster.context)
        and document["namespace"] not in live.forbidden
    ]
