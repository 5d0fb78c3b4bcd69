"""What the Kubernetes cluster asks of an API server, and what it makes of the answers."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from scripted_server import Answer, ScriptedServer, refusal

from reconciler import __version__
from reconciler.errors import ClusterError, ClusterUnreachable, Conflict, Forbidden, NotFound

if TYPE_CHECKING:
    from reconciler.cluster.kubernetes import KubernetesCluster

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train-1", "namespace": "ml"}}
LIVE = {"kind": "Job", "metadata": {"name": "train-1", "namespace": "ml", "uid": "u-1", "resourceVersion": "7"}}
POD = {"metadata": {"namespace": "ml", "name": "p"}}
VERSION = Answer(200, {"major": "1", "minor": "35+"})
CREATED = Answer(201, LIVE)
GONE = refusal(410, "Expired", "The provided continue parameter is too old")
FAILURE = refusal(500, "InternalError")
ADDED, DELETED, BOOKMARK = ({"type": word, "object": JOB} for word in ("ADDED", "DELETED", "BOOKMARK"))
ERROR = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}


def jobs(*names: str, following: str = "") -> Answer:
    """Return one page of a list."""
    metadata = {"resourceVersion": "5", "continue": following}
    items = [{"metadata": {"name": name, "managedFields": [{"manager": "kubectl"}]}} for name in names]
    return Answer(200, {"kind": "JobList", "metadata": metadata, "items": items})


def stream(*events: dict[str, Any], end: bytes = b"") -> Answer:
    """Return the stream of a watch."""
    return Answer(200, b"".join(json.dumps(event).encode() + b"\n" for event in events) + end)


def test_lists_come_whole(server: ScriptedServer, client: KubernetesCluster) -> None:
    """A list is all its pages, and its items say what they are, but not who set which field."""
    server.says(jobs("a", "b", following="more"), jobs("c"))

    found = client.list("Job", namespace="ml", labels="x=y,z", fields="metadata.name!=q")

    assert [job["metadata"] for job in found] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    assert {(job["apiVersion"], job["kind"]) for job in found} == {("batch/v1", "Job")}
    selectors = "labelSelector=x%3Dy%2Cz&fieldSelector=metadata.name%21%3Dq"
    assert server.lines == [
        f"GET /apis/batch/v1/namespaces/ml/jobs?{selectors}&limit=500",
        f"GET /apis/batch/v1/namespaces/ml/jobs?{selectors}&continue=more&limit=500",
    ]
    assert server.received[0].headers["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    ("answers", "names"),
    [
        pytest.param([jobs("a", following="old"), GONE, jobs("b")], ["b"], id="forgotten once"),
        pytest.param([jobs("a", following="old"), GONE, jobs("a", following="old"), GONE], None, id="forgotten twice"),
        pytest.param([jobs("a", following="more"), FAILURE], None, id="second page fails"),
        pytest.param([Answer(200, b"{}")], None, id="an empty object"),
        pytest.param([Answer(200, {"kind": "JobList", "metadata": {}, "items": None})], [], id="null"),
    ],
)
def test_lists_are_whole_or_fail(
    server: ScriptedServer, client: KubernetesCluster, answers: list[Answer], names: list[str] | None
) -> None:
    """Could not read is not absent: half a list is none."""
    server.says(*answers)

    if names is None:
        with pytest.raises(ClusterUnreachable, match="could not list jobs in all namespaces on kind"):
            client.list("Job")
    else:
        assert [job["metadata"]["name"] for job in client.list("Job")] == names


def test_what_writes_carry(server: ScriptedServer, client: KubernetesCluster) -> None:
    """Writes are strict and ours; a patch holds for one object alone, a deletion for one version of it."""
    server.says(VERSION, CREATED, CREATED, CREATED, Answer(200, {"kind": "Status"}))

    client.create(JOB, dry_run=True)
    client.create(JOB)
    client.patch(LIVE, {"metadata": {"labels": {"a": "b"}}, "spec": {"suspend": True}})
    client.delete(LIVE, foreground=True)

    strict = "fieldManager=job-reconciler&fieldValidation=Strict"
    assert server.lines == [
        "GET /version?",
        f"POST /apis/batch/v1/namespaces/ml/jobs?{strict}&dryRun=All",
        f"POST /apis/batch/v1/namespaces/ml/jobs?{strict}",
        f"PATCH /apis/batch/v1/namespaces/ml/jobs/train-1?{strict}",
        "DELETE /apis/batch/v1/namespaces/ml/jobs/train-1?",
    ]
    assert [received.body for received in server.received[1:]] == [
        JOB,
        JOB,
        {"metadata": {"labels": {"a": "b"}, "uid": "u-1"}, "spec": {"suspend": True}},
        {"preconditions": {"uid": "u-1", "resourceVersion": "7"}, "propagationPolicy": "Foreground"},
    ]
    assert server.received[3].headers["Content-Type"] == "application/merge-patch+json"
    assert server.received[3].headers["User-Agent"] == f"job-reconciler/{__version__}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(refusal(404, "NotFound"), None, id="gone already"),
        pytest.param(refusal(409, "Conflict", "the UID does not match"), Conflict, id="another one"),
        pytest.param(Answer(404, b"no such page"), ClusterUnreachable, id="alien 404"),
    ],
)
def test_deleting(
    server: ScriptedServer, client: KubernetesCluster, answer: Answer, error: type[ClusterError] | None
) -> None:
    """What is gone already is deleted; another object of that name is not."""
    server.says(answer)

    if error is None:
        client.delete(LIVE)
    else:
        with pytest.raises(error, match="could not delete Job ml/train-1 on kind"):
            client.delete(LIVE)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        pytest.param({"major": "1", "minor": "30"}, "kind runs Kubernetes 1.30, and 1.31 is the oldest", id="too old"),
        pytest.param({"gitVersion": "?"}, "the server of kind does not tell its version", id="silent"),
    ],
)
def test_servers_that_are_too_old(
    server: ScriptedServer, client: KubernetesCluster, version: dict[str, str], message: str
) -> None:
    """Below 1.31 a Job's successPolicy is dropped, and a finished job would run again: nothing is created there."""
    server.says(Answer(200, version))

    with pytest.raises(ClusterError, match=re.escape(message)):
        client.create(JOB, dry_run=True)
    assert server.lines == ["GET /version?"]


def test_the_version_is_asked_for_once(server: ScriptedServer, client: KubernetesCluster) -> None:
    """A pass that creates sends one request more, one that does not none."""
    server.says(VERSION, CREATED)

    threads = [threading.Thread(target=client.create, args=(JOB,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert server.lines.count("GET /version?") == 1
    assert len(server.lines) == 9


@pytest.mark.parametrize(
    ("answer", "types"),
    [
        pytest.param(stream(ADDED, BOOKMARK, DELETED), ["ADDED", "DELETED"], id="bookmarks are skipped"),
        pytest.param(stream(ADDED, ERROR, DELETED), ["ADDED"], id="410 in the stream"),
        pytest.param(GONE, [], id="410"),
        pytest.param(stream(ADDED, end=b'{"type": "DEL'), ["ADDED"], id="half a line"),
        pytest.param(stream(ADDED, end=b"junk\n"), ["ADDED"], id="junk"),
        pytest.param(FAILURE, [], id="500"),
    ],
)
def test_watches_only_end(server: ScriptedServer, client: KubernetesCluster, answer: Answer, types: list[str]) -> None:
    """A watch tells when to look, so what breaks it just ends it."""
    server.says(jobs(), answer)

    assert [change.type for change in client.watch("Job", labels="x", timeout=0.1)] == types
    assert server.lines[:2] == [
        "GET /apis/batch/v1/jobs?labelSelector=x&limit=1",
        "GET /apis/batch/v1/jobs?labelSelector=x&watch=true&resourceVersion=5&timeoutSeconds=1",
    ]


def test_a_watch_that_may_not(server: ScriptedServer, client: KubernetesCluster) -> None:
    """A refusal is no broken stream: watching again would not help."""
    server.says(jobs(), refusal(403, "Forbidden"))

    with pytest.raises(Forbidden, match="could not watch jobs on kind"):
        list(client.watch("Job"))


def test_logs_of_a_container_that_waits(server: ScriptedServer, client: KubernetesCluster) -> None:
    """There is no log yet, which is not the fault of the pod's manifest."""
    server.says(refusal(400, "BadRequest", 'container "main" in pod "p" is waiting to start: ContainerCreating'))

    with pytest.raises(NotFound, match=r"could not read the log of Pod ml/p on kind: .*ContainerCreating"):
        list(client.logs(POD, container="main"))
    assert server.lines == ["GET /api/v1/namespaces/ml/pods/p/log?container=main&follow=false"]


def test_logs_that_break_off(server: ScriptedServer, client: KubernetesCluster) -> None:
    """The end of a log means the end of its container, so a broken connection must not look like it."""
    server.says(Answer(200, b"one\ntwo\n", cut=4))

    with pytest.raises(ClusterUnreachable, match="could not read the log of Pod ml/p on kind to the end"):
        list(client.logs(POD, container="main", follow=True))


def groups(*versions: str) -> Answer:
    """Return the list of the APIs that a server has."""
    listed = [{"versions": [{"groupVersion": version}]} for version in versions]
    return Answer(200, {"kind": "APIGroupList", "groups": listed})


def test_whether_a_server_has_a_kind_is_asked_until_it_does(server: ScriptedServer, client: KubernetesCluster) -> None:
    """It may be installed while the loop runs; what was there once is taken to be there."""
    server.says(groups("batch/v1"), groups("batch/v1", "jobset.x-k8s.io/v1alpha2"))

    assert [client.serves("JobSet") for _ in range(3)] == [False, True, True]
    assert server.lines == ["GET /apis?"] * 2


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([FAILURE], id="failure"),
        pytest.param([Answer(200, b"{}")], id="an empty object"),
        pytest.param([Answer(404, b"404 page not found")], id="no words of the API server"),
    ],
)
def test_who_does_not_say_has_not_said_no(
    server: ScriptedServer, client: KubernetesCluster, answers: list[Answer]
) -> None:
    """To take JobSet for absent during an outage would take its runs for lost."""
    server.says(*answers)

    with pytest.raises(ClusterUnreachable, match="could not read which APIs there are on kind"):
        client.serves("JobSet")
