"""What stands in a file where a value is wrong, misplaced or pasted may be a secret: nothing shows it."""

from __future__ import annotations

import pytest

from reconciler.core import yaml as ours
from reconciler.core.priority import parse_priority_file
from reconciler.core.schema.masking import masked, masked_key
from reconciler.core.settings import parse_site
from reconciler.core.task import parse_task_file
from reconciler.core.yaml import parse_documents
from reconciler.model import Problem

URL = "run: x\nworkdir: {url: 'https://%s', ref: main}"
POD = "run: x\nconfig: {kubernetes: {pod_config: {spec: {containers: [{env: [{name: T, %s}]}]}}}}"
TEXTS = {
    # YAML takes the first character of a value for its own
    "a tag": "run: x\nsecrets: {T: !s3cret }",
    "a tag before a value": "run: x\nsecrets: {T: !s3cret abc}",
    "a tag of YAML's own": "run: x\nsecrets: {T: !!s3cret abc}",
    "a tag as it is": "run: x\nsecrets: {T: !<s3cret> abc}",
    "a tag with a handle": "run: x\nsecrets: {T: !s3cret!abc x}",
    "a handle declared twice": "%TAG !s3cret! a\n%TAG !s3cret! b\n---\nrun: x",
    "a tag on a mapping": "run: x\nsecrets: !s3cret {T: }",
    "an alias": "run: x\nsecrets: {T: *s3cret }",
    "an alias as a key": "run: x\nsecrets: {*s3cret : x}",
    "an alias to itself": "run: x\nsecrets: {T: &s3cret [*s3cret ]}",
    "an anchor": "run: x\nsecrets: {T: &s3cret }",
    "an anchor in a list": "run: x\nsecrets: [&s3cret ]",
    "an anchor under envs": "run: x\nenvs: {T: &s3cret }",
    "an at sign": "run: x\nsecrets:\n  T: @s3cret",
    "a percent sign": "run: x\nsecrets:\n  T: %s3cret",
    "a percent sign that begins a line": "%s3cret\n---\nrun: x",
    "a backslash": 'run: x\nsecrets:\n  T: "\\s3cret"',
    "a pipe": "run: x\nsecrets:\n  T: |s3cret",
    "a merge": "run: x\nsecrets: {<<: s3cret}",
    "no text": "run: x\nsecrets:\n  T: \x07s3cret",
    # where a name belongs
    "assigned": "run: x\nsecrets: {'T=s3cret': }",
    "assigned, with a value": "run: x\nsecrets: {'T=s3cret': y}",
    "assigned with a colon": "run: x\nsecrets: {T:s3cret}",
    "assigned under envs": "run: x\nenvs: {'T=s3cret': , 'U:s3cret': }",
    "assigned in both": "run: x\nenvs: {'T=s3cret': y}\nsecrets: {'T=s3cret': y}",
    "assigned in a list": "run: x\nsecrets: ['T=s3cret', 'secrets:T=s3cret', 'secrets:T:s3cret', {T: s3cret}]",
    "assigned at the top": "run: x\nT=s3cret: 1",
    "assigned at the top with a colon": "{run: x, T:s3cret}",
    "assigned twice": "run: x\nT=s3cret: 1\nT=s3cret: 2",
    "assigned in resources": "run: x\nresources: {T=s3cret: 1, labels: {T=s3cret: 1, U: T=s3cret}}",
    "assigned in a variable's type": "run: x\nenvs: {T=s3cret: [1]}",
    "assigned in an annotation": "run: x\nconfig: {kubernetes: {custom_metadata: {annotations: "
    "{job-reconciler/secret=s3cret: y, T=s3cret: y, U:s3cret: y}}}}",
    "assigned as a size": "run: x\nresources: {cpus: T=s3cret, memory: T=s3cret, disk_size: T=s3cret}",
    "assigned as a place": "run: x\nresources: {infra: T=s3cret, accelerators: T=s3cret, image_id: T=s3cret}",
    "assigned as a name": "run: x\nname: T=s3cret",
    "assigned as an annotation of ours": "run: x\nconfig: {kubernetes: {custom_metadata: {annotations: "
    "{job-reconciler/secret: T=s3cret, job-reconciler/timeout: T=s3cret}}}}",
    "assigned to a mount": "run: x\nfile_mounts: {T=s3cret/: a, ~/T=s3cret: ~/a, ./T=s3cret: a, T=s3cret: a}",
    "assigned to a volume": "run: x\nvolumes: {T=s3cret: a, /b: T=s3cret}",
    "of the wrong type": "run: x\nsecrets: {T: [s3cret], U: {v: s3cret}}",
    "instead of a mapping": "run: x\nsecrets: s3cret\nenvs: s3cret",
    "in a pod's variable": POD % "value: [s3cret]",
    "in a pod's field": POD % "T=s3cret: x",
    "in a pod's quantity": "run: x\nconfig: {kubernetes: {pod_config: {spec: {overhead: {cpu: T=s3cret}}}}}",
    # in a URL or an image
    "a token in a URL": URL % "a.invalid/b.git?private_token=s3cret",
    "a fragment of a URL": URL % "a.invalid/b.git#s3cret",
    "a user in a URL": URL % "s3cret@a.invalid/b.git",
    "a password in a URL": URL % "u:s3cret@a.invalid/b.git",
    "no password in a URL": URL % "s3cret:@a.invalid/b.git",
    "a password without a scheme": "run: x\nworkdir: /u:s3cret@a.invalid/b.git",
    "a URL as a workdir": "run: x\nworkdir: https://u:s3cret@a.invalid/b",
    "a URL to mount": "run: x\nfile_mounts: {~/a: 'https://u:s3cret@a.invalid/b?x=s3cret'}",
    "a URL to mount at": "run: x\nfile_mounts: {'https://u:s3cret@a.invalid/b/': a, 'https://a/?t=s3cret/': a}",
    "an image": "run: x\nresources: {image_id: 'docker:u:s3cret@a.invalid/b'}",
    "an image of a registry's URL": "run: x\nresources: {image_id: {k8s/east: 'https://u:s3cret@a.invalid/b'}}",
    # pasted
    "sky": "sky launch --secret HF:s3cret -c x",
    "sky with =": "$ sky launch --env HF=s3cret\nrun: x",
    "a variable before a command": "$ HF=s3cret sky launch\nrun: x",
    "echo": "echo s3cret > x\nrun: x",
    "bash": "sudo bash s3cret\nrun: x",
    "a prompt": "$ export HF s3cret\nrun: x",
    "alone": "HF_TOKEN=s3cret",
}


def said(text: str) -> list[Problem]:
    """Return what any reader says of a file."""
    data = f"{text}\n".encode()
    task = parse_task_file("jobs/a.yaml", data)
    warnings = task.task.warnings if task.task else ()
    settings = [problem for path in (".sky.yaml", "reconciler.yaml") for problem in parse_site({path: data})[1]]
    classes = parse_priority_file("priorities/a.yaml", data).problems
    return [*task.problems, *warnings, *settings, *classes, *parse_documents(data, "a.yaml")[1]]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in TEXTS.items()])
@pytest.mark.parametrize("loader", ["libyaml", "python"])
def test_no_problem_shows_what_may_be_a_secret(loader: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its message nor the name of its field, whichever parser reads the file; and something is said."""
    if loader == "python":
        monkeypatch.setattr(ours, "_Loader", ours._PythonLoader)
    problems = said(text)

    assert problems
    assert [problem for problem in problems if "s3cret" in f"{problem.message} {problem.field}"] == []


def test_an_anchor_is_no_value() -> None:
    """YAML makes null of it, a reference to the Secret: hardly what was meant. An anchor with a value is one."""
    lone = parse_task_file("jobs/a.yaml", b"run: x\nsecrets:\n  A:\n  B: &s3cret\n").task
    with_value = parse_task_file("jobs/a.yaml", b"run: x\nsecrets: {A: &b abc, B: *b }\n").task

    assert lone is not None
    assert lone.secrets == {"A": "A", "B": "B"}
    assert [(p.code, p.line, p.field) for p in lone.warnings] == [("anchor", 4, "secrets.B")]
    assert with_value is not None
    assert (with_value.secret_values["B"], [p.code for p in with_value.warnings]) == ("abc", ["inline-secret"])


@pytest.mark.parametrize(
    ("text", "value", "key"),
    [
        ("HF_TOKEN", "HF_TOKEN", "HF_TOKEN"),
        ("HF_TOKEN=a=b", "HF_TOKEN=...", "HF_TOKEN=..."),
        ("HF_TOKEN:a", "HF_TOKEN:a", "HF_TOKEN:..."),
        ("H100:8", "H100:8", "H100:..."),
        ("python:3.12", "python:3.12", "python:3.12"),
        ("arn:aws:eks:us-east-1:1:cluster/x", "arn:aws:eks:us-east-1:1:cluster/x", "arn:aws:eks:us-east-1:1:cluster/x"),
        ("https://u:p@a/b?c=d", "https://u:...@a/b?c=...", "https://u:...@a/b?c=..."),
        ("u:p@a/b", "u:...@a/b", "u:...@a/b"),
        ("a\n=b\nc", "a\n=...", "a\n=..."),
    ],
)
def test_what_is_left_of_a_text(text: str, value: str, key: str) -> None:
    assert (masked(text), masked_key(text)) == (value, key)
