"""PriorityClasses: what the API server would refuse, said at the line; and what it would silently take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.priority import CLASS, METADATA, check_priority_files, parse_priority_file
from reconciler.model import PriorityClass, PriorityFile, Problem, Severity

PATH = "priorities/classes.yaml"


def parse(text: str, path: str = PATH) -> PriorityFile:
    return parse_priority_file(path, text.encode())


def a_class(name: str = "high", *lines: str, value: str = "value: 1000") -> str:
    head = f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: {name}\n"
    return head + "".join(f"{line}\n" for line in (value, *lines))


def test_a_whole_class() -> None:
    """Every field arrives, defaults are written out, and our own annotation stays behind."""
    text = """\
# for people who wait
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: urgent.v2
  labels: {team: ml}
  annotations: {why: it is, job-reconciler/replace: "true"}
value: -5
globalDefault: true
preemptionPolicy: Never
description: |
  For emergencies.
"""
    manifest = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent.v2", "labels": {"team": "ml"}, "annotations": {"why": "it is"}},
        "value": -5,
        "globalDefault": True,
        "preemptionPolicy": "Never",
        "description": "For emergencies.\n",
    }
    expected = PriorityClass(
        path=PATH,
        line=5,
        name="urgent.v2",
        value=-5,
        global_default=True,
        preemption_policy="Never",
        description="For emergencies.\n",
        manifest=manifest,
    )

    warning = Problem(
        Severity.WARNING,
        "not-supported-yet",
        PATH,
        "classes are not replaced yet: a changed value is held; rename the class, or delete it by hand",
        line=7,
        column=29,
        field="metadata.annotations.job-reconciler/replace",
    )

    assert parse(text) == PriorityFile(PATH, (expected,), (warning,))
    assert parse(text.replace("\n", "\r\n")) == PriorityFile(PATH, (expected,), (warning,))


def test_defaults() -> None:
    """What the server would fill in is there already, so that both can be compared."""
    (declared,) = parse(a_class()).classes

    assert declared.manifest == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "",
    }


@pytest.mark.parametrize("value", ["0", "1", "-1", "1000000000", "-2147483648"])
def test_value(value: str) -> None:
    """Any int32 up to the highest that users may have."""
    file = parse(a_class(value=f"value: {value}"))

    assert file.problems == ()
    assert file.classes[0].value == int(value)


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("", "missing-value", "value is missing: write a plain integer; the API would take 0"),
        ("value:", "missing-value", "value is missing"),
        ("value: 1e6", "invalid-value", "a plain integer such as 1000, not '1e6'; tools that render templates"),
        ("value: 1e+06", "invalid-value", "not '1e+06'; tools that render templates write large numbers so"),
        ("value: 1000.0", "invalid-value", "not '1000.0'"),
        ('value: "100"', "invalid-value", "not '100' without quotes"),
        ("value: true", "invalid-value", "not 'true'"),
        ("value: 0o10", "invalid-value", "not '0o10'"),
        ("value: 0777", "invalid-value", "not '0777'"),
        ("value: 0x10", "invalid-value", "not '0x10'"),
        ("value: +5", "invalid-value", "not '+5'"),
        ("value: -0", "invalid-value", "not '-0'"),
        ("value: 1_000_000", "invalid-value", "not '1_000_000'"),
        ("value: 1:30", "invalid-value", "not '1:30'"),
        ("value: high", "invalid-value", "not 'high'"),
        ("value: {{ v }}", "unrendered-template", "an unrendered template"),
        ("value: [1]", "invalid-value", "not a list"),
        (
            "value: 1000000001",
            "invalid-value",
            "from -2147483648 to 1000000000, the highest that is not Kubernetes' own",
        ),
        ("value: -2147483649", "invalid-value", "it is -2147483649"),
        ("value: 99999999999999999999", "invalid-value", "up to 1000000000"),
        ("value: 1\nvalue: 2", "duplicate-key", "value stands twice, in line 5 and in line 6"),
    ],
)
def test_no_value(value: str, code: str, message: str) -> None:
    """A value is a plain integer and nothing that YAML readers turn into one, or into 0 (B01, B10)."""
    file = parse(a_class(value=value))

    assert file.classes == ()
    assert file.problems[0].code == code
    assert (file.problems[0].severity, file.problems[0].field) == (Severity.ERROR, "value")
    assert file.problems[0].line == (1 if not value else 6 if code == "duplicate-key" else 5)
    assert message in file.problems[0].message


@pytest.mark.parametrize(
    ("text", "code", "line", "field", "message"),
    [
        pytest.param(*row[1:], id=row[0])
        for row in [
            ("name-system", a_class("system-x"), "reserved", 4, "metadata.name", "begins with system-, which is kept"),
            ("name-capital", a_class("High"), "invalid-value", 4, "metadata.name", "'High' must be at most 253"),
            ("name-under", a_class("a_b"), "invalid-value", 4, "metadata.name", "'a_b'"),
            ("name-dot", a_class("a."), "invalid-value", 4, "metadata.name", "a letter or digit at both ends"),
            ("name-long", a_class("a" * 254), "invalid-value", 4, "metadata.name", "at most 253"),
            ("name-int", a_class("5"), "wrong-type", 4, "metadata.name", "write it in quotes"),
            ("name-none", a_class("~"), "missing-value", 4, "metadata.name", "metadata.name is missing"),
            ("policy", a_class("a", "preemptionPolicy: never"), "invalid-value", 6, "preemptionPolicy", "mean Never?"),
            (
                "policy-bool",
                a_class("a", "preemptionPolicy: true"),
                "wrong-type",
                6,
                "preemptionPolicy",
                "must be text",
            ),
            (
                "default-yes",
                a_class("a", "globalDefault: yes"),
                "wrong-type",
                6,
                "globalDefault",
                "must be true or false",
            ),
            ("default-text", a_class("a", "globalDefault: 'true'"), "wrong-type", 6, "globalDefault", "not text"),
            ("description", a_class("a", "description: 5"), "wrong-type", 6, "description", "write it in quotes"),
            ("typo", a_class("a", "globaldefault: true"), "unknown-field", 6, "globaldefault", "mean globalDefault?"),
            ("spec", a_class("a", "spec: {}"), "unknown-field", 6, "spec", "there is no field spec"),
            ("label", a_class("a\n  labels: {a: 1}"), "wrong-type", 5, "metadata.labels.a", "labels are text"),
            (
                "annotation",
                a_class("a\n  annotations: {a: no, b: 1}"),
                "wrong-type",
                5,
                "metadata.annotations.b",
                "text",
            ),
            (
                "finalizer",
                a_class("a\n  finalizers: [x]"),
                "unsupported-field",
                5,
                "metadata.finalizers",
                "leave it out",
            ),
            (
                "our-typo",
                a_class("a\n  annotations: {job-reconciler/replac: x}"),
                "unknown-field",
                5,
                "metadata.annotations.job-reconciler/replac",
                "did you mean job-reconciler/replace?",
            ),
            (
                "replace",
                a_class("a\n  annotations: {job-reconciler/replace: 'yes'}"),
                "invalid-value",
                5,
                "metadata.annotations.job-reconciler/replace",
                'must be "true" or "false", not \'yes\'',
            ),
            (
                "our-label",
                a_class("a\n  labels: {job-reconciler/owner: x}"),
                "reserved",
                5,
                "metadata.labels.job-reconciler/owner",
                "is ours",
            ),
            ("kind", "apiVersion: v1\nkind: Pod\n", "wrong-kind", 2, "kind", "kind is 'Pod': only PriorityClass of"),
            ("no-kind", "name: a\nvalue: 5\n", "wrong-kind", 1, "kind", "kind is missing: only PriorityClass"),
            (
                "old-version",
                a_class().replace("/v1", "/v1beta1"),
                "wrong-kind",
                1,
                "apiVersion",
                "apiVersion is 'scheduling.k8s.io/v1beta1': only PriorityClass of scheduling.k8s.io/v1",
            ),
            ("a-list", "- a", "wrong-type", 1, None, "a PriorityClass is a mapping, not a list"),
            ("a-text", "high: 5\n---\nx", "wrong-type", 3, None, "a PriorityClass is a mapping, not text"),
            (
                "list-version",
                "apiVersion: v1\nkind: PriorityClassList\nitems: []",
                "invalid-value",
                1,
                "apiVersion",
                "apiVersion of a PriorityClassList is scheduling.k8s.io/v1, not 'v1'",
            ),
            ("list-items", "apiVersion: v1\nkind: List\nitems: {}", "wrong-type", 3, "items", "items must be a list"),
            ("list-item", "apiVersion: v1\nkind: List\nitems: [5]", "wrong-type", 3, "items[0]", "not an integer"),
        ]
    ],
)
def test_refusal(text: str, code: str, line: int, field: str | None, message: str) -> None:
    """All of what the API server would refuse, and what it would take for something else."""
    file = parse(text)
    problem = next(problem for problem in file.problems if problem.code == code)

    assert file.classes == ()
    assert (problem.severity, problem.path, problem.line, problem.field) == (Severity.ERROR, PATH, line, field)
    assert message in problem.message


@pytest.mark.parametrize(
    "name", ["namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"]
)
def test_what_the_cluster_writes_is_ignored(name: str) -> None:
    """A class that was exported from a cluster is fine, with one warning for each such field."""
    file = parse(a_class(f"a\n  {name}: x"))

    assert [(p.severity, p.code, p.field) for p in file.problems] == [
        (Severity.WARNING, "ignored-field", f"metadata.{name}")
    ]
    assert file.classes[0].manifest["metadata"] == {"name": "a"}


def test_replace_without_quotes() -> None:
    """The annotation is read by its text, because it is never sent."""
    found = parse(a_class("a\n  annotations: {job-reconciler/replace: true}")).problems

    assert [problem.code for problem in found] == ["not-supported-yet"]


def test_one_bad_class_leaves_the_others() -> None:
    """Several documents and lists in one file: each class stands for itself, in the order of the file."""
    listed = "apiVersion: v1\nkind: List\nmetadata: {}\nitems:\n" + "".join(
        "- " + a_class(name, value=value).rstrip().replace("\n", "\n  ") + "\n"
        for name, value in [("c", "value: 1"), ("d", "value: x"), ("e", "value: 3")]
    )
    typed = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClassList\nitems:\n- {metadata: {name: f}, value: 4}\n"
    file = parse("---\n".join(["# c\n", a_class("a"), a_class("system-b"), "", listed, typed]))

    assert [declared.name for declared in file.classes] == ["a", "c", "e", "f"]
    assert [(p.code, p.line, p.field) for p in file.problems] == [
        ("reserved", 12, "metadata.name"),
        ("invalid-value", 29, "items[1].value"),
    ]
    assert [declared.line for declared in file.classes] == [6, 23, 33, 39]


def test_no_class_from_a_file_that_is_no_sound_yaml() -> None:
    """A key that stands twice leaves open what was meant, so nothing of that file is applied."""
    file = parse(a_class("a") + "---\n" + a_class("b") + "value: 5\n")

    assert file.classes == ()
    assert [p.code for p in file.problems] == ["duplicate-key"]


@pytest.mark.parametrize("text", ["", "# none\n", "---\n---\n"])
def test_nothing_is_nothing(text: str) -> None:
    """A file of comments declares nothing, and nothing is wrong with it."""
    assert parse(text) == PriorityFile(PATH, (), ())


def test_one_name_twice() -> None:
    """Each of the classes is refused, and names the others."""
    files = [parse(a_class("b"), "p/b.yaml"), parse(a_class("a") + "---\n" + a_class("b"), "p/a.yaml")]
    problems = check_priority_files(files)

    assert [(p.severity, p.code, p.path, p.line, p.field) for p in problems] == [
        (Severity.ERROR, "duplicate-name", "p/a.yaml", 10, "metadata.name"),
        (Severity.ERROR, "duplicate-name", "p/b.yaml", 4, "metadata.name"),
    ]
    assert (
        problems[0].message
        == "PriorityClass 'b' is declared more than once, also by 'b' in p/b.yaml, line 4: leave one"
    )
    assert "in p/a.yaml, line 10" in problems[1].message


def test_two_global_defaults() -> None:
    """There can be one default in a cluster; which of two it would be is left to chance, so neither is applied."""
    files = [parse(a_class(name, "globalDefault: true"), f"p/{name}.yaml") for name in "ab"]
    problems = check_priority_files([*files, parse(a_class("c"), "p/c.yaml")])

    assert [(p.code, p.path, p.line, p.field) for p in problems] == [
        ("second-default", "p/a.yaml", 4, "globalDefault"),
        ("second-default", "p/b.yaml", 4, "globalDefault"),
    ]
    assert (
        problems[0].message
        == "there can be one globalDefault, and it is claimed also by 'b' in p/b.yaml, line 4: leave one"
    )


def test_nothing_wrong_between_files() -> None:
    """One default and different names are fine."""
    files = [parse(a_class("a", "globalDefault: true")), parse(a_class("b", "globalDefault: false"))]

    assert check_priority_files(files) == []


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["true", "a", "Never"])
TREES = st.recursive(
    SCALARS, lambda i: st.lists(i, max_size=3) | st.dictionaries(st.text(max_size=3), i, max_size=3), max_leaves=6
)
KINDS = st.sampled_from(["PriorityClass", "List", "PriorityClassList"])
CLASSES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(CLASS, TREES),
        "kind": KINDS | TREES,
        "apiVersion": st.sampled_from(["v1", "scheduling.k8s.io/v1"]) | TREES,
        "metadata": st.fixed_dictionaries({}, optional=dict.fromkeys(METADATA, TREES)) | TREES,
        "items": st.lists(TREES),
    },
)


@given(values=st.lists(CLASSES | TREES, max_size=3))
def test_any_tree_ends_in_classes_or_problems(values: list[Any]) -> None:
    """Nothing that YAML can say raises, and the answer is always the same."""
    text = "\n---\n".join(json.dumps(value) for value in values)

    assert parse(text) == parse(text)
    assert check_priority_files([parse(text)]) == check_priority_files([parse(text)])


@given(data=st.binary())
def test_any_bytes_end_in_classes_or_problems(data: bytes) -> None:
    """Nothing that can be committed raises."""
    assert parse_priority_file(PATH, data) == parse_priority_file(PATH, data)


def test_a_class_of_the_wrong_kind_has_its_other_problems_too() -> None:
    """What is clearly meant to be a class is read to its end; of a Pod nothing else matters."""
    text = "apiVersion: v1\nkind: priorityclass\nmetadata: {name: A}\nvalue: x\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: A}\nspec: 5\n"
    found, of_pod = (
        [problem.code for problem in parse_priority_file("priorities/a.yaml", data.encode()).problems]
        for data in (text, pod)
    )

    assert sorted(found) == ["invalid-value", "invalid-value", "wrong-kind", "wrong-kind"]
    assert of_pod == ["wrong-kind"]
