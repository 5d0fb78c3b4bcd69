"""Turn one file under `jobs/` into a task, or into all its problems.

Pure and per file: neither site settings nor other files are looked at. What each field means is in `task_fields`; this
module reads them in order and puts the task together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from reconciler.core.field_path import field_name
from reconciler.core.schema.controls import DEFAULT_MAX_RECOVERIES, MAX_RECOVERIES
from reconciler.core.schema.environment import read_envs, read_secrets
from reconciler.core.schema.fields import Reader, bounded, kind, shown, with_yaml_problems
from reconciler.core.schema.files import Paths
from reconciler.core.schema.name_rules import job_name
from reconciler.core.schema.resources import Request, read_resources
from reconciler.core.schema.task_config import read_task_config
from reconciler.core.schema.task_fields import TASK
from reconciler.core.schema.task_hash import task_hash
from reconciler.core.schema.volumes import read_volumes
from reconciler.core.yaml import MarkedDocument, parse_documents
from reconciler.model import FileMount, GitWorkdir, Manifest, Problem, Severity, Task, TaskFile, Volume

__all__ = ["job_name", "parse_task_file"]

MAX_SCRIPTS = 1024 * 1024
_MOST_NODES = 10_000
_NEVER_ENDS = ("service", "pool")
_HEADER = frozenset({"name", "execution"})
_GROUP_HEADER = _HEADER | {"primary_tasks", "termination_delay", "inter_connection"}


def parse_task_file(path: str, data: bytes) -> TaskFile:
    """Parse one file. All its problems are reported at once, in the order of the file.

    A valid task carries its warnings; of an invalid one all problems are in the file. A file without a document in it
    (nothing, or comments alone) is neither.
    """
    documents, problems = parse_documents(data, path)
    if not documents and not problems:
        return TaskFile(path, None, None, ())
    if len(documents) > 1:
        return TaskFile(path, None, None, with_yaml_problems(problems, [_too_many(path, documents)]))
    if not documents:
        return TaskFile(path, None, None, with_yaml_problems(problems, ()))
    return _parse_one(path, documents[0], tuple(problems))


def _parse_one(path: str, document: MarkedDocument, problems: tuple[Problem, ...]) -> TaskFile:
    reader = Reader(document, path)
    name, task = None, None
    if not isinstance(document.value, dict):
        reader.error((), "wrong-type", f"a task is a mapping with at least run:, not {kind(document.value)}")
    elif _is_job(reader, document.value):
        name = _name(reader, path, document.value)
        task = _task(reader, path, name, document.value)
    if task and not problems:
        return TaskFile(path, name, task, ())
    if any(problem.field == "name" for problem in problems):  # it stands twice: either could be meant
        name = None
    return TaskFile(path, name, None, with_yaml_problems(problems, reader.problems))


def _too_many(path: str, documents: list[MarkedDocument]) -> Problem:
    first = documents[0].value
    keys = first.keys() if isinstance(first, dict) else set()
    is_group = keys >= _HEADER and first["execution"] == "parallel"
    is_header = keys in ({"name"}, _HEADER) or (is_group and keys <= _GROUP_HEADER)
    what = "a job group" if is_group else "a pipeline"
    message = (
        f"{len(documents) - is_header} tasks in one file are {what}, which is not supported: "
        "give each task a file of its own"
    )
    line, column = documents[1].position(())
    return Problem(Severity.ERROR, "multiple-documents", path, message, line, column)


def _is_job(reader: Reader, value: dict[str, Any]) -> bool:
    """Tell whether a file is about something else altogether; then one problem says so, and no other matters."""
    if "apiVersion" in value and "kind" in value:
        found = shown(value["kind"])
        message = f"a Kubernetes manifest of kind {found} is no task; PriorityClasses belong under priorities/"
        reader.error(("kind",), "not-a-task", message)
        return False
    for key in _NEVER_ENDS:
        if value.get(key) is not None:
            reader.error((key,), "unsupported-field", f"{key} can't be used here: {TASK[key].text}")
            return False
    return True


def _name(reader: Reader, path: str, value: dict[str, Any]) -> str | None:
    declared: object = value.get("name")
    if not isinstance(declared, str | None):
        return None
    try:
        return job_name(path, declared)
    except ValueError as error:
        reader.error(() if declared is None else ("name",), "invalid-name", str(error))
        return None


def _task(reader: Reader, path: str, name: str | None, value: dict[str, Any]) -> Task | None:
    fields = reader.section((), value, TASK)
    request = read_resources(reader, ("resources",), fields.get("resources", {}))
    config = read_task_config(reader, ("config",), fields.get("config", {}))
    given = _given(reader, value, fields)
    num_nodes = _num_nodes(reader, fields, name)
    priority_class = _priority_class(reader, request, config.pod_config)
    max_recoveries = _max_recoveries(reader, config.controls.max_recoveries, request, num_nodes)
    if name is None or given.run is None or reader.failed:
        return None
    return Task(
        path=path,
        name=name,
        original_name=value.get("name"),
        task_hash=task_hash(reader.document),
        run=given.run,
        setup=given.setup,
        env=given.env,
        secrets=given.secrets,
        secret=config.controls.secret,
        resources=request.resources,
        num_nodes=num_nodes,
        priority_class=priority_class,
        max_restarts_on_errors=request.max_restarts_on_errors,
        recover_on_exit_codes=request.recover_on_exit_codes,
        pod_config=config.pod_config,
        custom_metadata=config.custom_metadata,
        context=request.context,
        namespace=config.namespace,
        suspend=config.controls.suspend,
        on_change=config.controls.on_change,
        max_recoveries=max_recoveries,
        timeout_seconds=config.controls.timeout_seconds,
        set_pod_resource_limits=config.limits_factor,
        volumes=given.volumes,
        workdir=given.workdir,
        file_mounts=given.file_mounts,
        secret_values=given.secret_values,
        warnings=bounded(reader.problems),
    )


class _Given(NamedTuple):
    """The scripts of a task, and what they find: variables, files and volumes."""

    setup: str | None
    run: str | None
    env: dict[str, str]
    secrets: dict[str, str]
    secret_values: dict[str, str]
    workdir: FileMount | GitWorkdir | None
    file_mounts: tuple[FileMount, ...]
    volumes: tuple[Volume, ...]


def _given(reader: Reader, value: dict[str, Any], fields: dict[str, Any]) -> _Given:
    env = read_envs(reader, ("envs",), fields.get("envs", {}))
    secrets, values = read_secrets(reader, ("secrets",), fields.get("secrets", {}), env)
    paths = Paths(reader, env, {**secrets, **values})
    workdir = paths.workdir(("workdir",), fields.get("workdir"))
    file_mounts = paths.file_mounts(("file_mounts",), fields.get("file_mounts", {}))
    volumes = read_volumes(reader, ("volumes",), fields.get("volumes", {}), env)
    setup, run = _scripts(reader, value)
    return _Given(setup, run, env, secrets, values, workdir, file_mounts, volumes)


def _scripts(reader: Reader, value: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return setup and run with line ends as bash wants them."""
    setup, run = (_script(reader, value, name) for name in ("setup", "run"))
    if not run and (value.get("run") is None or isinstance(value["run"], str)):
        reader.error(("run",), "nothing-to-run", "there is nothing to run: write the job's command under run:")
    size = sum(len(script.encode()) for script in (setup, run) if script)
    if size > MAX_SCRIPTS:
        message = (
            f"setup and run have {size} bytes, and at most {MAX_SCRIPTS} (1 MiB) fit into a ConfigMap: "
            "move a part into the image, or into a file that the script fetches"
        )
        reader.error(("run",), "too-large", message)
    return setup, run


def _script(reader: Reader, value: dict[str, Any], name: str) -> str | None:
    script = value.get(name)
    if not isinstance(script, str) or not script.strip():
        return None
    if "\0" in script:
        reader.error((name,), "nul-byte", f"{name} has a NUL in it, which no command can hold")
    return script.replace("\r\n", "\n")


def _num_nodes(reader: Reader, fields: dict[str, Any], name: str | None) -> int:
    number: int = fields.get("num_nodes", 1)
    if not 1 <= number <= _MOST_NODES:
        message = f"num_nodes must be from 1 to {_MOST_NODES}, not {shown(number)}"
        reader.error(("num_nodes",), "invalid-value", message)
    if number > 1 and name and not name[0].isalpha():
        message = f"a job of several nodes is a JobSet, whose name begins with a letter: write another name than {name}"
        reader.error(("num_nodes",), "invalid-name", message)
    return number


def _max_recoveries(reader: Reader, written: int | None, request: Request, num_nodes: int) -> int:
    why = "num_nodes" if num_nodes > 1 else "max_restarts_on_errors" if request.max_restarts_on_errors else None
    if written is not None and why:
        message = (
            f"{MAX_RECOVERIES} has no effect where {why} is above {int(why == 'num_nodes')}: a run then comes back "
            "after each interruption; leave it out, and watch for the problem recovers-often"
        )
        place = ("config", "kubernetes", "custom_metadata", "annotations", MAX_RECOVERIES)
        reader.warning(place, "ignored-field", message)
    return DEFAULT_MAX_RECOVERIES if written is None else written


def _priority_class(reader: Reader, request: Request, pod_config: Manifest) -> str | None:
    """Return the class that this file names; named in both places, it must be the same."""
    spec = pod_config.get("spec")
    in_pod = spec.get("priorityClassName") if isinstance(spec, dict) else None
    if request.priority_class is None or in_pod is None or in_pod == request.priority_class:
        return request.priority_class or (in_pod if isinstance(in_pod, str) else None)
    place = ("config", "kubernetes", "pod_config", "spec", "priorityClassName")
    found = ((request.priority_class, request.priority_class_path), (in_pod, place))
    both = (f"{shown(name)} in line {reader.document.position(at)[0]} ({field_name(at)})" for name, at in found)
    message = f"two priority classes: {' and '.join(both)}: leave one"
    reader.error(place, "conflict", message)
    return None
