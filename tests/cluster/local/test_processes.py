"""Jobs as real processes: what they see, how they end, and that nothing is lost when one of ours is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.cluster.local import LocalCluster
from reconciler.cluster.local.container import Container
from reconciler.core.encoding import counts, job_form
from reconciler.core.pod.supervisor import container_command
from reconciler.model import Manifest

CAPACITY = {"cpu": "1", "memory": "1Gi", "pods": "10"}
WAITS_FOR_TERM = "trap 'echo told to stop; exit 217' TERM; echo started; sleep 60 & wait"
IGNORES_TERM = "trap '' TERM; echo started; while :; do sleep 0.1; done"


def indexed_job(name: str, script: str, *, grace: int = 5, priority: str | None = None, **container: Any) -> Manifest:
    form = job_form(max_restarts_on_errors=0, max_recoveries=10, recover_on_exit_codes=(), main_container="main")
    main = {"name": "main", "image": "ignored", "command": ["bash", "-c", script], **container}
    main["resources"] = {"requests": {"cpu": "1"}}
    spec: Manifest = {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [main]}
    if priority:
        spec["priorityClassName"] = priority
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": form | {"template": {"spec": spec}}}


def priority_class(name: str, value: int) -> Manifest:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def until(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait for a true value, and return it."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value


@dataclass
class Machine:
    """A folder for local clusters, and a clock that a test can put forward."""

    folder: Path
    ahead: timedelta = field(default_factory=timedelta)

    def open(self) -> LocalCluster:
        """Open one more cluster on the folder, as another process would."""
        return LocalCluster(self.folder, CAPACITY, clock=lambda: datetime.now(UTC) + self.ahead)

    def run_folder(self, pod: Manifest) -> Path:
        """Return where the process of a pod keeps its state."""
        return self.folder / "pods" / str(pod["metadata"]["uid"])


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Give a machine; what still runs on it afterwards is killed."""
    machine = Machine(tmp_path / "local")
    yield machine
    cluster = machine.open()
    for pod in cluster.list("Pod"):
        if machine.run_folder(pod).exists():
            (machine.run_folder(pod) / "stop").write_text("0")  # no grace: the test is over
    for job in cluster.list("Job"):
        cluster.delete(job, foreground=True)
    until(lambda: not cluster.list("Job"))


@pytest.fixture
def cluster(machine: Machine) -> LocalCluster:
    """Open a cluster."""
    return machine.open()


def pods_of(cluster: LocalCluster, job: str, *phases: str) -> Sequence[Manifest]:
    """Wait until a job's pods, in the order of their creation, are in these phases, and return them."""

    def look() -> Sequence[Manifest]:
        found = cluster.list("Pod", labels=f"job-name={job}")
        return found if [pod["status"]["phase"] for pod in found] == list(phases) else ()

    found: Sequence[Manifest] = until(look)
    return found


def running(cluster: LocalCluster, job: str) -> Manifest:
    """Wait until a job's command has said that it started."""
    pod = pods_of(cluster, job, "Running")[0]
    until(lambda: "started" in output(cluster, pod))
    return pod


def output(cluster: LocalCluster, pod: Manifest) -> str:
    return b"".join(cluster.logs(pod, container="main")).decode()


def how_it_ended(pod: Manifest) -> Manifest:
    state: Manifest = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


def has_ended(pid_file: Path) -> bool:
    """Tell whether the process whose id a command wrote down is over; nobody may have reaped it yet."""
    try:
        return (Path("/proc") / pid_file.read_text().strip() / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def reason(cluster: LocalCluster, job: str) -> str | None:
    """Return why a job has ended, or None."""
    conditions = cluster.get("Job", job).get("status", {}).get("conditions", [])
    return next((c["reason"] for c in conditions if c["type"] in ("Complete", "Failed")), None)


def test_a_command_runs_to_its_end(cluster: LocalCluster) -> None:
    """Output and errors are its log, the termination log is its message, and its folder is its home."""
    script = 'echo out; echo err >&2; printf words > "$JOB_TERMINATION_LOG"; [ "$PWD" = "$HOME" ] && ls -A'
    cluster.create(indexed_job("train-1", script))
    (pod,) = pods_of(cluster, "train-1", "Succeeded")

    assert output(cluster, pod) == "out\nerr\n"
    assert reason(cluster, "train-1") == "SuccessPolicy"
    assert (how_it_ended(pod)["exitCode"], how_it_ended(pod)["reason"]) == (0, "Completed")
    assert how_it_ended(pod)["message"] == "words"
    assert how_it_ended(pod)["startedAt"] <= how_it_ended(pod)["finishedAt"]


def test_the_environment_is_the_containers_alone(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """`$$` and `$(NAME)` are expanded as a kubelet does; fields of the pod come by reference."""
    monkeypatch.setenv("TOKEN_OF_THIS_MACHINE", "secret")
    fields = {"NAME": "metadata.name", "INDEX": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    env: list[Manifest] = [
        {"name": "GREETING", "value": "hello"},
        {"name": "LINE", "value": "$(GREETING) $$(GREETING) $(NONE)"},
    ]
    env += [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    script = 'echo "$$LINE|$$NAME|$$INDEX|$$JOB_COMPLETION_INDEX|$(GREETING)|$$TOKEN_OF_THIS_MACHINE|"'
    cluster.create(indexed_job("train-1", script, env=env))
    (pod,) = pods_of(cluster, "train-1", "Succeeded")

    assert output(cluster, pod) == f"hello $(GREETING) $(NONE)|{pod['metadata']['name']}|0|0|hello||\n"


def test_a_job_that_was_just_created_starts_when_the_pass_ends(machine: Machine) -> None:
    cluster = machine.open()
    cluster.create(indexed_job("train-1", "echo started; sleep 60"))
    cluster.close()
    (run_folder,) = (machine.folder / "pods").iterdir()

    until(lambda: (run_folder / "log").exists() and "started" in (run_folder / "log").read_text())


def test_a_command_survives_the_pass_that_started_it(machine: Machine, tmp_path: Path) -> None:
    """The pass is killed; the command goes on, and the next pass sees how it ended."""
    script = f"echo started; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo done"
    with subprocess.Popen([sys.executable, "-c", LOOK_FOR_EVER, str(machine.folder)]) as other:
        cluster = machine.open()
        cluster.create(indexed_job("train-1", script))
        until(lambda: any(machine.folder.glob("pods/*/record.json")))
        other.kill()
    (tmp_path / "go").touch()
    (pod,) = pods_of(cluster, "train-1", "Succeeded")

    assert output(cluster, pod) == "started\ndone\n"


LOOK_FOR_EVER = f"""
import sys
from pathlib import Path
from reconciler.cluster.local import LocalCluster
cluster = LocalCluster(Path(sys.argv[1]), {CAPACITY})
while True:
    cluster.list("Pod")
"""


def test_a_command_that_is_told_to_stop_may_end_in_its_own_way(cluster: LocalCluster) -> None:
    """A deleted pod is an interruption: it is counted when its replacement is made, after the back-off."""
    cluster.create(indexed_job("train-1", WAITS_FOR_TERM))
    cluster.delete(running(cluster, "train-1"))
    (pod,) = pods_of(cluster, "train-1", "Failed")

    assert (how_it_ended(pod)["exitCode"], how_it_ended(pod)["reason"]) == (217, "Error")
    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]


def test_a_command_that_ignores_term_is_killed_after_its_grace_even_if_nobody_looks(machine: Machine) -> None:
    cluster = machine.open()
    cluster.create(indexed_job("train-1", IGNORES_TERM, grace=1))
    pod = running(cluster, "train-1")
    cluster.delete(pod)
    cluster.close()
    record = machine.run_folder(pod) / "record.json"
    asked = time.monotonic()
    until(lambda: "exitCode" in json.loads(record.read_text()))

    assert time.monotonic() - asked > 0.5
    assert json.loads(record.read_text())["exitCode"] == 137
    assert reason(machine.open(), "train-1") == "PodFailurePolicy"


def test_the_grace_ends_for_all_processes_of_a_supervised_job(cluster: LocalCluster, tmp_path: Path) -> None:
    """The supervisor gives the command a process group of its own; KILL finds that too."""
    command, args = container_command(None, f"trap '' TERM; echo $$ > {tmp_path}/pid; echo started; sleep 60; sleep 60")
    cluster.create(indexed_job("train-1", "", grace=1, command=command, args=args))
    cluster.delete(running(cluster, "train-1"))
    until(lambda: reason(cluster, "train-1"))

    until(lambda: has_ended(tmp_path / "pid"))


@pytest.mark.parametrize(
    ("setup", "run", "code", "words"),
    [
        pytest.param(None, "echo $((6 * 7)) '$(HOME) $$'", 0, {"phase": "run", "exit_code": 0}, id="success"),
        pytest.param("exit 4", "true", 219, {"phase": "setup", "exit_code": 4}, id="setup failed"),
        pytest.param(None, "exit 217", 1, {"phase": "run", "exit_code": 217}, id="a code of ours"),
    ],
)
def test_a_supervised_job_says_how_it_ended(
    cluster: LocalCluster, setup: str | None, run: str, code: int, words: Manifest
) -> None:
    command, args = container_command(setup, run)
    cluster.create(indexed_job("train-1", "", command=command, args=args))
    pod = until(lambda: [pod for pod in cluster.list("Pod") if pod["status"]["phase"] in ("Succeeded", "Failed")])[0]

    assert (how_it_ended(pod)["exitCode"], json.loads(how_it_ended(pod)["message"])) == (code, words)
    assert output(cluster, pod) == ("" if code else "42 $(HOME) $$\n")


def test_a_supervised_job_that_ends_well_when_told_to_stop_is_not_done(cluster: LocalCluster) -> None:
    """It says 217, whatever its command said."""
    command, args = container_command(None, "trap 'exit 0' TERM; echo started; sleep 60 & wait")
    cluster.create(indexed_job("train-1", "", command=command, args=args))
    cluster.delete(running(cluster, "train-1"))
    (pod,) = pods_of(cluster, "train-1", "Failed")

    assert how_it_ended(pod)["exitCode"] == 217


def test_what_a_command_left_in_the_background_ends_with_it(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.create(indexed_job("train-1", f"sleep 300 & echo $$! > {tmp_path}/pid; exit 0"))
    pods_of(cluster, "train-1", "Succeeded")

    until(lambda: has_ended(tmp_path / "pid"))


def test_a_command_that_cannot_be_started_is_a_failed_pod(cluster: LocalCluster) -> None:
    cluster.create(indexed_job("train-1", "", command=["no-such-program"]))
    (pod,) = pods_of(cluster, "train-1", "Failed")

    assert (how_it_ended(pod)["exitCode"], how_it_ended(pod)["reason"]) == (128, "StartError")
    assert "no-such-program" in how_it_ended(pod)["message"]
    assert reason(cluster, "train-1") == "PodFailurePolicy"


def test_a_missing_secret_is_waited_for_in_vain_as_a_pod_can_see(cluster: LocalCluster) -> None:
    env = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "job-secrets", "key": "HF_TOKEN"}}}]
    cluster.create(indexed_job("train-1", "true", env=env))
    (pod,) = pods_of(cluster, "train-1", "Pending")

    assert pod["status"]["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'secret "job-secrets" not found: the local cluster has no such thing',
    }


def test_an_optional_secret_is_done_without(cluster: LocalCluster) -> None:
    source = {"secretKeyRef": {"name": "job-secrets", "key": "HF_TOKEN", "optional": True}}
    cluster.create(indexed_job("train-1", "echo ${HF_TOKEN-unset}", env=[{"name": "HF_TOKEN", "valueFrom": source}]))
    (pod,) = pods_of(cluster, "train-1", "Succeeded")

    assert output(cluster, pod) == "unset\n"


def test_a_container_whose_runner_was_killed_is_lost_with_all_its_processes(machine: Machine, tmp_path: Path) -> None:
    """Exit code 255 is an interruption: counted, and tried again after 10 s. Two attempts never run side by side."""
    cluster = machine.open()
    cluster.create(
        indexed_job("train-1", f"trap '' TERM; echo $$$$ > {tmp_path}/pid; echo started; sleep 60; sleep 60")
    )
    pod = running(cluster, "train-1")
    os.kill(json.loads((machine.run_folder(pod) / "record.json").read_text())["pid"], signal.SIGKILL)
    (lost,) = pods_of(cluster, "train-1", "Failed")
    left_nothing = has_ended(tmp_path / "pid")
    machine.ahead = timedelta(seconds=15)
    pods_of(cluster, "train-1", "Failed", "Running")

    assert (how_it_ended(lost)["exitCode"], how_it_ended(lost)["reason"]) == (255, "ContainerStatusUnknown")
    assert left_nothing
    assert counts(cluster.get("Job", "train-1")).recoveries == 1


def test_two_clusters_on_one_folder_start_a_command_once(machine: Machine, tmp_path: Path) -> None:
    others = [subprocess.Popen([sys.executable, "-c", LOOK_FOR_EVER, str(machine.folder)]) for _ in range(2)]
    cluster = machine.open()
    for number in range(5):
        cluster.create(indexed_job(f"train-{number}", f"echo {number} >> {tmp_path}/ran"))
    until(lambda: all(reason(cluster, f"train-{number}") for number in range(5)))
    for other in others:
        other.kill()
        other.wait()

    assert sorted((tmp_path / "ran").read_text().split()) == list("01234")


def test_passes_that_are_killed_at_any_moment_lose_nothing(machine: Machine, tmp_path: Path) -> None:
    """Each job runs exactly once, and all objects are whole."""
    cluster = machine.open()
    for number in range(5):
        cluster.create(indexed_job(f"train-{number}", f"echo {number} >> {tmp_path}/ran"))
    for round_ in range(6):
        with subprocess.Popen([sys.executable, "-c", LOOK_FOR_EVER, str(machine.folder)]) as victim:
            time.sleep(0.15 + round_ * 0.04)
            victim.kill()
    until(lambda: all(reason(cluster, f"train-{number}") == "SuccessPolicy" for number in range(5)))

    assert sorted((tmp_path / "ran").read_text().split()) == list("01234")


def test_who_takes_whose_place_is_said_on_both_sides(cluster: LocalCluster) -> None:
    """There are no Events here, so the victim's condition names the other."""
    cluster.create(priority_class("urgent", 1000))
    cluster.create(indexed_job("train-1", "trap 'sleep 0.5; exit 217' TERM; echo started; sleep 60 & wait"))
    victim = running(cluster, "train-1")["metadata"]["name"]
    cluster.create(indexed_job("eval-1", "true", priority="urgent"))
    by_name = {pod["metadata"]["name"]: pod["status"] for pod in cluster.list("Pod")}
    urgent = next(name for name in by_name if name.startswith("eval-1-0-"))
    disrupted = next(c for c in by_name[victim]["conditions"] if c["type"] == "DisruptionTarget")
    waiting = next(c for c in by_name[urgent]["conditions"] if c["type"] == "PodScheduled")

    assert disrupted["message"] == (
        f"default-scheduler: preempting to accommodate a higher priority pod (default/{urgent})"
    )
    assert by_name[urgent]["nominatedNodeName"] == "local"
    assert (
        waiting["message"] == f"takes the place of default/{victim} (priority 0) on local, after at most 5 s of grace"
    )


def test_a_job_that_does_not_fit_says_why(cluster: LocalCluster) -> None:
    cluster.create(indexed_job("train-1", WAITS_FOR_TERM))
    running(cluster, "train-1")
    cluster.create(indexed_job("train-2", "true"))
    (waiting,) = pods_of(cluster, "train-2", "Pending")

    why = "0/1 nodes are available: 1 Insufficient cpu; no pods of lower priority whose place would be enough"
    assert [(c["type"], c["status"], c["message"]) for c in waiting["status"]["conditions"]] == [
        ("PodScheduled", "False", why)
    ]


def test_a_look_when_nothing_happens_changes_nothing(cluster: LocalCluster) -> None:
    cluster.create(indexed_job("train-1", WAITS_FOR_TERM))
    cluster.create(indexed_job("train-2", "true"))
    running(cluster, "train-1")
    before = [cluster.list("Job"), cluster.list("Pod")]

    assert [cluster.list("Job"), cluster.list("Pod")] == before


def test_logs_can_be_followed_to_the_end(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.create(
        indexed_job("train-1", f"echo started; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo done")
    )
    pod = running(cluster, "train-1")
    following = cluster.logs(pod, container="main", follow=True)
    first = next(following)
    (tmp_path / "go").touch()

    assert (first, b"".join(following)) == (b"started\n", b"done\n")


def test_a_container_that_is_stopped_before_it_began_never_runs(tmp_path: Path) -> None:
    container = Container(tmp_path / "run")
    container.prepare(["touch", str(tmp_path / "ran")], {}, {})
    container.pursue(30)
    container.pursue(None)
    until((tmp_path / "run" / "lock").exists)  # the runner was there, and left

    assert (container.look(), (tmp_path / "ran").exists()) == ({}, False)
