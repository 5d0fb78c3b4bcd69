"""Write down what a pass did and saw, and publish it: the document and publish stages."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.core.document import Cancellation, Known, is_unfinished, job_document
from reconciler.core.status.branch_documents import cluster_document, priorities_document
from reconciler.core.status.commit_message import commit_message
from reconciler.core.status.document_text import load
from reconciler.core.status.readme import readme
from reconciler.core.status.times import rfc3339
from reconciler.core.yaml_output import dump
from reconciler.engine.declare import JOBS
from reconciler.engine.plan import Plan
from reconciler.engine.read import Live, Source
from reconciler.engine.record import CLUSTERS, read_documents
from reconciler.errors import PublishError
from reconciler.model import RUN_KINDS, Action, Document, Problem, Result, Severity, Verb
from reconciler.runs import LiveRun
from reconciler.source.publish import publish
from reconciler.source.record import Record
from reconciler.source.repository import Repository

NOT_STARTED = frozenset({Verb.HOLD, Verb.CONFLICT, Verb.CREATE, Verb.REPLACE})


@dataclass(frozen=True, slots=True)
class Status:
    """What stands on the status branch after a pass: the job documents, the new commit, or why there is none."""

    documents: dict[str, Document]
    commit: str | None
    undelivered: Problem | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a pass knows when its actions are done."""

    source: Source
    plan: Plan
    live: Live
    outcomes: tuple[Action, ...]
    context: str
    now: datetime


def publish_status(repository: Repository, facts: Facts) -> Status:
    """Bring the status branch up to date; nothing changed means no commit.

    The files are built anew on whatever tip a race leaves, so that nobody's record is lost. An undelivered status is a
    result, not an exception: the cluster was changed all the same, and the next pass writes it again.
    """
    place, drafts = facts.source.status, _Drafts(facts)
    commit = undelivered = None
    if place is not None:
        try:
            commit = publish(
                repository, place.branch, place.remote, drafts.files, drafts.message, record=facts.source.record
            )
        except PublishError as error:
            undelivered = Problem(Severity.ERROR, "status-not-pushed", "", str(error))
    return Status(drafts.on(facts.source.record).documents, commit, undelivered)


@dataclass(frozen=True, slots=True)
class _Draft:
    """The job documents that a record holds, and those that are to stand there."""

    previous: dict[str, Document]
    documents: dict[str, Document]

    @property
    def changed(self) -> dict[str, Document | None]:
        """The documents that differ, by name; None for one that is to be removed.

        They are compared before they become text: that is what keeps a pass over a thousand jobs cheap.
        """
        names = sorted(self.previous.keys() | self.documents.keys())
        return {n: self.documents.get(n) for n in names if self.documents.get(n) != self.previous.get(n)}


class _Drafts:
    """Drafts the files of the status branch, once for each tip that a race makes of it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._by_tip: dict[str | None, _Draft] = {}

    def on(self, record: Record) -> _Draft:
        """Return the draft on top of a record."""
        if record.tip not in self._by_tip:
            if record is self.facts.source.record:
                previous = self.facts.source.documents
                draft = _Draft(previous, _documents(self.facts, previous))
            else:
                previous, unreadable = read_documents(record)
                draft = _Draft(previous, self._after_others(previous, unreadable.keys()))
            self._by_tip[record.tip] = draft
        return self._by_tip[record.tip]

    def _after_others(self, previous: dict[str, Document], unreadable: Iterable[str]) -> dict[str, Document]:
        """Return the documents on top of what another pass has published meanwhile.

        NB: that pass may have looked later than we did, and at a newer commit. What it wrote about a job stays, unless
        we have done something to the very run that it speaks of: what we did not see is neither gone nor lost.
        """
        facts = self.facts
        documents = _documents(facts, previous)
        ours = {a.live["metadata"]["uid"] for a in facts.outcomes if a.deleted and a.live}
        for name in (previous.keys() | documents.keys()) - set(unreadable):
            theirs, before = previous.get(name), facts.source.documents.get(name)
            touched = theirs is not None and theirs["run"] is not None and theirs["run"]["uid"] in ours
            if theirs == before or touched:
                continue
            if theirs is not None:
                documents[name] = theirs
            elif before is not None:
                documents.pop(name, None)
        for name in unreadable:
            documents.pop(name, None)
        return documents

    def files(self, record: Record) -> dict[str, bytes | None]:
        """Return the files to write; None removes one. Files of others are not ours to name."""
        draft, facts = self.on(record), self.facts
        jobs = {f"{JOBS}{n}.yaml": dump(d).encode() if d else None for n, d in draft.changed.items()}
        known = None
        with contextlib.suppress(KeyError, ValueError):  # a broken one was let through on purpose: begin it anew
            known = load(record.files[CLUSTERS].decode())
        return {
            **jobs,
            CLUSTERS: dump(cluster_document(known, facts.context, facts.live.cluster_uid, facts.source.owner)).encode(),
            "priorities.yaml": dump(_priorities(facts)).encode(),
            "README.md": readme(list(draft.documents.values())).encode(),
        }

    def message(self, record: Record) -> str:
        """Return the commit message that tells what changes."""
        draft, facts = self.on(record), self.facts
        return commit_message(
            draft.previous, draft.changed, actions=facts.outcomes, source_commit=facts.source.revision.commit
        )


def _documents(facts: Facts, previous: Mapping[str, Document]) -> dict[str, Document]:
    """Return the documents of all jobs that have a file, a Job or a past."""
    runs: dict[str, list[LiveRun]] = defaultdict(list)
    for run in facts.live.runs:
        runs[run.job].append(run)
    cancelled = _cancellations(facts)
    waits = {
        action.job: action.reason
        for action in facts.outcomes
        if action.verb in NOT_STARTED and action.result is not Result.DONE
    }
    problems = defaultdict(list)
    for problem in facts.plan.problems:
        problems[problem.path].append(problem)
    documents = {}
    for name in sorted(facts.plan.files.keys() | runs.keys() | previous.keys()):
        if name in facts.source.unreadable:
            continue
        if name in previous and _is_unseen(facts, name, previous[name], runs.get(name, ())):
            documents[name] = previous[name]
            continue
        file = facts.plan.files.get(name)
        known = Known(
            file=file,
            commit=facts.source.revision.last_changed.get(file.path) if file else None,
            live=runs.get(name, ()),
            context=facts.context,
            cancelled=cancelled,
            problems=problems[file.path] if file else (),
            waits_for=waits.get(name),
            preempted_pods=facts.live.preempted_pods,
        )
        document = job_document(name, known, previous.get(name))
        if document is not None:
            documents[name] = document
    return documents


def _is_unseen(facts: Facts, name: str, document: Document, runs: Collection[LiveRun]) -> bool:
    """Whether a run is where we may not look, or of a kind that we can't: it is neither gone nor lost."""
    forbidden = document["namespace"] in facts.live.forbidden and is_unfinished(document, facts.context)
    return (forbidden and not runs) or name in facts.live.unseen_jobsets


def _cancellations(facts: Facts) -> dict[str, Cancellation]:
    """Return what this pass deleted, by uid; the time is when we noted it."""
    at = rfc3339(facts.now)
    return {
        action.live["metadata"]["uid"]: Cancellation(at, action.reason)
        for action in facts.outcomes
        if action.live and action.deleted and action.kind in RUN_KINDS and action.verb is not Verb.PRUNE
    }


def _priorities(facts: Facts) -> Document:
    return priorities_document(
        facts.source.declared.priority_classes,
        facts.live.priority_classes,
        owner=facts.source.owner,
        problems=facts.source.declared.class_problems,
    )
