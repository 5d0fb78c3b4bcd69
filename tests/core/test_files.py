"""What becomes of a file: the tables in tests/core/files say it of some 200 small ones, row by row.

A row is a title behind `===`, the file `jobs/train.yaml` as it stands there (other files follow `@@@ PATH`), and behind
`>>>` what comes of it: `accepted`, `refused` or `no task`, then each problem with its line, code, field and message.
A word behind `|` in the title changes the bytes. What can't be seen is written as ␉ (tab), ␀ (NUL) and ␇ (BEL).

`--update-golden` writes what came out; whoever changes a row reads it as a promise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
from jsonschema_rs import Validator, validator_for

from reconciler.core.encoding import check_echo, is_jobset, job_spec
from reconciler.core.render import RunIdentity, render_job
from reconciler.core.schema.json_schema import task_schema
from reconciler.core.yaml import parse_documents
from reconciler.engine.declare import declare, locate
from reconciler.model import Manifest, Problem, Severity

if TYPE_CHECKING:
    from control_plane import ControlPlane

TABLES = sorted((Path(__file__).parent / "files").glob("*.txt"))
TASK = "jobs/train.yaml"
INVISIBLE = str.maketrans({"␉": "\t", "␀": "\0", "␇": "\a"})
AS_BYTES: dict[str, Callable[[str], bytes]] = {
    "": lambda text: text.encode(),
    "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "latin-1": lambda text: text.encode("latin-1"),
    "no-newline": lambda text: text.removesuffix("\n").encode(),
    "utf-16": lambda text: text.encode("utf-16"),
}
KUBERNETES = "1.37.0"
NAMES = r"(?!config\.kubernetes\.pod_config\.spec)[\w.]+"  # what stands in a spec is Kubernetes' own
RUN = RunIdentity(number=1, owner="me", commit="c0ffee", context="east", namespace="default")


@dataclass(frozen=True)
class Row:
    """One row: what stands in the files, and what is to come of it."""

    title: str
    body: str
    expected: str

    def files(self) -> dict[str, bytes]:
        """Return the files by their paths."""
        as_bytes = AS_BYTES[self.title.partition(" | ")[2]]
        first, *others = self.body.split("@@@ ")
        named = {path: text for path, _, text in (other.partition("\n") for other in others)}
        return {TASK: as_bytes(first.translate(INVISIBLE)), **{path: text.encode() for path, text in named.items()}}


def rows(table: Path) -> Iterator[Row]:
    for part in table.read_text(encoding="utf-8").split("=== ")[1:]:
        title, _, rest = part.partition("\n")
        lines = rest.rstrip("\n").split("\n") if rest.strip() else []
        body = [line for line in lines if not line.startswith(">>> ")]
        expected = [line for line in lines if line.startswith(">>> ")]
        yield Row(title, "".join(f"{line}\n" for line in body), "".join(f"{line}\n" for line in expected))


def judged(row: Row) -> tuple[str, Manifest | None]:
    """Return what comes of a row in the form of the tables, and the Job if there is one."""
    read = row.files()
    declared = declare(read)
    problems = list(declared.problems)
    job = None
    for task in declared.tasks if declared.site_is_sound else ():
        job, found = render_job(task, declared.site, RUN)
        problems += found
    failed = any(problem.severity is Severity.ERROR for problem in problems)
    verdict = "accepted" if job else "refused" if failed else "no task"
    return "".join(f">>> {line}\n" for line in [verdict, *map(_line, locate(problems, read))]), job


def _line(problem: Problem) -> str:
    place = f"{'' if problem.path == TASK else problem.path + ' '}{problem.line or '-'}"
    return f"{problem.severity} {place} [{problem.code}] {problem.field or '-'} | {problem.message}"


ROWS = [(table.stem, row) for table in TABLES for row in rows(table)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_the_tables_are_renewed_by_the_flag(table: Path, request: pytest.FixtureRequest) -> None:
    """Titles are unique; with --update-golden the table is written anew."""
    if request.config.getoption("--update-golden"):
        text = "\n".join(f"=== {row.title}\n{row.body}{judged(row)[0]}" for row in rows(table))
        table.write_text(text, encoding="utf-8")
    titles = [row.title for row in rows(table)]

    assert sorted(set(titles)) == sorted(titles)


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{table}: {row.title}") for table, row in ROWS])
def test_what_becomes_of_a_file(row: Row, request: pytest.FixtureRequest) -> None:
    said, job = judged(row)

    assert said == row.expected or request.config.getoption("--update-golden")
    if job:
        assert [error.message for error in published_schema().iter_errors(as_job(job))] == []


def as_job(run: Manifest) -> Manifest:
    """Return a Job as it is, and of a JobSet the Job that makes its pods."""
    if not is_jobset(run):
        return run
    metadata = {key: value for key, value in run["metadata"].items() if key != "annotations"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec(run)}


def test_an_editor_underlines_nothing_that_is_accepted_and_every_refused_field() -> None:
    """The schema for editors says the same as the reader, as far as it can."""
    wrong = []
    for _, row in ROWS:
        documents, broken = parse_documents(row.files()[TASK], TASK)
        if not broken and len(documents) == 1:
            refused = re.search(rf"^>>> error \d+ \[(unknown|unsupported)-field\] {NAMES}", row.expected, re.MULTILINE)
            underlined = [error.message for error in editors_schema().iter_errors(documents[0].value)]
            if underlined if row.expected.startswith(">>> accepted") else refused and not underlined:
                wrong.append((row.title, underlined))

    assert wrong == []


@cache
def editors_schema() -> Validator:
    """Return the schema of task files that editors show."""
    return validator_for(task_schema())


@cache
def published_schema() -> Validator:
    """Return Kubernetes' own schema of a Job, strict, as kubernetes-validate carries it."""
    place = files(kubernetes_validate) / "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict" / "_definitions.json"
    definitions = json.loads(place.read_text())["$defs"]
    return validator_for({"$ref": "#/$defs/io.k8s.api.batch.v1.Job", "$defs": definitions})


def accepted() -> list[Manifest]:
    """Return the Job of each row that is accepted, under a name of its own."""
    jobs: list[Manifest] = []
    for _, row in ROWS:
        _, job = judged(row)
        if job:
            name, namespace = f"row-{len(jobs)}", "default"
            jobs.append({**job, "metadata": {**job["metadata"], "name": name, "namespace": namespace}})
    return jobs


@pytest.mark.real
def test_a_server_takes_every_job_that_is_accepted_here(control_plane: ControlPlane) -> None:
    """Strictly, by a dry run; and it keeps the form that the count needs."""
    jobs = accepted()
    flags = ("--dry-run=server", "--validate=strict", "--output=json", "--filename=-")
    listed: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": [as_job(job) for job in jobs]}
    said = control_plane.kubectl("create", *flags, stdin=json.dumps(listed))
    echoes = [json.loads(f"{{{part}") for part in f"\n{said}".split("\n{")[1:]]

    assert len(echoes) == len(jobs) > 80
    kept = [check_echo(echo) for job, echo in zip(jobs, echoes, strict=True) if not is_jobset(job)]
    assert kept == [None] * len(kept)
