"""The JSON Schemas for editors: never stricter than the reader, and as strict as one place of a file allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.schema.controls import CONTROLS
from reconciler.core.schema.fields import Shape
from reconciler.core.schema.json_schema import SCHEMAS
from reconciler.core.schema.pod_config import POD_CONFIG
from reconciler.core.schema.settings_fields import CONTEXT, LIMITS, RECONCILER, SKY
from reconciler.core.schema.settings_fields import KUBERNETES as SKY_KUBERNETES
from reconciler.core.schema.task_fields import CUSTOM_METADATA, JOB_RECOVERY, KUBERNETES, RESOURCES, TASK
from reconciler.core.settings import parse_site
from reconciler.core.task import parse_task_file
from reconciler.core.yaml import parse_documents
from reconciler.model import ANNOTATION_PREFIX, Severity

if TYPE_CHECKING:
    from reconciler.core.schema.fields import Fields

ROOT = Path(__file__).resolve().parent.parent.parent.parent
EXAMPLES = sorted([*(ROOT / "jobs").glob("*.yaml"), *(ROOT / "tests/golden/render").glob("*/task.yaml")])
VALIDATORS = {kind: jsonschema_rs.Draft7Validator(schema()) for kind, schema in SCHEMAS.items()}
PATHS = {"sky": ".sky.yaml", "reconciler": "reconciler.yaml"}


def is_valid(kind: str, text: str) -> bool:
    """Tell what the reader says of a file."""
    if kind == "task":
        return parse_task_file("jobs/a.yaml", text.encode()).task is not None
    return not any(p.severity is Severity.ERROR for p in parse_site({PATHS[kind]: text.encode()})[1])


def complaints(kind: str, text: str) -> list[str]:
    """Return the paths of what the schema refuses; of alternatives the one that comes nearest."""
    (document,) = parse_documents(text, "a.yaml")[0]
    return [
        ".".join(str(step) for step in error.instance_path) for error in VALIDATORS[kind].iter_errors(document.value)
    ]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_files_under_schemas_are_up_to_date(kind: str, request: pytest.FixtureRequest) -> None:
    """They are what the tables say, and well formed; --update-golden renews them."""
    text = json.dumps(SCHEMAS[kind](), indent=2) + "\n"
    file = ROOT / "schemas" / f"{kind}.json"
    if request.config.getoption("--update-golden"):
        file.write_text(text, encoding="utf-8")

    jsonschema_rs.meta.validate(SCHEMAS[kind]())
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("file", EXAMPLES, ids=[str(file.relative_to(ROOT)) for file in EXAMPLES])
def test_examples_are_accepted(file: Path) -> None:
    """Nothing in an example is underlined; those of this repository say where their schema is."""
    text = file.read_text(encoding="utf-8")

    assert complaints("task", text) == []
    if file.parent.name == "jobs":
        assert text.startswith("# yaml-language-server: $schema=../schemas/task.json\n")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("task", "{run: x, name: Train_v2 a/b.c}"),
        ("task", "{run: x, name: , resources: , envs: , config: , num_nodes: }"),
        ("task", "{run: x, workdir: , service: , inputs: }"),
        ("task", "{run: x, envs: {A: 1, B: true, C: '', D: 2e-5}}"),
        ("task", "{run: x, secrets: {A: }}"),
        ("task", "{run: x, secrets: ['secrets:A']}"),
        ("task", "{run: x, api_server_access: true, resources: {use_spot: true, autostop: 10m, ports: [1]}}"),
        ("task", "{run: x, resources: {cpus: 4+, memory: 16, accelerators: {H100: 8}, image_id: {docker: a}}}"),
        ("task", "{run: x, resources: {accelerators: [A100, H100], job_recovery: none, labels: {a: b, c: }}}"),
        ("task", "{run: x, resources: {any_of: [{infra: aws, zone: a, instance_type: b}, {infra: k8s, cpus: 2}]}}"),
        ("task", "{run: x, resources: {job_recovery: {strategy: FAILOVER, recover_on_exit_codes: [1, 254]}}}"),
        ("task", "{run: x, volumes: {/data: claim, /new: {size: 10Gi, config: {access_mode: }}}}"),
        ("task", "{run: x, config: {kubernetes: {set_pod_resource_limits: 1.5, namespace: a-b}}}"),
        ("task", "{run: x, config: {kubernetes: {custom_metadata: {annotations: {job-reconciler/suspend: true}}}}}"),
        ("task", "{run: x, config: {kubernetes: {custom_metadata: {annotations: {job-reconciler/timeout: 60}}}}}"),
        ("task", "{run: x, config: {kubernetes: {pod_config: {spec: {containers: [{name: a, command: [b]}]}}}}}"),
        ("task", "{run: x, config: {kubernetes: {pod_config: {spec: {nodeSelector: , priorityClassName: }}}}}"),
        ("sky", "{jobs: {}, kubernetes: {context_configs: {a: , b: {namespace: c}}, ports: x, allowed_contexts: [a]}}"),
        ("sky", "{kubernetes: {pod_config: {spec: {tolerations: []}}, set_pod_resource_limits: true}}"),
        ("reconciler", "{interval: 30s, status_interval: 0, status_branch: none, limits: {gpus: 0, images: ['*']}}"),
        ("reconciler", "{owner: a, contexts: [], history_limit: 0}"),
    ],
)
def test_what_is_valid_is_accepted(kind: str, text: str) -> None:
    """Also what costs a warning, and null, which is absence."""
    assert is_valid(kind, text)
    assert complaints(kind, text) == []


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        ("task", "{name: x}", ""),
        ("task", "{run: ' '}", "run"),
        ("task", "{run: [x]}", "run"),
        ("task", "{run: x, resource: {}}", ""),
        ("task", "{run: x, service: {port: 1}}", "service"),
        ("task", "{run: x, num_nodes: 0}", "num_nodes"),
        ("task", "{run: x, num_nodes: '2'}", "num_nodes"),
        ("task", "{run: x, envs: {A: }}", "envs.A"),
        ("task", "{run: x, envs: {A: [1]}}", "envs.A"),
        ("task", "{run: x, envs: {1A: b}}", "envs"),
        ("task", "{run: x, secrets: [A]}", "secrets.0"),
        ("task", "{run: x, resources: {zone: a}}", "resources.zone"),
        ("task", "{run: x, resources: {cpu: 1}}", "resources"),
        ("task", "{run: x, resources: {any_of: [{cpu: 1}]}}", "resources.any_of.0"),
        ("task", "{run: x, resources: {any_of: [{any_of: []}]}}", "resources.any_of.0.any_of"),
        ("task", "{run: x, resources: {labels: {a: 1}}}", "resources.labels.a"),
        ("task", "{run: x, resources: {job_recovery: {recover_on_exit_codes: [217]}}}",
         "resources.job_recovery.recover_on_exit_codes.0"),
        ("task", "{run: x, volumes: {/data: 5}}", "volumes./data"),
        ("task", "{run: x, volumes: {/data: {size: 1, mode: ro}}}", "volumes./data.mode"),
        ("task", "{run: x, config: {gcp: {}}}", "config.gcp"),
        ("task", "{run: x, config: {kubernetes: {kueue: {}}}}", "config.kubernetes.kueue"),
        ("task", "{run: x, config: {kubernetes: {custom_metadata: {annotations: {job-reconciler/rerum: 1}}}}}",
         "config.kubernetes.custom_metadata.annotations.job-reconciler/rerum"),
        ("task", "{run: x, config: {kubernetes: {custom_metadata: {annotations: {job-reconciler/on-change: never}}}}}",
         "config.kubernetes.custom_metadata.annotations.job-reconciler/on-change"),
        ("task", "{run: x, config: {kubernetes: {custom_metadata: {labels: {job-reconciler/suspend: a}}}}}",
         "config.kubernetes.custom_metadata.labels.job-reconciler/suspend"),
        ("task", "{run: x, config: {kubernetes: {pod_config: {spec: {restartPolicy: Always}}}}}",
         "config.kubernetes.pod_config.spec.restartPolicy"),
        ("task", "{run: x, config: {kubernetes: {pod_config: {spec: {containers: [{command: [b]}]}}}}}",
         "config.kubernetes.pod_config.spec.containers.0.command"),
        ("sky", "{kubernets: {}}", ""),
        ("sky", "{kubernetes: {context_configs: {a: {set_pod_resource_limits: 2}}}}",
         "kubernetes.context_configs.a.set_pod_resource_limits"),
        ("reconciler", "{interval: [1]}", "interval"),
        ("reconciler", "{limits: {gpu: 1}}", "limits"),
        ("reconciler", "{history_limit: -1}", "history_limit"),
    ],
)  # fmt: skip
def test_what_is_underlined_is_invalid(kind: str, text: str, path: str) -> None:
    """The place of the complaint is that of the mistake."""
    assert not is_valid(kind, text)
    assert complaints(kind, text)[:1] == [path]


SCALARS = st.sampled_from([None, True, 0, 2.5, "", "a", "30s"])
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["A", "name"]), SCALARS, max_size=2)
OF_SHAPE: dict[Shape, list[Any]] = {
    Shape.TEXT: ["a", "k8s", "4x", "2", "30s", "true"],
    Shape.INTEGER: [0, 1, 2, 100],
    Shape.NUMBER: [1, 2.5],
    Shape.BOOLEAN: [True, False],
    Shape.MAPPING: [{}, {"A": "a"}, {"A": None}, {"H100": 2}, {"containers": [{"env": []}, {"name": "a", "args": []}]}],
    Shape.LIST: [[], ["a"], ["secrets:A"], [1], [{}], [{"infra": "aws", "zone": "a"}, {"cpus": 2}]],
}


def mappings(fields: Fields, **inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a mapping with a few of a table's fields, most of them with a value of their shape."""

    def value(name: str) -> st.SearchStrategy[Any]:
        if name in inner:
            return inner[name]
        return st.sampled_from([None, *(value for shape in fields[name].shapes for value in OF_SHAPE[shape])]) | VALUES

    names = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True)
    return names.flatmap(lambda some: st.fixed_dictionaries({name: value(name) for name in some}))


RESOURCE_TREES = mappings(RESOURCES, job_recovery=mappings(JOB_RECOVERY))
POD_TREES = mappings(POD_CONFIG)
METADATA_TREES = mappings(
    CUSTOM_METADATA,
    annotations=mappings({ANNOTATION_PREFIX + name: field for name, field in CONTROLS.items()}),
)
TASK_TREES = mappings(
    {name: field for name, field in TASK.items() if name != "run"},
    resources=RESOURCE_TREES,
    config=st.fixed_dictionaries(
        {"kubernetes": mappings(KUBERNETES, pod_config=POD_TREES, custom_metadata=METADATA_TREES)}
    ),
).map(lambda task: {"run": "x", **task})
SKY_TREES = mappings(
    SKY,
    kubernetes=mappings(
        SKY_KUBERNETES, pod_config=POD_TREES, context_configs=st.dictionaries(st.just("a"), mappings(CONTEXT))
    ),
)
OWN_TREES = mappings(RECONCILER, limits=mappings(LIMITS))


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(st.just("task"), TASK_TREES)
    | st.tuples(st.just("task"), RESOURCE_TREES.map(lambda resources: {"run": "x", "resources": resources}))
    | st.tuples(st.just("sky"), SKY_TREES)
    | st.tuples(st.just("reconciler"), OWN_TREES)
)
def test_a_schema_is_never_stricter_than_the_reader(drawn: tuple[str, Any]) -> None:
    """Whatever is valid stays without a mark in the editor."""
    kind, value = drawn
    text = json.dumps(value)

    assert not is_valid(kind, text) or complaints(kind, text) == []
