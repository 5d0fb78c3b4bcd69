"""The values that the stages of a pass hand to each other: frozen, and without behaviour of their own.

A `Manifest` is a Kubernetes object as plain JSON; nobody changes one that came in as an argument.
A document is the status of one job as it stands in `jobs/<name>.yaml` on the status branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Manifest = dict[str, Any]
Document = dict[str, Any]

ANNOTATION_PREFIX = "job-reconciler/"
OWNER_LABEL = "job-reconciler/owner"
JOB_LABEL = "job-reconciler/job"
RUN_LABEL = "job-reconciler/run"
TASK_HASH = "job-reconciler/task-hash"
RENDER_HASH = "job-reconciler/render-hash"
SITE_HASH = "job-reconciler/site-hash"
FILE = "job-reconciler/file"
COMMIT = "job-reconciler/commit"
WORKDIR, FILE_MOUNTS = "workdir", "file_mounts"
FILES_HASH = "job-reconciler/files-hash"
INCOMPLETE = "job-reconciler/incomplete"
MAIN_CONTAINER = "main"
JOBSET = "JobSet"
RUN_KINDS = ("Job", JOBSET)
"""What a run is on the cluster: a Job, or on several nodes a JobSet."""

DEFAULT_GRACE = 30
"""Seconds between TERM and KILL where a pod names none: Kubernetes' own."""

SCHEMA_VERSION = 1
"""Of status documents and of JSON output: new keys may come, none goes."""


class Severity(StrEnum):
    """Whether a problem stops its file."""

    ERROR = "error"
    WARNING = "warning"


class Verb(StrEnum):
    """What a pass does about one object; the same word in CLI, log, JSON, status and commit message."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    KEEP = "keep"
    HOLD = "hold"
    CANCEL = "cancel"
    PRUNE = "prune"
    CONFLICT = "conflict"


class Result(StrEnum):
    """How an action ended."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class State(StrEnum):
    """The states of a job: SkyPilot's words, then three of our own."""

    PENDING = "PENDING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RECOVERING = "RECOVERING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    FAILED_SETUP = "FAILED_SETUP"
    FAILED_PRECHECKS = "FAILED_PRECHECKS"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"
    INVALID = "INVALID"


FAILED_STATES = frozenset({State.FAILED, State.FAILED_SETUP, State.FAILED_PRECHECKS})
TERMINAL_STATES = FAILED_STATES | {State.SUCCEEDED, State.CANCELLED}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, or worth knowing, about a place in a file.

    `code` is a stable kebab-case word; `line` and `column` count from 1; `field` is a dotted path such as
    `resources.cpus` or `config.kubernetes.pod_config.spec.containers[0].env`.
    """

    severity: Severity
    code: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Accelerators:
    """So many of one of these GPUs, by their SkyPilot names: `{"A100", "H100"}` means either will do."""

    names: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A leaf of a git tree: `path` as git holds it, `size` 0 for a submodule."""

    mode: str
    sha: str
    size: int
    path: bytes


@dataclass(frozen=True, slots=True)
class FileMount:
    """A file or folder of the repository, `""` for all of it, and where a job finds it: below `~/` or from `/`.

    `field` is where the task file asks for it.
    """

    source: str
    destination: str
    field: str

    @property
    def setting(self) -> str:
        """The field of a task file that it is of: `workdir` or `file_mounts`."""
        return WORKDIR if self.field == WORKDIR else FILE_MOUNTS


@dataclass(frozen=True, slots=True)
class GitWorkdir:
    """A workdir that is another repository; `ref` None is what its HEAD names."""

    url: str
    ref: str | None


@dataclass(frozen=True, slots=True)
class Resources:
    """What one node of a task asks for. `cpus` and `memory` are Kubernetes quantities (`"4"`, `"500m"`, `"16Gi"`).

    `image_by_context` has the image for each cluster where a task names several; `image` is None then.
    """

    cpus: str
    memory: str
    accelerators: Accelerators | None = None
    disk: str | None = None
    image: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    use_spot: bool = False
    image_by_context: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Volume:
    """Something to mount at a path of the main container; `source` is a volume of a pod without its name."""

    mount_path: str
    source: Manifest
    sub_path: str | None = None


class OnChange(StrEnum):
    """What happens to an unfinished run when its file wants another version."""

    REPLACE = "replace"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Task:
    """A valid task file: what one job is to be, before site-wide settings.

    `name` is the job's normalised name (a DNS label of at most 46 characters), `original_name` what the file said, if
    it did. `task_hash` is the SHA-256 in hex that decides whether a file is a new version. `context` and `namespace`
    are None where the file doesn't say. `secrets` maps a variable to a key of the Secret `secret` (None: the site's).
    `env` and `secrets` keep the order of the file. `secret_values` are the secrets whose values stand in the file;
    nobody may show them. `pod_config` and `custom_metadata` are this task's layer alone.
    """

    path: str
    name: str
    original_name: str | None
    task_hash: str
    run: str
    setup: str | None
    env: dict[str, str]
    secrets: dict[str, str]
    secret: str | None
    resources: Resources
    num_nodes: int
    priority_class: str | None
    max_restarts_on_errors: int
    recover_on_exit_codes: tuple[int, ...]
    pod_config: Manifest
    custom_metadata: Manifest
    context: str | None
    namespace: str | None
    suspend: bool
    on_change: OnChange
    max_recoveries: int
    timeout_seconds: int | None
    set_pod_resource_limits: float | None
    volumes: tuple[Volume, ...] = ()
    workdir: FileMount | GitWorkdir | None = None
    file_mounts: tuple[FileMount, ...] = ()
    secret_values: dict[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One file under `jobs/`: its task, or the problems that stop it.

    `name` is the normalised job name when one can be told even though the file is invalid; None when not.
    A file of comments alone has neither task nor problems.
    """

    path: str
    name: str | None
    task: Task | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass that a file declares. `manifest` is what is sent, without our owner label."""

    path: str
    line: int
    name: str
    value: int
    global_default: bool
    preemption_policy: str
    description: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class PriorityFile:
    """One file under `priorities/`: the classes it declares, and what is wrong with the others."""

    path: str
    classes: tuple[PriorityClass, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a repository may ask for; None allows all. `gpus` is the most that one job may have over all its nodes.

    `file` is where that stands, for messages.
    """

    priority_classes: tuple[str, ...] | None = None
    images: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    gpus: int | None = None
    file: str = field(default="reconciler.yaml", compare=False)


ALL_ALLOWED = Limits()


@dataclass(frozen=True, slots=True)
class Site:
    """Settings for all jobs, from `.sky.yaml` and `reconciler.yaml`. Intervals are seconds.

    `pod_config` and `custom_metadata` are the global layers; `contexts` holds a context's own
    `{"pod_config": {...}, "custom_metadata": {...}, "namespace": "..."}`. `site_hash` covers all that can change a
    rendered Job, so that a pass can tell without rendering whether a live one is outdated.
    """

    owner: str | None = None
    source_branch: str | None = None
    status_branch: str = "job-status"
    allowed_contexts: tuple[str, ...] | None = None
    namespace: str | None = None
    sky_namespace: str | None = None
    default_image: str = "python:3.12"
    git_image: str = "alpine/git:v2.47.2"
    secret: str = "job-secrets"  # noqa: S105 - the name of a Secret
    interval: float = 60.0
    status_interval: float = 5.0
    history_limit: int = 3
    limits: Limits = ALL_ALLOWED
    pod_config: Manifest = field(default_factory=dict)
    custom_metadata: Manifest = field(default_factory=dict)
    contexts: dict[str, Manifest] = field(default_factory=dict)
    set_pod_resource_limits: float | None = None
    site_hash: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a pass does, or on purpose doesn't, about one object; `result` is None in a plan.

    `manifest` is what create and replace send, and the merge patch of an update. `owned` makes the objects that a run
    needs besides, and that go with it; None when it needs none. Their contents may be large, so no plan holds them.
    `live` is the object to patch or delete, as it was read: its uid and resourceVersion guard the request. `deleted`
    tells, whatever else became of the action, that the server has accepted the deletion of `live`. `needs_attention`
    marks what does not heal by itself: the pass then ends with exit code 3.
    """

    verb: Verb
    kind: str
    namespace: str | None
    name: str
    job: str | None
    reason: str
    result: Result | None = None
    manifest: Manifest | None = None
    owned: Callable[[], tuple[Manifest, ...]] | None = field(default=None, repr=False)
    live: Manifest | None = None
    deleted: bool = False
    needs_attention: bool = False


class Verdict(StrEnum):
    """What the scheduler would do with a pod now."""

    FITS = "fits"
    PREEMPTS = "preempts"
    WAITS = "waits"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod would go, and who would have to leave. `victims` are `namespace/name` of pods."""

    verdict: Verdict
    node: str | None
    victims: tuple[str, ...]
    reason: str
