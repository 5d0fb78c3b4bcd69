"""`validate` over files that nobody meant to write: it always answers, and never blames the wrong one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutated_files import NEIGHBOURS, check

from reconciler.core.schema.task_fields import TASK
from reconciler.engine.declare import declare
from reconciler.engine.validate import validate
from reconciler.source.clone import open_repository
from reconciler.source.repository import Repository

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
KEYS = st.sampled_from([*TASK, "apiVersion", "kind", "metadata", "value", "items", "<<"]) | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """Open a repository with some files that are fine, and one that is not."""
    folder = tmp_path_factory.mktemp("repository")
    run(["git", "init", "--quiet", str(folder)], check=True)
    for path, data in NEIGHBOURS.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(data)
    with open_repository(str(folder), folder) as opened:
        yield opened


def test_mutated_files_change_no_other_verdict(tmp_path: Path) -> None:
    """Of files that are broken at random each gets an answer of its own, in the order of the file."""
    met = check(300, 0, tmp_path)

    assert met.total() > 300
    assert {"accepted", "syntax", "unknown-field", "duplicate-key"} <= met.keys()


@settings(max_examples=60, deadline=None)
@given(path=st.sampled_from(["jobs/any.yaml", "priorities/any.yaml"]), value=VALUES)
def test_any_value_as_a_file_leaves_its_neighbours_alone(repository: Repository, path: str, value: Any) -> None:
    """Whatever YAML can say may stand in a file: the others are judged as if it were not there."""
    assert repository.work_tree
    file = repository.work_tree / path
    before = validate(repository, None)
    file.write_text(json.dumps(value))
    try:
        after = validate(repository, None)
    finally:
        file.unlink()

    assert [other for other in after if other.path != path] == before
    assert len(after) == len(before) + 1


MANY = range(3_000)
BEYOND = {
    "jobs/unknown.yaml": "run: x\n" + "".join(f"k{n}: 1\n" for n in MANY),
    "jobs/twice.yaml": "run: x\n" * 3_000,
    "jobs/only-twice.yaml": "a: {\n" + "b: 1,\n" * 3_000,
    "jobs/variables.yaml": "run: x\nenvs:\n" + "".join(f"  {n}: 1\n" for n in MANY),
    "jobs/late.yaml": "run: x\nsecrets:\n" + "".join(f"  A{n}: &a\n" for n in MANY) + "nmae: x\n",
    "jobs/warnings.yaml": "run: x\nsecrets:\n" + "".join(f"  A{n}: &a\n" for n in MANY),
    "jobs/mounts.yaml": "run: x\nfile_mounts:\n" + "".join(f"  ~/{n}: none/{n}\n" for n in MANY),
    "jobs/pods.yaml": "run: x\nconfig: {kubernetes: {pod_config: {spec: {containers: ["
    + ", ".join(f"{{name: a{n}}}" for n in range(900))
    + "]}}}}\n",
    "priorities/many.yaml": 900
    * "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1}\n---\n",
}


@pytest.mark.parametrize("path", BEYOND)
def test_the_problems_of_a_file_are_bounded(repository: Repository, path: str) -> None:
    """The first 50, errors before warnings, then how many more there are: nobody reads, or can keep, thousands."""
    assert repository.work_tree
    file = repository.work_tree / path
    file.write_text(BEYOND[path])
    try:
        (checked,) = validate(repository, None, [path])
    finally:
        file.unlink()
    declared = [problem for problem in declare({path: BEYOND[path].encode()}).problems if problem.code != "files"]

    assert [problem.code for problem in checked.problems].count("more-problems") == 1
    assert len(checked.problems) == 51
    assert re.fullmatch(r"and \d{3,4} more problems", checked.problems[-1].message)
    assert checked.ok == (path == "jobs/warnings.yaml")
    assert not declared or tuple(declared) == checked.problems
