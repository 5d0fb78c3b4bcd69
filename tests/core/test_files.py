"""What becomes of a file: the tables in tests/core/files say it of some 200 small ones, row by row.

A row is a title behind `===`, the file `jobs/train.yaml` as it stands there (other files follow `@@@ PATH`), and behind
`>>>` what comes of it: `accepted`, `refused` or `no task`, then each problem with its line, code, field and message.
A word behind `|` in the title changes the bytes: `long` makes … a text of 100 000 bytes. What can't be seen is written
as ␉ (tab), ␀ (NUL) and ␇ (BEL). Tasks take their files from the repository COMMITTED.

`--update-golden` writes what came out; whoever changes a row reads it as a promise.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
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
from reconciler.engine.files import Files
from reconciler.engine.owned import incomplete
from reconciler.model import ALL_ALLOWED, Manifest, Problem, Severity
from reconciler.source.repository import Repository
from reconciler.source.tree import CommittedTree

if TYPE_CHECKING:
    from control_plane import ControlPlane
    from jobset_controller import JobSetController

TABLES = sorted((Path(__file__).parent / "files").glob("*.txt"))
TASK = "jobs/train.yaml"
INVISIBLE = str.maketrans({"␉": "\t", "␀": "\0", "␇": "\a"})
AS_BYTES: dict[str, Callable[[str], bytes]] = {
    "": lambda text: text.encode(),
    "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "long": lambda text: text.replace("…", "x" * 100_000).encode(),
    "latin-1": lambda text: text.encode("latin-1"),
    "no-newline": lambda text: text.removesuffix("\n").encode(),
    "utf-16": lambda text: text.encode("utf-16"),
}
KUBERNETES = "1.37.0"
NAMES = r"(?!config\.kubernetes\.pod_config\.spec)[\w.]+"  # what stands in a spec is Kubernetes' own
RUN = RunIdentity(number=1, owner="me", commit="c0ffee", context="east", namespace="default")
URL = "https://example.com/team/jobs"
COMMITTED = {
    "train/start.sh": b"#!/bin/sh\n",
    "train/weights": bytes(range(256)),
    "data/words": "Größe\n".encode(),
    "data/large": b"x" * (1024 * 1024 + 1),
}
LINKS = {"train/latest": "weights", "apart/words": "../data/words"}


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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommittedTree]:
    """Commit the files that tasks take."""
    folder = tmp_path_factory.mktemp("committed")
    for path, content in COMMITTED.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "train/start.sh").chmod(0o755)
    for path, target in LINKS.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).symlink_to(target)
    for command in ("init --quiet", "add --all", "commit --quiet --message=Files"):
        subprocess.run(["git", "-C", folder, *command.split()], check=True)
    with Repository(folder) as repository:
        commit = repository.resolve("HEAD")
        assert commit is not None
        yield CommittedTree(repository, commit)


def judged(row: Row, tree: CommittedTree) -> tuple[str, list[Manifest]]:
    """Return what comes of a row in the form of the tables, and what a pass would send for it, the run last."""
    read = row.files()
    declared = declare(read)
    files = Files(tree, declared.tasks, URL, declared.site, (ALL_ALLOWED, declared.site.limits))
    problems = list(declared.problems)
    sent: list[Manifest] = []
    for task in declared.tasks if declared.site_is_sound else ():
        of_run, missing = files.of(task)
        job, found = render_job(task, declared.site, RUN, of_run)
        problems += [*missing, *found]
        if job and not missing:
            owned = files.objects(task, job)
            sent = [*owned, incomplete(job) if owned else job]
    failed = any(problem.severity is Severity.ERROR for problem in problems)
    verdict = "accepted" if sent else "refused" if failed else "no task"
    return "".join(f">>> {line}\n" for line in [verdict, *map(_line, locate(problems, read))]), sent


def _line(problem: Problem) -> str:
    place = f"{'' if problem.path == TASK else problem.path + ' '}{problem.line or '-'}"
    return f"{problem.severity} {place} [{problem.code}] {problem.field or '-'} | {problem.message}"


ROWS = [(table.stem, row) for table in TABLES for row in rows(table)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_the_tables_are_renewed_by_the_flag(table: Path, tree: CommittedTree, request: pytest.FixtureRequest) -> None:
    """Titles are unique; with --update-golden the table is written anew."""
    if request.config.getoption("--update-golden"):
        text = "\n".join(f"=== {row.title}\n{row.body}{judged(row, tree)[0]}" for row in rows(table))
        table.write_text(text, encoding="utf-8")
    titles = [row.title for row in rows(table)]

    assert sorted(set(titles)) == sorted(titles)


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{table}: {row.title}") for table, row in ROWS])
def test_what_becomes_of_a_file(row: Row, tree: CommittedTree, request: pytest.FixtureRequest) -> None:
    said, sent = judged(row, tree)

    assert said == row.expected or request.config.getoption("--update-golden")
    wrong = [error.message for m in sent for error in published_schema(SCHEMAS[m["kind"]]).iter_errors(as_job(m))]
    assert wrong == []


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


SCHEMAS = {
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "Secret": "io.k8s.api.core.v1.Secret",
    "Job": "io.k8s.api.batch.v1.Job",
    "JobSet": "io.k8s.api.batch.v1.Job",
}


@cache
def published_schema(name: str) -> Validator:
    """Return Kubernetes' own schema of a kind, strict, as kubernetes-validate carries it."""
    place = files(kubernetes_validate) / "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict" / "_definitions.json"
    definitions = json.loads(place.read_text())["$defs"]
    return validator_for({"$ref": f"#/$defs/{name}", "$defs": definitions})


def echoes(control_plane: ControlPlane, manifests: list[Manifest]) -> list[Manifest]:
    """Return what a server makes of manifests: strictly, and by a dry run."""
    flags = ("--dry-run=server", "--validate=strict", "--output=json", "--filename=-")
    listed: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": manifests}
    said = control_plane.kubectl("create", *flags, stdin=json.dumps(listed))
    return [json.loads(f"{{{part}") for part in f"\n{said}".split("\n{")[1:]]


def accepted(tree: CommittedTree) -> list[Manifest]:
    """Return all that a pass would send for the rows that are accepted."""
    return [manifest for _, row in ROWS for manifest in judged(row, tree)[1]]


@pytest.mark.real
def test_a_server_takes_all_that_is_sent_for_what_is_accepted_here(
    control_plane: ControlPlane, tree: CommittedTree
) -> None:
    """Jobs, and what they need besides; and it keeps the form of a Job that the count needs."""
    sent = [manifest for manifest in accepted(tree) if not is_jobset(manifest)]
    jobs = [echo for echo in echoes(control_plane, sent) if echo["kind"] == "Job"]

    assert Counter(manifest["kind"] for manifest in sent) == {"Job": len(jobs), "ConfigMap": 6, "Secret": 3}
    assert [check_echo(job) for job in jobs] == [None] * len(jobs)
    assert len(jobs) > 80


@pytest.mark.real
def test_jobset_takes_all_that_is_sent_for_several_nodes(
    installed_jobset: JobSetController, tree: CommittedTree
) -> None:
    """Its webhooks have judged them, and kept the form that the count needs."""
    sent = [manifest for manifest in accepted(tree) if is_jobset(manifest)]
    taken = echoes(installed_jobset.control_plane, sent)

    assert [check_echo(jobset) for jobset in taken] == [None] * len(sent)
    assert len(sent) == 3
