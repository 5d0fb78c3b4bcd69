"""Task files: what each field becomes. What is refused stands in test_task_refused."""

from __future__ import annotations

import dataclasses

import pytest

from reconciler.core.task import parse_task_file
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

    assert [(problem.code, problem.line) for problem in task.warnings] == [("ignored-field", 31)]
    assert dataclasses.replace(task, task_hash="", warnings=()) == Task(
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
        ("envs: {A: 1_000, B: 'no'}", "env-text", "envs.A", 'A is "1_000" here and "1000" there; quote it'),
        ("envs: {A: 1:30, B: '1:30'}", "env-text", "envs.A", 'A is "1:30" here and "90" there; quote it'),
        ("envs: {A: x, B: no}", "env-text", "envs.B", 'B is "no" here and "False" there; quote it'),
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


@pytest.mark.parametrize("form", ["{A: , 'secrets:B': null}", "['secrets:A', 'secrets:B']"])
def test_secrets_by_reference(form: str) -> None:
    """Both of SkyPilot's forms name keys of the Secret."""
    assert task_of(with_run(f"secrets: {form}")).secrets == {"A": "A", "B": "B"}


def test_env_values_are_the_text_of_the_file() -> None:
    """A value is what stands there, whatever YAML takes it for (B01, B03, B05)."""
    texts = {
        "ZIP": "02142",
        "DAY": "08",
        "LR": "2e-5",
        "COUNTRY": "NO",
        "VERBOSE": "on",
        "FLAG": "true",
        "RELEASE": "2024-01-31",
        "NO_DATE": "2026-13-45",
        "EQUALS": "=",
        "RATIO": "1.50",
        "TIME": "1:30",
    }
    lines = "".join(f"  {name}: {text}\n" for name, text in texts.items())

    assert task_of(f"envs:\n{lines}  EMPTY: ''\nrun: x\n").env == {**texts, "EMPTY": ""}


def test_envs_through_anchors() -> None:
    """Shared variables by anchor and merge key are fine where they stand in a known field."""
    task = task_of("envs: &e\n  A: 007\nresources: {labels: {a: b}}\nrun: x\nsecrets: {B: }\n")

    assert task.env == {"A": "007"}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_scripts_arrive_byte_by_byte(newline: str) -> None:
    """Indentation, heredocs, tabs, dollars and blanks at the end of a line survive; CR before LF goes (B14, B54)."""
    script = "set -e\ncat <<EOF\n  two\n\ttab\nEOF\necho $$ $(pwd) 'é' \nif a; then\n  b\nfi\n"
    text = "run: |\n" + "".join(f"  {line}\n" for line in script.splitlines())

    assert task_of(text.replace("\n", newline)).run == script


def test_escaped_carriage_returns() -> None:
    """A CRLF written as an escape is still a line end."""
    assert task_of('run: "a\\r\\nb"\nsetup: "c\\r\\n"').run == "a\nb"


def test_scripts_together_are_bounded() -> None:
    """Setup and run count together, in bytes."""
    half = "é" * (256 * 1024)
    fits = task_of(f"setup: &a {half}\nrun: *a")
    file = parse(f"setup: &a {half}x\nrun: *a")

    assert len(fits.run.encode()) == 512 * 1024
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
    spec = "{containers: [{name: side, command: [a], args: [b]}], nodeSelector: , restartPolicy: Never}"
    pod = f"{{spec: {spec}, metadata: {{labels: {{a: }}}}}}"
    task = task_of(with_run(f"config: {{kubernetes: {{pod_config: {pod}}}}}"))

    assert task.pod_config["spec"]["nodeSelector"] is None
    assert task.pod_config["metadata"]["labels"] == {"a": None}


@pytest.mark.parametrize("name", ["[main]", "{a: b}", "1", "true", "null", "''"])
def test_a_container_may_have_any_kind_of_name(name: str) -> None:
    """One odd value is that file's problem, here or at the server, and never a crash for all."""
    text = f"run: x\nconfig: {{kubernetes: {{pod_config: {{spec: {{containers: [{{name: {name}}}]}}}}}}}}\n"

    assert parse_task_file("jobs/a.yaml", text.encode()).name == "a"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("num_nodes: 2", "where num_nodes is above 1"),
        ("resources: {job_recovery: {max_restarts_on_errors: 3}}", "where max_restarts_on_errors is above 0"),
        ("num_nodes: 1\nresources: {job_recovery: {max_restarts_on_errors: 0}}", None),
    ],
)
def test_a_bound_on_recoveries_that_bounds_nothing_is_told(more: str, why: str | None) -> None:
    """At the line of the annotation; without the annotation there is nothing to tell."""
    config = "config: {kubernetes: {custom_metadata: {annotations: {\n  job-reconciler/max-recoveries: 5}}}}\n"
    with_bound = parse_task_file("jobs/a.yaml", f"{config}run: x\n{more}\n".encode()).task
    without = parse_task_file("jobs/a.yaml", f"run: x\n{more}\n".encode()).task

    assert with_bound
    assert without
    assert [(p.code, p.line, p.column) for p in with_bound.warnings] == ([("ignored-field", 2, 3)] if why else [])
    assert all(why and why in p.message for p in with_bound.warnings)
    assert (without.warnings, without.max_recoveries) == ((), 1000)
