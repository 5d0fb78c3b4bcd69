"""The tables of fields: all of SkyPilot's schema is in them, and what they say is what happens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.schema.task_fields import CONFIG, JOB_RECOVERY, KUBERNETES, RESOURCES, TASK
from reconciler.core.task import parse_task_file
from reconciler.model import TaskFile


def parse(value: Any) -> TaskFile:
    """Parse a tree: JSON is YAML."""
    return parse_task_file("jobs/a.yaml", json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


SKYPILOT = {
    "": (
        "name resources num_nodes setup run envs secrets managed_secrets file_mounts file_mounts_mapping workdir "
        "volumes volume_mounts config event_callback service pool inputs outputs api_server_access _metadata "
        "_user_specified_yaml experimental execution"
    ),
    "resources": (
        "cloud region zone infra cpus memory accelerators instance_type use_spot job_recovery volumes disk_size "
        "ephemeral_storage disk_tier network_tier local_disk max_hourly_cost ports labels accelerator_args "
        "_no_missing_accel_warnings image_id autostop priority priority_class _docker_login_config _is_image_managed "
        "_requires_fuse _cluster_config_overrides any_of ordered hooks spot_recovery"
    ),
    "resources.job_recovery": "strategy max_restarts_on_errors recover_on_exit_codes",
    "config": "docker nvidia_gpus ssh kubernetes azure gcp vast slurm active_workspace hooks",
    "config.kubernetes": (
        "custom_metadata pod_config provision_timeout dws kueue quota remote_identity enable_docker "
        "set_pod_resource_limits namespace context_configs allowed_contexts autoscaler allowed_nodes rdma networking "
        "ports max_inline_command_length high_availability post_provision_runcmd apt_mirrors pricing auto_mounts"
    ),
}
TABLES = {
    "": TASK,
    "resources": RESOURCES,
    "resources.job_recovery": JOB_RECOVERY,
    "config": CONFIG,
    "config.kubernetes": KUBERNETES,
}


@pytest.mark.parametrize("section", SKYPILOT)
def test_every_field_of_skypilot_is_in_a_table(section: str) -> None:
    """The schema of SkyPilot 0.14.1, field by field: none can be dropped in silence."""
    names, fields = SKYPILOT[section], TABLES[section]

    assert set(names.split()) - set(fields) == set()
    assert all(field.text and bool(field.shapes) == (field.fate == "taken") for field in fields.values())


@pytest.mark.parametrize(
    ("section", "name"), [(section, name) for section, fields in TABLES.items() for name in fields]
)
def test_every_refused_or_ignored_field_is_named(section: str, name: str) -> None:
    """Whatever the table says of a field is what happens to it."""
    field = TABLES[section][name]
    nested: Any = {name: "x"}
    for part in reversed(section.split(".") if section else []):
        nested = {part: nested}
    file = parse({"run": "x", **nested})
    wanted = {"refused": "unsupported-field", "ignored": "ignored-field", "taken": None}[field.fate]
    full = f"{section}.{name}" if section else name
    found = {p.code for p in (*file.problems, *(file.task.warnings if file.task else ())) if p.field == full}

    assert wanted is None or found == {wanted}


KEYS = st.sampled_from(
    [
        *TASK,
        *RESOURCES,
        *KUBERNETES,
        *JOB_RECOVERY,
        "spec",
        "metadata",
        "labels",
        "containers",
        "args",
        "<<",
        "~",
        "H100",
    ]
) | st.text(max_size=4)
SCALARS = (
    st.sampled_from(
        [None, True, False, 0, -1, 1.5, 1e300, "k8s", "k8s/a", "aws", "H100:8", "4x", "secrets:A", "{{ a }}"]
    )
    | st.integers()
    | st.text(max_size=5)
)
TREES = st.recursive(SCALARS, lambda i: st.lists(i, max_size=3) | st.dictionaries(KEYS, i, max_size=4), max_leaves=10)
RESOURCE_TREES = st.dictionaries(st.sampled_from(list(RESOURCES)), TREES, max_size=5)
POD_TREES = st.dictionaries(
    st.sampled_from(["spec", "metadata"]),
    st.dictionaries(st.sampled_from(["containers", "labels", "annotations", "restartPolicy"]), TREES | st.lists(TREES)),
)


@given(value=st.dictionaries(st.sampled_from([*TASK, "kind", "apiVersion", "x"]), TREES, max_size=6) | TREES)
def test_any_tree_ends_in_a_task_or_problems(value: Any) -> None:
    """Nothing that YAML can say raises, and the answer is always the same."""
    file = parse(value)

    assert file == parse(value)
    assert file.task or file.problems or value is None
    assert not (file.task and file.problems)
    assert all(len(problem.message) < 1200 for problem in file.problems)


@settings(max_examples=50)
@given(resources=RESOURCE_TREES, alternatives=st.lists(RESOURCE_TREES, max_size=3), pod=POD_TREES, metadata=POD_TREES)
def test_any_section_ends_in_a_task_or_problems(
    resources: dict[str, Any], alternatives: list[Any], pod: Any, metadata: Any
) -> None:
    """The same, deeper down."""
    kubernetes = {"pod_config": pod, "custom_metadata": metadata.get("metadata")}
    value = {"run": "x", "resources": {**resources, "any_of": alternatives}, "config": {"kubernetes": kubernetes}}

    assert parse(value) == parse(value)


@given(data=st.binary() | st.text().map(lambda text: f"run: {text}".encode("utf-8", "replace")))
def test_any_bytes_end_in_a_task_or_problems(data: bytes) -> None:
    """Nothing that can be committed raises."""
    assert parse_task_file("jobs/a.yaml", data) == parse_task_file("jobs/a.yaml", data)
