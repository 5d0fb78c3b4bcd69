"""A team as this product meets it: a repository with a remote, a cluster, and the `reconcile` command.

`team` has each cluster in turn, this machine always and Kubernetes with its real node where it is there; `local_team`
and `cluster_team` have one of them. All that a test sees comes from the command, from git or from kubectl.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import pytest
import yaml

from reconciler.cluster.local import LocalCluster, open_local_cluster

if TYPE_CHECKING:
    from control_plane import ControlPlane

    from tests.conftest import Commit, Git, SimulatedNode

SLOT = "example.com/slot"
CAPACITY = f"cpu=2,memory=8Gi,{SLOT}=1"
PATIENCE = 60.0  # seconds, for what takes a few on an idle machine


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What it printed with `-o json`."""
        assert self.stdout, self.stderr
        return json.loads(self.stdout)

    @property
    def actions(self) -> list[tuple[str, str | None, str]]:
        """Action, result and name of all that was more than kept."""
        return [(a["action"], a["result"], a["name"]) for a in self.json["actions"] if a["action"] != "keep"]

    def reason(self, name: str) -> str:
        """Why the action on the object of that name is what it is."""
        (action,) = [action for action in self.json["actions"] if action["name"] == name]
        return str(action["reason"])


class Forks:
    """Runs short commands by fork_server.py, which has imported everything; a context manager."""

    def __enter__(self) -> Self:
        """Start it; the first command waits until it is ready."""
        server = Path(__file__).with_name("fork_server.py")
        self._server = subprocess.Popen(
            [sys.executable, str(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        with self._server:  # closes its standard input
            pass

    def run(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Ran:
        """Run a command to its end."""
        assert self._server.stdin
        assert self._server.stdout
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            streams = [os.devnull, output.name, errors.name]
            request = {"arguments": arguments, "folder": str(folder), "environment": environment, "streams": streams}
            print(json.dumps(request), file=self._server.stdin, flush=True)
            return Ran(int(self._server.stdout.readline()), output.read(), errors.read())


@dataclass(frozen=True)
class Team:
    """A clone with its remote, and a cluster where the names of the team's PriorityClasses begin with `namespace`."""

    folder: Path
    remote: Path
    namespace: str
    environment: Mapping[str, str]
    git: Git
    write_and_commit: Commit
    cluster: str | None = None
    control_plane: ControlPlane | None = None
    pod_config: Mapping[str, Any] = field(default_factory=dict)
    forks: Forks | None = None

    @property
    def status_branch(self) -> str:
        """Where the status stands: this machine's is never pushed."""
        return "job-status-local" if self.cluster == "local" else "job-status"

    @property
    def record(self) -> Path:
        """The repository whose status branch counts."""
        return self.folder if self.cluster == "local" else self.remote

    def name(self, short: str) -> str:
        """Return the full name of a PriorityClass."""
        return f"{self.namespace}-{short}"

    def task(
        self,
        run: str,
        *,
        priority: str | None = None,
        slot: bool = False,
        grace: int = 5,
        memory: float = 0.1,
        controls: Mapping[str, str] | None = None,
        limits: Mapping[str, str] | None = None,
        recovery: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Write a task file. With `slot` only one such job fits the node; `controls` are our own annotations."""
        spec: dict[str, Any] = {"terminationGracePeriodSeconds": grace}
        if priority:
            spec["priorityClassName"] = self.name(priority)
        if limits := {**(limits or {}), **({SLOT: "1"} if slot else {})}:
            spec["containers"] = [{"resources": {"limits": dict(limits)}}]
        kubernetes: dict[str, Any] = {"pod_config": {"spec": spec}}
        if controls:
            annotations = {f"job-reconciler/{key}": value for key, value in controls.items()}
            kubernetes["custom_metadata"] = {"annotations": annotations}
        resources: dict[str, Any] = {"cpus": 0.1, "memory": memory}
        if recovery:
            resources["job_recovery"] = dict(recovery)
        task = {"resources": resources, "run": run, "config": {"kubernetes": kubernetes}, **fields}
        return yaml.safe_dump(task, sort_keys=False)

    def gated(self, job: str) -> str:
        """Write a command that goes on until `open` is called for its job, so that no test depends on the time."""
        return f"echo started\n{self.gate(job)}"

    def gate(self, job: str, name: str = "end") -> str:
        """Write a command that waits until this gate of its job is opened."""
        return f"until [ -e {self._gate(job, name)} ]; do sleep 0.1; done"

    def open(self, job: str, name: str = "end") -> None:
        """Let the gated command of a job go on; what runs then ends with 0."""
        if self.cluster == "local":
            self._gate(job, name).touch()
            return
        (pod,) = [p for p in self.pods_of(job) if p["status"]["phase"] == "Running"]
        self.kubectl("exec", pod["metadata"]["name"], "--container=main", "--", "touch", str(self._gate(job, name)))

    def _gate(self, job: str, name: str) -> Path:
        return (self.folder.parent if self.cluster == "local" else Path("/tmp")) / f"{job}.{name}"

    def classes(self, *, default: str | None = None, **values: int) -> str:
        """Write PriorityClasses: `classes(high=200, low=100, default="low")`."""
        return "---\n".join(
            yaml.safe_dump(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": self.name(short)},
                    "value": value,
                    "globalDefault": short == default,
                },
                sort_keys=False,
            )
            for short, value in values.items()
        )

    def commit(self, files: Mapping[str, str | bytes | None], message: str = "Change") -> str:
        """Write files (None removes one), commit and push; return the commit."""
        commit = self.write_and_commit(self.folder, files, message)
        self.git(self.folder, "push", "--quiet", "origin", "HEAD")
        return commit

    def arguments(self, *words: str) -> list[str]:
        """Return the words of a command, for this team's cluster."""
        needs_no_cluster = not self.cluster or words[:1] in (("validate",), ("--version",))
        return [*words] if needs_no_cluster else [*words, "--cluster", str(self.cluster)]

    def start(
        self, *words: str, program: Sequence[str] = ("-m", "reconciler"), output: int | IO[bytes] = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start `reconcile` in the clone, in a session of its own, for a test that does something to it meanwhile."""
        command = [sys.executable, *program, *self.arguments(*words)]
        environ = {**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            command, cwd=self.folder, env=environ, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )

    def run(self, *words: str, **environment: str) -> Ran:
        """Run `reconcile` in the clone, on this team's cluster."""
        arguments, environ = self.arguments(*words), {**os.environ, **self.environment, **environment}
        if self.forks:
            ran = self.forks.run(arguments, self.folder, environ)
        else:
            command = [sys.executable, "-m", "reconciler", *arguments]
            done = subprocess.run(
                command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
            )
            ran = Ran(done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    def shell(self, words: str) -> Ran:
        """Run `reconcile` in a shell, which may redirect its streams."""
        done = subprocess.run(
            ["bash", "-c", f'reconcile() {{ "{sys.executable}" -m reconciler "$@"; }}; {words}'],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def reconcile(self, *arguments: str, **environment: str) -> Ran:
        """Make one pass, and have its JSON."""
        return self.run("--once", "-o", "json", *arguments, **environment)

    def queue(self) -> dict[str, Any]:
        """Return the jobs by name, as `reconcile queue` tells of them."""
        return {job["job"]: job for job in self.run("queue", "-o", "json").json["jobs"]}

    def states(self) -> dict[str, str]:
        """Return the state of each job of the queue."""
        return {name: job["state"] for name, job in self.queue().items()}

    def document(self, job: str) -> Any:
        """Return the status document of a job, as any YAML reader finds it on the status branch."""
        return yaml.safe_load(self.show(f"jobs/{job}.yaml"))

    def show(self, path: str) -> str:
        """Return a file of the status branch."""
        return self.git(self.record, "show", f"{self.status_branch}:{path}")

    def states_of(self, job: str) -> list[str]:
        """Return each state that the status branch ever had of a job, the oldest first."""
        path = f"jobs/{job}.yaml"
        commits = self.git(self.record, "log", "--reverse", "--format=%H", self.status_branch, "--", path).split()
        documents = [yaml.safe_load(self.git(self.record, "show", f"{commit}:{path}")) for commit in commits]
        return [document["state"] for document in documents]

    def status_commits(self) -> list[str]:
        """Return the subjects of the status branch, the newest first."""
        return self.git(self.record, "log", "--format=%s", self.status_branch).splitlines()

    def until(self, condition: Callable[[], Any], what: str, *, pause: float = 0.05) -> Any:
        """Wait for a true value, and return it."""
        end = time.monotonic() + PATIENCE
        while not (value := condition()):
            assert time.monotonic() < end, f"waited {PATIENCE:.0f} s for {what}"
            time.sleep(pause)
        return value

    def reach(self, job: str, state: str, **fields: Any) -> Any:
        """Make passes until a job's document says that, and return it."""
        wanted = {"state": state, **fields}
        seen: dict[str, Any] = {}

        def reached() -> Any:
            self.reconcile()
            seen.update(self.document(job))
            return seen if wanted.items() <= seen.items() else None

        try:
            return self.until(reached, f"{job} to be {wanted}", pause=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {seen}") from None

    def log(self, job: str) -> str:
        """Return what the newest run of a job printed; nothing if it has not begun."""
        return self.run("logs", job).stdout

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in this team's namespace."""
        assert self.control_plane
        return self.control_plane.kubectl(f"--namespace={self.namespace}", *arguments, stdin=stdin)

    def get(self, kind: str, name: str = "") -> Any:
        """Return an object as the API has it, or all of this namespace."""
        assert self.control_plane
        return self.control_plane.get(kind, name, namespace=self.namespace)

    def pods_of(self, job: str) -> list[Any]:
        """Return the pods of a job that the API has."""
        selector = f"--selector=job-reconciler/job={job}"
        return list(json.loads(self.kubectl("get", "pods", selector, "--output=json"))["items"])

    def jobs(self) -> list[str]:
        """Return the names of the Jobs that the cluster has of this team."""
        return sorted(job["metadata"]["name"] for job in self.live("Job"))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object behind the reconciler's back, and wait until it is gone."""
        if self.control_plane:
            self.kubectl("delete", kind, name)
            return
        with self._this_machine() as cluster:
            cluster.delete(cluster.get(kind, name, namespace=self.namespace))

    def live(self, kind: str) -> list[Any]:
        """Return all objects of a kind that the cluster has of this team."""
        if self.control_plane:
            return list(self.get(kind))
        with self._this_machine() as cluster:
            return cluster.list(kind, namespace=self.namespace)

    def _this_machine(self) -> closing[LocalCluster]:
        return closing(open_local_cluster(self.environment))

    def clone(self, name: str) -> Team:
        """Return a colleague, with a clone of their own."""
        folder = self.folder.parent / name
        self.git(self.folder, "clone", "--quiet", str(self.remote), str(folder))
        return replace(self, folder=folder)


@dataclass(frozen=True)
class Hiring:
    """What a team is built of, wherever its cluster is."""

    root: Path
    git: Git
    commit: Commit

    def build(self, namespace: str, environment: Mapping[str, str], **where: Any) -> Team:
        """Make a clone and its remote, with the settings that every test needs and no job."""
        folder, remote = self.root / "repo", self.root / "remote.git"
        self.git(self.root, "init", "--quiet", "--template=", "--bare", "--initial-branch=main", str(remote))
        self.git(self.root, "init", "--quiet", "--template=", "--initial-branch=main", str(folder))
        self.git(folder, "remote", "add", "origin", str(remote))
        team = Team(folder, remote, namespace, environment, self.git, self.commit, **where)
        team.commit({"reconciler.yaml": f"namespace: {namespace}\ndefault_image: local/bash:1\n"}, "Begin")
        return team


@pytest.fixture
def hiring(tmp_path: Path, git: Git, commit: Commit) -> Hiring:
    """Have what a team is built of."""
    return Hiring(tmp_path, git, commit)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Have a process that runs short commands soon."""
    with Forks() as forks:
        yield forks


@pytest.fixture
def local_team(hiring: Hiring, forks: Forks) -> Iterator[Team]:
    """Build a team whose jobs run on this machine, on a pretend node with one slot. Afterwards nothing runs."""
    home = hiring.root / "cluster"
    environment = {"RECONCILER_LOCAL_HOME": str(home), "RECONCILER_LOCAL_CAPACITY": CAPACITY}
    yield hiring.build(f"test-{uuid.uuid4().hex[:8]}", environment, cluster="local", forks=forks)
    for pod in home.glob("pods/*"):
        (pod / "stop").write_text("0")
        with suppress(FileNotFoundError, ProcessLookupError):
            runner = json.loads((pod / "record.json").read_text())
            if "exitCode" not in runner:
                os.kill(runner["pid"], signal.SIGTERM)  # wakes it: it reads `stop`


@pytest.fixture
def cluster_team(hiring: Hiring, control_plane: ControlPlane, namespace: str) -> Team:
    """Build a team on Kubernetes. A test that uses it is marked `real`, or `kubelet` when its jobs have to run."""
    environment = {"KUBECONFIG": str(control_plane.kubeconfig)}
    return hiring.build(namespace, environment, control_plane=control_plane)


@pytest.fixture
def simulated_team(cluster_team: Team, simulated_node: SimulatedNode) -> Team:
    """Build a team on Kubernetes whose jobs go to a node of its own, where annotations on a pod say how it ends."""
    settings = {"kubernetes": {"pod_config": simulated_node.pod_config}}
    cluster_team.commit({".sky.yaml": yaml.safe_dump(settings)}, "Choose the node")
    return replace(cluster_team, pod_config=simulated_node.pod_config)


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kubelet)])
def team(request: pytest.FixtureRequest) -> Team:
    """Build a team on each cluster in turn, each with a node that has one slot."""
    team: Team = request.getfixturevalue("local_team" if request.param == "local" else "cluster_team")
    return team
