"""Fixtures that all tests share: a fixed environment, real git repositories, and a real Kubernetes where there is one.

Tests come in three tiers. Most need nothing. Those marked `real` need the control plane of tests/control_plane (or the
cluster that RECONCILER_TEST_KUBECONFIG names); those marked `kubelet` also need its real node. A missing tier is
skipped, and the end of the run says how to get it; with RECONCILER_REQUIRE_TIERS=1 it fails instead.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import binaries
import control_plane as control_plane_module
import pytest
import real_node
from control_plane import ControlPlane
from hypothesis import settings
from jobset_controller import JobSetController

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BINARIES = binaries.binaries_folder()  # NB: below the real home folder, which tests don't see
EXTERNAL = os.environ.get("RECONCILER_TEST_KUBECONFIG")
EXTERNAL_HAS_IMAGE = os.environ.get("RECONCILER_TEST_IMAGE") == "1"
TIERS_REQUIRED = os.environ.get("RECONCILER_REQUIRE_TIERS") == "1"
INHERITED = ("GIT_", "RECONCILER_", "KUBE", "GITHUB_", "GITLAB_", "XDG_")
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada Author",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada Author",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
    "COLUMNS": "120",
}

GIT_SETTINGS = "[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n"  # no process after each commit and push


def pytest_configure() -> None:
    """Choose how long properties are looked into: briefly by everybody, thoroughly where all tiers must run."""
    settings.register_profile("brief", max_examples=30, deadline=None)  # others use this machine too
    settings.register_profile("thorough", max_examples=200, deadline=None)
    settings.load_profile("thorough" if TIERS_REQUIRED else "brief")
    _hear_signals()


def _hear_signals() -> None:
    """Hear signals, and let children hear them: a shell that starts us in the background has told us to ignore some."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our own options."""
    parser.addoption("--update-golden", action="store_true", help="write what came out over the golden files")


def pytest_xdist_auto_num_workers() -> int:
    """Take three workers for two cores with `-n auto`: many tests wait for a process more than they compute."""
    return 3 * (os.cpu_count() or 1) // 2 or 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest in one piece, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.path.name not in {"test_lint.py", "test_loop.py"})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out whose tier is missing, or fail it where all tiers must be there."""
    tier = _tier(item)
    if tier and (missing := _missing(tier)):
        (pytest.fail if TIERS_REQUIRED else pytest.skip)(f"the {tier} tier is missing; to get it: {missing}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say at the very end which tiers were left out, and how to get them."""
    yield
    reasons = Counter(str(report.longrepr[2]) for report in terminalreporter.getreports("skipped"))
    for reason, count in sorted(reasons.items()):
        if "tier is missing" in reason:
            terminalreporter.write_line(f"Left out {count} tests, {reason.removeprefix('Skipped: ')}")


def _tier(item: pytest.Item) -> str | None:
    return next((tier for tier in ("kubelet", "real") if item.get_closest_marker(tier)), None)


def _missing(tier: str) -> str | None:
    """Return what to do to get a tier, or None when it is there."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return "run it in one process: pytest -m 'real or kubelet'"
    if EXTERNAL:
        has_it = tier == "real" or EXTERNAL_HAS_IMAGE
        return None if has_it else f"load {real_node.IMAGE} into the cluster and set RECONCILER_TEST_IMAGE=1"
    if not sys.platform.startswith("linux"):
        return "use Linux"
    if not binaries.built(BINARIES):
        return "make control-plane"
    if shutil.which("openssl") is None:
        return "apt-get install openssl (make control-plane checks it)"
    if tier == "kubelet" and os.geteuid() != 0:
        return "run as root (make control-plane says what else is missing)"
    if tier == "kubelet" and (packages := real_node.missing_packages()):
        return f"apt-get install --no-install-recommends {' '.join(packages)} (make control-plane lists them)"
    return None


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give every test the same identity, clock zone, language and empty home folder, whoever runs it and wherever."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(INHERITED) or name in {"CI", "NO_COLOR", "FORCE_COLOR"}:
                patch.delenv(name)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        home = tmp_path_factory.mktemp("home")
        (home / ".gitconfig").write_text(GIT_SETTINGS)
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
        time.tzset()
        yield


class Golden(Protocol):
    """Compare a text with the whole file of that name below tests/golden, or write it there with --update-golden."""

    def __call__(self, name: str, actual: str) -> None: ...  # noqa: D102


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Hold what came out against what was read in review: `golden("render/gpu.yaml", text)`."""

    def compare(name: str, actual: str) -> None:
        file = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(actual, encoding="utf-8")
        expected = file.read_text(encoding="utf-8") if file.exists() else "no such golden file: --update-golden"

        assert actual == expected

    return compare


class Git(Protocol):
    """Run git in a folder and return what it says, stripped."""

    def __call__(self, folder: Path, *arguments: str) -> str: ...  # noqa: D102


class Commit(Protocol):
    """Write files (None removes one), commit all changes, and return the commit."""

    def __call__(self, folder: Path, files: Mapping[str, str | bytes | None], message: str = "Change") -> str: ...  # noqa: D102


class Repo(Protocol):
    """Make a repository on branch main whose first commit has these files."""

    def __call__(self, files: Mapping[str, str | bytes | None], name: str = "repo") -> Path: ...  # noqa: D102


@pytest.fixture(scope="session")
def git() -> Git:
    """Run the real git: `git(folder, "log", "-1")`."""

    def run(folder: Path, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"git {' '.join(arguments)} in {folder}: {done.stderr}")
        return done.stdout.strip()

    return run


@pytest.fixture
def commit(git: Git, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Commit changes. A test's commits are a second apart and the same at each run, so that their hashes are too."""
    second = 0

    def write_and_commit(folder: Path, files: Mapping[str, str | bytes | None], message: str = "Change") -> str:
        nonlocal second
        second += 1
        for path, content in files.items():
            file = folder / path
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with monkeypatch.context() as patch:
            patch.setenv("GIT_AUTHOR_DATE", f"{1_767_225_600 + second} +0000")  # 2026-01-01T00:00:00Z and so on
            patch.setenv("GIT_COMMITTER_DATE", f"{1_767_225_600 + second} +0000")
            git(folder, "add", "--all")
            git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
        return git(folder, "rev-parse", "HEAD")

    return write_and_commit


@pytest.fixture
def repo(tmp_path: Path, git: Git, commit: Commit) -> Repo:
    """Build repositories below the test's folder, with the real git."""

    def make(files: Mapping[str, str | bytes | None], name: str = "repo") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=main")
        commit(folder, files, "First commit")
        return folder

    return make


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a cluster for the whole run, or use the one that RECONCILER_TEST_KUBECONFIG names.

    It has the node `localhost` with 2 CPUs, one `example.com/slot` and real containers where the kubelet tier is there.
    For all else a test makes a `simulated_node` of its own.
    """
    if EXTERNAL:
        yield ControlPlane(tmp_path_factory.mktemp("control-plane"), BINARIES, external=Path(EXTERNAL).resolve())
        return
    folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
    kubelet = ["--kubelet", f"--cpus={min(2, os.cpu_count() or 1)}"] if _missing("kubelet") is None else []
    with (folder / "up.log").open("w+") as log:
        holder = subprocess.Popen(
            [sys.executable, control_plane_module.__file__, "run", str(folder / "cluster"), *kubelet],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, binaries.FOLDER_VARIABLE: str(BINARIES)},
            start_new_session=True,
        )
        with holder:  # NB: it ends when our end of its standard input closes, even if we are killed
            assert holder.stdin is not None
            assert holder.stdout is not None
            if not holder.stdout.readline():
                log.seek(0)
                pytest.fail(f"the control plane did not start; its logs are in {folder}:\n{log.read()}")
            yield ControlPlane(folder / "cluster", BINARIES)
            holder.stdin.close()
            assert holder.wait(60) == 0
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def own_control_plane(control_plane: ControlPlane) -> ControlPlane:
    """Give the control plane to a test that breaks it or looks into it, which no cluster of others is for."""
    if EXTERNAL:
        pytest.skip("needs a control plane of its own, not RECONCILER_TEST_KUBECONFIG")
    return control_plane


@pytest.fixture(scope="module")
def installed_jobset(own_control_plane: ControlPlane) -> Iterator[JobSetController]:
    """Install JobSet for the tests that need it; for all others the cluster has none."""
    controller = JobSetController(own_control_plane)
    controller.up()
    yield controller
    controller.down()


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Make a fresh namespace. Afterwards its pods are gone, and so are the PriorityClasses named `<namespace>-...`."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl = control_plane.kubectl
    kubectl("create", "namespace", name)
    control_plane.processes.wait(
        lambda: control_plane.exists("serviceaccount", "default", namespace=name), "its account"
    )
    yield name
    there = f"--namespace={name}"
    kubectl("delete", "jobs", "--all", there, "--cascade=background", "--wait=false")
    kubectl("delete", "pods", "--all", there, "--force", "--grace-period=0", "--wait=false")
    kubectl("delete", "namespace", name, "--wait=false")
    kubectl("wait", "pods", "--all", there, "--for=delete", "--timeout=60s")
    classes = kubectl("get", "priorityclasses", "--output=name").split()
    if ours := [path for path in classes if path.partition("/")[2].startswith(f"{name}-")]:
        kubectl("delete", *ours)


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node that KWOK plays. A pod with `pod_config` merged into it runs there and nowhere else."""

    name: str

    @property
    def pod_config(self) -> dict[str, Any]:
        """Return the pod_config of a task that is to run here; annotations on the pod say how it ends (stages.yaml)."""
        return {
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.name},
                "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            }
        }


@pytest.fixture
def simulated_node(own_control_plane: ControlPlane, namespace: str) -> Iterator[SimulatedNode]:
    """Add a node for this test alone: 4 CPUs, 16 GiB, 8 GPUs, one `example.com/slot`."""
    name = f"node-{namespace}"
    own_control_plane.add_simulated_nodes(name, cpus=4, memory="16Gi")
    yield SimulatedNode(name)
    own_control_plane.kubectl("delete", "node", name)
