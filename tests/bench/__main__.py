"""Measure the budgets: `python -m tests.bench [--jobs 1000] [--suspended] [--no-kubectl]`, see README.md.

Every number is a ratio to something that ran just before or after it, on the same machine and the same API server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "control_plane"))

import control_plane as control_plane_module  # noqa: E402
from binaries import binaries_folder  # noqa: E402
from control_plane import ControlPlane  # noqa: E402

from tests.bench.measure import Cost, Row, cost_of, middle, together  # noqa: E402
from tests.bench.workload import OWNER, Workload, git  # noqa: E402

ROUNDS = 7
FILES = 10_000
RECONCILE = (sys.executable, "-m", "reconciler")
SETTLING = 600.0


@dataclass(frozen=True, slots=True)
class Bench:
    """One API server, one repository, and the environment in which all processes run."""

    server: ControlPlane
    workload: Workload
    environ: dict[str, str]

    def reconcile(self, *arguments: str) -> Cost:
        """Run the command line in the clone."""
        return cost_of([*RECONCILE, *arguments], environ=self.environ, folder=self.workload.clone)

    def script(self, name: str, *arguments: str) -> Cost:
        """Run one of the bare scripts."""
        return cost_of([sys.executable, str(HERE / name), *arguments], environ=self.environ)

    def kubectl(self, *arguments: str) -> Cost:
        """Run kubectl."""
        binary = str(self.server.binaries / "controlplane")
        return cost_of([binary, "kubectl", *arguments], environ=self.environ)

    def status(self) -> str:
        """Return the tip of the status branch, or nothing."""
        return git(self.workload.clone, "ls-remote", "origin", "refs/heads/job-status")


def main() -> None:
    """Measure and print a table."""
    arguments = _arguments()
    rows = [*_command_line()]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, _server(Path(folder)) as server:
        workload = Workload(Path(folder) / "repo", arguments.jobs, suspended=arguments.suspended)
        workload.write()
        bench = Bench(server, workload, _environ(server.kubeconfig))
        rows += _passes(bench, with_kubectl=not arguments.no_kubectl)
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"{'ok  ' if row.kept else 'OVER'}  {row.what:{width}}  {row.measured}  (budget: {row.budget})")


def _command_line() -> Iterator[Row]:
    """Measure what needs no cluster."""
    environ = _environ(None)
    bare = middle([cost_of([sys.executable, "-c", "pass"], environ=environ) for _ in range(10)])
    shown = middle([cost_of([*RECONCILE, "--help"], environ=environ) for _ in range(10)])
    text = f"{shown.seconds:.3f} s, an empty interpreter {bare.seconds:.3f} s"
    yield Row("reconcile --help", text, "0.2 s", shown.seconds <= 0.2)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        workload = Workload(Path(folder), FILES)
        workload.write()
        command = [*RECONCILE, "validate"]
        cost = middle([cost_of(command, environ=environ, folder=workload.clone) for _ in range(3)])
    yield Row(f"validate of {FILES} files", f"{cost}, {cost.memory:.0f} MiB", "3 s", cost.seconds <= 3)


def _passes(bench: Bench, *, with_kubectl: bool) -> Iterator[Row]:
    """Measure the first pass, then passes with nothing to do, then what they are to be compared with."""
    jobs = bench.workload.jobs
    first = bench.reconcile("--once")
    _settle(bench)
    pairs = [
        (bench.reconcile("--once"), bench.script("bare_read.py", str(bench.workload.clone))) for _ in range(ROUNDS)
    ]
    nothing, reads = (middle(costs) for costs in zip(*pairs, strict=True))
    yield _ratio(f"no-op pass over {jobs} jobs, to its bare reads", nothing, reads, most=2.0)
    memory = 150 if jobs <= 1000 else 400
    yield Row("  its memory", f"{nothing.memory:.0f} MiB", f"{memory} MiB", nothing.memory <= memory)
    manifests = _rendered(bench)
    creations = bench.script("bare_write.py", _in_namespace(bench, manifests, "bare"))
    bare = together(creations, reads)
    yield _ratio(f"first pass of {jobs} jobs, to bare creations and reads", first, bare, most=1.25)
    if with_kubectl:
        created = bench.kubectl("create", "-f", _in_namespace(bench, manifests, "created"))
        yield _ratio(f"kubectl create of {jobs} jobs, to the first pass", created, first, least=2.0)
        applied = _in_namespace(bench, manifests, "applied")
        bench.kubectl("apply", "-f", applied)
        again = bench.kubectl("apply", "-f", applied)
        yield _ratio(f"kubectl apply of {jobs} unchanged jobs, to a no-op pass", again, nothing, least=20.0)


def _ratio(what: str, cost: Cost, reference: Cost, *, most: float | None = None, least: float | None = None) -> Row:
    ratio = cost.seconds / reference.seconds
    budget = f"at most {most:g}" if most else f"at least {least:g}"
    kept = ratio <= most if most else ratio >= (least or 0)
    return Row(what, f"{cost} / {reference} = {ratio:.2f}", budget, kept)


def _settle(bench: Bench) -> None:
    """Run passes until one changes nothing any more: pods are there, and all is recorded."""
    kind = "jobs" if bench.workload.suspended else "pods"
    end = time.monotonic() + SETTLING
    while len(bench.server.get(kind)) < bench.workload.jobs or not _is_still(bench):
        if time.monotonic() > end:
            sys.exit(f"the passes still change something after {SETTLING:g} s")
        time.sleep(1)


def _is_still(bench: Bench) -> bool:
    before = bench.status()
    bench.reconcile("--once")
    return bench.status() == before


def _rendered(bench: Bench) -> list[dict[str, Any]]:
    """Return the manifests of all jobs as the first pass sent them."""
    from reconciler.core.render import RunIdentity, render_job
    from reconciler.core.settings import parse_site
    from reconciler.core.task import parse_task_file

    files = {path: text.encode() for path, text in bench.workload.files().items()}
    site, _ = parse_site({path: data for path, data in files.items() if path == "reconciler.yaml"})
    run = RunIdentity(number=1, owner=OWNER, commit="0" * 40, context="test", namespace="default")
    tasks = [parse_task_file(path, data).task for path, data in files.items() if path.startswith("jobs/")]
    manifests = [render_job(task, site, run)[0] for task in tasks if task]
    return [manifest for manifest in manifests if manifest]


def _in_namespace(bench: Bench, manifests: list[dict[str, Any]], namespace: str) -> str:
    """Make a namespace, and a file with the manifests for it."""
    bench.server.kubectl("create", "namespace", namespace)
    items = [{**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}} for manifest in manifests]
    path = bench.workload.folder / f"{namespace}.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _environ(kubeconfig: Path | None) -> dict[str, str]:
    """Return the environment of all that is measured: nobody's git settings, and this checkout's code."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "KUBE", "RECONCILER_"))
    }
    fixed = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PYTHONPATH": str(HERE.parent.parent)}
    return {**inherited, **fixed, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[ControlPlane]:
    """Run a control plane without nodes: pods stay Pending, and nothing disturbs."""
    command = [sys.executable, control_plane_module.__file__, "run", str(folder / "cluster")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as holder:
        if not (holder.stdout and holder.stdin and holder.stdout.readline()):
            sys.exit("the control plane did not start: make control-plane")
        yield ControlPlane(folder / "cluster", binaries_folder())
        holder.stdin.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument(
        "--suspended", action="store_true", help="jobs without pods, instead of pods that wait for a node"
    )
    parser.add_argument("--no-kubectl", action="store_true", help="leave out kubectl, which takes minutes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
