"""A wrapper around a cluster that fails where a test says so, and the objects to try it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reconciler.cluster.local import LocalCluster
from reconciler.core.encoding import job_form
from reconciler.model import COMMIT, FILE, JOB_LABEL, OWNER_LABEL, RUN_LABEL, TASK_HASH, Action, Manifest, Verb


class FaultyCluster:
    """A cluster whose calls go through hooks: `before["delete"] = function(arguments)` may raise, or act first.

    `calls` lists the name of each call with the object's kind and name.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.before: dict[str, Callable[..., None]] = {}
        self.calls: list[tuple[str, str, str]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.cluster, name)
        if name not in {"create", "patch", "delete", "get", "list", "logs"}:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            subject = arguments[0]
            if isinstance(subject, dict):
                kind, called = subject["kind"], subject["metadata"]["name"]
            else:
                kind, called = (*arguments, "")[:2]
            word = "dry-run" if options.get("dry_run") else name
            self.calls.append((word, kind, called))
            if word in self.before:
                self.before[word](*arguments, **options)
            return found(*arguments, **options)

        return call

    def done(self, *words: str) -> list[str]:
        """Return `word Kind/name` of the calls that were made, of these kinds."""
        return [f"{word} {kind}/{name}" for word, kind, name in self.calls if word in words]


def job_manifest(name: str, *, script: str = "sleep 60", task_hash: str = "hash", owner: str = "us") -> Manifest:
    """Make a Job as a pass sends it."""
    job, _, number = name.rpartition("-")
    labels = {OWNER_LABEL: owner, JOB_LABEL: job, RUN_LABEL: number}
    form = job_form(max_restarts_on_errors=0, max_recoveries=1000, recover_on_exit_codes=(), main_container="main")
    container = {
        "name": "main",
        "image": "bash",
        "command": ["bash", "-c", script],
        "resources": {"requests": {"cpu": "1"}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "annotations": {TASK_HASH: task_hash, FILE: f"jobs/{job}.yaml", COMMIT: "c"},
        },
        "spec": {**form, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def class_manifest(name: str, *, value: int = 1, default: bool = False) -> Manifest:
    """Make a PriorityClass as a pass sends it."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": {OWNER_LABEL: "us"}},
        "value": value,
        "globalDefault": default,
    }


def action(verb: Verb, manifest: Manifest | None = None, live: Manifest | None = None) -> Action:
    """Make an action on the object that the manifest, or else the live object, is."""
    subject = manifest if manifest and "metadata" in manifest else live
    assert subject is not None
    metadata = subject["metadata"]
    job = metadata.get("labels", {}).get(JOB_LABEL)
    return Action(
        verb, subject["kind"], metadata.get("namespace"), metadata["name"], job, "because", manifest=manifest, live=live
    )
