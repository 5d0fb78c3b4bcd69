"""Limits: what a repository may ask for, by whichever layer it asks."""

from __future__ import annotations

import pytest

from reconciler.core.limits import check_limits
from reconciler.core.settings import parse_site
from reconciler.core.task import parse_task_file
from reconciler.model import Limits, Severity, Site, Task


def task_of(text: str) -> Task:
    file = parse_task_file("jobs/a.yaml", f"run: x\n{text}\n".encode())
    assert file.task is not None, file.problems
    return file.task


def site_of(sky: str) -> Site:
    site, problems = parse_site({".sky.yaml": sky.encode()})
    assert problems == []
    return site


def pod(spec: str) -> str:
    return f"config: {{kubernetes: {{pod_config: {{spec: {spec}}}}}}}"


FIELD = "config.kubernetes.pod_config.spec.priorityClassName"
ALL = Limits(priority_classes=("low",), images=("python:*", "ok/*"), namespaces=("jobs",), gpus=8)
JOBS = "kubernetes: {namespace: jobs}"


@pytest.mark.parametrize(
    ("task", "sky"),
    [
        ("", JOBS),
        ("config: {kubernetes: {namespace: jobs}}", ""),
        ("resources: {priority_class: low, image_id: ok/a, accelerators: H100:8}", JOBS),
        ("resources: {accelerators: H100:4}\nnum_nodes: 2", JOBS),
        (
            "resources: {accelerators: H100:8}\n" + pod("{containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}"),
            JOBS,
        ),
        (pod("{containers: [{name: s, image: ok/s, resources: {limits: {cpu: 64, memory: 1Gi}}}]}"), JOBS),
        ("resources: {infra: k8s/a}", "kubernetes: {namespace: jobs, context_configs: {b: {namespace: x}}}"),
    ],
)
def test_within_limits(task: str, sky: str) -> None:
    """What is allowed passes."""
    assert check_limits(task_of(task), (ALL,), site_of(sky)) == []


@pytest.mark.parametrize(
    ("task", "sky", "field", "message"),
    [
        pytest.param(*row[1:], id=row[0])
        for row in [
            (
                "class",
                "resources: {priority_class: high}",
                JOBS,
                "resources.priority_class",
                "class 'high' is not among",
            ),
            ("class-pod", pod("{priorityClassName: high}"), JOBS, FIELD, "reconciler.yaml allows (low)"),
            (
                "class-site",
                "",
                "kubernetes: {namespace: jobs, pod_config: {spec: {priorityClassName: high}}}",
                "resources.priority_class",
                "'high'",
            ),
            (
                "class-context",
                "",
                "kubernetes: {namespace: jobs, context_configs: {a: {pod_config: {spec: {priorityClassName: high}}}}}",
                "resources.priority_class",
                "'high'",
            ),
            ("image", "resources: {image_id: evil/a}", JOBS, "resources.image_id", "image 'evil/a' is not among"),
            ("image-pod", pod("{initContainers: [{name: i, image: evil/a}]}"), JOBS, "resources.image_id", "'evil/a'"),
            (
                "image-site",
                "",
                "kubernetes: {namespace: jobs, pod_config: {spec: {containers: [{name: s, image: evil/a}]}}}",
                "resources.image_id",
                "'evil/a'",
            ),
            (
                "image-volume",
                pod("{volumes: [{name: v, image: {reference: evil/a}}]}"),
                JOBS,
                "resources.image_id",
                "'evil/a'",
            ),
            (
                "namespace",
                "config: {kubernetes: {namespace: x}}",
                JOBS,
                "config.kubernetes.namespace",
                "'x' is not among",
            ),
            ("namespace-site", "", "kubernetes: {namespace: x}", "config.kubernetes.namespace", "namespace 'x'"),
            (
                "namespace-context",
                "",
                "kubernetes: {namespace: jobs, context_configs: {a: {namespace: x}}}",
                "config.kubernetes.namespace",
                "'x'",
            ),
            (
                "no-namespace",
                "",
                "",
                "config.kubernetes.namespace",
                "no namespace is named, and its default is not among",
            ),
            (
                "gpus",
                "resources: {accelerators: H100:9}",
                JOBS,
                "resources.accelerators",
                "9 GPUs on 1 node(s) are more",
            ),
            (
                "nodes",
                "resources: {accelerators: H100:8}\nnum_nodes: 2",
                JOBS,
                "resources.accelerators",
                "16 GPUs on 2",
            ),
            (
                "gpus-pod",
                pod("{containers: [{name: main, resources: {requests: {nvidia.com/gpu: '9'}}}]}"),
                JOBS,
                "resources.accelerators",
                "9 GPUs",
            ),
            (
                "gpus-others",
                pod("{containers: [{resources: {limits: {habana.ai/gaudi: 8, aws.amazon.com/neuron: 1}}}]}"),
                JOBS,
                "resources.accelerators",
                "9 GPUs",
            ),
            (
                "gpus-claims",
                pod("{resourceClaims: [{name: gpu, resourceClaimTemplateName: eight}]}"),
                JOBS,
                "config.kubernetes.pod_config.spec.resourceClaims",
                "resourceClaims",
            ),
            (
                "gpus-sidecar",
                "resources: {accelerators: H100:8}\n"
                + pod("{containers: [{name: s, resources: {limits: {amd.com/gpu: 1}}}]}"),
                JOBS,
                "resources.accelerators",
                "9 GPUs",
            ),
        ]
    ],
)
def test_beyond_a_limit(task: str, sky: str, field: str, message: str) -> None:
    """No layer of pod_config is a way around a limit."""
    problems = check_limits(task_of(task), (ALL,), site_of(sky))

    assert [(p.severity, p.code, p.path, p.field) for p in problems] == [
        (Severity.ERROR, "not-allowed", "jobs/a.yaml", field)
    ]
    assert message in problems[0].message


def test_contexts() -> None:
    """A job runs where the site lets it, and nowhere else."""
    site = Site(allowed_contexts=("cpu",))

    assert check_limits(task_of(""), (Limits(),), site) == []
    assert check_limits(task_of("resources: {infra: k8s/cpu}"), (Limits(),), site) == []
    assert [
        (p.code, p.field, p.message) for p in check_limits(task_of("resources: {infra: k8s/gpu}"), (Limits(),), site)
    ] == [("not-allowed", "resources.infra", "the context 'gpu' is not among those that reconciler.yaml allows (cpu)")]


def test_no_limits() -> None:
    """Without limits anything goes; an empty list allows nothing."""
    task = task_of("resources: {priority_class: high, accelerators: H100:64}")

    assert check_limits(task, (Limits(),), Site()) == []
    assert [p.message for p in check_limits(task, (Limits(priority_classes=()),), Site())] == [
        "the priority class 'high' is not among those that reconciler.yaml allows (none)"
    ]


def test_what_several_limits_forbid_is_told_once() -> None:
    """One line names each file that says so."""
    limits = (Limits(images=("ok/*",), gpus=8, file="/l.yaml"), Limits(images=("p:*",), gpus=4))
    task = task_of("resources: {image_id: 'evil:1', accelerators: H100:16}")

    assert [p.message for p in check_limits(task, limits, Site())] == [
        "the image 'evil:1' is not among those that /l.yaml allows (ok/*), nor that reconciler.yaml allows (p:*)",
        "16 GPUs on 1 node(s) are more than the 4 that reconciler.yaml allows a job",
    ]
