"""`reconcile demo`: play the scenario that this exists for, with the ordinary commands on an ordinary repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from reconciler.errors import ReconcilerError

CLASSES = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high-priority}
value: 200
description: Takes the place of low-priority jobs.
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low-priority}
value: 100
globalDefault: true
description: For all that can wait.
"""

JOB = """\
name: {name}
resources:
  cpus: 4
run: |
  for i in $(seq 1 {count}); do
    echo "{name} $i"
    sleep 1
  done
config:
  kubernetes:
    pod_config:
      spec:
        priorityClassName: {priority}
        terminationGracePeriodSeconds: 2
"""


@click.command(name="demo")
@click.option("--keep", is_flag=True, help="Keep the scratch repository and its cluster, to look around.")
def command(*, keep: bool) -> None:
    """Play preemption and recovery on this machine, in half a minute.

    In a scratch repository, on a pretend node of 4 CPUs: a low-priority job that needs them all runs; an urgent one of
    the same size takes its place; when that has ended, the first comes back by itself. Every step is an ordinary
    command that is printed before it runs.
    """
    if not shutil.which("git"):
        raise ReconcilerError("demo: git is not installed, or not on PATH")
    home = Path(tempfile.mkdtemp(prefix="reconcile-demo-"))
    try:
        _Stage(home).play()
    finally:
        if keep:
            click.echo(
                f"\nKept: {home}. To look around:\n"
                f"  cd {home / 'repo'}\n"
                f"  export RECONCILER_LOCAL_HOME={home / 'cluster'}\n"
                "  reconcile show counter --cluster local"
            )
        else:
            shutil.rmtree(home, ignore_errors=True)


class _Stage:
    """A scratch repository, a pretend cluster, and the commands that a person would type."""

    def __init__(self, home: Path) -> None:
        self.repo = home / "repo"
        identity = {
            f"GIT_{who}_{what}": f"demo{'@localhost' if what == 'EMAIL' else ''}"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        self.environ = {
            **os.environ,
            **identity,
            "RECONCILER_LOCAL_HOME": str(home / "cluster"),
            "RECONCILER_LOCAL_CAPACITY": "cpu=4,memory=16Gi",
        }
        self.environ.pop("CI", None)

    def play(self) -> None:
        """Play the scenario from an empty repository to the log of the status branch."""
        self.say("A repository with two PriorityClasses and a low-priority counter that needs the whole node.")
        self.repo.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("priorities/classes.yaml", CLASSES)
        self.write("jobs/counter.yaml", JOB.format(name="counter", count=8, priority="low-priority"))
        self.commit("Count to eight when there is room")
        self.reconcile("--once", "--wait", "started")
        self.queue()

        self.say("An urgent job of the same size: it takes the place at once.")
        self.write("jobs/urgent.yaml", JOB.format(name="urgent", count=4, priority="high-priority"))
        self.commit("Count to four, now")
        self.reconcile("--once", "--wait", "started")
        self.queue()

        self.say("When it has ended, the counter comes back by itself and finishes.")
        self.reconcile("--once", "--wait", "finished")
        self.queue()

        self.say("Git tells the story; the files are README.md, jobs/*.yaml and priorities.yaml on that branch.")
        self.git("log", "--format=%h %ad %s", "--date=format:%H:%M:%S", "--reverse", "job-status-local", shown=True)
        self.git("show", "job-status-local:README.md", shown=True)
        click.echo("\nLook further (with --keep): git show job-status-local:jobs/counter.yaml")

    def say(self, text: str) -> None:
        """Announce a step."""
        click.echo()
        click.secho(f"# {text}", bold=True)

    def write(self, path: str, text: str) -> None:
        """Write a file of the repository."""
        file = self.repo / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def commit(self, message: str) -> None:
        """Commit everything, as a person would."""
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", message, shown=True)

    def git(self, *arguments: str, shown: bool = False) -> None:
        """Run git in the repository."""
        self.run(["git", *arguments], shown=f"git {' '.join(_quoted(arguments))}" if shown else None)

    def reconcile(self, *arguments: str) -> None:
        """Run this program on the repository and the pretend cluster."""
        words = [*arguments, "--cluster", "local"]
        self.run([sys.executable, "-m", "reconciler", *words], shown=f"reconcile {' '.join(words)}")

    def queue(self) -> None:
        """Show the queue."""
        self.reconcile("queue")

    def run(self, words: list[str], *, shown: str | None) -> None:
        """Run a command, and stop the play when it fails."""
        if shown:
            click.secho(f"$ {shown}", fg="cyan")
        sys.stdout.flush()
        code = subprocess.run(words, cwd=self.repo, env=self.environ, check=False).returncode
        if code:
            raise ReconcilerError(f"demo: `{shown or ' '.join(words)}` ended with exit code {code}")


def _quoted(words: tuple[str, ...]) -> list[str]:
    import shlex

    return [shlex.quote(word) for word in words]
