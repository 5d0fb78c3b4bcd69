"""Render one job as its next pass would, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.core.explain import SetField, explain_job
from reconciler.core.pod.rendered_pod import NO_CONTEXT
from reconciler.core.render import RunIdentity, namespace_of, render_job
from reconciler.core.schema.fields import did_you_mean, listed
from reconciler.core.settings import OWN_FILE
from reconciler.engine.declare import Places, locate
from reconciler.engine.options import Options
from reconciler.engine.read import Source, parse_source, read_git, resolve_files
from reconciler.errors import UsageError
from reconciler.model import Manifest, Problem, Severity, Task, TaskFile
from reconciler.source.repository import Repository
from reconciler.source.revision import read_revision

_IMAGE = "resources.image_id"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What comes of a job: its manifests, none if a problem stops it, and who has set which field of its pods.

    A Secret is left out, and a problem says so: without its values it must not be applied.
    """

    manifests: list[Manifest]
    problems: list[Problem]
    fields: list[ExplainedField]


@dataclass(frozen=True, slots=True)
class ExplainedField:
    """A field, and the line where its setting stands, if a file has it."""

    field: SetField
    line: int | None


def render(repository: Repository, options: Options, job: str, *, context: str | None, explain: bool) -> Rendered:
    """Render a job's next run.

    `job` is a job's name, or the path of its file. The run's number follows the highest one on record; a run that only
    the cluster knows is not counted, since none is asked. `context` chooses the layers of a context; the namespace of a
    kubeconfig is not known here. Raises UsageError when no file declares the job.
    """
    revision = read_revision(repository, options.ref)
    source = parse_source(repository, read_git(repository, revision, options, context or NO_CONTEXT), options)
    file = _find(source, job)
    task = file.task
    if task is None:
        return Rendered([], locate(file.problems, source.revision.files), [])
    document = source.documents.get(task.name)
    last = document["run"]["number"] if document and document["run"] else 0
    where = task.context or context or NO_CONTEXT
    identity = RunIdentity(
        number=last + 1,
        owner=source.owner,
        commit=source.revision.last_changed.get(task.path, source.revision.commit),
        context=where,
        namespace=namespace_of(task, source.site, where, "default"),
    )
    run_files, missing = source.files.of(task)
    manifest, problems = render_job(task, source.site, identity, run_files)
    located = locate([*task.warnings, *missing, *problems], source.revision.files)
    if manifest is None or missing:
        return Rendered([], located, [])
    fields = explain_job(task, source.site, identity, run_files) if explain else []
    objects = source.files.objects(task, manifest)
    secrets = [made["metadata"] for made in objects if made["kind"] == "Secret"]
    located += locate([_left_out(task, secret) for secret in secrets], source.revision.files)
    manifests = [*(made for made in objects if made["kind"] != "Secret"), manifest]
    return Rendered(manifests, located, _located(fields, source.revision.files))


def _left_out(task: Task, secret: Manifest) -> Problem:
    message = (
        f"Secret/{secret['namespace']}/{secret['name']}, with the values that stand in the file, is left out here: "
        "a pass makes it, and no output shows them"
    )
    return Problem(Severity.WARNING, "secret-left-out", task.path, message, field="secrets")


def _find(source: Source, job: str) -> TaskFile:
    """Return the file of a job: by its name, else by its path, as an invalid file may have no name."""
    files, _ = resolve_files(source, ())
    by_path = {file.path: file for file in (*source.declared.task_files, *files.values())}
    found = files.get(job) or by_path.get(job)
    if found is None:
        near = did_you_mean(job, (*files, *by_path))
        raise UsageError(
            f"no file under jobs/ declares a job {job!r}{near or '; there are: ' + (listed(sorted(files)) or 'none')}"
        )
    return found


def _located(fields: Iterable[SetField], files: Mapping[str, bytes]) -> list[ExplainedField]:
    """Find the settings in their files; one that is not there has its default, which no file has set."""
    places = Places(files)
    lines = []
    for field in fields:
        by_site = replace(field, path=OWN_FILE, setting="default_image") if field.setting == _IMAGE else field
        for told in (field, by_site):
            place = places.of(told.path, told.setting, exactly=True) if told.path and told.setting else None
            if place:
                lines.append(ExplainedField(told, place[0]))
                break
        else:
            lines.append(ExplainedField(replace(field, path=None, setting=None), None))
    return lines
