"""Which paths a task may name, what they become, and how the others are refused."""

from __future__ import annotations

import pytest

from reconciler.core.task import parse_task_file
from reconciler.model import FileMount, GitWorkdir, Severity, Task, TaskFile

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def parse(text: str) -> TaskFile:
    return parse_task_file("jobs/train.yaml", f"run: x\n{text}\n".encode())


def task_of(text: str) -> Task:
    file = parse(text)
    assert file.task is not None, file.problems
    return file.task


@pytest.mark.parametrize(
    ("text", "source"),
    [
        pytest.param("workdir: .", "", id="all of it"),
        pytest.param("workdir: train", "train", id="a folder"),
        pytest.param("workdir: ./a//b/./c/../d/", "a/b/d", id="steps that lead nowhere"),
        pytest.param("envs: {D: data}\nworkdir: $D/${D}-$DD-$E", "data/data-$DD-$E", id="variables"),
        pytest.param("workdir: 'blank ü$'", "blank ü$", id="odd names"),
    ],
)
def test_a_workdir_is_a_path_from_the_root_of_the_repository(text: str, source: str) -> None:
    assert task_of(text).workdir == FileMount(source, "~/sky_workdir", "workdir")


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        ("~/conf.yaml", "~/conf.yaml"),
        ("~/a/./b/../c", "~/a/c"),
        ("/etc/app/conf", "/etc/app/conf"),
        ("//data", "/data"),
        ("data", "~/sky_workdir/data"),
        ("./data/x", "~/sky_workdir/data/x"),
        ("~/sky_workdir/x", "~/sky_workdir/x"),
    ],
)
def test_a_destination_is_below_home_the_root_or_the_workdir(destination: str, expected: str) -> None:
    (mount,) = task_of(f"file_mounts: {{'{destination}': a/b}}").file_mounts

    assert (mount.source, mount.destination) == ("a/b", expected)


def test_mounts_keep_their_order_and_a_null_is_none() -> None:
    mounts = task_of("file_mounts:\n  ~/b: two\n  ~/a: one\n  ~/c:\n").file_mounts

    assert [mount.destination for mount in mounts] == ["~/b", "~/a"]
    assert mounts[0].field == "file_mounts['~/b']"


def test_a_workdir_can_be_another_repository() -> None:
    pinned = parse(f"workdir: {{url: 'https://example.com/a/b.git', ref: {COMMIT}}}").task
    moving = parse("envs: {V: v1}\nworkdir: {url: https://example.com/a/b, ref: $V}").task
    head = parse("workdir: {url: https://example.com/a/b}").task

    assert pinned is not None
    assert moving is not None
    assert head is not None
    assert (pinned.workdir, pinned.warnings) == (GitWorkdir("https://example.com/a/b.git", COMMIT), ())
    assert moving.workdir == GitWorkdir("https://example.com/a/b", "v1")
    assert [(p.code, p.field) for p in moving.warnings] == [("moving-ref", "workdir.ref")]
    assert [(p.code, p.line) for p in head.warnings] == [("moving-ref", 2)]


REFUSED = [
    ("workdir: 5", "wrong-type", "workdir", "must be text or a mapping"),
    ("workdir: ''", "invalid-value", "workdir", "must be a path"),
    ("workdir: ..", "unsupported-field", "workdir", "leads out of the repository: '..'"),
    ("workdir: a/../../b", "unsupported-field", "workdir", "leads out of the repository"),
    ("workdir: ~/code", "unsupported-field", "workdir", "'~/code' on somebody's machine, which no commit has"),
    ("workdir: /home/me", "unsupported-field", "workdir", "commit what is no secret, and write its path from the root"),
    ("workdir: https://example.com/a", "invalid-value", "workdir", "write workdir: {url: ..., ref: ...}"),
    ("workdir: git@example.com:a/b.git", "invalid-value", "workdir", "write workdir: {url: ..., ref: ...}"),
    ("workdir: {ref: main}", "missing-value", "workdir", "needs url"),
    ("workdir: {url: https://a/b, branch: x}", "unknown-field", "workdir.branch", "no field workdir.branch"),
    ("workdir: {url: ssh://git@example.com/a}", "invalid-value", "workdir.url", "write its https:// URL, and secrets:"),
    ("workdir: {url: 'git@example.com:a'}", "invalid-value", "workdir.url", "over ssh, for which a pod has no key"),
    ("workdir: {url: ../other}", "invalid-value", "workdir.url", "must be an https:// URL"),
    ("workdir: {url: 'file:///a'}", "invalid-value", "workdir.url", "must be an https:// URL"),
    ("workdir: {url: 'https://u:s3cret@a/b'}", "invalid-value", "workdir.url", "has credentials in it"),
    ("workdir: {url: https://a/b, ref: --x}", "invalid-value", "workdir.ref", "'--x' names no branch, tag or commit"),
    ("secrets: {T: }\nworkdir: a/$T", "invalid-value", "workdir", "has the secret T in it"),
    ("secrets: {T: s3cret}\nworkdir: a/${T}", "invalid-value", "workdir", "has the secret T in it"),
    (f"workdir: {'a/' * 2049}b", "invalid-value", "workdir", "is longer than any path: 4096 bytes, 255 between"),
    (f"workdir: a/{'é' * 128}", "invalid-value", "workdir", "is longer than any path"),
    (f"envs: {{A: {'a/' * 9999}}}\nworkdir: {'$A' * 9}", "invalid-value", "workdir", "is longer than any path"),
    (f"envs: {{A: {'a' * 4097}}}\nworkdir: $A", "invalid-value", "workdir", "is longer than any path"),
    (f"file_mounts: {{~/{'a' * 256}: a}}", "invalid-value", f"file_mounts['~/{'a' * 58}...']", "longer than any"),
    (f"workdir: {{url: 'https://a/{'b' * 4097}'}}", "invalid-value", "workdir.url", "is longer than any path"),
    ("file_mounts: [a]", "wrong-type", "file_mounts", "must be a mapping, not a list"),
    ("file_mounts: {~/a: 5}", "wrong-type", "file_mounts['~/a']", "must be text"),
    ("file_mounts: {~/a: s3://bucket/x}", "unsupported-field", "file_mounts['~/a']", "is a bucket (s3://)"),
    ("file_mounts: {~/a: 'gs://b'}", "unsupported-field", "file_mounts['~/a']", "fetch it in setup"),
    ("file_mounts: {~/a: 'https://x/y'}", "unsupported-field", "file_mounts['~/a']", "is a web address"),
    ("file_mounts: {~/a: ~/.netrc}", "unsupported-field", "file_mounts['~/a']", "on somebody's machine"),
    ("file_mounts: {~/a: ../x}", "unsupported-field", "file_mounts['~/a']", "leads out of the repository"),
    ("file_mounts: {/a: {name: b, mode: COPY}}", "unsupported-field", "file_mounts['/a']", "bucket (mode COPY)"),
    ("file_mounts: {/a: {source: b}}", "unsupported-field", "file_mounts['/a']", "bucket (mode MOUNT)"),
    ("file_mounts: {/a/: b}", "invalid-value", "file_mounts['/a/']", "must not end with /"),
    ("file_mounts: {~: b}", "invalid-value", "file_mounts['~']", "a path below ~/, below /, or relative"),
    ("file_mounts: {~bob/a: b}", "invalid-value", "file_mounts['~bob/a']", "a path below ~/"),
    ("file_mounts: {../a: b}", "invalid-value", "file_mounts['../a']", "a path below ~/"),
    ("file_mounts: {~/../a: b}", "invalid-value", "file_mounts['~/../a']", "a path below ~/"),
    ("file_mounts: {~/sky_workdir: b}", "invalid-value", "file_mounts['~/sky_workdir']", "write workdir instead"),
    ("file_mounts: {x: a, ~/sky_workdir/x: b}", "conflict", "file_mounts['~/sky_workdir/x']", "is filled twice"),
]


@pytest.mark.parametrize(("text", "code", "field", "message"), REFUSED, ids=[row[0][:80] for row in REFUSED])
def test_what_no_commit_has_is_refused(text: str, code: str, field: str, message: str) -> None:
    file = parse(text)
    (problem,) = [problem for problem in file.problems if problem.severity is Severity.ERROR]

    assert file.task is None
    assert (problem.code, problem.field, problem.line) == (code, field, 1 + len(text.splitlines()))
    assert message in problem.message
    assert "s3cret" not in problem.message
