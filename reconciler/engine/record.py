"""Find the status branch and read what it says about the jobs: for a pass, and for commands that need no cluster."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.cluster.interface import LOCAL
from reconciler.core.document import recorded_runs
from reconciler.core.schema.fields import did_you_mean, listed
from reconciler.core.settings import parse_site
from reconciler.core.status.commit_message import lines_about
from reconciler.core.status.document_shape import check_document
from reconciler.core.status.document_text import load
from reconciler.engine.declare import JOBS
from reconciler.engine.options import Options
from reconciler.errors import UsageError
from reconciler.model import Document, Problem, Severity, Site
from reconciler.source.history import commit_time, history
from reconciler.source.record import Record, read_record
from reconciler.source.remote import owner_hash
from reconciler.source.repository import Repository
from reconciler.source.revision import SETTINGS, Revision, read_revision

CLUSTERS = "cluster.yaml"
NO_STATUS = "none"


@dataclass(frozen=True, slots=True)
class StatusPlace:
    """Where the status is kept: a branch of the remote, or of the repository itself when `remote` is None."""

    branch: str
    remote: str | None


def status_place(options: Options, site: Site, remote: str | None, context: str) -> StatusPlace | None:
    """Return where the status is kept; the local cluster has a branch of its own that is never pushed."""
    branch = options.status_branch or site.status_branch
    if branch == NO_STATUS:
        return None
    if context == LOCAL:
        return StatusPlace(f"{branch}-local", None)
    return StatusPlace(branch, remote)


def read_documents(record: Record) -> tuple[dict[str, Document], dict[str, Problem]]:
    """Load the job documents of a status branch by job name, and a problem for each that somebody broke."""
    documents: dict[str, Document] = {}
    unreadable = {
        name: _unreadable(path, name, "it is no regular file, or too large")
        for path in record.unreadable
        if (name := _job_of(path))
    }
    for path, data in record.files.items():
        name = _job_of(path)
        if name is None:
            continue
        try:
            document = load(data.decode())
            check_document(document, name)
        except ValueError as error:
            unreadable[name] = _unreadable(path, name, str(error))
        else:
            documents[name] = document
    return documents, unreadable


def _job_of(path: str) -> str | None:
    """Return the job whose document a path of the status branch is, or None."""
    name = path.removeprefix(JOBS).removesuffix(".yaml")
    return name if path == f"{JOBS}{name}.yaml" and "/" not in name else None


def _unreadable(path: str, name: str, why: str) -> Problem:
    message = f"the status document of job {name!r} can't be read ({why}): restore it on the status branch"
    return Problem(Severity.ERROR, "unreadable-record", path, message)


@dataclass(frozen=True, slots=True)
class Setting:
    """A commit with its settings, before anything else of it is parsed: who we are, and where the status goes."""

    revision: Revision
    site: Site
    site_problems: tuple[Problem, ...]
    owner: str
    status: StatusPlace | None


def read_setting(repository: Repository, revision: Revision, options: Options, context: str) -> Setting:
    """Read the settings of a commit, from this repository alone. Raises SourceError."""
    site, problems = parse_site({path: revision.files[path] for path in SETTINGS if path in revision.files})
    owner = site.owner or owner_hash(repository, revision.remote)
    return Setting(revision, site, tuple(problems), owner, status_place(options, site, revision.remote, context))


def read_sound_setting(repository: Repository, options: Options, context: str) -> Setting:
    """Read a commit and its settings. Raises UsageError when they are wrong: nobody could say what was read."""
    setting = read_setting(repository, read_revision(repository, options.ref), options, context)
    wrong = [p for p in setting.site_problems if p.severity is Severity.ERROR]
    if wrong:
        raise UsageError("; ".join(f"{p.path}:{p.line or 1}: {p.message}" for p in wrong))
    return setting


@dataclass(frozen=True, slots=True)
class RecordedStatus:
    """What a status branch says, and how fresh that is: `commit` is the source's, `freshness` a line for people."""

    commit: str
    documents: dict[str, Document]
    problems: tuple[Problem, ...]
    record: Record
    freshness: str


def read_status(repository: Repository, options: Options, context: str | None) -> RecordedStatus:
    """Return what the status branch says about the jobs; no cluster is needed.

    `context` matters only when it is `local`: that cluster's status has a branch of its own. Raises SourceError.
    """
    setting = read_sound_setting(repository, options, context or "")
    place = setting.status
    if place is None:
        raise UsageError("--status-branch none: there is no status to read")
    record = read_record(repository, place.branch, place.remote)
    documents, unreadable = read_documents(record)
    return RecordedStatus(
        setting.revision.commit, documents, tuple(unreadable.values()), record, _freshness(repository, place, record)
    )


def _freshness(repository: Repository, place: StatusPlace, record: Record) -> str:
    where = f"{place.branch} of {place.remote}" if place.remote else place.branch
    if record.tip is not None:
        return f"as {where} said at {commit_time(repository, record.tip)}; a pass looks anew"
    local = f"{place.branch}-local"
    if repository.resolve(f"refs/heads/{local}"):
        return f"there is no {where} yet; the jobs of this machine are on {local}: pass --cluster local"
    return f"there is no {where}: no pass has written status yet"


def read_job(
    repository: Repository, options: Options, context: str | None, job: str
) -> tuple[Document, tuple[str, ...]]:
    """Return a job's document and the lines of its history, the newest first: what each commit says of it.

    `job` is its name, one of its runs such as `train-3`, or the path of its file. Raises UsageError for an unknown job.
    """
    status = read_status(repository, options, context)
    by_path = {document["file"]: name for name, document in status.documents.items() if document["file"]}
    name = by_path.get(job) or (job if job in status.documents else job.rpartition("-")[0])
    if name not in status.documents:
        near = did_you_mean(job, (*status.documents, *by_path))
        raise UsageError(f"no job {job!r} on record{near}; {status.freshness}")
    document = status.documents[name]
    runs = [f"{name}-{run.number}" for run in recorded_runs(document)]
    if job not in (name, document["file"], *runs):
        raise UsageError(f"job {name} has no run {job!r} on record, but {listed(runs) or 'none'}; {status.freshness}")
    commits = history(repository, status.record.tip, f"{JOBS}{name}.yaml")
    return document, tuple(f"{head} {'; '.join(lines_about(name, body)) or subject}" for head, subject, body in commits)
