"""The hash that decides whether a task file is a new version of its job.

SHA-256 over the canonical JSON of the parsed document: sorted keys, no blanks, UTF-8. Left out are `name`,
`resources.priority`, our own annotations except `rerun`, what is null, and the mappings that this leaves empty. The
values of secrets are left out, too: a hash of a short one would give it away, and one that is kept in a Secret is not
in here either. What the files of a workdir say is no part of a version.

Equal spellings are one version: another order of keys, comments, quotes and block styles, anchors, CRLF for LF, `True`
for `true`, `0x10` for `16`, `secrets: [secrets:A]` for `{A: null}`. Variables, sizes and our annotations go in by their
source text, so `cpus: 4` and `cpus: "4"` are one version too. What only means the same is another version: `4.0` for
`4`, `16GB` for `16`.
Inside pod_config and custom_metadata null and the types of values matter, and count.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from reconciler.core.schema.controls import RERUN
from reconciler.core.schema.environment import REFERENCE
from reconciler.model import ANNOTATION_PREFIX

if TYPE_CHECKING:
    from reconciler.core.field_path import FieldPath
    from reconciler.core.yaml import MarkedDocument

_BY_TEXT = ("cpus", "memory", "disk_size")
_ALTERNATIVES = ("any_of", "ordered")
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False)


def task_hash(document: MarkedDocument) -> str:
    """Return the hash in hex of a document that has been read without an error."""
    return digest(_task(document))


def digest(value: Any) -> str:
    """Return the SHA-256 in hex of a value's canonical JSON."""
    return hashlib.sha256(_CANONICAL.encode(value).encode()).hexdigest()


def _task(document: MarkedDocument) -> dict[str, Any]:
    task = {key: value for key, value in document.value.items() if key != "name"}
    if task.get("envs"):
        envs = task["envs"].items()
        task["envs"] = {n: value if isinstance(value, str) else document.source(("envs", n)) for n, value in envs}
    if task.get("secrets"):  # a list of references is the other spelling of a mapping with nulls
        task["secrets"] = dict.fromkeys(name.removeprefix(REFERENCE) for name in task["secrets"])
    if task.get("resources"):
        task["resources"] = _resources(document, ("resources",), task["resources"])
    if task.get("config"):
        task["config"] = _config(document, task["config"])
    return _without_empty(task)


def _resources(document: MarkedDocument, path: FieldPath, resources: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in resources.items() if key != "priority"}
    for key in _BY_TEXT:
        if result.get(key) is not None:
            result[key] = document.source((*path, key))
    for key in _ALTERNATIVES:
        if result.get(key):
            items = enumerate(result[key])
            result[key] = [_resources(document, (*path, key, index), item) for index, item in items]
    if isinstance(result.get("job_recovery"), dict):
        result["job_recovery"] = _without_empty(result["job_recovery"])
    return _without_empty(result)


def _config(document: MarkedDocument, config: dict[str, Any]) -> dict[str, Any]:
    kubernetes = dict(config.get("kubernetes") or {})
    metadata = dict(kubernetes.get("custom_metadata") or {})
    path = ("config", "kubernetes", "custom_metadata", "annotations")
    annotations = {
        key: document.source((*path, key)) if key == RERUN else value
        for key, value in (metadata.get("annotations") or {}).items()
        if (key == RERUN and value is not None) or not key.startswith(ANNOTATION_PREFIX)
    }
    kubernetes["custom_metadata"] = _without_empty({**metadata, "annotations": annotations})
    return _without_empty({**config, "kubernetes": _without_empty(kubernetes)})


def _without_empty(mapping: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value is not None and value not in ({}, [])}
