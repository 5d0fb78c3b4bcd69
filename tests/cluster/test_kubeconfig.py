"""Which cluster a kubeconfig means, with which credentials, and how its faults read."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.cluster.kubeconfig import read_access
from reconciler.errors import ClusterUnauthorized, UsageError


def config(*names: str, user: Any = None, cluster: Any = None, **more: Any) -> dict[str, Any]:
    """Return a kubeconfig with these contexts, the first one current."""
    return {
        "current-context": names[0],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": "ada", "namespace": f"{name}-ns"}} for name in names
        ],
        "clusters": [{"name": name, "cluster": cluster or {"server": f"https://{name}:6443/"}} for name in names],
        "users": [{"name": "ada", "user": user if user is not None else {"token": f"{names[0]}-token"}}],
        **more,
    }


def written(path: Path, content: Any) -> str:
    """Write a kubeconfig and return its path."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_the_context_decides(tmp_path: Path) -> None:
    """A context gives server, credentials and namespace."""
    environ = {"KUBECONFIG": written(tmp_path / "config", config("one", "two"))}

    current, other = read_access(None, environ), read_access("two", environ)

    assert (current.context, current.namespace, current.configuration.host) == ("one", "one-ns", "https://one:6443")
    assert (other.context, other.namespace, other.configuration.host) == ("two", "two-ns", "https://two:6443")
    assert current.authorization == "Bearer one-token"
    assert "one-token" not in repr(current)


def test_several_files_are_one(tmp_path: Path) -> None:
    """As in kubectl: files that are not there are passed over, and the first to say something wins."""
    first, second = written(tmp_path / "a", config("one")), written(tmp_path / "b", config("two", "one"))

    access = read_access(None, {"KUBECONFIG": f"{tmp_path}/nothing:{first}::{second}"})

    assert (access.context, access.authorization) == ("one", "Bearer one-token")
    assert read_access("two", {"KUBECONFIG": f"{first}:{second}"}).configuration.host == "https://two:6443"


def test_the_default_path(tmp_path: Path) -> None:
    """Without KUBECONFIG it is the file in the home folder."""
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube" / "config", config("home"))

    assert read_access(None, {"HOME": str(tmp_path)}).context == "home"
    assert read_access(None, {"HOME": str(tmp_path), "KUBECONFIG": ""}).context == "home"


def plugin(script: str, **more: Any) -> dict[str, Any]:
    """Return a user whose credentials come from a Python script."""
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", script],
            **more,
        }
    }


def answer(**status: str) -> str:
    """Return a plugin's script that gives this status."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(credential)!r})"


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        pytest.param({"token": "t"}, "Bearer t", id="token"),
        pytest.param(
            {"tokenFile": "token"}, "Bearer from-file", id="a file beside the kubeconfig, ending in a newline"
        ),
        pytest.param({"username": "ada", "password": "pw"}, "Basic YWRhOnB3", id="password"),
        pytest.param(plugin(answer(token="p")), "Bearer p", id="plugin"),
        pytest.param({**plugin("raise SystemExit(1)"), "token": "t"}, "Bearer t", id="a token goes before a plugin"),
        pytest.param({}, None, id="nobody"),
    ],
)
def test_credentials(tmp_path: Path, user: dict[str, Any], authorization: str | None) -> None:
    (tmp_path / "token").write_text("from-file\n")

    access = read_access(None, {"KUBECONFIG": written(tmp_path / "config", config("one", user=user))})

    assert access.authorization == authorization


def test_a_plugin_gives_a_certificate(tmp_path: Path) -> None:
    user = plugin(answer(clientCertificateData="a certificate", clientKeyData="its key"))

    configuration = read_access(
        None, {"KUBECONFIG": written(tmp_path / "config", config("one", user=user))}
    ).configuration

    assert configuration.cert_file is not None
    assert configuration.key_file is not None
    assert Path(configuration.cert_file).read_text() == "a certificate"
    assert Path(configuration.key_file).read_text() == "its key"


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        pytest.param(plugin("raise SystemExit('the session has expired')"), "the session has expired", id="fails"),
        pytest.param(plugin("print('hello')"), "exec: failed to decode process output", id="no JSON"),
        pytest.param(plugin(answer()), "it gave neither a token nor a client certificate with its key", id="nothing"),
        pytest.param(
            plugin("", command="/no/such/plugin"), "No such file or directory: '/no/such/plugin'", id="missing"
        ),
        pytest.param(plugin("", env=[{"value": "x"}]), "Expected key name in users[ada]/user/exec/env", id="malformed"),
    ],
)
def test_plugins_that_fail(tmp_path: Path, user: dict[str, Any], reason: str) -> None:
    """A plugin's own words are shown: it knows what the person has to do."""
    path = written(tmp_path / "config", config("one", user={**user, "password": "hunter2"}))

    with pytest.raises(ClusterUnauthorized, match=re.escape(reason)) as caught:
        read_access(None, {"KUBECONFIG": path})

    assert str(caught.value).startswith("the credentials plugin of kubeconfig user 'ada' failed: ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        pytest.param(config("one", "two"), "three", "has no context 'three'; it has: one, two", id="no such context"),
        pytest.param(
            config(*(f"c{i}" for i in range(20))),
            "x",
            "has no context 'x'; it has: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, and 8 more",
            id="many contexts",
        ),
        pytest.param(
            config("one", **{"current-context": ""}),
            None,
            "has no current-context: choose one with --cluster (one)",
            id="none is current",
        ),
        pytest.param({"current-context": "one"}, None, "has no context 'one'; it has: none", id="no contexts"),
        pytest.param(config("one", clusters=[]), None, "Expected object with name one in", id="no such cluster"),
        pytest.param(config("one", users=[]), None, "Expected object with name ada in", id="no such user"),
        pytest.param(
            config("one", cluster={"x": 1}), None, "Expected key server in clusters[one]/cluster", id="no server"
        ),
        pytest.param(
            config("one", cluster={"server": "one:6443"}),
            None,
            "the server 'one:6443' does not start with https://",
            id="no scheme",
        ),
        pytest.param(
            config("one", cluster={"server": "https://one", "certificate-authority": "gone.crt"}),
            None,
            "File does not exist: ",
            id="no certificate",
        ),
        pytest.param(config("one", user={"tokenFile": "gone"}), None, "No such file or directory", id="no token file"),
        pytest.param(
            config("one", user={"token": "hunter2\nX-Other: header"}),
            None,
            "the token of context 'one' is no token",
            id="a header in the token",
        ),
        pytest.param("current-context: [", None, "can't be read: ParserError: while parsing", id="no YAML"),
        pytest.param("", None, "can't be read: Invalid kube-config. ", id="empty"),
        pytest.param("- a\n- b\n", None, "can't be read: ", id="a list"),
        pytest.param("hello", None, "can't be read: ", id="a word"),
        pytest.param("contexts: 5\n", None, "can't be read: ", id="a number"),
        pytest.param(
            "users: [{user: {token: hunter2}}, {name: x}]\n", None, "Expected key name in ", id="a nameless user"
        ),
        pytest.param("contexts: [1]\n", None, "can't be read: TypeError: ", id="a number for a context"),
    ],
)
def test_faults(tmp_path: Path, content: Any, context: str | None, message: str) -> None:
    """One line, which names the file and holds no secret."""
    path = written(tmp_path / "config", content)

    with pytest.raises(UsageError) as caught:
        read_access(context, {"KUBECONFIG": path})

    assert message in str(caught.value)
    assert ("kubeconfig " + path in str(caught.value)) or "token" in message
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_no_kubeconfig(tmp_path: Path) -> None:
    """It says where it looked and what there is to do."""
    with pytest.raises(UsageError) as caught:
        read_access(None, {"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"})

    assert str(caught.value) == (
        f"no cluster is configured: {tmp_path}/a, {tmp_path}/b does not exist. Set KUBECONFIG or log in to a cluster, "
        "or use `--cluster local`, which runs the jobs on this machine"
    )


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    """Make the folder that Kubernetes mounts into a pod."""
    for name, content in {"token": "pod-token\n", "ca.crt": "a certificate", "namespace": "jobs"}.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_in_a_pod(service_account: Path) -> None:
    """Without a kubeconfig, the pod's service account is who we are."""
    access = read_access(None, {**POD, "HOME": "/nowhere"}, service_account=service_account)

    assert (access.context, access.namespace, access.authorization) == ("in-cluster", "jobs", "bearer pod-token")
    assert access.configuration.host == "https://10.96.0.1:443"


def test_a_kubeconfig_in_a_pod(service_account: Path) -> None:
    """A kubeconfig goes first, but `in-cluster` can be asked for by name."""
    environ = {**POD, "KUBECONFIG": written(service_account / "config", config("one"))}

    assert read_access(None, environ, service_account=service_account).context == "one"
    assert read_access("in-cluster", environ, service_account=service_account).context == "in-cluster"


@pytest.mark.parametrize("missing", ["token", "ca.crt", "namespace"])
def test_half_a_pod(service_account: Path, missing: str) -> None:
    (service_account / missing).unlink()

    with pytest.raises(UsageError, match="this looks like a pod, but its service account in"):
        read_access(None, {**POD, "HOME": "/nowhere"}, service_account=service_account)
