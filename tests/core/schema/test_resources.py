"""Resources: every spelling of SkyPilot's, and the quantities that Kubernetes gets."""

from __future__ import annotations

import pytest

from reconciler.core.task import parse_task_file
from reconciler.model import Accelerators, Task


def task_of(resources: str) -> Task:
    file = parse_task_file("jobs/a.yaml", f"run: x\nresources: {resources}\n".encode())
    assert file.problems == ()
    assert file.task is not None
    return file.task


@pytest.mark.parametrize(
    ("written", "cpus"),
    [
        ("4", "4"),
        ('"4"', "4"),
        ("4+", "4"),
        ('"4+ "', "4"),
        ('"4 "', "4"),
        ("0.5", "500m"),
        (".25", "250m"),
        ("1e1", "10"),
        ("0.0015", "2m"),
        ("0x10", "16"),
    ],
)
def test_cpus(written: str, cpus: str) -> None:
    """A number of CPUs, rounded up to a thousandth; a plus means nothing."""
    assert task_of(f"{{cpus: {written}}}").resources.cpus == cpus


@pytest.mark.parametrize(
    ("written", "memory"),
    [
        ("16", "16Gi"),
        ('"16+"', "16Gi"),
        ("16GB", "16Gi"),
        ("16Gi", "16Gi"),
        ('"16 GB"', "16Gi"),
        ('"16gb+"', "16Gi"),
        ("16384MB", "16Gi"),
        ("512Mi", "512Mi"),
        ("0.5", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1TB", "1024Gi"),
        ("1PB", "1048576Gi"),
        ("1048576KB", "1Gi"),
        ("0.1", "103Mi"),
        ("4x", "32Gi"),
        ("0.5x", "4Gi"),
    ],
)
def test_memory(written: str, memory: str) -> None:
    """GiB in all spellings, all binary, rounded up to a MiB; `4x` is for each of the 8 CPUs."""
    assert task_of(f"{{cpus: 8, memory: {written}}}").resources.memory == memory


@pytest.mark.parametrize(
    ("written", "disk"), [("100", "100Gi"), ('"100"', "100Gi"), ("1TB", "1024Gi"), ("256", "256Gi")]
)
def test_disk(written: str, disk: str) -> None:
    """Whole GiB; 256, which SkyPilot takes for its default and drops, is asked for as any other."""
    assert task_of(f"{{disk_size: {written}}}").resources.disk == disk


@pytest.mark.parametrize(
    ("resources", "cpus", "memory"),
    [
        ("{}", "2", "2Gi"),
        ("{cpus: 0.5}", "500m", "512Mi"),
        ("{memory: 8}", "2", "8Gi"),
        ("{accelerators: H100:8}", "32", "128Gi"),
        ("{accelerators: H100:0.5}", "2", "8Gi"),
        ("{accelerators: H100, cpus: 8}", "8", "32Gi"),
        ("{accelerators: H100, memory: 8}", "4", "8Gi"),
        ("{accelerators: H100, memory: 2x}", "4", "8Gi"),
    ],
)
def test_defaults(resources: str, cpus: str, memory: str) -> None:
    """2 CPUs with 1 GiB each; with GPUs 4 CPUs for each GPU as it was written, and 4 GiB for each CPU."""
    found = task_of(resources).resources

    assert (found.cpus, found.memory) == (cpus, memory)


@pytest.mark.parametrize(
    ("written", "names", "count"),
    [
        ("H100", ("H100",), 1),
        ("H100:8", ("H100",), 8),
        ("'H100 : 8'", ("H100",), 8),
        ("h100:8.0", ("h100",), 8),
        ("H100:0.5", ("H100",), 1),
        ("{H100: 8}", ("H100",), 8),
        ("{H100: }", ("H100",), 1),
        ("{H100: 1.5}", ("H100",), 2),
        ("{L4, T4}", ("L4", "T4"), 1),
        ("{L4: 2, T4: 2}", ("L4", "T4"), 2),
        ("{'A100:8', 'H100:8'}", ("A100", "H100"), 8),
        ("['A100:8', 'H100:8', 'A100:8']", ("A100", "H100"), 8),
        ("['A100-80GB:8', 'H100:4']", ("A100-80GB",), 8),
        ("[H100, 'L4:4']", ("H100",), 1),
        ("MI300X:8", ("MI300X",), 8),
    ],
)
def test_accelerators(written: str, names: tuple[str, ...], count: int) -> None:
    """Alternatives of one count are a choice; of unequal ones the first counts; a part of a GPU is a whole one."""
    assert task_of(f"{{accelerators: {written}}}").resources.accelerators == Accelerators(names, count)


@pytest.mark.parametrize(
    ("resources", "context"),
    [
        ("{}", None),
        ("{infra: k8s}", None),
        ("{infra: Kubernetes}", None),
        ("{infra: 'k8s/*'}", None),
        ("{infra: '*'}", None),
        ("{infra: '*/*'}", None),
        ("{infra: ''}", None),
        ("{infra: k8s/gpu}", "gpu"),
        ("{infra: 'kubernetes/arn:aws:eks:eu:1:cluster/a'}", "arn:aws:eks:eu:1:cluster/a"),
        ("{cloud: kubernetes}", None),
        ("{cloud: K8s, region: gpu}", "gpu"),
    ],
)
def test_context(resources: str, context: str | None) -> None:
    """Kubernetes in all spellings; all after the first slash is the context."""
    assert task_of(resources).context == context


@pytest.mark.parametrize(
    ("written", "image"),
    [
        ("docker:ghcr.io/a/b:1.2", "ghcr.io/a/b:1.2"),
        ("python", "python"),
        ("' python:3.12 '", "python:3.12"),
        ("{docker: 'python:3.12'}", "python:3.12"),
        ("localhost:5000/a/b-c_d:v1", "localhost:5000/a/b-c_d:v1"),
        ("'a.b/c@sha256:0123456789abcdef'", "a.b/c@sha256:0123456789abcdef"),
        ("~", None),
    ],
)
def test_image(written: str, image: str | None) -> None:
    """An image with or without `docker:` before it."""
    assert task_of(f"{{image_id: {written}}}").resources.image == image


@pytest.mark.parametrize(
    ("resources", "cpus", "context"),
    [
        ("{any_of: [{cpus: 4}]}", "4", None),
        ("{cpus: 1, any_of: [{infra: aws}, {infra: k8s/a, cpus: 4}, {infra: k8s/b}]}", "4", "a"),
        ("{cpus: 1, ordered: [{infra: k8s/a}, {cpus: 4}]}", "1", "a"),
        ("{infra: aws, any_of: [{cpus: 3}, {infra: k8s, cpus: 4}]}", "4", None),
        ("{infra: k8s/a, any_of: [{cpus: 3}]}", "3", "a"),
        ("{cloud: aws, region: x, any_of: [{infra: k8s/b, cpus: 3}]}", "3", "b"),
    ],
)
def test_alternatives(resources: str, cpus: str, context: str | None) -> None:
    """The first alternative on Kubernetes is laid over what stands beside the list."""
    task = task_of(resources)

    assert (task.resources.cpus, task.context) == (cpus, context)


def test_labels_of_an_alternative_add_to_the_common_ones() -> None:
    """The others' labels don't leak into the one that is taken, as they do in SkyPilot."""
    task = task_of("{labels: {base: x}, any_of: [{labels: {a: '1'}}, {labels: {b: '2'}}]}")

    assert task.resources.labels == {"base": "x", "a": "1"}


@pytest.mark.parametrize(
    ("recovery", "restarts", "codes"),
    [
        ("{max_restarts_on_errors: 3}", 3, ()),
        ("{recover_on_exit_codes: 33}", 0, (33,)),
        ("{recover_on_exit_codes: [42, 137, 1]}", 0, (1, 42, 137)),
        ("{strategy: , max_restarts_on_errors: }", 0, ()),
    ],
)
def test_job_recovery(recovery: str, restarts: int, codes: tuple[int, ...]) -> None:
    """Exit codes come sorted, as a podFailurePolicy must list them."""
    task = task_of(f"{{job_recovery: {recovery}}}")

    assert (task.max_restarts_on_errors, task.recover_on_exit_codes) == (restarts, codes)


@pytest.mark.parametrize("nested", ["true", "[1]", "[{cpus: 2}]"])
def test_alternatives_are_never_nested(nested: str) -> None:
    """An alternative that is not taken may hold another cloud's fields, but no alternatives of its own."""
    file = parse_task_file("jobs/a.yaml", f"run: x\nresources: {{any_of: [{{}}, {{any_of: {nested}}}]}}".encode())

    assert [(p.code, p.field) for p in file.problems if p.severity == "error"] == [
        ("unsupported-field", "resources.any_of[1].any_of")
    ]
