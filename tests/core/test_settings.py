"""Settings of the site: `.sky.yaml` and `reconciler.yaml`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.schema.settings_fields import CONTEXT, KUBERNETES, LIMITS, RECONCILER, SKY
from reconciler.core.settings import parse_limits, parse_site
from reconciler.model import Limits, Severity, Site

SKY_FILE = ".sky.yaml"
OWN_FILE = "reconciler.yaml"


def site_of(**files: str) -> Site:
    named = {"sky": SKY_FILE, "own": OWN_FILE}
    site, problems = parse_site({named[name]: text.encode() for name, text in files.items()})
    assert problems == []
    return site


@pytest.mark.parametrize("files", [{}, {SKY_FILE: b""}, {OWN_FILE: b"# nothing\n"}, {SKY_FILE: b"kubernetes:\n"}])
def test_defaults(files: dict[str, bytes]) -> None:
    """Without settings, and with empty ones, everything has its default."""
    site, problems = parse_site(files)

    assert problems == []
    assert dataclasses.replace(site, site_hash="") == Site()
    assert len(site.site_hash) == 64


def test_sky_yaml() -> None:
    """Three layers of SkyPilot's config count: what is for all, what is for a context, and the namespace of each."""
    site = site_of(
        sky="""\
kubernetes:
  namespace: research
  pod_config: {spec: {priorityClassName: low}}
  custom_metadata: {labels: {a: b}}
  set_pod_resource_limits: true
  context_configs:
    gpu:
      namespace: gpu-jobs
      pod_config: {spec: {priorityClassName: high}}
    none:
"""
    )

    assert site.sky_namespace == "research"
    assert site.namespace is None
    assert site.pod_config == {"spec": {"priorityClassName": "low"}}
    assert site.custom_metadata == {"labels": {"a": "b"}}
    assert site.contexts == {"gpu": {"namespace": "gpu-jobs", "pod_config": {"spec": {"priorityClassName": "high"}}}}
    assert site.set_pod_resource_limits == 1.0


def test_reconciler_yaml() -> None:
    """All of our own settings, with durations as people write them."""
    site = site_of(
        own="""\
owner: team-a
source_branch: main
status_branch: runs/status
contexts: [gpu, cpu]
namespace: jobs
default_image: docker:ghcr.io/team/base:1
secret: tokens
interval: 5m
status_interval: 0.5
history_limit: 0
limits: {priority_classes: [low], images: ['ghcr.io/team/*'], namespaces: [], gpus: 8}
"""
    )

    assert dataclasses.replace(site, site_hash="") == Site(
        owner="team-a",
        source_branch="main",
        status_branch="runs/status",
        allowed_contexts=("gpu", "cpu"),
        namespace="jobs",
        default_image="ghcr.io/team/base:1",
        secret="tokens",
        interval=300.0,
        status_interval=0.5,
        history_limit=0,
        limits=Limits(priority_classes=("low",), images=("ghcr.io/team/*",), namespaces=(), gpus=8),
    )


@pytest.mark.parametrize(
    ("file", "text", "code", "line", "field", "message"),
    [
        pytest.param(*row[1:], id=row[0])
        for row in [
            ("list", OWN_FILE, "- a", "wrong-type", 1, None, "settings are a mapping, not a list"),
            ("two", OWN_FILE, "a: 1\n---\nb: 1", "multiple-documents", 1, None, "2 documents in one file"),
            ("syntax", SKY_FILE, "a: 'b", "syntax", 1, None, "not valid YAML"),
            (
                "typo",
                OWN_FILE,
                "owner: a\nstatus-branch: b",
                "unknown-field",
                2,
                "status-branch",
                "mean status_branch?",
            ),
            ("sky-typo", SKY_FILE, "kubernets: {}", "unknown-field", 1, "kubernets", "did you mean kubernetes?"),
            ("limit", OWN_FILE, "limits: {gpu: 1}", "unknown-field", 1, "limits.gpu", "did you mean gpus?"),
            ("owner", OWN_FILE, "owner: a b", "invalid-value", 1, "owner", "a label's value"),
            ("owner-empty", OWN_FILE, "owner: ''", "invalid-value", 1, "owner", "a label's value"),
            ("owner-int", OWN_FILE, "owner: 1", "wrong-type", 1, "owner", "write it in quotes"),
            ("branch", OWN_FILE, "source_branch: a..b", "invalid-value", 1, "source_branch", "the name of a branch"),
            (
                "one-branch",
                OWN_FILE,
                "source_branch: job-status",
                "conflict",
                1,
                "status_branch",
                "a branch of its own",
            ),
            ("namespace", OWN_FILE, "namespace: A", "invalid-value", 1, "namespace", "the name of a namespace"),
            ("image", OWN_FILE, "default_image: a b", "invalid-value", 1, "default_image", "a container image"),
            ("secret", OWN_FILE, "secret: A", "invalid-value", 1, "secret", "the name of a Secret"),
            ("interval", OWN_FILE, "interval: soon", "invalid-value", 1, "interval", "'soon' is not a duration"),
            ("interval-0", OWN_FILE, "interval: 0", "invalid-value", 1, "interval", "at least 1s, not '0'"),
            ("interval-x", OWN_FILE, "interval: true", "wrong-type", 1, "interval", "a number or text"),
            ("history", OWN_FILE, "history_limit: -1", "invalid-value", 1, "history_limit", "0 or more, not '-1'"),
            ("contexts", OWN_FILE, "contexts: gpu", "wrong-type", 1, "contexts", "a list, not text"),
            ("context", OWN_FILE, "contexts: [1]", "wrong-type", 1, "contexts[0]", "text, not an integer"),
            ("gpus", OWN_FILE, "limits: {gpus: -1}", "invalid-value", 1, "limits.gpus", "0 or more"),
            (
                "sky-ns",
                SKY_FILE,
                "kubernetes: {namespace: A}",
                "invalid-value",
                1,
                "kubernetes.namespace",
                "a namespace",
            ),
            (
                "pod",
                SKY_FILE,
                "kubernetes:\n  context_configs:\n    gpu: {pod_config: {spec: {priority: 5}}}",
                "unsupported-field",
                3,
                "kubernetes.context_configs.gpu.pod_config.spec.priority",
                "write priorityClassName",
            ),
            (
                "ours",
                SKY_FILE,
                "kubernetes: {custom_metadata: {annotations: {job-reconciler/suspend: 'true'}}}",
                "reserved",
                1,
                "kubernetes.custom_metadata.annotations.job-reconciler/suspend",
                "is ours and means nothing here",
            ),
            (
                "context-config",
                SKY_FILE,
                "kubernetes: {context_configs: {gpu: 5}}",
                "wrong-type",
                1,
                "kubernetes.context_configs.gpu",
                "must be a mapping",
            ),
            (
                "context-limits",
                SKY_FILE,
                "kubernetes: {context_configs: {gpu: {set_pod_resource_limits: true}}}",
                "unsupported-field",
                1,
                "kubernetes.context_configs.gpu.set_pod_resource_limits",
                "write it under kubernetes",
            ),
        ]
    ],
)
def test_refusal(  # noqa: PLR0917
    file: str, text: str, code: str, line: int, field: str | None, message: str
) -> None:
    """Both files are strict: a setting that has no effect would mislead every job's author."""
    _, problems = parse_site({file: text.encode()})

    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    assert [(p.code, p.path, p.line, p.field) for p in errors if p.field not in {"a", "b"}] == [
        (code, file, line, field)
    ]
    assert message in next(p.message for p in errors if p.code == code)


@pytest.mark.parametrize("name", [name for name, field in SKY.items() if field.fate == "ignored"])
def test_the_rest_of_skypilot_is_ignored_with_a_warning(name: str) -> None:
    """A config that also serves SkyPilot does not stop us, and says what has no effect."""
    site, problems = parse_site({SKY_FILE: f"{name}: {{a: b}}\n".encode()})

    assert [(p.severity, p.code, p.field) for p in problems] == [(Severity.WARNING, "ignored-field", name)]
    assert dataclasses.replace(site, site_hash="") == Site()


def test_every_setting_of_skypilot_is_in_a_table() -> None:
    """The config schema of SkyPilot 0.14.1: none can be dropped in silence."""
    top = (
        "workspace db jobs serve allowed_clouds admin_policy docker nvidia_gpus api_server active_workspace workspaces "
        "workspace_config provision rbac logs daemons data dashboard metrics aws gcp azure kubernetes ssh slurm oci "
        "vast nebius plugins"
    )
    context = (
        "allowed_nodes rdma networking ports pod_config provision_timeout max_inline_command_length custom_metadata "
        "namespace autoscaler high_availability kueue quota dws remote_identity post_provision_runcmd apt_mirrors "
        "set_pod_resource_limits pricing auto_mounts enable_docker"
    )

    assert set(top.split()) - set(SKY) == set()
    assert set(context.split()) - set(CONTEXT) == set()
    assert {*context.split(), "allowed_contexts", "context_configs"} - set(KUBERNETES) == set()


def test_our_settings_are_what_a_site_has() -> None:
    """The table and the model name the same settings."""
    renamed = {"contexts": "allowed_contexts"}

    assert {renamed.get(name, name) for name in RECONCILER} <= {field.name for field in dataclasses.fields(Site)}
    assert {*LIMITS, "file"} == {field.name for field in dataclasses.fields(Limits)}


@pytest.mark.parametrize(
    ("own", "sky", "same"),
    [
        ("interval: 9s", "", True),
        ("limits: {gpus: 1}", "", True),
        ("default_image: a", "", False),
        ("secret: a", "", False),
        ("namespace: a", "", False),
        ("", "kubernetes: {pod_config: {spec: {nodeName: a}}}", False),
        ("", "kubernetes: {custom_metadata: {labels: {a: b}}}", False),
        ("", "kubernetes: {context_configs: {a: {namespace: b}}}", False),
        ("", "kubernetes: {set_pod_resource_limits: 2}", False),
        ("", "kubernetes: {provision_timeout: 5}", True),
    ],
)
def test_site_hash(own: str, sky: str, same: object) -> None:
    """It tells whether a Job could be rendered another way, and nothing else."""
    site, _ = parse_site({OWN_FILE: own.encode(), SKY_FILE: sky.encode()})

    assert (site.site_hash == parse_site({})[0].site_hash) == same


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["5m", "a", "main"])
TREES = st.recursive(
    SCALARS, lambda i: st.lists(i, max_size=3) | st.dictionaries(st.text(max_size=3), i, max_size=3), max_leaves=6
)
KUBERNETES_TREES = st.fixed_dictionaries({}, optional=dict.fromkeys(KUBERNETES, TREES))


@given(
    own=st.fixed_dictionaries({}, optional=dict.fromkeys(RECONCILER, TREES)) | TREES,
    sky=st.fixed_dictionaries({}, optional={"kubernetes": KUBERNETES_TREES, "jobs": TREES, "x": TREES}) | TREES,
)
def test_any_tree_ends_in_a_site(own: Any, sky: Any) -> None:
    """Nothing that YAML can say raises, and the answer is always the same."""
    files = {OWN_FILE: json.dumps(own).encode(), SKY_FILE: json.dumps(sky).encode()}

    assert parse_site(files) == parse_site(files)


def test_limits_of_their_own() -> None:
    """The fields are those of `limits` in reconciler.yaml."""
    limits, problems = parse_limits("/etc/limits.yaml", b"gpus: 2\nimages: ['python:*']\n")

    assert (limits, problems) == (Limits(images=("python:*",), gpus=2), [])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", "wrong-type", id="empty"),
        pytest.param("# gpus: 2\n", "wrong-type", id="comments alone"),
        pytest.param("- gpus\n", "wrong-type", id="a list"),
        pytest.param("gpus: 1\n---\ngpus: 2\n", "wrong-type", id="two documents"),
        pytest.param("gpu: 2\n", "unknown-field", id="a misspelt field"),
        pytest.param("gpus: two\n", "wrong-type", id="no number"),
        pytest.param("limits: {gpus: 2}\n", "unknown-field", id="the field of reconciler.yaml"),
        pytest.param("gpus: [\n", "syntax", id="no YAML"),
    ],
)
def test_limits_that_limit_nothing_are_refused(text: str, code: str) -> None:
    """Somebody relies on them."""
    _, problems = parse_limits("limits.yaml", text.encode())

    assert [(problem.severity, problem.code) for problem in problems] == [(Severity.ERROR, code)]
