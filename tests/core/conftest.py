"""Builders for what the stages hand to each other: each gives a plain one, and takes what matters to a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.model import (
    COMMIT,
    FILE,
    INCOMPLETE,
    JOB_LABEL,
    OWNER_LABEL,
    RUN_LABEL,
    SITE_HASH,
    TASK_HASH,
    Manifest,
    OnChange,
    Resources,
    State,
    Task,
    TaskFile,
)
from reconciler.runs import Attempt, Counts, LiveRun, Observation, RecordedRun


@pytest.fixture
def task() -> Callable[..., Task]:
    """Build a valid task: jobs/train.yaml at version `H`."""

    def build(**changes: Any) -> Task:
        fields: dict[str, Any] = {
            "path": "jobs/train.yaml",
            "name": "train",
            "original_name": None,
            "task_hash": "H",
            "run": "python train.py",
            "setup": None,
            "env": {},
            "secrets": {},
            "secret": None,
            "resources": Resources(cpus="4", memory="16Gi"),
            "num_nodes": 1,
            "priority_class": "low",
            "max_restarts_on_errors": 0,
            "recover_on_exit_codes": (),
            "pod_config": {},
            "custom_metadata": {},
            "context": None,
            "namespace": None,
            "suspend": False,
            "on_change": OnChange.REPLACE,
            "max_recoveries": 1000,
            "timeout_seconds": None,
            "set_pod_resource_limits": None,
        }
        return Task(**(fields | changes))

    return build


@pytest.fixture
def task_file(task: Callable[..., Task]) -> Callable[..., TaskFile]:
    """Build a file with a valid task, or with problems in its place."""

    def build(
        path: str = "jobs/train.yaml", *, name: str | None = "train", problems: Any = (), **changes: Any
    ) -> TaskFile:
        valid = None if problems else task(path=path, name=name, **changes)
        return TaskFile(path, name, valid, tuple(problems))

    return build


@pytest.fixture
def live_run() -> Callable[..., LiveRun]:
    """Build a run of `train` on the cluster: number, task hash and state, then what matters of the rest."""

    def build(number: int, task_hash: str = "H", state: State = State.RUNNING, **changes: Any) -> LiveRun:
        fields: dict[str, Any] = {"namespace": "team-a", "deleting": False, "suspended": False, "uid": f"uid-{number}"}
        fields |= {"incomplete": False, "site_hash": "site", "queue": None, "job": "train", "file": "jobs/train.yaml"}
        observed: dict[str, Any] = {
            "reason": None,
            "message": None,
            "counts": Counts(0, 0),
            "submitted_at": "2026-03-01T10:00:00Z",
            "started_at": None,
            "ended_at": "2026-03-01T11:00:00Z" if state in (State.SUCCEEDED, State.FAILED) else None,
            "attempts": (),
            "priority_class": "low",
            "priority_value": 100,
            "problems": (),
            "suspended_at": None,
        }
        unknown = changes.keys() - fields.keys() - observed.keys()
        assert not unknown, unknown
        fields |= {key: value for key, value in changes.items() if key in fields}
        observed |= {key: value for key, value in changes.items() if key in observed}
        labels = {JOB_LABEL: fields["job"], OWNER_LABEL: "owner", RUN_LABEL: str(number)}
        if fields["queue"]:
            labels["kueue.x-k8s.io/queue-name"] = fields["queue"]
        manifest: Manifest = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": f"{fields['job']}-{number}",
                "namespace": fields["namespace"],
                "uid": fields["uid"],
                "labels": labels,
                "annotations": {
                    TASK_HASH: task_hash,
                    FILE: fields["file"],
                    COMMIT: "c" * 40,
                    SITE_HASH: fields["site_hash"],
                    **({INCOMPLETE: "true"} if fields["incomplete"] else {}),
                },
            },
            "spec": {"suspend": fields["suspended"]},
        }
        return LiveRun(
            job=fields["job"],
            number=number,
            task_hash=task_hash,
            uid=fields["uid"],
            namespace=fields["namespace"],
            manifest=manifest,
            observation=Observation(state=state, **observed),
            deleting=fields["deleting"],
        )

    return build


@pytest.fixture
def recorded_run() -> Callable[..., RecordedRun]:
    """Build what the record says of a run: number, task hash and state."""

    def build(number: int, task_hash: str = "H", state: State = State.RUNNING, **changes: Any) -> RecordedRun:
        fields: dict[str, Any] = {"uid": f"uid-{number}", "recoveries": 0, "ended_at": None}
        return RecordedRun(number=number, task_hash=task_hash, state=state, **(fields | changes))

    return build


@pytest.fixture
def attempt() -> Callable[..., Attempt]:
    """Build an attempt by minutes after ten o'clock: when it started, and when it ended if it did."""

    def build(pod: str, started: int | None = None, ended: int | None = None, **changes: Any) -> Attempt:
        def clock(minute: int | None) -> str | None:
            return None if minute is None else f"2026-03-01T10:{minute:02}:00Z"

        return Attempt(pod=pod, started_at=clock(started), ended_at=clock(ended), **({"node": "node-1"} | changes))

    return build
