"""Task files that can't be accepted: each rule with its place, and the words that say what to do."""

from __future__ import annotations

import pytest

from reconciler.core.task import parse_task_file
from reconciler.model import Severity

PATH = "jobs/team/train.yaml"

# id, file, code, line, field, part of the message
TASK = [
    ("run-a-list", "run: [a]", "wrong-type", 1, "run", "run must be text, not a list"),
    ("run-int", "run: 5", "wrong-type", 1, "run", "run must be text, not an integer: write it in quotes"),
    ("no-run", "name: x", "nothing-to-run", 1, "run", "there is nothing to run"),
    ("blank-run", "run: '  '", "nothing-to-run", 1, "run", "there is nothing to run"),
    ("nul-in-run", 'run: "a\\0b"', "nul-byte", 1, "run", "run has a NUL in it"),
    ("long", f"setup: &a {'é' * 262145}\nrun: *a", "too-large", 2, "run", "1048580 bytes, and at most 1048576 (1 MiB)"),
    ("list", "- run: x", "wrong-type", 1, None, "a task is a mapping with at least run:, not a list"),
    ("text", "just text", "wrong-type", 1, None, "a task is a mapping"),
    ("manifest", "apiVersion: v1\nkind: Pod\nspec: 5", "not-a-task", 2, "kind", "manifest of kind 'Pod' is no task"),
    ("service", "resources: 5\nservice:\n  port: 80", "unsupported-field", 2, "service", "a service never completes"),
    ("pool", "pool: {}\nrunn: x", "unsupported-field", 1, "pool", "a pool never completes"),
    ("two", "a: 1\n---\nrun: x", "multiple-documents", 3, None, "2 tasks in one file are a pipeline"),
    ("header", "name: p\n---\nrun: x\n---\nrun: y\n---\n", "multiple-documents", 3, None, "2 tasks in one file"),
    (
        "job-group",
        "name: p\nexecution: parallel\nprimary_tasks: [a]\n---\nname: a\n---\nname: b",
        "multiple-documents",
        5,
        None,
        "2 tasks in one file are a job group",
    ),
    ("execution", "run: x\nexecution: serial", "unsupported-field", 2, "execution", "a file is one job"),
    ("typo", "run: x\nresource: {}", "unknown-field", 2, "resource", "no field resource; did you mean resources?"),
    ("typo-capital", "run: x\nEnvs: {}", "unknown-field", 2, "Envs", "did you mean envs?"),
    ("holder-of-anchors", "run: x\nx: &a 1", "unknown-field", 2, "x", "there is no field x"),
    ("env-file", "run: x\nenv_file: ../.env", "unsupported-field", 2, "env_file", "under envs"),
    ("no-nodes", "run: x\nnum_nodes: 0", "invalid-value", 2, "num_nodes", "from 1 to 10000, not '0'"),
    ("nodes-as-text", "run: x\nnum_nodes: '2'", "wrong-type", 2, "num_nodes", "an integer, not text"),
    ("nodes-as-bool", "run: x\nnum_nodes: true", "wrong-type", 2, "num_nodes", "not true or false"),
    ("name-a-number", "run: x\nname: 123", "wrong-type", 2, "name", "name must be text, not an integer"),
    ("name-umlaut", "run: x\nname: Größe", "invalid-name", 2, "name", "'Größe' has 'ö' in it: use a-z"),
    ("name-template", "run: x\nname: '{{ n }}'", "invalid-name", 2, "name", "has '{' in it"),
    ("name-of-nothing", "run: x\nname: _", "invalid-name", 2, "name", "neither a letter nor a digit"),
    ("name-long", "run: x\nname: " + "a" * 47, "invalid-name", 2, "name", "has 47 characters; at most 46 leave room"),
    (
        "null-envs",
        "run: x\nenvs:\n  A:\n  B: 1\n  C:",
        "missing-value",
        3,
        "envs.A",
        "envs.A has no value, nor have C: write one",
    ),
    ("env-a-map", "run: x\nenvs: {A: {b: 1}}", "wrong-type", 2, "envs.A", "not a mapping"),
    ("envs-a-list", "run: x\nenvs: [A=1]", "wrong-type", 2, "envs", "envs must be a mapping, not a list"),
    ("env-name", "run: x\nenvs: {A-B: 1}", "invalid-value", 2, "envs.A-B", "can't name a variable"),
    ("env-nul", 'run: x\nenvs: {A: "\\0"}', "nul-byte", 2, "envs.A", "has a NUL in it"),
    ("secret-a-map", "run: x\nsecrets: {A: {b: c}}", "wrong-type", 2, "secrets.A", "not a mapping"),
    ("secret-item", "run: x\nsecrets: [A]", "invalid-value", 2, "secrets[0]", "must be secrets:NAME"),
    ("secret-scope", "run: x\nsecrets: ['secrets:a.b']", "invalid-value", 2, "secrets[0]", "can't name a variable"),
    ("env-and-secret", "run: x\nenvs: {A: 1}\nsecrets: {A: }", "conflict", 3, "secrets.A", "in line 2, in envs too"),
    ("volumes", "run: x\nvolumes: {/a: B}", "invalid-value", 2, "volumes['/a']", "PersistentVolumeClaim"),
    (
        "experimental",
        "run: x\nexperimental:\n  config_overrides: {}",
        "unsupported-field",
        2,
        "experimental",
        "write what was in experimental.config_overrides under config",
    ),
    ("config-gcp", "run: x\nconfig: {gcp: {}}", "unsupported-field", 2, "config.gcp", "Kubernetes only"),
]

# id, resources, code, field below resources, part of the message
RESOURCES = [
    ("template", "{cpus: {{ n }}}", "unrendered-template", ".cpus", "commit the rendered file"),
    ("cpu", "{cpu: 4}", "unknown-field", ".cpu", "did you mean cpus?"),
    ("cpus-0", "{cpus: 0}", "invalid-value", ".cpus", "'0' is no number"),
    ("cpus-milli", "{cpus: 500m}", "invalid-value", ".cpus", "write 4, 0.5"),
    ("cpus-bool", "{cpus: true}", "wrong-type", ".cpus", "a number or text"),
    ("times", "{accelerators: H100x8}", "invalid-value", ".accelerators", "did you mean H100:8?"),
    ("vendor", "{accelerators: nvidia-h100-80gb}", "invalid-value", ".accelerators", "did you mean H100-80GB?"),
    (
        "two-choices",
        "{accelerators: [A100:8, H100:8], ordered: [{accelerators: T4}]}",
        "conflict",
        ".accelerators",
        "write one list",
    ),
    ("16G", "{memory: 16G}", "invalid-value", ".memory", "'16G' has half a unit: write 16Gi or 16GB"),
    ("memory-0", "{memory: 0}", "invalid-value", ".memory", "no amount"),
    ("disk", "{disk_size: 1500MB}", "invalid-value", ".disk_size", "whole GiB"),
    ("disk+", "{disk_size: 100+}", "invalid-value", ".disk_size", "whole GiB"),
    ("disk-half", "{disk_size: 1.5}", "wrong-type", ".disk_size", "an integer"),
    ("gcp", "{infra: gcp/us-central1}", "not-kubernetes", ".infra", "'gcp/us-central1' is not Kubernetes"),
    ("aws", "{cloud: aws}", "not-kubernetes", ".cloud", "'aws' is not"),
    ("ssh", "{infra: ssh/pool}", "not-kubernetes", ".infra", "'ssh/pool'"),
    ("any-in-us", "{infra: '*/us'}", "not-kubernetes", ".infra", "'*/us'"),
    ("k8s/", "{infra: k8s/}", "invalid-value", ".infra", "an empty part"),
    ("k8s//a", "{infra: k8s//a}", "invalid-value", ".infra", "an empty part"),
    ("infra+cloud", "{infra: k8s, cloud: aws}", "invalid-value", ".infra", "can't stand"),
    ("region", "{region: a}", "invalid-value", ".region", "k8s/<context>"),
    ("zone", "{zone: a}", "unsupported-field", ".zone", "nodeSelector"),
    (
        "instance-type",
        "{instance_type: m5.large}",
        "unsupported-field",
        ".instance_type",
        "write cpus, memory and accelerators",
    ),
    ("ami", "{image_id: ami-0a1b}", "invalid-value", ".image_id", "no container"),
    ("sky", "{image_id: 'skypilot:gpu'}", "invalid-value", ".image_id", "no c"),
    ("image", "{image_id: 'a b'}", "invalid-value", ".image_id", "'a b'"),
    ("image-map", "{image_id: {us-east-1: ami-1}}", "invalid-value", ".image_id.us-east-1", "'ami-1'"),
    ("label", "{labels: {a: 1}}", "wrong-type", ".labels.a", "labels are text"),
    ("label-text", "{labels: {a: b c}}", "invalid-value", ".labels.a", "'b c'"),
    ("key", "{labels: {-: b}}", "invalid-value", ".labels['-']", "a key of"),
    (
        "our-label",
        "{labels: {job-reconciler/owner: b}}",
        "reserved",
        ".labels.job-reconciler/owner",
        "is ours and means nothing here",
    ),
    ("gpu-8", "{accelerators: 8}", "wrong-type", ".accelerators", "or a list"),
    ("gpu-0", "{accelerators: H100:0}", "invalid-value", ".accelerators", "'0'"),
    ("gpu-x", "{accelerators: H100:x}", "invalid-value", ".accelerators", "'x'"),
    ("gpu-1-2", "{accelerators: 'H100:1:2'}", "invalid-value", ".accelerators", "'1:2'"),
    ("gpu-'8'", "{accelerators: {H100: '8'}}", "wrong-type", ".accelerators.H100", "a number"),
    ("gpu-{}", "{accelerators: {}}", "invalid-value", ".accelerators", "no GPU"),
    ("80GB", "{accelerators: 80GB+}", "invalid-value", ".accelerators", "by name"),
    ("nvidia:80GB", "{accelerators: 'nvidia:80GB:8'}", "invalid-value", ".accelerators", ""),
    ("tpu", "{accelerators: tpu-v4-8}", "invalid-value", ".accelerators", "TPUs"),
    (
        "system-class",
        "{priority_class: system-node-critical}",
        "invalid-value",
        ".priority_class",
        "for the cluster's own pods",
    ),
    ("class-name", "{priority_class: A_b}", "invalid-value", ".priority_class", "'A_b'"),
    ("spot", "{spot_recovery: F}", "unsupported-field", ".spot_recovery", "job_recovery"),
    (
        "recovery-typo",
        "{job_recovery: {max_restarts: 1}}",
        "unknown-field",
        ".job_recovery.max_restarts",
        "did you mean max_restarts_on_errors?",
    ),
    (
        "restarts",
        "{job_recovery: {max_restarts_on_errors: -1}}",
        "invalid-value",
        ".job_recovery.max_restarts_on_errors",
        "from 0 to 99998",
    ),
    (
        "exit-code-256",
        "{job_recovery: {recover_on_exit_codes: 256}}",
        "invalid-value",
        ".job_recovery.recover_on_exit_codes",
        "'256' is no exit code",
    ),
    (
        "exit-code-twice",
        "{job_recovery: {recover_on_exit_codes: [3, 3]}}",
        "invalid-value",
        ".job_recovery.recover_on_exit_codes[1]",
        "exit code 3 stands twice",
    ),
    (
        "no-alternative",
        "{any_of: [{infra: aws}, {cloud: gcp, region: eu}]}",
        "not-kubernetes",
        ".any_of",
        "no alternative in resources.any_of is on Kubernetes ([0] aws, [1] gcp/eu)",
    ),
    ("any-of-none", "{any_of: []}", "not-kubernetes", ".any_of", "it is empty"),
    ("both", "{any_of: [{cpus: 1}], ordered: [{cpus: 2}]}", "conflict", ".ordered", "both"),
    ("nested", "{any_of: [{any_of: []}]}", "unsupported-field", ".any_of[0].any_of", "can't be nested"),
    *(
        (
            f"exit-code-{code}",
            f"{{job_recovery: {{recover_on_exit_codes: [1, {code}]}}}}",
            "reserved",
            ".job_recovery.recover_on_exit_codes[1]",
            f"exit code {code} has a meaning of its own here",
        )
        for code in (0, 217, 218, 219, 255)
    ),
]

# id, config.kubernetes, code, field below it, part of the message
KUBERNETES = [
    ("pod-confg", "{pod_confg: {}}", "unknown-field", ".pod_confg", "did you mean pod_config?"),
    (
        "context-configs",
        "{context_configs: {}}",
        "unsupported-field",
        ".context_configs",
        "write pod_config here, or context_configs in .sky.yaml",
    ),
    ("namespace", "{namespace: A}", "invalid-value", ".namespace", "'A'"),
    (
        "limits-factor",
        "{set_pod_resource_limits: 0.5}",
        "invalid-value",
        ".set_pod_resource_limits",
        "true, false or a number from 1 on",
    ),
    (
        "custom-name",
        "{custom_metadata: {name: a}}",
        "unsupported-field",
        ".custom_metadata.name",
        "named after the job",
    ),
    (
        "custom-label",
        "{custom_metadata: {labels: {a: yes please}}}",
        "invalid-value",
        ".custom_metadata.labels.a",
        "'yes please'",
    ),
    (
        "custom-annotation",
        "{custom_metadata: {annotations: {a: 1}}}",
        "wrong-type",
        ".custom_metadata.annotations.a",
        "annotations are text, so write it in quotes",
    ),
]

# id, config.kubernetes.pod_config, code, field below it, part of the message
POD_CONFIG = [
    ("pod-config-list", "[]", "wrong-type", "", "must be a mapping"),
    ("pod-config-typo", "{speck: {}}", "unknown-field", ".speck", "did you mean spec?"),
    ("pod-kind", "{kind: Pod}", "unsupported-field", ".kind", "not an object"),
    ("pod-namespace", "{metadata: {namespace: a}}", "unsupported-field", ".metadata.namespace", "kubernetes.namesp"),
    ("pod-label", "{metadata: {labels: {a: true}}}", "wrong-type", ".metadata.labels.a", "labels are text"),
    ("restart", "{spec: {restartPolicy: Always}}", "unsupported-field", ".spec.restartPolicy", "must be Never"),
    ("restart-null", "{spec: {restartPolicy: }}", "unsupported-field", ".spec.restartPolicy", "must be Never"),
    (
        "deadline",
        "{spec: {activeDeadlineSeconds: 60}}",
        "unsupported-field",
        ".spec.activeDeadlineSeconds",
        "write job-reconciler/timeout",
    ),
    ("priority", "{spec: {priority: 5}}", "unsupported-field", ".spec.priority", "write priorityClassName"),
    (
        "policy",
        "{spec: {preemptionPolicy: Never}}",
        "unsupported-field",
        ".spec.preemptionPolicy",
        "comes from the PriorityClass",
    ),
    (
        "system",
        "{spec: {priorityClassName: system-cluster-critical}}",
        "invalid-value",
        ".spec.priorityClassName",
        "for the cluster's own pods",
    ),
    ("class-int", "{spec: {priorityClassName: 5}}", "wrong-type", ".spec.priorityClassName", "must be text"),
    ("containers", "{spec: {containers: {a: 1}}}", "wrong-type", ".spec.containers", "a list, not a mapping"),
    ("container", "{spec: {containers: [a]}}", "wrong-type", ".spec.containers[0]", "a mapping, not text"),
    (
        "command",
        "{spec: {containers: [{command: [a]}]}}",
        "unsupported-field",
        ".spec.containers[0].command",
        "write setup and run",
    ),
    (
        "args",
        "{spec: {containers: [{name: x}, {name: ray-node, args: }]}}",
        "unsupported-field",
        ".spec.containers[1].args",
        "write setup and run",
    ),
]

# annotation below job-reconciler/, its value, code, part of the message
ANNOTATIONS = [
    ("timout", "", "unknown-field", "did you mean job-reconciler/timeout?"),
    ("suspend", "'yes'", "invalid-value", "must be true or false, not 'yes'"),
    ("on-change", "recreate", "invalid-value", "must be replace or wait, not 'recreate'"),
    ("timeout", "soon", "invalid-value", "must be a duration from 1s on"),
    ("timeout", "0", "invalid-value", "must be a duration from 1s on"),
    ("timeout", "-5", "invalid-value", "must be a duration from 1s on"),
    ("timeout", "[1]", "wrong-type", "or true or false, not a list"),
    ("max-recoveries", "0", "invalid-value", "must be a number from 1 to 99998, not '0'"),
    ("max-recoveries", "99999", "invalid-value", "must be a number from 1 to 99998"),
    ("max-recoveries", "1e3", "invalid-value", "must be a number from 1 to 99998"),
    ("secret", "My_Secret", "invalid-value", "must be the name of a Kubernetes Secret, not 'My_Secret'"),
]


def check(text: str, expected: tuple[str, int, str | None], message: str) -> None:
    file = parse_task_file(PATH, text.encode())

    assert file.task is None
    assert [(p.severity, p.path, (p.code, p.line, p.field)) for p in file.problems] == [
        (Severity.ERROR, PATH, expected)
    ]
    assert message in file.problems[0].message


@pytest.mark.parametrize(("text", "code", "line", "field", "message"), [pytest.param(*r[1:], id=r[0]) for r in TASK])
def test_task(text: str, code: str, line: int, field: str | None, message: str) -> None:
    """A task is one mapping with a command; what is not known, or can't work here, is named."""
    check(text, (code, line, field), message)


@pytest.mark.parametrize(("text", "code", "field", "message"), [pytest.param(*r[1:], id=r[0]) for r in RESOURCES])
def test_resources(text: str, code: str, field: str, message: str) -> None:
    """Sizes, places and choices that no pod can have."""
    check(f"run: x\nresources: {text}", (code, 2, f"resources{field}"), message)


@pytest.mark.parametrize(("text", "code", "field", "message"), [pytest.param(*r[1:], id=r[0]) for r in KUBERNETES])
def test_kubernetes(text: str, code: str, field: str, message: str) -> None:
    """Settings that belong elsewhere, or that the API server would refuse."""
    check(f"run: x\nconfig: {{kubernetes: {text}}}", (code, 2, f"config.kubernetes{field}"), message)


@pytest.mark.parametrize(("text", "code", "field", "message"), [pytest.param(*r[1:], id=r[0]) for r in POD_CONFIG])
def test_pod_config(text: str, code: str, field: str, message: str) -> None:
    """What would take the job's life out of our hands, in whatever way the layers are merged."""
    text = f"run: x\nconfig: {{kubernetes: {{pod_config: {text}}}}}"
    check(text, (code, 2, f"config.kubernetes.pod_config{field}"), message)


@pytest.mark.parametrize(("name", "value", "code", "message"), ANNOTATIONS)
def test_our_annotations(name: str, value: str, code: str, message: str) -> None:
    """Our own annotations are as strict as fields."""
    head = "run: x\nconfig:\n  kubernetes:\n    custom_metadata:\n      annotations:\n"
    field = f"config.kubernetes.custom_metadata.annotations.job-reconciler/{name}"
    check(f"{head}        job-reconciler/{name}: {value}\n", (code, 6, field), message)


def test_two_priority_classes() -> None:
    """Two different classes in one task are a conflict that names both lines."""
    file = parse_task_file(
        PATH,
        b"run: x\nresources:\n  priority_class: low\nconfig:\n  kubernetes:\n    pod_config:\n      spec:\n"
        b"        priorityClassName: high\n",
    )

    assert [(p.code, p.line) for p in file.problems] == [("conflict", 8)]
    assert file.problems[0].message == (
        "two priority classes: 'low' in line 3 (resources.priority_class) and 'high' in line 8 "
        "(config.kubernetes.pod_config.spec.priorityClassName): leave one"
    )


def test_no_secret_in_any_message() -> None:
    """What stands under secrets, or of a wrong type under envs, is in no message (promise 11)."""
    file = parse_task_file(PATH, b"run: 5\nsecrets: {A: hf_abc}\nenvs: {B: [hf_abc], C: {d: hf_abc}}\n")
    listed = parse_task_file(PATH, b"run: x\nsecrets: [A=hf_abc, 'secrets:B=hf_abc']\n")

    assert [p.code for p in file.problems] == ["wrong-type", "inline-secret", "wrong-type", "wrong-type"]
    assert [p.code for p in listed.problems] == ["invalid-value", "invalid-value"]
    assert not any("hf_abc" in p.message for p in (*file.problems, *listed.problems))
