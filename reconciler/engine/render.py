"""Render one job as its next pass would, without a cluster."""

from __future__ import annotations

from reconciler.core.pod.rendered_pod import NO_CONTEXT
from reconciler.core.render import RunIdentity, namespace_of, render_job
from reconciler.engine.declare import locate
from reconciler.engine.options import Options
from reconciler.engine.read import parse_source, read_git, resolve_files
from reconciler.errors import UsageError
from reconciler.model import Manifest, Problem, Severity
from reconciler.source.repository import Repository
from reconciler.source.revision import read_revision


def render(
    repository: Repository, options: Options, job: str, *, context: str | None
) -> tuple[list[Manifest], list[Problem]]:
    """Return the manifests of a job's next run, or the problems of its file.

    The run's number follows the highest one on record; a run that only the cluster knows is not counted, since none is
    asked. `context` chooses the layers of a context; the namespace of a kubeconfig is not known here. Raises
    UsageError when no file declares the job.
    """
    revision = read_revision(repository, options.ref)
    source = parse_source(read_git(repository, revision, options, context or NO_CONTEXT))
    files, _ = resolve_files(source, ())
    if job not in files:
        raise UsageError(f"no file under jobs/ declares a job {job!r}; there are: {', '.join(sorted(files)) or 'none'}")
    task = files[job].task
    if task is None:
        return [], list(files[job].problems)
    document = source.documents.get(job)
    last = document["run"]["number"] if document and document["run"] else 0
    where = task.context or context or NO_CONTEXT
    identity = RunIdentity(
        number=last + 1,
        owner=source.owner,
        commit=source.revision.last_changed.get(task.path, source.revision.commit),
        context=where,
        namespace=namespace_of(task, source.site, where, "default"),
    )
    manifest, problems = render_job(task, source.site, identity)
    wrong = any(problem.severity is Severity.ERROR for problem in problems)
    located = locate([*task.warnings, *problems], source.revision.files)
    return [manifest] if manifest and not wrong else [], located
