"""What becomes of a Job's pods on every cluster that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciler.core.encoding import counts
from reconciler.core.pod.delivery import FILES, FOLDER, FOLDER_VARIABLE
from reconciler.errors import NotFound

if TYPE_CHECKING:
    from tests.cluster.contract.conftest import Where

WAITS_FOR_TERM = "trap 'sleep 0.5; exit 217' TERM; echo started; sleep 60 & wait"


def test_a_command_runs_and_its_output_can_be_read(node: Where) -> None:
    node.cluster.create(node.job("train-1", "echo started; sleep 1; echo done"))
    pod = node.running("train-1")
    following = node.log(pod, follow=True)
    ending = node.until(lambda: node.ending("train-1"))
    (pod,) = node.pods("train-1")
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]

    assert following == "started\ndone\n"
    assert ending == ("Complete", "SuccessPolicy")
    assert (pod["status"]["phase"], state["exitCode"], state["reason"]) == ("Succeeded", 0, "Completed")


def test_a_pod_that_is_not_there_has_no_log(node: Where) -> None:
    node.cluster.create(node.job("train-1", WAITS_FOR_TERM))
    pod = node.running("train-1")
    missing = pod | {"metadata": pod["metadata"] | {"name": "nobody"}}

    with pytest.raises(NotFound):
        list(node.cluster.logs(missing, container="main"))
    with pytest.raises(NotFound):
        list(node.cluster.logs(pod, container="nobody"))


def test_an_error_fails_the_job(node: Where) -> None:
    node.cluster.create(node.job("train-1", "exit 3"))
    ending = node.until(lambda: node.ending("train-1"))
    job = node.cluster.get("Job", "train-1", namespace=node.namespace)
    conditions = {c["type"]: c["message"] for c in job["status"]["conditions"]}

    assert ending == ("Failed", "PodFailurePolicy")
    assert (job["status"]["failed"], counts(job).recoveries) == (1, 0)
    assert conditions["Failed"] == conditions["FailureTarget"]
    assert f"Container main for pod {node.namespace}/train-1-0-" in conditions["Failed"]
    assert conditions["Failed"].endswith("failed with exit code 3 matching FailJob rule at index 2")


def test_an_urgent_job_takes_the_place_of_a_lesser_one_which_comes_back(node: Where) -> None:
    """Both want the one slot. The preempted pod is gone afterwards; its Job has counted it, and runs at a new index."""
    node.cluster.create(node.priority_class("urgent", 1000))
    node.cluster.create(node.job("train-1", f"[ $JOB_COMPLETION_INDEX = 1 ] && exit 0; {WAITS_FOR_TERM}", slots=1))
    preempted = node.running("train-1")
    urgent = f"{node.namespace}-urgent"
    node.cluster.create(node.job("eval-1", "true", slots=1, priorityClassName=urgent))
    stopping = node.until(lambda: [p for p in node.pods("train-1") if "deletionTimestamp" in p["metadata"]])[0]
    condition = next(c for c in stopping["status"]["conditions"] if c["type"] == "DisruptionTarget")
    node.until(lambda: node.ending("train-1"))
    job = node.cluster.get("Job", "train-1", namespace=node.namespace)

    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert "preempting to accommodate a higher priority pod" in condition["message"]
    assert (stopping["spec"]["priority"], node.pods("eval-1")[0]["spec"]["priority"]) == (0, 1000)
    assert [node.ending("eval-1"), node.ending("train-1")] == [("Complete", "SuccessPolicy")] * 2
    assert (counts(job).recoveries, job["status"]["failedIndexes"], job["status"]["completedIndexes"]) == (1, "0", "1")
    assert node.gone(preempted)


def test_a_pod_that_does_not_fit_says_so(node: Where) -> None:
    node.cluster.create(node.job("train-1", "true", slots=2))

    def why() -> Any:
        conditions = [c for pod in node.pods("train-1") for c in pod["status"].get("conditions", ())]
        return [(c["status"], c["reason"]) for c in conditions if c["type"] == "PodScheduled"]

    assert node.until(why) == [("False", "Unschedulable")]


def test_a_foreground_deletion_keeps_the_job_until_its_pods_have_stopped(node: Where) -> None:
    node.cluster.create(node.job("train-1", WAITS_FOR_TERM))
    pod = node.running("train-1")
    job = node.cluster.get("Job", "train-1", namespace=node.namespace)
    node.cluster.delete(job, foreground=True)
    deleted = node.get(job)["metadata"]
    node.until(lambda: node.gone(job))

    assert "deletionTimestamp" in deleted
    assert node.gone(pod)


def test_a_background_deletion_removes_the_job_and_then_its_pods(node: Where) -> None:
    node.cluster.create(node.job("train-1", WAITS_FOR_TERM))
    pod = node.running("train-1")
    job = node.cluster.get("Job", "train-1", namespace=node.namespace)
    node.cluster.delete(job)

    assert (node.gone(job), node.gone(pod)) == (True, False)
    node.until(lambda: node.gone(pod))


def test_a_suspended_job_stops_uncounted_and_resumes(node: Where) -> None:
    node.cluster.create(node.job("train-1", WAITS_FOR_TERM))
    pod = node.running("train-1")
    job = node.cluster.patch(node.cluster.get("Job", "train-1", namespace=node.namespace), {"spec": {"suspend": True}})
    node.until(lambda: node.gone(pod))
    node.until(lambda: not node.get(job)["status"].get("terminating"))
    suspended = node.get(job)["status"]
    node.cluster.patch(node.get(job), {"spec": {"suspend": False}})
    again = node.running("train-1")
    conditions = {c["type"]: (c["status"], c["reason"]) for c in node.get(job)["status"]["conditions"]}

    assert (suspended.get("active"), suspended.get("failed")) == (None, None)
    assert conditions["Suspended"] == ("False", "JobResumed")
    assert again["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "0"


def test_a_job_waits_for_its_priority_class(node: Where) -> None:
    node.cluster.create(node.job("train-1", "true", priorityClassName=f"{node.namespace}-late"))
    node.until(lambda: "startTime" in node.cluster.get("Job", "train-1", namespace=node.namespace).get("status", {}))
    before = node.pods("train-1")
    node.cluster.create(node.priority_class("late", 7))

    assert before == []
    assert node.until(lambda: node.ending("train-1")) == ("Complete", "SuccessPolicy")
    assert node.pods("train-1")[0]["spec"]["priority"] == 7


def test_a_pod_waits_for_a_missing_secret(node: Where) -> None:
    source = {"secretKeyRef": {"name": "job-secrets", "key": "HF_TOKEN"}}
    node.cluster.create(node.job("train-1", container={"env": [{"name": "HF_TOKEN", "valueFrom": source}]}))

    def waiting() -> Any:
        statuses = [s for pod in node.pods("train-1") for s in pod["status"].get("containerStatuses", ())]
        return [s["state"]["waiting"] for s in statuses if s["state"]["waiting"]["reason"] != "ContainerCreating"]

    (state,) = node.until(waiting)
    assert state["reason"] == "CreateContainerConfigError"
    assert 'secret "job-secrets" not found' in state["message"]


def test_a_pod_has_the_files_and_secrets_of_its_run(node: Where) -> None:
    """It waits for them; a Secret's value is a variable, and files stand in a folder by their keys."""
    volume = {"name": FILES, "configMap": {"name": "a-1-files"}}
    mount = {"name": FILES, "mountPath": f"{FOLDER}/files", "readOnly": True}
    reference = {"secretKeyRef": {"name": "a-1-secrets", "key": "TOKEN"}}
    container = {"volumeMounts": [mount], "env": [{"name": "TOKEN", "valueFrom": reference}]}
    show = f'echo started; cd "${{{FOLDER_VARIABLE}:-{FOLDER}}}/files"; cat text bytes | od -An -c; echo "$TOKEN"'
    node.cluster.create(node.job("a-1", show, container=container, volumes=[volume]))
    for kind, name, content in (
        ("Secret", "a-1-secrets", {"data": {"TOKEN": "czNj"}}),
        ("ConfigMap", "a-1-files", {"data": {"text": "a b"}, "binaryData": {"bytes": "/wAK"}}),
    ):
        metadata = {"name": name, "namespace": node.namespace}
        node.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, **content})
    node.until(lambda: node.ending("a-1"))
    (pod,) = node.pods("a-1")

    assert [line.split() for line in node.log(pod).splitlines()] == [
        ["started"],
        ["a", "b", "377", "\\0", "\\n"],
        ["s3c"],
    ]
