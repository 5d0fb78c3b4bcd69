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
POD_CONFIG = f"{KUBERNETES}pod_config."
TABLES: dict[str, dict[str, list[tuple[str, Fields]]]] = {
    "fields.md": {
        "task": [("", task_fields.TASK), ("workdir.", task_fields.WORKDIR)],
        "resources": [("resources.", task_fields.RESOURCES), ("resources.job_recovery.", task_fields.JOB_RECOVERY)],
        "volumes": [("volumes.PATH.", task_fields.VOLUME), ("volumes.PATH.config.", task_fields.VOLUME_CONFIG)],
        "config": [
            ("config.", task_fields.CONFIG),
            (KUBERNETES, task_fields.KUBERNETES),
            (f"{KUBERNETES}custom_metadata.", task_fields.CUSTOM_METADATA),
        ],
        "pod_config": [
            (POD_CONFIG, pod_config.POD_CONFIG),
            (f"{POD_CONFIG}metadata.", pod_config.METADATA),
            (f"{POD_CONFIG}spec.", pod_config.REFUSED_SPEC),
        ],
        "sky": [
            ("", settings_fields.SKY),
            ("kubernetes.", settings_fields.KUBERNETES),
            ("kubernetes.context_configs.NAME.", settings_fields.CONTEXT),
        ],
    },
    "files.md": {
        "annotations": [(ANNOTATION_PREFIX, controls.CONTROLS)],
        "reconciler": [("", settings_fields.RECONCILER), ("limits.", settings_fields.LIMITS)],
        "priority": [("", priority.CLASS), ("metadata.", priority.METADATA)],
    },
}


def table(sections: list[tuple[str, Fields]]) -> str:
    """Return what becomes of each field, as a table."""
    lines = ["| Field | Here | Value | |", "|---|---|---|---|"]
    for prefix, fields in sections:
        for name, field in fields.items():
            value = " or ".join(shape.words for shape in field.shapes)
            text = re.sub(r"([<|*\\])", r"\\\1", field.text)
            lines.append(f"| `{prefix}{name}` | {field.fate.value} | {value} | {text} |")
    return "\n".join(lines)


@pytest.mark.parametrize("page", TABLES)
def test_the_tables_of_fields_are_those_of_the_program(page: str, request: pytest.FixtureRequest) -> None:
    """Every field that is known stands on a page with what becomes of it; --update-golden renews the tables."""
    file = DOCS / page
    text = file.read_text(encoding="utf-8")
    block = re.compile(r"(<!-- fields:begin (\w+) -->\n).*?(<!-- fields:end -->)", re.DOTALL)
    wanted = block.sub(lambda match: f"{match[1]}{table(TABLES[page][match[2]])}\n{match[3]}", text)
    if request.config.getoption("--update-golden"):
        file.write_text(wanted, encoding="utf-8")

    assert [name for _, name, _ in block.findall(text)] == list(TABLES[page])
    assert file.read_text(encoding="utf-8") == wanted


def test_every_field_of_a_task_stands_on_the_page() -> None:
    """None of the tables that a task is read by is left out there."""
    shown = {id(fields) for sections in TABLES["fields.md"].values() for _, fields in sections}
    missing = [
        name
        for module in (task_fields, settings_fields, pod_config)
        for name, fields in vars(module).items()
        if name.isupper() and isinstance(fields, dict) and id(fields) not in shown
    ]

    assert missing == ["ALTERNATIVE", "RECONCILER", "LIMITS"]


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

    assert (done.stderr, done.stdout) == ("", f"{len(files)} file{'s'[: len(files) > 1]}, 0 invalid\n")


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
