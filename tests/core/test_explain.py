"""Of each field of a rendered pod it is told which layer has set it, and by which setting of which file."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.compose import MergeConflict, merge_pod_config, setting_name
from reconciler.core.explain import SetField, explain_field, explain_job
from reconciler.core.provenance import Marked, Origin, leaves, mark, origin_of
from reconciler.core.render import RunIdentity, render_job
from reconciler.core.task import parse_task_file
from reconciler.model import Site

RUN = RunIdentity(number=1, owner="me", commit="c0ffee", context="east", namespace="default")
TASK = """
resources: {accelerators: H100, labels: {team: vision}, priority_class: high}
envs: {EPOCHS: 3}
secrets: {TOKEN: null}
volumes: {/data: claim}
run: ./work
config:
  kubernetes:
    custom_metadata: {annotations: {cost: '1'}}
    pod_config:
      spec:
        tolerations: [{key: slow}]
        containers: [{tty: true}]
        volumes: [{name: scratch, emptyDir: {}}]
"""
SITE = Site(
    pod_config={
        "spec": {
            "tolerations": [{"key": "batch"}],
            "nodeSelector": {"pool": "a", "disk": "ssd"},
            "containers": [{"name": "main", "env": [{"name": "TZ", "value": "UTC"}]}, {"name": "proxy", "image": "p"}],
        }
    },
    contexts={"east": {"pod_config": {"spec": {"nodeSelector": {"pool": "b"}}}}},
)


def explained() -> dict[str, SetField]:
    file = parse_task_file("jobs/a.yaml", TASK.encode())
    assert file.task is not None, file.problems
    return {field.field: field for field in explain_job(file.task, SITE, RUN)}


POD = "config.kubernetes.pod_config."


@pytest.mark.parametrize(
    ("field", "value", "layer", "path", "setting"),
    [
        ("spec.nodeSelector.disk", "ssd", "global", ".sky.yaml", "kubernetes.pod_config.spec.nodeSelector.disk"),
        (
            "spec.nodeSelector.pool",
            "b",
            "context east",
            ".sky.yaml",
            "kubernetes.context_configs.east.pod_config.spec.nodeSelector.pool",
        ),
        ("spec.containers[0].tty", True, "task", "jobs/a.yaml", POD + "spec.containers[0].tty"),
        ("spec.tolerations[0].key", "nvidia.com/gpu", "rendered pod", "jobs/a.yaml", "resources.accelerators"),
        ("spec.tolerations[1].key", "batch", "global", ".sky.yaml", "kubernetes.pod_config.spec.tolerations[0].key"),
        ("spec.tolerations[2].key", "slow", "task", "jobs/a.yaml", POD + "spec.tolerations[0].key"),
        (
            "spec.initContainers[0].image",
            "p",
            "global",
            ".sky.yaml",
            "kubernetes.pod_config.spec.containers[1].image",
        ),
        ("spec.initContainers[0].restartPolicy", "Always", "run", None, None),
        ("spec.volumes[2].emptyDir", {}, "task", "jobs/a.yaml", POD + "spec.volumes[0].emptyDir"),
        ("spec.containers[0].image", "python:3.12", "rendered pod", "jobs/a.yaml", "resources.image_id"),
        ("spec.containers[0].resources.requests.cpu", "4", "rendered pod", "jobs/a.yaml", "resources.cpus"),
        ("spec.containers[0].volumeMounts[0].name", "dshm", "rendered pod", None, None),
        ("spec.containers[0].volumeMounts[1].mountPath", "/data", "rendered pod", "jobs/a.yaml", "volumes"),
        ("spec.priorityClassName", "high", "task", "jobs/a.yaml", "resources.priority_class"),
        ("metadata.labels.team", "vision", "rendered pod", "jobs/a.yaml", "resources.labels.team"),
        ("metadata.annotations.cost", "1", "task", "jobs/a.yaml", "config.kubernetes.custom_metadata.annotations.cost"),
        ("metadata.labels.job-reconciler/run", "1", "run", None, None),
    ],
)
def test_who_has_set_a_field(field: str, value: object, layer: str, path: str | None, setting: str | None) -> None:
    assert explained()[field] == SetField(field, value, layer, path, setting)


@pytest.mark.parametrize(
    ("variable", "layer", "setting"),
    [
        ("TZ", "global", "kubernetes.pod_config.spec.containers[0].env[0].name"),
        ("SKYPILOT_TASK_ID", "run", None),
        ("EPOCHS", "task", "envs.EPOCHS"),
        ("TOKEN", "task", "secrets.TOKEN"),
    ],
)
def test_who_has_set_a_variable(variable: str, layer: str, setting: str | None) -> None:
    (name,) = [
        field
        for field in explained().values()
        if field.value == variable and ".env[" in field.field and field.field.endswith("].name")
    ]

    assert (name.layer, name.setting) == (layer, setting)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("spec.tolerations[2].operator", ("task", POD + "spec.tolerations[0].operator")),
        (
            "spec.nodeSelector[pool]",
            ("context east", "kubernetes.context_configs.east.pod_config.spec.nodeSelector.pool"),
        ),
        ("spec.initContainers[0].name", ("global", "kubernetes.pod_config.spec.containers[1].name")),
        ("spec.containers[0].image", ("rendered pod", "resources.image_id")),
        ("spec.containers[0].env[11].name", ("task", "envs.EPOCHS")),
        ("spec.priorityClassName", ("task", "resources.priority_class")),
        ("spec.containers[0].terminationMessagePolicy", ("rendered pod", None)),
    ],
)
def test_what_a_server_names_is_found_in_the_settings(field: str, expected: tuple[str, str | None]) -> None:
    file = parse_task_file("jobs/a.yaml", TASK.encode())
    assert file.task is not None
    found = explain_field(file.task, SITE, RUN, f"spec.template.{field}")

    assert found is not None
    assert (found.layer, found.setting) == expected
    assert explain_field(file.task, SITE, RUN, f"spec.replicatedJobs[0].template.spec.template.{field}") == replace(
        found, field=f"spec.replicatedJobs[0].template.spec.template.{field}"
    )
    assert explain_field(file.task, SITE, RUN, "spec.parallelism") is None


def test_it_tells_of_every_field_of_the_pod_that_is_sent() -> None:
    file = parse_task_file("jobs/a.yaml", TASK.encode())
    assert file.task is not None
    job, _ = render_job(file.task, SITE, RUN)
    assert job is not None
    sent = [leaf for _, leaf in leaves(job["spec"]["template"])]

    assert [field.value for field in explain_job(file.task, SITE, RUN)] == sent


KEYS = st.sampled_from(["containers", "env", "args", "tolerations", "labels", "name"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["a", ""]),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3),
    max_leaves=8,
)
TREES = st.dictionaries(KEYS, JSON, max_size=3)


def plain(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: plain(item) for key, item in tree.items()}
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    return tree.value if isinstance(tree, Marked) else tree


def outcome(base: Any, override: Any) -> str:
    try:
        return json.dumps(plain(merge_pod_config(base, override)))
    except MergeConflict as conflict:
        return str(conflict.path)


@settings(max_examples=50)
@given(TREES, TREES)
def test_marked_values_are_merged_like_plain_ones(base: dict[str, Any], override: dict[str, Any]) -> None:
    naming = partial(setting_name, "task", "pod_config")
    marked = (mark(base, "global", naming), mark(override, "task", naming))

    assert outcome(*marked) == outcome(base, override)


def test_the_origin_of_what_is_not_there_is_that_of_what_is_around_it() -> None:
    naming = partial(setting_name, "global", "pod_config")
    tree = {"a": [{"x": 1}, *mark([{"name": "b"}], "global", naming, ("a",))]}

    assert origin_of(tree, ("a", 1, "port")) == Origin("global", "kubernetes.pod_config.a[0].port")
    assert origin_of(tree, ("a", 0, "port")) is None
    assert origin_of(tree, ("z",)) == Origin("global", "kubernetes.pod_config.z")
