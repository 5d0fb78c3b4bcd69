"""A job on several nodes is a JobSet: its ranks live, die and are counted together, and say the same in all views."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from control_plane import ControlPlane
    from jobset_controller import JobSetController

    from tests.flows.conftest import Team

pytestmark = pytest.mark.real

SLOT = {"example.com/slot": "1"}


@pytest.fixture
def wide_team(cluster_team: Team, own_control_plane: ControlPlane) -> Iterator[Team]:
    """Build a team with two simulated nodes of its own, with one slot each."""
    nodes = [f"{cluster_team.namespace}-{letter}" for letter in "ab"]
    own_control_plane.add_simulated_nodes(*nodes, cpus=4, memory="16Gi")
    chosen = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    required = {"nodeSelectorTerms": [{"matchExpressions": [chosen]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    tolerations = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    pod_config = {"spec": {"affinity": affinity, "tolerations": tolerations}}
    classes = cluster_team.classes(high=200, low=100)
    settings = {"kubernetes": {"pod_config": pod_config}}
    cluster_team.commit({".sky.yaml": yaml.safe_dump(settings), "priorities/classes.yaml": classes}, "Choose the nodes")
    yield replace(cluster_team, pod_config=pod_config)
    own_control_plane.kubectl("delete", "node", *nodes)


@pytest.fixture
def jobset(installed_jobset: JobSetController, namespace: str) -> Iterator[JobSetController]:
    """Have JobSet, and leave no JobSet behind: its controller would make the Jobs again that are deleted after it."""
    yield installed_jobset
    there = (f"--namespace={namespace}", "--timeout=60s")
    installed_jobset.control_plane.kubectl("delete", "jobsets", "--all", *there, "--cascade=foreground")


def wide(team: Team, *, nodes: int = 2, grace: int = 1, **fields: Any) -> str:
    """Write a task for both nodes, which runs until its pods are told how to end."""
    return team.task("python train.py", priority="low", slot=True, grace=grace, num_nodes=nodes, **fields)


def rank(team: Team, number: int) -> Any:
    """Return the pod of a rank that runs, once it does."""

    def running() -> Any:
        for pod in team.pods_of("wide"):
            metadata = pod["metadata"]
            index = metadata["annotations"].get("batch.kubernetes.io/job-completion-index")
            if index == str(number) and pod["status"].get("phase") == "Running" and "deletionTimestamp" not in metadata:
                return pod
        return None

    return team.until(running, f"rank {number} to run")


def end(team: Team, *codes: int) -> None:
    """Let as many ranks end, with these codes."""
    pods = [rank(team, number)["metadata"]["name"] for number in range(len(codes))]
    for pod, code in zip(pods, codes, strict=True):
        team.kubectl("annotate", "pod", pod, f"test/exit-code={code}", "test/runs-for=0s")


def replaced(team: Team, interrupt: Callable[[Team], object]) -> None:
    """Do something to the ranks, and wait until both of them run anew."""
    before = {rank(team, number)["metadata"]["uid"] for number in (0, 1)}
    interrupt(team)
    team.until(lambda: not before & {rank(team, number)["metadata"]["uid"] for number in (0, 1)}, "new ranks")


def preempt(team: Team) -> None:
    """Have somebody else's urgent pod take the place of one rank, and go."""
    container = {"name": "main", "image": "urgent", "resources": {"limits": SLOT}}
    spec = {**team.pod_config["spec"], "priorityClassName": team.name("high"), "terminationGracePeriodSeconds": 0}
    urgent = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "urgent"},
        "spec": spec | {"containers": [container]},
    }
    team.kubectl("create", "-f", "-", stdin=json.dumps(urgent))
    team.kubectl("wait", "pod/urgent", "--for=condition=Ready", "--timeout=60s")
    team.kubectl("delete", "pod", "urgent")


def evict(team: Team, number: int) -> None:
    """Ask the API to evict a rank, as `kubectl drain` does."""
    name = rank(team, number)["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": team.namespace}}
    path = f"/api/v1/namespaces/{team.namespace}/pods/{name}/eviction"
    team.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def numbers(document: Any) -> tuple[str, int, int, bool]:
    """Return what a document says of a run's end and count."""
    return document["state"], document["recoveries"], document["restarts_on_error"], document["exact"]


def test_without_jobset_such_a_job_is_held_with_the_reason(cluster_team: Team) -> None:
    """The other jobs go on; the pass says what to install, and ends with 3."""
    team = cluster_team
    team.commit({"jobs/wide.yaml": team.task("true", num_nodes=2), "jobs/plain.yaml": team.task("true")})
    ran = team.reconcile()

    assert (ran.code, ran.actions) == (3, [("create", "done", "plain-1"), ("hold", "skipped", "wide-1")])
    assert ran.reason("wide-1") == (
        "needs JobSet for its 2 nodes: test does not have it; install it (https://jobset.sigs.k8s.io), "
        "or set num_nodes: 1"
    )
    assert (team.states()["wide"], team.live("Job")[0]["metadata"]["name"]) == ("PENDING", "plain-1")


def test_two_preemptions_are_two_recoveries(wide_team: Team, jobset: JobSetController) -> None:
    """Both ranks start again each time; nobody watches, and one pass afterwards tells both recoveries."""
    del jobset
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team)})
    team.reach("wide", "RUNNING", recoveries=0)
    replaced(team, preempt)
    replaced(team, preempt)
    assert team.reconcile().code == 0
    assert numbers(team.document("wide")) == ("RUNNING", 2, 0, True)

    end(team, 0, 0)
    document = team.reach("wide", "SUCCEEDED")
    assert (numbers(document), document["resources"]) == (("SUCCEEDED", 2, 0, True), "2x[CPU:100m]")
    first, last = document["attempts"][0], document["attempts"][-1]
    assert (first["pod"], last["pod"], last["reason"]) == ("wide-1 restart 0", "wide-1 restart 2", "Completed")
    assert set(last["node"].split(", ")) == {f"{team.namespace}-a", f"{team.namespace}-b"}
    assert team.reconcile().actions == []


def test_an_error_of_one_rank_fails_the_run(wide_team: Team, jobset: JobSetController) -> None:
    """The rank, its code and its number of recoveries are told; a failed run is not started again."""
    del jobset
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team)})
    team.reach("wide", "RUNNING")
    team.kubectl("annotate", "pod", rank(team, 1)["metadata"]["name"], "test/exit-code=3", "test/runs-for=0s")
    document = team.reach("wide", "FAILED")

    assert (numbers(document), document["message"]) == (("FAILED", 0, 0, True), "rank 1: exit code 3")
    assert (document["attempts"][-1]["exit_code"], team.reconcile().actions) == (3, [])


def test_interruptions_and_errors_are_counted_apart(wide_team: Team, jobset: JobSetController) -> None:
    """Preempted, an error, preempted, the last error that is allowed: two recoveries, one restart on an error."""
    del jobset
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team, recovery={"max_restarts_on_errors": 1})})
    team.reach("wide", "RUNNING")
    replaced(team, preempt)
    replaced(team, lambda team: end(team, 3))
    replaced(team, preempt)
    team.reconcile()
    assert numbers(team.document("wide")) == ("RUNNING", 2, 1, True)

    end(team, 3, 3)
    assert numbers(team.reach("wide", "FAILED")) == ("FAILED", 2, 1, True)


def test_what_ranks_do_at_different_times(wide_team: Team, jobset: JobSetController) -> None:
    """A rank that had ended runs again with the others; a lost peer is no error; two errors at once are one."""
    del jobset
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team, recovery={"max_restarts_on_errors": 5})})
    team.reach("wide", "RUNNING")

    def one_has_succeeded(team: Team) -> None:
        end(team, 0)
        team.until(lambda: len(succeeded(team)) == 1, "rank 0 to succeed")
        evict(team, 1)

    def peer_stops(team: Team) -> None:
        team.kubectl("annotate", "pod", rank(team, 1)["metadata"]["name"], "test/stops-after=3s")
        evict(team, 1)
        end(team, 218)

    replaced(team, one_has_succeeded)
    replaced(team, peer_stops)
    team.reconcile()
    assert numbers(team.document("wide")) == ("RUNNING", 2, 0, True)

    replaced(team, lambda team: end(team, 3, 3))
    team.reconcile()
    assert numbers(team.document("wide")) == ("RUNNING", 2, 1, True)


def succeeded(team: Team) -> list[Any]:
    """Return the pods that ended well."""
    return [pod for pod in team.pods_of("wide") if pod["status"].get("phase") == "Succeeded"]


def test_while_its_controller_is_down_nothing_is_lost(wide_team: Team, jobset: JobSetController) -> None:
    """An interruption is counted when the controller is back; until then such jobs can't be made, and others can."""
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team)})
    team.reach("wide", "RUNNING")

    def interrupted(team: Team) -> None:
        jobset.kill()
        evict(team, 1)
        team.commit({"jobs/more.yaml": team.task("true", num_nodes=2), "jobs/plain.yaml": team.task("true")})
        ran = team.reconcile()
        states = team.states()
        jobset.start()

        assert (ran.code, ran.actions) == (3, [("create", "failed", "more-1"), ("create", "done", "plain-1")])
        assert "mjobset.kb.io" in ran.reason("more-1")
        assert states["wide"] in ("RUNNING", "RECOVERING")

    replaced(team, interrupted)
    team.reconcile()
    assert numbers(team.document("wide")) == ("RUNNING", 1, 0, True)


def test_a_change_of_the_number_of_nodes_is_a_new_run(wide_team: Team, jobset: JobSetController) -> None:
    """From one node to two and back: the predecessor goes first, whatever its kind; a file that goes ends the last."""
    del jobset
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team, nodes=1)})
    team.reach("wide", "RUNNING")
    team.commit({"jobs/wide.yaml": wide(team, nodes=2)})
    assert (team.reconcile().actions, team.jobs()) == ([("replace", "done", "wide-2")], ["wide-2-r-0"])
    team.reach("wide", "RUNNING")
    team.commit({"jobs/wide.yaml": wide(team, nodes=1, envs={"AGAIN": "1"})})
    assert (team.reconcile().actions, team.jobs()) == ([("replace", "done", "wide-3")], ["wide-3"])

    team.commit({"jobs/wide.yaml": wide(team, nodes=2, envs={"LAST": "1"})})
    team.reconcile()
    team.commit({"jobs/wide.yaml": None, "jobs/plain.yaml": team.task("true")})
    assert ("cancel", "done", "wide-4") in team.reconcile().actions
    team.until(lambda: team.get("jobsets") == [], "the JobSet to be gone")
    states = {run["number"]: run["state"] for run in team.document("wide")["runs"]}
    assert (team.document("wide")["state"], states) == ("CANCELLED", {1: "CANCELLED", 2: "CANCELLED", 3: "CANCELLED"})


def test_it_can_be_suspended(wide_team: Team, jobset: JobSetController) -> None:
    """Suspending stops all ranks and resuming starts them, and neither is a recovery."""
    del jobset
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team)})
    team.reach("wide", "RUNNING")
    team.commit({"jobs/wide.yaml": wide(team, controls={"suspend": "true"})})
    assert team.reconcile().actions == [("update", "done", "wide-1")]
    assert numbers(team.reach("wide", "SUSPENDED")) == ("SUSPENDED", 0, 0, True)
    team.until(lambda: team.pods_of("wide") == [], "its pods to be gone")
    team.commit({"jobs/wide.yaml": wide(team)})
    assert numbers(team.reach("wide", "RUNNING")) == ("RUNNING", 0, 0, True)


def test_a_cluster_that_lost_its_jobset_api_loses_no_job(wide_team: Team, jobset: JobSetController) -> None:
    """What is on record as running on several nodes is held and its record kept, while it can't be seen."""
    team = wide_team
    team.commit({"jobs/wide.yaml": wide(team)})
    before = team.reach("wide", "RUNNING")
    jobset.down()
    ran = team.reconcile()
    jobset.up()

    assert (ran.code, ran.actions) == (3, [("hold", "skipped", "wide-1")])
    assert ran.reason("wide-1").startswith("wide-1 is a JobSet, and what became of it can't be seen: test does not")
    assert team.document("wide") == before


SHOW = """
for name in NUM_NODES NODE_RANK NODE_IPS; do
  name=SKYPILOT_$name
  printf '%s: %s=%s\\n' "$PHASE" "$name" "${!name//$'\\n'/ }"
done
printf '%s: %s %s\\n' "$PHASE" "$SKYPILOT_SETUP_NODE_RANK" "${SKYPILOT_SETUP_NODE_IPS//$'\\n'/ }"
"""


@pytest.mark.kubelet
def test_ranks_know_each_other_before_setup(cluster_team: Team, jobset: JobSetController) -> None:
    """Two real pods: both print the same addresses, in order of rank, in setup and in run; `logs --rank` tells them.

    Both have the files of the run.
    """
    del jobset
    team = cluster_team
    setup, run = (f"PHASE={phase}\n{SHOW}" for phase in ("setup", "run"))
    run += "echo $JOB_ATTEMPT\ncat data\nsleep 2"
    task = team.task(run, setup=setup, num_nodes=2, workdir="train")
    team.commit({"train/data": "data\n", "jobs/wide.yaml": task})
    team.reach("wide", "RUNNING")
    pods = sorted(team.pods_of("wide"), key=lambda pod: str(pod["metadata"]["name"]))
    addresses = " ".join(pod["status"]["podIP"] for pod in pods)
    document = team.reach("wide", "SUCCEEDED")

    for number in (0, 1):
        lines = [
            line
            for phase in ("setup", "run")
            for line in (
                f"{phase}: SKYPILOT_NUM_NODES=2",
                f"{phase}: SKYPILOT_NODE_RANK={number}",
                f"{phase}: SKYPILOT_NODE_IPS={addresses}",
                f"{phase}: {number} {addresses}",
            )
        ]
        assert team.run("logs", "wide", "--rank", str(number)).stdout.splitlines() == [*lines, "0", "data"]
    assert numbers(document) == ("SUCCEEDED", 0, 0, True)
    assert team.run("logs", "wide", "--rank", "2").code == 2
    owners = [owner for item in team.live("ConfigMap") for owner in item["metadata"].get("ownerReferences", ())]
    assert [(owner["kind"], owner["name"]) for owner in owners] == [("JobSet", "wide-1")]


@pytest.mark.kubelet
def test_a_rank_that_fails_for_want_of_its_peer_is_no_error(cluster_team: Team, jobset: JobSetController) -> None:
    """Rank 1 is evicted and takes its time; rank 0 fails meanwhile. That is a recovery, and then both succeed."""
    del jobset
    team = cluster_team
    script = """
if ((JOB_ATTEMPT > 0)); then echo "again with $SKYPILOT_NODE_IPS"; exit 0; fi
trap 'sleep 3; exit 0' TERM
[ "$SKYPILOT_NODE_RANK" = 1 ] || { until [ -e /tmp/peer.gone ]; do sleep 0.1; done; exit 3; }
sleep 600 & wait
"""
    team.commit({"jobs/wide.yaml": team.task(script, num_nodes=2, grace=5)})
    team.reach("wide", "RUNNING")
    evict(team, 1)
    team.kubectl("exec", rank(team, 0)["metadata"]["name"], "--container=main", "--", "touch", "/tmp/peer.gone")
    document = team.reach("wide", "SUCCEEDED")

    assert numbers(document) == ("SUCCEEDED", 1, 0, True)
    assert team.log("wide").startswith("again with 10.")
