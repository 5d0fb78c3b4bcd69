"""What a request becomes when the server, or something on the way to it, does not behave."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from scripted_server import Answer, ScriptedServer, refusal

from reconciler.errors import (
    AlreadyExists,
    ClusterError,
    ClusterRefusal,
    ClusterUnauthorized,
    ClusterUnreachable,
    Forbidden,
    Invalid,
    NotFound,
    WebhookFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reconciler.cluster.kubernetes import KubernetesCluster

NAMESPACE = {"kind": "Namespace", "metadata": {"uid": "u-1"}}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train-1", "namespace": "ml"}}
LIVE = {"kind": "Job", "metadata": {"name": "train-1", "namespace": "ml", "uid": "u-1", "resourceVersion": "7"}}
FOUND = Answer(200, NAMESPACE)
CREATED = Answer(201, LIVE)
LOST = Answer(201, LIVE, cut=3)
TIMEOUT = refusal(500, "InternalError", "etcdserver: request timed out")
WEBHOOK = refusal(500, "InternalError", 'failed calling webhook "mjob.kb.io"')
RBAC = 'User "ada" cannot get resource "namespaces"'


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(refusal(500, "InternalError", "etcdserver: leader changed"), id="500"),
        pytest.param(Answer(502, b"<html>Bad Gateway</html>"), id="502 from a load balancer"),
        pytest.param(refusal(503, "ServiceUnavailable"), id="503"),
        pytest.param(refusal(429, "TooManyRequests"), id="429"),
        pytest.param(Answer(200, NAMESPACE, cut=9), id="cut short"),
        pytest.param(Answer(200, b'{"kind": "Namesp'), id="cut short before it was sent"),
        pytest.param(Answer(200, NAMESPACE, delay=0.5), id="too slow"),
        pytest.param(refusal(401, "Unauthorized"), id="401"),
    ],
)
def test_reads_are_repeated(server: ScriptedServer, client: KubernetesCluster, first: Answer) -> None:
    """What passes by itself costs a read one more request, and nobody notices."""
    server.says(first, FOUND)

    assert client.uid() == "u-1"
    assert server.lines == ["GET /api/v1/namespaces/kube-system?"] * 2


@pytest.mark.parametrize(
    ("answer", "error", "tries", "message"),
    [
        pytest.param(refusal(404, "NotFound", "no such namespace"), NotFound, 1, "404 NotFound: no such n", id="404"),
        pytest.param(
            Answer(404, b"<b>No site</b>"), ClusterUnreachable, 1, "own words: <b>No site</b>", id="alien 404"
        ),
        pytest.param(Answer(403, b"policy"), ClusterUnreachable, 1, "403, and not in Kubernetes' own", id="alien 403"),
        pytest.param(Answer(302, headers={"Location": "/"}), ClusterUnreachable, 1, "302, and not", id="login page"),
        pytest.param(Answer(200, b"{}"), ClusterUnreachable, 1, "the answer is no Namespace", id="an empty object"),
        pytest.param(Answer(200, b"[]"), ClusterUnreachable, 1, "expected a JSON object, got []", id="no object"),
        pytest.param(Answer(200, b"<html>"), ClusterUnreachable, 3, "the answer is not whole JSON", id="no JSON"),
        pytest.param(Answer(200, NAMESPACE, cut=4), ClusterUnreachable, 3, "the answer broke off", id="half an answer"),
        pytest.param(Answer(200, NAMESPACE, delay=0.5), ClusterUnreachable, 3, "Read timed out.", id="no answer"),
        pytest.param(TIMEOUT, ClusterUnreachable, 3, "500 InternalError: etcdserver: request timed out", id="500"),
        pytest.param(Answer(401, b"who?"), ClusterUnauthorized, 2, "still refused: log in again", id="401 for good"),
        pytest.param(refusal(403, "Forbidden", RBAC), Forbidden, 1, "docs/operating.md lists the", id="403"),
        pytest.param(refusal(418, "Teapot", "I'm short"), ClusterRefusal, 1, "418 Teapot: I'm short", id="unheard of"),
    ],
)
def test_reads_that_fail(
    server: ScriptedServer,
    client: KubernetesCluster,
    *,
    answer: Answer,
    error: type[ClusterError],
    tries: int,
    message: str,
) -> None:
    """The class says who must act, the text which object. Only Kubernetes' own 404 means that something is absent."""
    server.says(answer)

    with pytest.raises(ClusterError, match=re.escape(message)) as caught:
        client.uid()

    assert type(caught.value) is error
    assert str(caught.value).startswith("could not read Namespace kube-system on kind: ")
    assert len(server.received) == tries


@pytest.mark.parametrize(
    ("answers", "tries", "error"),
    [
        pytest.param([refusal(429, "TooManyRequests"), CREATED], 2, None, id="turned away"),
        pytest.param([refusal(409, "Conflict", "resourcequotas"), CREATED], 2, None, id="two creations at one quota"),
        pytest.param([LOST, refusal(409, "AlreadyExists")], 2, AlreadyExists, id="lost answer"),
        pytest.param([refusal(409, "AlreadyExists")], 1, AlreadyExists, id="exists"),
        pytest.param([WEBHOOK], 3, WebhookFailed, id="webhook down"),
        pytest.param([refusal(422, "Invalid")], 1, Invalid, id="invalid"),
        pytest.param([refusal(400, "BadRequest")], 1, Invalid, id="unknown field"),
        pytest.param([refusal(413, "RequestEntityTooLarge")], 1, Invalid, id="too large"),
        pytest.param([refusal(403, "Forbidden", "exceeded quota")], 1, Forbidden, id="quota"),
    ],
)
def test_creating(
    server: ScriptedServer,
    client: KubernetesCluster,
    answers: list[Answer],
    tries: int,
    error: type[ClusterError] | None,
) -> None:
    """A creation may be sent twice: if the first one arrived, the second finds that the object exists."""
    server.says(Answer(200, {"major": "1", "minor": "35+"}), *answers)

    if error is None:
        assert client.create(JOB) == LIVE
    else:
        with pytest.raises(error, match="could not create Job ml/train-1 on kind: "):
            client.create(JOB)
    assert len(server.received) == 1 + tries


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda client: client.patch(LIVE, {}), id="patch"),
        pytest.param(lambda client: client.delete(LIVE), id="delete"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "tries"),
    [
        pytest.param(LOST, 1, id="lost answer"),
        pytest.param(refusal(500, "InternalError"), 1, id="500"),
        pytest.param(refusal(429, "TooManyRequests"), 3, id="429"),
    ],
)
def test_other_writes_are_not_repeated(
    server: ScriptedServer,
    client: KubernetesCluster,
    write: Callable[[KubernetesCluster], None],
    answer: Answer,
    tries: int,
) -> None:
    """A patch or deletion that may have arrived is not sent again; one that was turned away is."""
    server.says(answer)

    with pytest.raises(ClusterUnreachable):
        write(client)
    assert len(server.received) == tries


def test_retry_after_is_obeyed(server: ScriptedServer, client: KubernetesCluster) -> None:
    """The server's own wish counts, up to the longest delay that we are ready to wait."""
    server.says(Answer(429, refusal(429, "TooManyRequests").body, headers={"Retry-After": "60"}), FOUND)
    start = time.monotonic()

    client.uid()

    assert 0.2 <= time.monotonic() - start < 2


def test_nobody_listens(server: ScriptedServer, client: KubernetesCluster) -> None:
    server.stop()

    with pytest.raises(ClusterUnreachable) as caught:
        client.list("Job")

    reason = f"no answer from {server.url}: Connection refused"
    assert str(caught.value) == f"could not list jobs in all namespaces on kind: {reason}"


def test_credentials_are_read_again(server: ScriptedServer, client: KubernetesCluster, kubeconfig: Path) -> None:
    """A token that was replaced while we ran costs one refused request."""
    server.says(FOUND, refusal(401, "Unauthorized"), FOUND)

    client.uid()
    (kubeconfig.parent / "token").write_text("second\n")
    client.uid()
    client.uid()

    sent = [received.headers["Authorization"] for received in server.received]
    assert sent == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"users": []}, "the login to kind has ended: context 'kind' of kubeconfig", id="logged out"),
        pytest.param(
            {"clusters": [{"name": "kind", "cluster": {"server": "https://elsewhere"}}]},
            "the context kind means another server now: start again",
            id="another cluster under the name",
        ),
        pytest.param({"current-context": "other"}, None, id="another current context"),
    ],
)
def test_a_kubeconfig_that_changed_meanwhile(
    server: ScriptedServer,
    client: KubernetesCluster,
    kubeconfig: Path,
    change: dict[str, Any],
    message: str | None,
) -> None:
    """A pass stays with its context and its server, whatever others do to the kubeconfig."""
    server.says(refusal(401, "Unauthorized"), FOUND)
    assert client.context == "kind"  # it has been read
    kubeconfig.write_text(json.dumps({**json.loads(kubeconfig.read_text()), **change}))

    if message is None:
        assert client.uid() == "u-1"
    else:
        with pytest.raises(ClusterUnauthorized, match=re.escape(message)):
            client.uid()
