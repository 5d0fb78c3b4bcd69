"""`reconcile validate` as a tool: for a person at an editor, for pre-commit, and for GitHub Actions."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli.main import cli
from reconciler.cli.output import print_annotations
from reconciler.errors import UsageError
from reconciler.model import Problem, Severity

if TYPE_CHECKING:
    from tests.conftest import Git, Repo

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = {
    "jobs/a.yaml": "name: same\nrun: x\n",
    "jobs/b.yaml": "name: same\nrun: x\nresources: {priority_class: high}\n",
    "jobs/team/c.yaml": "run: x\nresources:\n  cpus: many\n",
    "priorities/p.yaml": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1\n",
}
PATIENCE = 30.0


def validate(*arguments: str) -> Result:
    """Run the command here, in the current folder."""
    return CliRunner().invoke(cli, ["validate", *arguments])


def codes(ran: Result) -> dict[str, list[str]]:
    """Return what was found, by file."""
    found: dict[str, list[str]] = {}
    for path, code in re.findall(r"^([\w./]+?):.*\[([\w-]+)\]$", ran.stderr, re.MULTILINE):
        found.setdefault(path, []).append(code)
    return found


@pytest.fixture
def folder(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build a repository with two files of one name and one that is broken, and go there."""
    made = repo(FILES)
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize(
    ("paths", "found", "summary", "code"),
    [
        pytest.param(
            [],
            {
                "jobs/a.yaml": ["duplicate-name"],
                "jobs/b.yaml": ["duplicate-name"],
                "jobs/team/c.yaml": ["invalid-value"],
            },
            "4 files, 3 invalid\n",
            3,
            id="all",
        ),
        pytest.param(
            ["jobs/b.yaml"], {"jobs/b.yaml": ["duplicate-name"]}, "1 file, 1 invalid\n", 3, id="name of another"
        ),
        pytest.param(["priorities/p.yaml"], {}, "1 file, 0 invalid\n", 0, id="the others' faults are not told"),
        pytest.param(
            ["jobs/team", "./priorities"],
            {"jobs/team/c.yaml": ["invalid-value"]},
            "2 files, 1 invalid\n",
            3,
            id="folders",
        ),
        pytest.param(
            ["jobs/a.yaml", "jobs/a.yaml"], {"jobs/a.yaml": ["duplicate-name"]}, "1 file, 1 invalid\n", 3, id="twice"
        ),
    ],
)
def test_only_the_given_files_are_reported(
    folder: Path, paths: list[str], found: dict[str, list[str]], summary: str, code: int
) -> None:
    """What a file means is judged among all of them: its name may be taken, its class be declared elsewhere."""
    ran = validate(*paths)

    assert (codes(ran), ran.stdout, ran.exit_code) == (found, summary, code)


def test_paths_count_from_the_folder_where_one_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From outside they count from the root of the repository that is named."""
    monkeypatch.chdir(folder / "jobs")
    here = validate("team/c.yaml", str(folder / "priorities"))
    monkeypatch.chdir("/")
    elsewhere = validate("--repo", str(folder), "jobs/team/c.yaml", "priorities")

    assert here.stdout == elsewhere.stdout == "2 files, 1 invalid\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["jobs/d.yaml"], "jobs/d.yaml: no such file among those that are read", id="missing"),
        pytest.param(["jobs/a.yaml", "README.md"], "README.md: no such file among those that are read", id="not ours"),
        pytest.param(["../x.yaml"], "../x.yaml lies outside the repository", id="outside"),
        pytest.param(["--watch", "--ref", "HEAD"], "--watch is for the files of a work tree", id="watch a commit"),
        pytest.param(["--watch", "-o", "json"], "--watch is for the files of a work tree", id="watch for programs"),
    ],
)
def test_what_can_not_be_checked_is_a_mistake_of_usage(folder: Path, arguments: list[str], message: str) -> None:
    """Nothing is passed over in silence: a name that is misspelt would look fine."""
    ran = validate(*arguments)

    assert isinstance(ran.exception, UsageError)
    assert message in str(ran.exception)


def test_annotations_of_github(folder: Path) -> None:
    """Each problem is a workflow command that names file, line and column; the exit code stays."""
    (folder / "jobs/team/c.yaml").write_text("run: x\nresources:\n  cpus: 5%\n")
    ran = validate("-o", "github", "jobs/team")

    assert ran.stdout == (
        "::error file=jobs/team/c.yaml,line=3,col=3,title=invalid-value::"
        "resources.cpus: '5%25' is no number of CPUs: write 4, 0.5 or \"4+\"\n"
        "1 file, 1 invalid\n"
    )
    assert (ran.stderr, ran.exit_code) == ("", 3)


def test_nothing_in_a_problem_ends_its_annotation(capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends, % and, in a property, : and , are escaped; a problem without a line has none."""
    print_annotations(
        [
            Problem(Severity.WARNING, "a-code", "jobs/a,b:c%.yaml", "50%\r\n::error::x", field="a.b"),
            Problem(Severity.ERROR, "a-code", "jobs/a.yaml", "says a.b", line=3, field="a.b"),
        ]
    )

    assert capsys.readouterr().out.splitlines() == [
        "::warning file=jobs/a%2Cb%3Ac%25.yaml,title=a-code::a.b: 50%25%0D%0A::error::x",
        "::error file=jobs/a.yaml,line=3,title=a-code::says a.b",
    ]


def test_the_hook_of_pre_commit(folder: Path, git: Git) -> None:
    """Its pattern finds the files that are read, and its entry, given their names, fails for a broken one."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (folder / "README.md").write_text("no task")
    (folder / ".sky.yaml").write_text("kubernetes: {}\n")
    git(folder, "add", "--all")
    names = [name for name in git(folder, "ls-files").splitlines() if re.search(hook["files"], name)]
    assert names == [".sky.yaml", *FILES]

    program = Path(sys.executable).parent / shlex.split(hook["entry"])[0]
    command = [str(program), *shlex.split(hook["entry"])[1:], *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "5 files, 3 invalid\n")
    assert "jobs/team/c.yaml:3:3: error: resources.cpus" in done.stderr


class Terminal:
    """A process at a terminal, and what it has printed there."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._screen, end = pty.openpty()
        command = [sys.executable, "-m", "reconciler", *arguments]
        self.process = subprocess.Popen(command, cwd=folder, stdin=end, stdout=end, stderr=end, start_new_session=True)
        os.close(end)
        self.shown = ""

    def until(self, text: str) -> str:
        """Return what was shown up to this text, which must come soon."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.shown += os.read(self._screen, 4096).decode()
        before, _, self.shown = self.shown.partition(text)
        return before


def test_watching_ends_with_ctrl_c_and_shows_each_change_on_an_empty_screen(folder: Path) -> None:
    """It goes on over a file that is gone for a moment, and over new folders."""
    terminal = Terminal(folder, "validate", "--watch", "jobs/team")
    first = terminal.until("Ctrl-C ends this")
    (folder / "jobs/team/c.yaml").unlink()
    gone = terminal.until("no such file among those that are read")
    (folder / "jobs/team/deep").mkdir(parents=True)
    (folder / "jobs/team/deep/c.yaml").write_text("run: x\n")
    last = terminal.until("Ctrl-C ends this")
    terminal.process.send_signal(signal.SIGINT)

    assert terminal.process.wait(PATIENCE) == 130
    assert "\x1b[2J" in first
    assert "c.yaml:3:3" in first
    assert "1 file, 1 invalid" in first
    assert "jobs/team" in gone
    assert "\x1b[2J" in last
    assert "1 file, 0 invalid" in last
