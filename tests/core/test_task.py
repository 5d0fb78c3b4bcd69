"""Task files: what each field becomes, and what is refused with which words and where."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.task import parse_task_file
from reconciler.core.task_fields import CONFIG, JOB_RECOVERY, KUBERNETES, RESOURCES, TASK
from reconciler.model import Accelerators, OnChange, Problem, Resources, Severity, Task, TaskFile

PATH = "jobs/team/train.yaml"


def parse(text: str | bytes) -> TaskFile:
    return parse_task_file(PATH, text if isinstance(text, bytes) else text.encode())


def task_of(text: str) -> Task:
    file = parse(text)
    assert file.problems == ()
    assert file.task is not None
    return file.task


def with_run(text: str) -> str:
    return f"{text}\nrun: x\n"


def annotated(*lines: str) -> str:
    head = "run: x\nconfig:\n  kubernetes:\n    custom_metadata:\n      annotations:\n"
    return head + "".join(f"        job-reconciler/{line}\n" for line in lines)


def summary(problems: tuple[Problem, ...]) -> list[tuple[str, int | None, str | None]]:
    return [(problem.code, problem.line, problem.field) for problem in problems]


def test_a_whole_task() -> None:
    """Every field that counts arrives where it belongs."""
    task = task_of(
        """\
name: Train_LLM
num_nodes: 2
resources:
  infra: k8s/gpu-cluster
  cpus: 4+
  memory: 16
  accelerators: H100:8
  image_id: docker:ghcr.io/team/train:1.2
  labels: {team: ml}
  disk_size: 100
  priority_class: high
  job_recovery: {max_restarts_on_errors: 3, recover_on_exit_codes: [42, 33]}
envs: {LR: 2e-5, FLAG: "true", DAY: 08}
secrets: {HF_TOKEN: null}
setup: pip install x
run: |
  python train.py
config:
  kubernetes:
    namespace: research
    set_pod_resource_limits: 1.5
    pod_config: {spec: {tolerations: [{key: gpu, operator: Exists}]}}
    custom_metadata:
      labels: {a: b}
      annotations:
        mine: kept
        job-reconciler/rerun: "2"
        job-reconciler/suspend: "true"
        job-reconciler/on-change: wait
        job-reconciler/timeout: 2h
        job-reconciler/max-recoveries: "5"
        job-reconciler/secret: tokens
"""
    )

    assert dataclasses.replace(task, task_hash="") == Task(
        path=PATH,
        name="train-llm",
        original_name="Train_LLM",
        task_hash="",
        run="python train.py\n",
        setup="pip install x",
        env={"LR": "2e-5", "FLAG": "true", "DAY": "08"},
        secrets={"HF_TOKEN": "HF_TOKEN"},
        secret="tokens",
        resources=Resources(
            cpus="4",
            memory="16Gi",
            accelerators=Accelerators(("H100",), 8),
            disk="100Gi",
            image="ghcr.io/team/train:1.2",
            labels={"team": "ml"},
        ),
        num_nodes=2,
        priority_class="high",
        max_restarts_on_errors=3,
        recover_on_exit_codes=(33, 42),
        pod_config={"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
        custom_metadata={"labels": {"a": "b"}, "annotations": {"mine": "kept"}},
        context="gpu-cluster",
        namespace="research",
        suspend=True,
        on_change=OnChange.WAIT,
        max_recoveries=5,
        timeout_seconds=7200,
        set_pod_resource_limits=1.5,
        warnings=(),
    )


def test_the_smallest_task() -> None:
    """A command is enough; null sections are absent, and the path gives the name (B92)."""
    sections = "".join(
        f"{name}:\n" for name in ("name", "resources", "envs", "secrets", "setup", "num_nodes", "config")
    )
    task = task_of(sections + "service:\nrun: echo hi\n")

    assert (task.name, task.original_name, task.setup, task.num_nodes) == ("team-train", None, None, 1)
    assert task.resources == Resources(cpus="2", memory="2Gi")
    assert (task.env, task.secrets, task.pod_config, task.custom_metadata) == ({}, {}, {}, {})
    assert (task.suspend, task.on_change, task.max_recoveries) == (False, OnChange.REPLACE, 1000)
    assert (task.timeout_seconds, task.set_pod_resource_limits, task.context, task.namespace) == (None,) * 4


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_a_file_of_comments_is_neither_task_nor_problem(text: str) -> None:
    """Nothing declared is nothing wrong."""
    assert parse(text) == TaskFile(PATH, None, None, ())


REFUSALS = [
    pytest.param("run: [a]", "wrong-type", 1, "run", "run must be text, not a list", id="run-a-list"),
    pytest.param(
        "run: 5", "wrong-type", 1, "run", "run must be text, not an integer: write it in quotes", id="run-int"
    ),
    pytest.param("name: x", "nothing-to-run", 1, "run", "there is nothing to run", id="no-run"),
    pytest.param("run: '  '", "nothing-to-run", 1, "run", "there is nothing to run", id="blank-run"),
    pytest.param('run: "a\\0b"', "nul-byte", 1, "run", "run has a NUL in it", id="nul-in-run"),
    pytest.param("run: " + "x" * 98305, "too-large", 1, "run", "98305 bytes, and at most 98304 (96 KiB)", id="long"),
    pytest.param("- run: x", "wrong-type", 1, None, "a task is a mapping with at least run:, not a list", id="list"),
    pytest.param("just text", "wrong-type", 1, None, "a task is a mapping", id="text"),
    pytest.param(
        "apiVersion: v1\nkind: Pod\nspec: 5",
        "not-a-task",
        2,
        "kind",
        "manifest of kind 'Pod' is no task",
        id="manifest",
    ),
    pytest.param(
        "resources: 5\nservice:\n  port: 80",
        "unsupported-field",
        2,
        "service",
        "a service never completes",
        id="service",
    ),
    pytest.param("pool: {}\nrunn: x", "unsupported-field", 1, "pool", "a pool never completes", id="pool"),
    pytest.param("a: 1\n---\nrun: x", "multiple-documents", 3, None, "2 tasks in one file are a pipeline", id="two"),
    pytest.param(
        "name: p\n---\nrun: x\n---\nrun: y\n---\n", "multiple-documents", 3, None, "2 tasks in one file", id="header"
    ),
    pytest.param(
        "name: p\nexecution: parallel\nprimary_tasks: [a]\n---\nname: a\n---\nname: b",
        "multiple-documents",
        5,
        None,
        "2 tasks in one file are a job group",
        id="job-group",
    ),
    pytest.param("run: x\nexecution: serial", "unsupported-field", 2, "execution", "a file is one job", id="execution"),
    pytest.param(
        "run: x\nresource: {}", "unknown-field", 2, "resource", "no field resource; did you mean resources?", id="typo"
    ),
    pytest.param("run: x\nEnvs: {}", "unknown-field", 2, "Envs", "did you mean envs?", id="typo-capital"),
    pytest.param("run: x\nx: &a 1", "unknown-field", 2, "x", "there is no field x", id="holder-of-anchors"),
    pytest.param("run: x\nenv_file: ../.env", "unsupported-field", 2, "env_file", "under envs", id="env-file"),
    pytest.param("run: x\nnum_nodes: 0", "invalid-value", 2, "num_nodes", "from 1 to 10000, not '0'", id="no-nodes"),
    pytest.param("run: x\nnum_nodes: '2'", "wrong-type", 2, "num_nodes", "an integer, not text", id="nodes-as-text"),
    pytest.param("run: x\nnum_nodes: true", "wrong-type", 2, "num_nodes", "not true or false", id="nodes-as-bool"),
    pytest.param("run: x\nname: 123", "wrong-type", 2, "name", "name must be text, not an integer", id="name-a-number"),
    pytest.param("run: x\nname: Größe", "invalid-name", 2, "name", "'Größe' has 'ö' in it: use a-z", id="name-umlaut"),
    pytest.param("run: x\nname: '{{ n }}'", "invalid-name", 2, "name", "has '{' in it", id="name-template"),
    pytest.param("run: x\nname: _", "invalid-name", 2, "name", "neither a letter nor a digit", id="name-of-nothing"),
    pytest.param(
        "run: x\nname: " + "a" * 47,
        "invalid-name",
        2,
        "name",
        "has 47 characters; at most 46 leave room",
        id="name-long",
    ),
    # variables and secrets
    pytest.param(
        "run: x\nenvs:\n  A:\n  B: 1\n  C:",
        "missing-value",
        3,
        "envs.A",
        "without a value in envs: A, C;",
        id="null-envs",
    ),
    pytest.param("run: x\nenvs: {A: {b: 1}}", "wrong-type", 2, "envs.A", "not a mapping", id="env-a-map"),
    pytest.param(
        "run: x\nenvs: [A=1]", "wrong-type", 2, "envs", "envs must be a mapping, not a list", id="envs-a-list"
    ),
    pytest.param("run: x\nenvs: {A-B: 1}", "invalid-value", 2, "envs.A-B", "can't name a variable", id="env-name"),
    pytest.param('run: x\nenvs: {A: "\\0"}', "nul-byte", 2, "envs.A", "has a NUL in it", id="env-nul"),
    pytest.param(
        "run: x\nsecrets: {A: s3cret}", "inline-secret", 2, "secrets.A", "write null here", id="inline-secret"
    ),
    pytest.param("run: x\nsecrets: {A: ''}", "inline-secret", 2, "secrets.A", "write null here", id="empty-secret"),
    pytest.param("run: x\nsecrets: [A]", "invalid-value", 2, "secrets[0]", "must be secrets:NAME", id="secret-item"),
    pytest.param(
        "run: x\nsecrets: ['secrets:a.b']", "invalid-value", 2, "secrets[0]", "can't name a variable", id="secret-scope"
    ),
    pytest.param(
        "run: x\nenvs: {A: 1}\nsecrets: {A: }",
        "conflict",
        3,
        "secrets.A",
        "in line 2, in envs too",
        id="env-and-secret",
    ),
    # what SkyPilot has and this has not
    pytest.param(
        "run: x\nworkdir: .", "unsupported-field", 2, "workdir", "bake it into the image, or git clone", id="wd"
    ),
    pytest.param(
        "run: x\nfile_mounts: {/a: b}", "unsupported-field", 2, "file_mounts", "fetch them in setup", id="mounts"
    ),
    pytest.param("run: x\nvolumes: {/a: b}", "unsupported-field", 2, "volumes", "PersistentVolumeClaim", id="volumes"),
    pytest.param(
        "run: x\nexperimental:\n  config_overrides: {}",
        "unsupported-field",
        2,
        "experimental",
        "write what was in experimental.config_overrides under config",
        id="experimental",
    ),
    # resources
    pytest.param("run: x\nresources: {cpu: 4}", "unknown-field", 2, "resources.cpu", "did you mean cpus?", id="cpu"),
    pytest.param("run: x\nresources: {cpus: 0}", "invalid-value", 2, "resources.cpus", "'0' is no number", id="cpus-0"),
    pytest.param(
        "run: x\nresources: {cpus: 500m}", "invalid-value", 2, "resources.cpus", "write 4, 0.5", id="cpus-milli"
    ),
    pytest.param(
        "run: x\nresources: {cpus: true}", "wrong-type", 2, "resources.cpus", "a number or text", id="cpus-bool"
    ),
    pytest.param(
        "run: x\nresources: {memory: 16G}",
        "invalid-value",
        2,
        "resources.memory",
        "write GB or Gi, both binary",
        id="16G",
    ),
    pytest.param("run: x\nresources: {memory: 0}", "invalid-value", 2, "resources.memory", "no amount", id="memory-0"),
    pytest.param(
        "run: x\nresources: {disk_size: 1500MB}", "invalid-value", 2, "resources.disk_size", "whole GiB", id="disk"
    ),
    pytest.param(
        "run: x\nresources: {disk_size: 100+}", "invalid-value", 2, "resources.disk_size", "whole GiB", id="disk+"
    ),
    pytest.param(
        "run: x\nresources: {disk_size: 1.5}", "wrong-type", 2, "resources.disk_size", "an integer", id="disk-half"
    ),
    pytest.param(
        "run: x\nresources: {infra: gcp/us-central1}",
        "not-kubernetes",
        2,
        "resources.infra",
        "'gcp/us-central1' is not Kubernetes",
        id="gcp",
    ),
    pytest.param("run: x\nresources: {cloud: aws}", "not-kubernetes", 2, "resources.cloud", "'aws' is not", id="aws"),
    pytest.param(
        "run: x\nresources: {infra: ssh/pool}", "not-kubernetes", 2, "resources.infra", "'ssh/pool'", id="ssh"
    ),
    pytest.param(
        "run: x\nresources: {infra: '*/us'}", "not-kubernetes", 2, "resources.infra", "'*/us'", id="any-in-us"
    ),
    pytest.param("run: x\nresources: {infra: k8s/}", "invalid-value", 2, "resources.infra", "an empty part", id="k8s/"),
    pytest.param(
        "run: x\nresources: {infra: k8s//a}", "invalid-value", 2, "resources.infra", "an empty part", id="k8s//a"
    ),
    pytest.param(
        "run: x\nresources: {infra: k8s, cloud: aws}",
        "invalid-value",
        2,
        "resources.infra",
        "can't stand",
        id="infra+cloud",
    ),
    pytest.param(
        "run: x\nresources: {region: a}", "invalid-value", 2, "resources.region", "k8s/<context>", id="region"
    ),
    pytest.param("run: x\nresources: {zone: a}", "unsupported-field", 2, "resources.zone", "nodeSelector", id="zone"),
    pytest.param(
        "run: x\nresources: {instance_type: m5.large}",
        "unsupported-field",
        2,
        "resources.instance_type",
        "write cpus, memory and accelerators",
        id="instance-type",
    ),
    pytest.param(
        "run: x\nresources: {image_id: ami-0a1b}", "invalid-value", 2, "resources.image_id", "no container", id="ami"
    ),
    pytest.param(
        "run: x\nresources: {image_id: 'skypilot:gpu'}", "invalid-value", 2, "resources.image_id", "no c", id="sky"
    ),
    pytest.param("run: x\nresources: {image_id: 'a b'}", "invalid-value", 2, "resources.image_id", "'a b'", id="image"),
    pytest.param(
        "run: x\nresources: {image_id: {us-east-1: ami-1}}",
        "unsupported-field",
        2,
        "resources.image_id",
        "images by region",
        id="image-map",
    ),
    pytest.param(
        "run: x\nresources: {labels: {a: 1}}", "wrong-type", 2, "resources.labels.a", "labels are text", id="label"
    ),
    pytest.param(
        "run: x\nresources: {labels: {a: b c}}", "invalid-value", 2, "resources.labels.a", "'b c'", id="label-text"
    ),
    pytest.param(
        "run: x\nresources: {labels: {-: b}}", "invalid-value", 2, "resources.labels['-']", "a key of", id="key"
    ),
    pytest.param(
        "run: x\nresources: {labels: {job-reconciler/owner: b}}",
        "reserved",
        2,
        "resources.labels.job-reconciler/owner",
        "is ours and means nothing here",
        id="our-label",
    ),
    pytest.param(
        "run: x\nresources: {accelerators: 8}", "wrong-type", 2, "resources.accelerators", "or a list", id="gpu-8"
    ),
    pytest.param(
        "run: x\nresources: {accelerators: H100:0}", "invalid-value", 2, "resources.accelerators", "'0'", id="gpu-0"
    ),
    pytest.param(
        "run: x\nresources: {accelerators: H100:x}", "invalid-value", 2, "resources.accelerators", "'x'", id="gpu-x"
    ),
    pytest.param(
        "run: x\nresources: {accelerators: 'H100:1:2'}",
        "invalid-value",
        2,
        "resources.accelerators",
        "'1:2'",
        id="gpu-1-2",
    ),
    pytest.param(
        "run: x\nresources: {accelerators: {H100: '8'}}",
        "wrong-type",
        2,
        "resources.accelerators.H100",
        "a number",
        id="gpu-'8'",
    ),
    pytest.param(
        "run: x\nresources: {accelerators: {}}", "invalid-value", 2, "resources.accelerators", "no GPU", id="gpu-{}"
    ),
    pytest.param(
        "run: x\nresources: {accelerators: 80GB+}", "invalid-value", 2, "resources.accelerators", "by name", id="80GB"
    ),
    pytest.param(
        "run: x\nresources: {accelerators: 'nvidia:80GB:8'}",
        "invalid-value",
        2,
        "resources.accelerators",
        "",
        id="nvidia:80GB",
    ),
    pytest.param(
        "run: x\nresources: {accelerators: tpu-v4-8}", "invalid-value", 2, "resources.accelerators", "TPUs", id="tpu"
    ),
    pytest.param(
        "run: x\nresources: {priority_class: system-node-critical}",
        "invalid-value",
        2,
        "resources.priority_class",
        "for the cluster's own pods",
        id="system-class",
    ),
    pytest.param(
        "run: x\nresources: {priority_class: A_b}",
        "invalid-value",
        2,
        "resources.priority_class",
        "'A_b'",
        id="class-name",
    ),
    pytest.param(
        "run: x\nresources: {spot_recovery: F}",
        "unsupported-field",
        2,
        "resources.spot_recovery",
        "job_recovery",
        id="spot",
    ),
    pytest.param(
        "run: x\nresources: {job_recovery: {max_restarts: 1}}",
        "unknown-field",
        2,
        "resources.job_recovery.max_restarts",
        "did you mean max_restarts_on_errors?",
        id="recovery-typo",
    ),
    pytest.param(
        "run: x\nresources: {job_recovery: {max_restarts_on_errors: -1}}",
        "invalid-value",
        2,
        "resources.job_recovery.max_restarts_on_errors",
        "from 0 to 99998",
        id="restarts",
    ),
    *(
        pytest.param(
            f"run: x\nresources: {{job_recovery: {{recover_on_exit_codes: [1, {code}]}}}}",
            "reserved",
            2,
            "resources.job_recovery.recover_on_exit_codes[1]",
            f"exit code {code} has a meaning of its own here",
            id=f"exit-code-{code}",
        )
        for code in (0, 217, 218, 219, 255)
    ),
    pytest.param(
        "run: x\nresources: {job_recovery: {recover_on_exit_codes: 256}}",
        "invalid-value",
        2,
        "resources.job_recovery.recover_on_exit_codes",
        "'256' is no exit code",
        id="exit-code-256",
    ),
    pytest.param(
        "run: x\nresources: {job_recovery: {recover_on_exit_codes: [3, 3]}}",
        "invalid-value",
        2,
        "resources.job_recovery.recover_on_exit_codes[1]",
        "exit code 3 stands twice",
        id="exit-code-twice",
    ),
    pytest.param(
        "run: x\nresources: {any_of: [{infra: aws}, {cloud: gcp, region: eu}]}",
        "not-kubernetes",
        2,
        "resources.any_of",
        "no alternative in resources.any_of is on Kubernetes ([0] aws, [1] gcp/eu)",
        id="no-alternative",
    ),
    pytest.param(
        "run: x\nresources: {any_of: []}", "not-kubernetes", 2, "resources.any_of", "it is empty", id="any-of-none"
    ),
    pytest.param(
        "run: x\nresources: {any_of: [{cpus: 1}], ordered: [{cpus: 2}]}",
        "conflict",
        2,
        "resources.ordered",
        "both",
        id="both",
    ),
    pytest.param(
        "run: x\nresources: {any_of: [{any_of: []}]}",
        "unsupported-field",
        2,
        "resources.any_of[0].any_of",
        "can't be nested",
        id="nested",
    ),
    # config
    pytest.param("run: x\nconfig: {gcp: {}}", "unsupported-field", 2, "config.gcp", "Kubernetes only", id="config-gcp"),
    pytest.param(
        "run: x\nconfig: {kubernetes: {pod_confg: {}}}",
        "unknown-field",
        2,
        "config.kubernetes.pod_confg",
        "did you mean pod_config?",
        id="pod-confg",
    ),
    pytest.param(
        "run: x\nconfig: {kubernetes: {context_configs: {}}}",
        "unsupported-field",
        2,
        "config.kubernetes.context_configs",
        "write pod_config here, or context_configs in .sky.yaml",
        id="context-configs",
    ),
    pytest.param(
        "run: x\nconfig: {kubernetes: {namespace: A}}",
        "invalid-value",
        2,
        "config.kubernetes.namespace",
        "'A'",
        id="namespace",
    ),
    pytest.param(
        "run: x\nconfig: {kubernetes: {set_pod_resource_limits: 0.5}}",
        "invalid-value",
        2,
        "config.kubernetes.set_pod_resource_limits",
        "true, false or a number from 1 on",
        id="limits-factor",
    ),
    pytest.param(
        "run: x\nconfig: {kubernetes: {custom_metadata: {name: a}}}",
        "unsupported-field",
        2,
        "config.kubernetes.custom_metadata.name",
        "named after the job",
        id="custom-name",
    ),
    pytest.param(
        "run: x\nconfig: {kubernetes: {custom_metadata: {labels: {a: yes please}}}}",
        "invalid-value",
        2,
        "config.kubernetes.custom_metadata.labels.a",
        "'yes please'",
        id="custom-label",
    ),
    pytest.param(
        "run: x\nconfig: {kubernetes: {custom_metadata: {annotations: {a: 1}}}}",
        "wrong-type",
        2,
        "config.kubernetes.custom_metadata.annotations.a",
        "annotations are text, so write it in quotes",
        id="custom-annotation",
    ),
    # our annotations
    *(
        pytest.param(
            annotated(f"{name}: {value}"),
            "unknown-field" if name == "timout" else "invalid-value",
            6,
            f"config.kubernetes.custom_metadata.annotations.job-reconciler/{name}",
            message,
            id=f"{name}-{value}",
        )
        for name, value, message in [
            ("timout", "1h", "did you mean job-reconciler/timeout?"),
            ("suspend", "'yes'", "must be true or false, not 'yes'"),
            ("on-change", "recreate", "must be replace or wait, not 'recreate'"),
            ("timeout", "soon", "must be a duration from 1s on"),
            ("timeout", "0", "must be a duration from 1s on"),
            ("timeout", "-5", "must be a duration from 1s on"),
            ("max-recoveries", "0", "must be a number from 1 to 99998, not '0'"),
            ("max-recoveries", "99999", "must be a number from 1 to 99998"),
            ("max-recoveries", "1e3", "must be a number from 1 to 99998"),
            ("secret", "My_Secret", "must be the name of a Kubernetes Secret, not 'My_Secret'"),
        ]
    ),
    # pod_config
    *(
        pytest.param(
            f"run: x\nconfig: {{kubernetes: {{pod_config: {pod_config}}}}}",
            code,
            2,
            f"config.kubernetes.pod_config.{field}" if field else "config.kubernetes.pod_config",
            message,
            id=name,
        )
        for name, pod_config, code, field, message in [
            ("pod-config-list", "[]", "wrong-type", "", "must be a mapping"),
            ("pod-config-typo", "{speck: {}}", "unknown-field", "speck", "did you mean spec?"),
            ("pod-kind", "{kind: Pod}", "unsupported-field", "kind", "not an object"),
            (
                "pod-namespace",
                "{metadata: {namespace: a}}",
                "unsupported-field",
                "metadata.namespace",
                "kubernetes.namesp",
            ),
            ("pod-label", "{metadata: {labels: {a: true}}}", "wrong-type", "metadata.labels.a", "labels are text"),
            ("restart", "{spec: {restartPolicy: Always}}", "unsupported-field", "spec.restartPolicy", "must be Never"),
            ("restart-null", "{spec: {restartPolicy: }}", "unsupported-field", "spec.restartPolicy", "must be Never"),
            (
                "deadline",
                "{spec: {activeDeadlineSeconds: 60}}",
                "unsupported-field",
                "spec.activeDeadlineSeconds",
                "write job-reconciler/timeout",
            ),
            ("priority", "{spec: {priority: 5}}", "unsupported-field", "spec.priority", "write priorityClassName"),
            (
                "policy",
                "{spec: {preemptionPolicy: Never}}",
                "unsupported-field",
                "spec.preemptionPolicy",
                "comes from the PriorityClass",
            ),
            (
                "system",
                "{spec: {priorityClassName: system-cluster-critical}}",
                "invalid-value",
                "spec.priorityClassName",
                "for the cluster's own pods",
            ),
            ("class-int", "{spec: {priorityClassName: 5}}", "wrong-type", "spec.priorityClassName", "must be text"),
            ("containers", "{spec: {containers: {a: 1}}}", "wrong-type", "spec.containers", "a list, not a mapping"),
            ("container", "{spec: {containers: [a]}}", "wrong-type", "spec.containers[0]", "a mapping, not text"),
            (
                "command",
                "{spec: {containers: [{command: [a]}]}}",
                "unsupported-field",
                "spec.containers[0].command",
                "write setup and run",
            ),
            (
                "args",
                "{spec: {containers: [{name: x}, {name: ray-node, args: }]}}",
                "unsupported-field",
                "spec.containers[1].args",
                "write setup and run",
            ),
        ]
    ),
]


@pytest.mark.parametrize(("text", "code", "line", "field", "message"), REFUSALS)
def test_refusal(text: str, code: str, line: int, field: str | None, message: str) -> None:
    """What can't work is refused at its line and field, and the message says what to do."""
    file = parse(text)

    assert file.task is None
    assert [(p.severity, p.code, p.path, p.line, p.field) for p in file.problems] == [
        (Severity.ERROR, code, PATH, line, field)
    ]
    assert message in file.problems[0].message


@pytest.mark.parametrize(
    ("text", "code", "field", "message"),
    [
        ("resources: {use_spot: true}", "ignored-field", "resources.use_spot", "nodeSelector and the toleration"),
        ("resources: {priority: 500}", "ignored-field", "resources.priority", "write priority_class"),
        ("resources: {autostop: 10}", "ignored-field", "resources.autostop", "the pods of a job go when it ends"),
        ("resources: {ports: 8080}", "ignored-field", "resources.ports", "a Kubernetes Service"),
        ("resources: {network_tier: best}", "ignored-field", "resources.network_tier", "pod_config"),
        ("resources: {job_recovery: FAILOVER}", "ignored-field", "resources.job_recovery", "max-recoveries"),
        (
            "resources: {job_recovery: {strategy: none}}",
            "ignored-field",
            "resources.job_recovery.strategy",
            "always rec",
        ),
        ("resources: {accelerators: H100:0.5}", "rounded-up", "resources.accelerators", "0.5 GPUs become 1"),
        (
            "resources: {accelerators: ['H100:8', 'A100:16', 'L4:8']}",
            "alternative-dropped",
            "resources.accelerators",
            "H100:8 is taken; A100:16 would need another number",
        ),
        (
            "resources: {any_of: [{cloud: aws}, {cpus: 1}, {infra: k8s/b}]}",
            "alternative-dropped",
            "resources.any_of",
            "resources.any_of[1] is taken, the first on Kubernetes; not used: [2], [0] (aws)",
        ),
        ("api_server_access: true", "ignored-field", "api_server_access", "no SkyPilot server"),
        (
            "config: {kubernetes: {provision_timeout: 600}}",
            "ignored-field",
            "config.kubernetes.provision_timeout",
            "waits",
        ),
        ("envs: {A: true, B: 007, C: '1', D: 2e-5, E: 1.50}", "env-text", "envs.A", "passed as written: A, B, E;"),
    ],
)
def test_warning(text: str, code: str, field: str, message: str) -> None:
    """What has no effect here, or another one than in SkyPilot, is said once, and the task is valid."""
    task = task_of(with_run(text))

    assert [(w.severity, w.code, w.line, w.field) for w in task.warnings] == [(Severity.WARNING, code, 1, field)]
    assert message in task.warnings[0].message


@pytest.mark.parametrize("text", ["resources: {use_spot: false, autostop: false}", "api_server_access: false"])
def test_what_is_switched_off_needs_no_warning(text: str) -> None:
    """False is what happens anyway."""
    assert task_of(with_run(text)).warnings == ()


def test_alternatives_that_are_not_taken_are_read_too() -> None:
    """A misspelt field is one even in an alternative for another cloud; what that cloud alone has is not."""
    file = parse("run: x\nresources:\n  ordered:\n  - cpus: 1\n  - {cloud: aws, instance_type: a, cpuz: 1}\n")

    assert summary(file.problems) == [
        ("alternative-dropped", 3, "resources.ordered"),
        ("unknown-field", 5, "resources.ordered[1].cpuz"),
    ]


def test_use_spot_is_kept_for_later() -> None:
    """The wish travels on, though nothing follows from it yet."""
    assert task_of(with_run("resources: {use_spot: true}")).resources.use_spot


def test_all_problems_at_once_in_file_order() -> None:
    """One pass over a file names everything that is wrong with it, warnings too, from top to bottom."""
    file = parse(
        "resources:\n  cpu: 1\n  use_spot: true\n  memory: x\nrum: a\nenvs:\n  A:\nname: ok\nrun: ''\nrun: ''\n"
    )

    assert summary(file.problems) == [
        ("unknown-field", 2, "resources.cpu"),
        ("ignored-field", 3, "resources.use_spot"),
        ("invalid-value", 4, "resources.memory"),
        ("unknown-field", 5, "rum"),
        ("missing-value", 7, "envs.A"),
        ("nothing-to-run", 9, "run"),
        ("duplicate-key", 10, "run"),
    ]
    assert file.name == "ok"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("run: 5", "team-train"),
        ("name: Other\nrun: 5", "other"),
        ("name: 5", None),
        ("name: ö", None),
        ("name: a\nname: b\nrun: x", None),
        ("name: a\nrun: [", None),
        ("name: a\n---\nname: b", None),
        ("- a", None),
    ],
)
def test_name_of_an_invalid_file(text: str, name: str | None) -> None:
    """An invalid file still holds its name, where one can be told for certain."""
    file = parse(text)

    assert file.task is None
    assert file.name == name


def test_no_secret_in_any_message() -> None:
    """A value under secrets, or of a wrong type under envs, is in no message (promise 11)."""
    file = parse("run: 5\nsecrets: {A: hf_secret, 'hf_secret=': b}\nenvs: {B: [hf_value], C: {d: hf_value}}\n")

    assert len(file.problems) == 6
    assert not any("hf_value" in p.message or "A: hf_secret" in p.message for p in file.problems)
    assert not any("hf_secret" in p.message for p in file.problems if p.field == "secrets.A")


@pytest.mark.parametrize("form", ["{A: , 'secrets:B': null}", "['secrets:A', 'secrets:B']"])
def test_secrets_by_reference(form: str) -> None:
    """Both of SkyPilot's forms name keys of the Secret."""
    assert task_of(with_run(f"secrets: {form}")).secrets == {"A": "A", "B": "B"}


def test_env_values_are_the_text_of_the_file() -> None:
    """A value is what stands there, whatever YAML takes it for (B01, B03, B05)."""
    text = "ZIP: 02142, DAY: 08, LR: 2e-5, NO: no, ON: on, T: true, D: 2024-01-31, BAD: 2026-13-45, E: '', EQ: =, F: 1.50, G: 1:30"
    task = task_of(with_run(f"envs: {{{text}}}"))

    assert task.env == dict(
        pair.replace("''", "").split(": ") if "''" not in pair else ("E", "") for pair in text.split(", ")
    )


def test_envs_through_anchors() -> None:
    """Shared variables by anchor and merge key are fine where they stand in a known field."""
    task = task_of("envs: &e\n  A: 007\nresources: {labels: {a: b}}\nrun: x\nsecrets: {B: }\n")

    assert task.env == {"A": "007"}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_scripts_arrive_byte_by_byte(newline: str) -> None:
    """Indentation, heredocs, tabs, dollars and blanks at the end of a line survive; CR before LF does not (B14, B54)."""
    script = "set -e\ncat <<EOF\n  two\n\ttab\nEOF\necho $$ $(pwd) 'é' \nif a; then\n  b\nfi\n"
    text = "run: |\n" + "".join(f"  {line}\n" for line in script.splitlines())

    assert task_of(text.replace("\n", newline)).run == script


def test_escaped_carriage_returns() -> None:
    """A CRLF written as an escape is still a line end."""
    assert task_of('run: "a\\r\\nb"\nsetup: "c\\r\\n"').run == "a\nb"


def test_scripts_together_are_bounded() -> None:
    """setup and run count together, in bytes."""
    half = "é" * (24 * 1024)
    fits = task_of(f"setup: {half}\nrun: {half}")
    file = parse(f"setup: {half}\nrun: {half}x")

    assert len(fits.run.encode()) == 48 * 1024
    assert [p.code for p in file.problems] == ["too-large"]


@pytest.mark.parametrize(
    ("resources", "pod", "expected"),
    [
        ("high", None, "high"),
        (None, "high", "high"),
        ("high", "high", "high"),
        (None, None, None),
        (None, "~", None),
        ("high", "~", "high"),
    ],
)
def test_priority_class(resources: str | None, pod: str | None, expected: str | None) -> None:
    """The class may be named in either place, and in both when it is the same."""
    text = f"resources: {{priority_class: {resources or '~'}}}\n"
    text += f"config: {{kubernetes: {{pod_config: {{spec: {{priorityClassName: {pod}}}}}}}}}\n" if pod else ""

    assert task_of(with_run(text)).priority_class == expected


def test_two_priority_classes() -> None:
    """Two different classes in one task are a conflict that names both lines."""
    file = parse(
        "run: x\nresources:\n  priority_class: low\nconfig:\n  kubernetes:\n    pod_config:\n      spec:\n"
        "        priorityClassName: high\n"
    )

    assert summary(file.problems) == [("conflict", 8, "config.kubernetes.pod_config.spec.priorityClassName")]
    assert file.problems[0].message == (
        "two priority classes: 'low' in line 3 (resources.priority_class) and 'high' in line 8 "
        "(config.kubernetes.pod_config.spec.priorityClassName): leave one"
    )


@pytest.mark.parametrize(("value", "factor"), [("true", 1.0), ("false", 0.0), ("1", 1.0), ("2.5", 2.5), ("~", None)])
def test_set_pod_resource_limits(value: str, factor: float | None) -> None:
    """False switches limits off, which is not the same as saying nothing."""
    task = task_of(with_run(f"config: {{kubernetes: {{set_pod_resource_limits: {value}}}}}"))

    assert task.set_pod_resource_limits == factor


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("30s", 30), ("5m", 300), ("2h", 7200), ("3d", 259200), ("1.5h", 5400), ("1.2", 2)],
)
def test_timeout(text: str, seconds: int) -> None:
    """A timeout is a duration; a bare number is seconds, and a part of a second is a whole one."""
    assert task_of(annotated(f"timeout: {text}")).timeout_seconds == seconds


def test_our_annotations_need_no_quotes_and_leave_no_trace() -> None:
    """They are read by their text, and never become annotations of a pod."""
    task = task_of(annotated("suspend: true", "max-recoveries: 7", "rerun: 2"))

    assert (task.suspend, task.max_recoveries, task.custom_metadata) == (True, 7, {})


def test_a_sidecar_has_its_own_command() -> None:
    """Only the main container's command is ours; null clears what a lower layer says, and stays."""
    pod = "{spec: {containers: [{name: side, command: [a], args: [b]}], nodeSelector: , restartPolicy: Never}, metadata: {labels: {a: }}}"
    task = task_of(with_run(f"config: {{kubernetes: {{pod_config: {pod}}}}}"))

    assert task.pod_config["spec"]["nodeSelector"] is None
    assert task.pod_config["metadata"]["labels"] == {"a": None}


SKYPILOT = {
    "": (
        "name resources num_nodes setup run envs secrets managed_secrets file_mounts file_mounts_mapping workdir volumes "
        "volume_mounts config event_callback service pool inputs outputs api_server_access _metadata _user_specified_yaml "
        "experimental execution",
        TASK,
    ),
    "resources": (
        "cloud region zone infra cpus memory accelerators instance_type use_spot job_recovery volumes disk_size "
        "ephemeral_storage disk_tier network_tier local_disk max_hourly_cost ports labels accelerator_args "
        "_no_missing_accel_warnings image_id autostop priority priority_class _docker_login_config _is_image_managed "
        "_requires_fuse _cluster_config_overrides any_of ordered hooks spot_recovery",
        RESOURCES,
    ),
    "resources.job_recovery": ("strategy max_restarts_on_errors recover_on_exit_codes", JOB_RECOVERY),
    "config": ("docker nvidia_gpus ssh kubernetes azure gcp vast slurm active_workspace hooks", CONFIG),
    "config.kubernetes": (
        "custom_metadata pod_config provision_timeout dws kueue quota remote_identity enable_docker "
        "set_pod_resource_limits namespace context_configs allowed_contexts autoscaler allowed_nodes rdma networking ports "
        "max_inline_command_length high_availability post_provision_runcmd apt_mirrors pricing auto_mounts",
        KUBERNETES,
    ),
}


@pytest.mark.parametrize("section", SKYPILOT)
def test_every_field_of_skypilot_is_in_a_table(section: str) -> None:
    """The schema of SkyPilot 0.14.1, field by field: none can be dropped in silence."""
    names, fields = SKYPILOT[section]

    assert set(names.split()) - set(fields) == set()
    assert all(field.text and bool(field.shapes) == (field.fate == "taken") for field in fields.values())


@pytest.mark.parametrize(
    ("section", "name"), [(section, name) for section, (_, fields) in SKYPILOT.items() for name in fields]
)
def test_every_refused_or_ignored_field_is_named(section: str, name: str) -> None:
    """Whatever the table says of a field is what happens to it."""
    field = SKYPILOT[section][1][name]
    nested: Any = {name: "x"}
    for part in reversed(section.split(".") if section else []):
        nested = {part: nested}
    file = parse(pyyaml.safe_dump({"run": "x", **nested}))
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
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["k8s", "k8s/a", "aws", "H100:8", "4x", "16Gi", "secrets:A", "system-x", "true", "{{ a }}"])
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=30
)


@given(value=st.dictionaries(st.sampled_from([*TASK, "kind", "apiVersion", "x"]), TREES, max_size=6) | TREES)
def test_any_tree_ends_in_a_task_or_problems(value: Any) -> None:
    """Nothing that YAML can say raises, and the answer is always the same."""
    text = pyyaml.safe_dump(value, allow_unicode=True)
    file = parse(text)

    assert file == parse(text)
    assert file.task or file.problems or value is None
    assert not (file.task and file.problems)
    assert all(len(p.message) < 1200 for p in file.problems)


RESOURCE_TREES = st.fixed_dictionaries({}, optional={name: TREES for name in RESOURCES})
POD_TREES = st.fixed_dictionaries(
    {},
    optional={
        "spec": TREES | st.fixed_dictionaries({"containers": st.lists(TREES)}),
        "metadata": TREES | st.fixed_dictionaries({"labels": TREES, "annotations": TREES}),
    },
)


@given(resources=RESOURCE_TREES, alternatives=st.lists(RESOURCE_TREES, max_size=3), pod=POD_TREES, metadata=POD_TREES)
def test_any_section_ends_in_a_task_or_problems(
    resources: dict[str, Any], alternatives: list[Any], pod: Any, metadata: Any
) -> None:
    """The same, deeper down."""
    kubernetes = {"pod_config": pod, "custom_metadata": metadata.get("metadata")}
    value = {"run": "x", "resources": {**resources, "any_of": alternatives}, "config": {"kubernetes": kubernetes}}
    text = pyyaml.safe_dump(value, allow_unicode=True)

    assert parse(text) == parse(text)


@given(data=st.binary() | st.text().map(lambda text: f"run: {text}".encode("utf-8", "replace")))
def test_any_bytes_end_in_a_task_or_problems(data: bytes) -> None:
    """Nothing that can be committed raises."""
    assert parse(data) == parse(data)
