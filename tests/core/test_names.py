"""Which file speaks for which job name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from reconciler.core.names import KnownJob, keep_moved_names, resolve_names
from reconciler.model import Problem, Severity, Task, TaskFile

BROKEN = Problem(Severity.ERROR, "yaml", "jobs/a.yaml", "is broken")
A, B, C = "jobs/a.yaml", "jobs/b.yaml", "jobs/c.yaml"

File = tuple[str, str | None, bool]  # path, name, whether it is valid

X_OF_A = 'the name "x" belongs to jobs/a.yaml; give this job another name'
X_OF_B = 'the name "x" belongs to jobs/b.yaml; give this job another name'


@pytest.mark.parametrize(
    ("files", "recorded", "live", "owners", "problems"),
    [
        pytest.param([(A, "x", True), (B, "y", True)], {}, {}, {"x": A, "y": B}, {}, id="two names"),
        pytest.param([(A, "x", True), (B, "x", True)], {"x": A}, {}, {"x": A}, {B: X_OF_A}, id="on record of one"),
        pytest.param([(A, "x", True), (B, "x", True)], {}, {"x": B}, {"x": B}, {A: X_OF_B}, id="a live run of one"),
        pytest.param(
            [(A, "x", True), (B, "x", True)], {"x": A}, {"x": B}, {"x": A}, {B: X_OF_A}, id="the record knows of a move"
        ),
        pytest.param(
            [(A, "x", True), (B, "x", True)], {"x": C}, {"x": B}, {"x": B}, {A: X_OF_B}, id="recorded file is gone"
        ),
        pytest.param(
            [(A, "x", True), (B, "x", True)],
            {"x": C},
            {},
            {"x": f"held by {A}"},
            {
                A: 'the name "x" is also claimed by jobs/b.yaml, and none of them had it before; rename all but one',
                B: 'the name "x" is also claimed by jobs/a.yaml, and none of them had it before; rename all but one',
            },
            id="none had it",
        ),
        pytest.param([(B, "x", True)], {"x": A}, {"x": A}, {"x": B}, {}, id="moved"),
        pytest.param([(A, "x", False)], {"x": A}, {}, {"x": f"held by {A}"}, {}, id="invalid, name known"),
        pytest.param([(A, None, False)], {"x": A}, {}, {"x": f"held by {A}"}, {}, id="invalid, name unknown"),
        pytest.param([(A, None, False)], {}, {}, {"a": f"held by {A}"}, {}, id="invalid, no name known: its path's"),
        pytest.param([(A, None, False), (B, "a", True)], {}, {}, {"a": B}, {}, id="a path's name gives way"),
        pytest.param(
            [(A, None, False)], {"x": A}, {"w": A}, {"x": f"held by {A}", "w": f"held by {A}"}, {}, id="held by both"
        ),
        pytest.param(
            [(A, "y", False)], {"x": A}, {}, {"y": f"held by {A}", "x": f"held by {A}"}, {}, id="renamed and invalid"
        ),
        pytest.param(
            [(A, None, False), (B, "x", True)],
            {"x": A},
            {},
            {"x": f"held by {A}"},
            {B: X_OF_A},
            id="nobody takes the name of a file that can't be read",
        ),
        pytest.param(
            [(A, "x", True), (B, "x", True)],
            {"x": A, "z": B},
            {},
            {"x": A, "z": f"held by {B}"},
            {B: X_OF_A},
            id="renamed to a taken name: the old job is held",
        ),
        pytest.param(
            [(A, "y", False), (B, "x", True)], {"x": A}, {}, {"y": f"held by {A}", "x": B}, {}, id="given away"
        ),
        pytest.param([(A, None, True)], {"x": A}, {}, {}, {}, id="emptied to comments: declares nothing"),
        pytest.param([], {"x": A}, {"x": A}, {}, {}, id="gone"),
    ],
)
def test_names(
    task_file: Callable[..., TaskFile],
    files: Sequence[File],
    recorded: dict[str, str],
    live: dict[str, str],
    *,
    owners: dict[str, str],
    problems: dict[str, str],
) -> None:
    """A name stays with the file that had it, and a file that can't be read keeps what it last declared."""
    built = [
        TaskFile(path, None, None, ())
        if valid and name is None
        else task_file(path, name=name, problems=() if valid else (BROKEN,))
        for path, name, valid in files
    ]
    names, found = resolve_names(built, recorded, live)

    assert {name: file.path if file.task else f"held by {file.path}" for name, file in names.items()} == owners
    assert {problem.path: problem.message for problem in found} == problems
    assert {(problem.code, problem.severity, problem.field) for problem in found} <= {
        ("duplicate-name", Severity.ERROR, "name")
    }


@pytest.fixture
def file_of(task: Callable[..., Task]) -> Callable[..., TaskFile]:
    """Build a valid file: `declared` is the name that it gives itself, if any."""

    def build(path: str, task_hash: str, declared: str | None = None) -> TaskFile:
        name = declared or path.removeprefix("jobs/").removesuffix(".yaml").replace("/", "-")
        return TaskFile(path, name, task(path=path, name=name, original_name=declared, task_hash=task_hash), ())

    return build


@pytest.mark.parametrize(
    ("files", "known", "names"),
    [
        pytest.param([("jobs/t/a.yaml", "h", None)], {"a": ("jobs/a.yaml", "h")}, ["a"], id="moved"),
        pytest.param(
            [("jobs/t/a.yaml", "h", None)], {"a": ("jobs/t/a.yaml", "x")}, ["a"], id="moved before, edited now"
        ),
        pytest.param(
            [("jobs/t/a.yaml", "x", None)], {"a": ("jobs/a.yaml", "h")}, ["t-a"], id="moved and edited: another"
        ),
        pytest.param(
            [("jobs/a.yaml", "h", None), ("jobs/b.yaml", "h", None)],
            {"a": ("jobs/a.yaml", "h")},
            ["a", "b"],
            id="copied",
        ),
        pytest.param(
            [("jobs/c.yaml", "h", None)],
            {"a": ("jobs/a.yaml", "h"), "b": ("jobs/b.yaml", "h")},
            ["c"],
            id="one of two that are alike: nobody can tell which",
        ),
        pytest.param(
            [("jobs/c.yaml", "h", None), ("jobs/d.yaml", "h", None)],
            {"a": ("jobs/a.yaml", "h")},
            ["c", "d"],
            id="moved to two places: nobody can tell which",
        ),
        pytest.param(
            [("jobs/c.yaml", "h", None), ("jobs/d.yaml", "h", "b")],
            {"a": ("jobs/a.yaml", "h"), "b": ("jobs/b.yaml", "h")},
            ["a", "b"],
            id="two that are alike, and one says who it is",
        ),
        pytest.param([("jobs/b.yaml", "h", "b")], {"a": ("jobs/a.yaml", "h")}, ["b"], id="it says who it is"),
        pytest.param(
            [("jobs/b.yaml", "h", None)],
            {"a": ("jobs/a.yaml", "h"), "b": ("jobs/x.yaml", "y")},
            ["b"],
            id="its own name is known",
        ),
    ],
)
def test_a_file_that_moved_stays_the_same_job(
    files: Sequence[tuple[str, str, str | None]],
    known: dict[str, tuple[str, str]],
    names: list[str],
    file_of: Callable[..., TaskFile],
) -> None:
    """Nearly half of all task files have no name: for them a move must not cancel and start anew."""
    kept = keep_moved_names([file_of(*file) for file in files], {name: KnownJob(*job) for name, job in known.items()})

    assert [file.name for file in kept] == names
    assert [file.task.name for file in kept if file.task] == names
