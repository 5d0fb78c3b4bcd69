"""What is rendered, a real API server accepts as it is, a real kubelet runs, and a real Job controller counts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import real_node
import yaml

from reconciler.core.encoding import check_echo, counts, is_jobset, outcome
from reconciler.core.pod.supervisor import FAILURES_ANNOTATION, literal
from reconciler.core.render import RunIdentity, render_job
from reconciler.core.task import parse_task_file
from reconciler.model import Manifest, Site, State, Task
from reconciler.runs import Counts

if TYPE_CHECKING:
    from control_plane import ControlPlane

pytestmark = pytest.mark.real

GOLDENS = sorted((Path(__file__).parents[1] / "golden" / "render").glob("*/job.yaml"))
SITE = Site(default_image=real_node.IMAGE, git_image=real_node.IMAGE)
AWKWARD = "Größe $$ $(date) `x` \\ '\" %s\n\ttab"


def task_of(text: str) -> Task:
    file = parse_task_file("jobs/real.yaml", text.encode())
    assert file.task is not None, file.problems
    return dataclasses.replace(file.task, pod_config={"spec": {"terminationGracePeriodSeconds": 2}})


def render(task: Task, namespace: str, site: Site = SITE) -> Manifest:
    job, problems = render_job(task, site, RunIdentity(1, "owner", "c0ffee", "east", namespace))
    assert job is not None, problems
    return job


FULL = """
run: x
envs: {A: "$(B)", B: ""}
secrets: [secrets:TOKEN]
resources: {accelerators: {A100:8, H100:8}, cpus: 0.5, disk_size: 10, labels: {a: b}, priority_class: high}
config: {kubernetes: {set_pod_resource_limits: 1.5}}
"""


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task_of("run: x"), id="smallest"),
        pytest.param(task_of(FULL), id="all"),
        pytest.param(dataclasses.replace(task_of("run: x"), max_restarts_on_errors=3), id="restarts on errors"),
        pytest.param(dataclasses.replace(task_of("run: x"), max_recoveries=99_998), id="the most recoveries"),
        pytest.param(dataclasses.replace(task_of("run: x"), max_restarts_on_errors=99_998), id="the most restarts"),
        pytest.param(
            dataclasses.replace(task_of("run: x"), recover_on_exit_codes=tuple(range(1, 254))), id="all codes"
        ),
        pytest.param(task_of("run: x\nworkdir: {url: https://example.com/a}"), id="a clone"),
        pytest.param(dataclasses.replace(task_of("run: x"), name="x" * 46, suspend=True), id="the longest name"),
        pytest.param(dataclasses.replace(task_of("run: x"), run="$" * 95_000), id="the longest script"),
        pytest.param(
            dataclasses.replace(task_of("run: x"), pod_config={"spec": {"nodeSelector": None, "volumes": []}}),
            id="null",
        ),
    ],
)
def test_a_server_takes_it_and_keeps_its_form(control_plane: ControlPlane, task: Task) -> None:
    """Strict: an unknown or repeated field would be refused."""
    echo = dry_run(control_plane, render(task, "default"))

    assert check_echo(echo) is None
    assert echo["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: path.parent.name)
def test_a_server_takes_the_goldens(control_plane: ControlPlane, request: pytest.FixtureRequest, golden: Path) -> None:
    manifest = yaml.safe_load(golden.read_text(encoding="utf-8"))
    if is_jobset(manifest):
        request.getfixturevalue("installed_jobset")
    manifest["metadata"]["namespace"] = "default"

    assert check_echo(dry_run(control_plane, manifest)) is None


def dry_run(control_plane: ControlPlane, manifest: Manifest) -> Any:
    flags = ("--dry-run=server", "--validate=strict", "--output=json", "--filename=-")
    return json.loads(control_plane.kubectl("create", *flags, stdin=json.dumps(manifest)))


@pytest.mark.kubelet
def test_an_evicted_job_comes_back_and_is_counted(control_plane: ControlPlane, namespace: str) -> None:
    """In real containers: the script to the byte, the second attempt by its number, one recovery."""
    run = (
        f"[ $JOB_ATTEMPT = 1 ] || {{ trap 'exit 0' TERM; while :; do sleep 0.1; done; }}\ncat <<'END'\n{AWKWARD}\nEND\n"
    )
    job = start(control_plane, dataclasses.replace(task_of("run: x"), run=run, env={"date": "wrong"}), namespace)
    control_plane.processes.wait(lambda: running(control_plane, namespace), "the first attempt")
    (pod,) = control_plane.get("pods", namespace=namespace)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/eviction"
    control_plane.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(eviction))
    ended = wait_for_outcome(control_plane, job)

    assert (state_of(ended), counts(ended)) == (State.SUCCEEDED, Counts(1, 0))
    there = f"--namespace={namespace}"
    (last,) = [pod for pod in control_plane.get("pods", namespace=namespace) if pod["status"]["phase"] == "Succeeded"]
    assert control_plane.kubectl("logs", there, last["metadata"]["name"]) == f"{AWKWARD}\n"
    terminated = last["status"]["containerStatuses"][0]["state"]["terminated"]
    assert json.loads(terminated["message"]) == {"phase": "run", "exit_code": 0}


@pytest.mark.kubelet
@pytest.mark.parametrize(
    ("text", "restarts", "expected"),
    [
        pytest.param("setup: exit 3\nrun: x", 0, Counts(0, 0), id="setup fails"),
        pytest.param("run: exit 217", 1, Counts(0, 1), id="an error that looks like a stop, once more"),
    ],
)
def test_an_error_is_no_recovery(
    control_plane: ControlPlane, namespace: str, text: str, restarts: int, expected: Counts
) -> None:
    job = start(control_plane, dataclasses.replace(task_of(text), max_restarts_on_errors=restarts), namespace)
    ended = wait_for_outcome(control_plane, job)

    assert (state_of(ended), counts(ended)) == (State.FAILED, expected)
    final = outcome(ended)
    assert final is not None
    if not restarts:
        assert "exit code 219" in final.message


STAND_IN = """
case $FAILURES in
  '' | 0) exit 75 ;;
  1) touch "$CLONE_INTO/waits"; trap 'exit 217' TERM; sleep 1000 & wait ;;
esac
mkdir "$CLONE_INTO/workdir" && touch "$CLONE_INTO/workdir.env"
"""


@pytest.mark.kubelet
def test_a_clone_that_was_interrupted_is_a_recovery(control_plane: ControlPlane, namespace: str) -> None:
    """Its host was away, then its pod was deleted; another program ends here as the clone would."""
    failures = {"fieldRef": {"fieldPath": f"metadata.annotations['{FAILURES_ANNOTATION}']"}}
    env = [{"name": "FAILURES", "valueFrom": failures}]
    stand_in = {"name": "clone-workdir", "imagePullPolicy": "Never", "args": [literal(STAND_IN)], "env": env}
    task = task_of("run: x\nworkdir: {url: https://example.com/a}")
    task = dataclasses.replace(task, run="true", pod_config={"spec": {"initContainers": [stand_in]}})
    job = start(control_plane, task, namespace)

    def at_work() -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in control_plane.get("pods", namespace=namespace)
            if any("running" in each["state"] for each in pod["status"].get("initContainerStatuses", ()))
            and pod["metadata"]["annotations"].get(FAILURES_ANNOTATION) == "1"
        ]

    control_plane.processes.wait(lambda: bool(at_work()), "the second attempt's clone")
    control_plane.kubectl("delete", "pod", f"--namespace={namespace}", *at_work())
    ended = wait_for_outcome(control_plane, job)

    assert (state_of(ended), counts(ended)) == (State.SUCCEEDED, Counts(2, 0))


@pytest.mark.kubelet
def test_a_clone_that_fails_for_good_ends_the_run(control_plane: ControlPlane, namespace: str) -> None:
    """The image has no git, which the script tells as any failure that no second try can mend."""
    never = {"spec": {"initContainers": [{"name": "clone-workdir", "imagePullPolicy": "Never"}]}}
    task = dataclasses.replace(task_of("run: x\nworkdir: {url: https://example.com/a}"), pod_config=never)
    job = start(control_plane, task, namespace)
    ended = wait_for_outcome(control_plane, job)
    final = outcome(ended)

    assert (state_of(ended), counts(ended)) == (State.FAILED, Counts(0, 0))
    assert final is not None
    assert "Container clone-workdir" in final.message


def start(control_plane: ControlPlane, task: Task, namespace: str) -> Manifest:
    never = {"spec": {"containers": [{"imagePullPolicy": "Never", "resources": {"requests": {"cpu": "10m"}}}]}}
    job = render(task, namespace, dataclasses.replace(SITE, pod_config=never))
    control_plane.kubectl("create", "--filename=-", stdin=json.dumps(job))
    return job


def running(control_plane: ControlPlane, namespace: str) -> bool:
    return [pod["status"]["phase"] for pod in control_plane.get("pods", namespace=namespace)] == ["Running"]


def wait_for_outcome(control_plane: ControlPlane, job: Manifest) -> Manifest:
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    seen: list[Manifest] = []

    def ended() -> bool:
        seen.append(control_plane.get("job", name, namespace=namespace))
        return outcome(seen[-1]) is not None

    control_plane.processes.wait(ended, f"the outcome of {name}")
    return seen[-1]


def state_of(job: Manifest) -> State | None:
    ended = outcome(job)
    return ended.state if ended else None
