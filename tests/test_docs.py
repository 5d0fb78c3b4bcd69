"""The documentation says what the program does: what can be compared with it, is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from reconciler.cli.main import COMMANDS, cli
from reconciler.core import priority
from reconciler.core.schema import controls, pod_config, settings_fields, task_fields
from reconciler.engine.declare import JOBS, PRIORITIES
from reconciler.errors import ExitCode
from reconciler.model import ANNOTATION_PREFIX, Result, State, Verb, Verdict
from reconciler.source.revision import SETTINGS

if TYPE_CHECKING:
    from reconciler.core.schema.fields import Fields
    from tests.conftest import Repo

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
WIDTH = 120

KUBERNETES = "config.kubernetes."
TABLES: dict[str, list[tuple[str, Fields]]] = {
    "task": [("", task_fields.TASK)],
    "resources": [("", task_fields.RESOURCES), ("job_recovery.", task_fields.JOB_RECOVERY)],
    "volumes": [("", task_fields.VOLUME), ("config.", task_fields.VOLUME_CONFIG)],
    "config": [
        ("config.", task_fields.CONFIG),
        (KUBERNETES, task_fields.KUBERNETES),
        (f"{KUBERNETES}custom_metadata.", task_fields.CUSTOM_METADATA),
    ],
    "annotations": [(ANNOTATION_PREFIX, controls.CONTROLS)],
    "pod_config": [
        ("", pod_config.POD_CONFIG),
        ("metadata.", pod_config.METADATA),
        ("spec.", pod_config.REFUSED_SPEC),
    ],
    "sky": [
        ("", settings_fields.SKY),
        ("kubernetes.", settings_fields.KUBERNETES),
        ("kubernetes.context_configs.NAME.", settings_fields.CONTEXT),
    ],
    "reconciler": [("", settings_fields.RECONCILER), ("limits.", settings_fields.LIMITS)],
    "priority": [("", priority.CLASS), ("metadata.", priority.METADATA)],
}


def table(name: str) -> str:
    """Return what becomes of each field, as a table; fields of one section that share their text share a row."""
    lines = ["| Field | Here | Value | |", "|---|---|---|---|"]
    for prefix, fields in TABLES[name]:
        for field in dict.fromkeys(fields.values()):
            keys = [key for key, other in fields.items() if other == field]
            names = ", ".join(f"`{key}`" for key in keys)
            names = f"`{prefix}{keys[0]}`" if len(keys) == 1 else f"`{prefix}`({names})" if prefix else names
            value = " or ".join(shape.words for shape in field.shapes)
            text = re.sub(r"([<|*\\])", r"\\\1", field.text)
            lines.append(f"| {names} | {field.fate.value} | {value} | {text} |")
    return "\n".join(lines)


def test_the_tables_of_fields_are_those_of_the_program(request: pytest.FixtureRequest) -> None:
    """Every field that is known stands in docs/files.md with what becomes of it; --update-golden renews the tables."""
    page = DOCS / "files.md"
    text = page.read_text(encoding="utf-8")
    block = re.compile(r"(<!-- fields:begin (\w+) -->\n).*?(<!-- fields:end -->)", re.DOTALL)
    wanted = block.sub(lambda match: f"{match[1]}{table(match[2])}\n{match[3]}", text)
    if request.config.getoption("--update-golden"):
        page.write_text(wanted, encoding="utf-8")

    assert [name for _, name, _ in block.findall(text)] == list(TABLES)
    assert page.read_text(encoding="utf-8") == wanted


def options() -> set[str]:
    """Name the long options of all commands."""
    group = click.Context(cli)
    commands = [cli, *(command for name in COMMANDS if (command := cli.get_command(group, name)))]
    return {option for command in commands for param in command.params for option in param.opts if option[:2] == "--"}


@pytest.mark.parametrize(
    ("page", "words"),
    [
        pytest.param("changes.md", list(Verb), id="actions"),
        pytest.param("changes.md", list(Result), id="results"),
        pytest.param("status.md", list(State), id="states"),
        pytest.param("status.md", [str(code.value) for code in ExitCode], id="exit codes"),
        pytest.param("operating.md", list(Verdict), id="verdicts"),
        pytest.param("operating.md", sorted(COMMANDS), id="commands"),
        pytest.param("operating.md", sorted(options()), id="options"),
    ],
)
def test_every_word_is_explained(page: str, words: list[str]) -> None:
    """A word of the program's own stands in the table of the page that is for it."""
    cells = re.findall(r"^\| ((?:\\\||[^|])*)", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    explained = {word for cell in cells for code in re.findall("`([^`]+)`", cell) for word in code.split()}

    assert [word for word in words if word not in explained] == []


def test_no_code_of_a_problem_is_made_up() -> None:
    """The codes that status.md names are the program's: each of them stands in its source."""
    text = (DOCS / "status.md").read_text(encoding="utf-8")
    section = text.partition("## Codes of problems")[2].partition("\n## ")[0]
    codes = [
        code for line in re.findall(r"^\| (`[^|]*)\|", section, re.MULTILINE) for code in re.findall(r"`(.+?)`", line)
    ]
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "reconciler").rglob("*.py"))

    assert codes
    assert [code for code in codes if f'"{code}"' not in source] == []


def example_files(page: Path) -> dict[str, str | bytes | None]:
    """Return the files of a repository that a page shows: blocks of YAML whose first line is the path of one."""
    found = re.findall(r"^```yaml\n(# (\S+)\n.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return {path: text for text, path in found if path in SETTINGS or path.startswith((JOBS, PRIORITIES))}


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES if example_files(page)])
def test_examples_are_valid(page: Path, repo: Repo) -> None:
    """There is nothing wrong with the files that a page shows, nothing to warn of either."""
    files = example_files(page)
    command = [sys.executable, "-m", "reconciler", "validate", "--repo", str(repo(files))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.stderr, done.stdout) == ("", f"{len(files)} files, 0 invalid\n")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A link within the project names a file, and a heading of it."""
    wrong = []
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (heading and heading not in headings(file)):
            wrong.append(target)

    assert wrong == []


def headings(page: Path) -> set[str]:
    """Return the anchors that a git host makes of the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_prose_is_wrapped(page: Path) -> None:
    """Only tables are wider than a page."""
    lines = page.read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if len(line) > WIDTH and not line.startswith("|")] == []
