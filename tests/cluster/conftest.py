"""A Kubernetes client with little patience, and a server that says what it is told to."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from scripted_server import ScriptedServer

from reconciler.cluster.kubernetes import KubernetesCluster, open_kubernetes_cluster
from reconciler.cluster.request import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Run a server for this test."""
    scripted = ScriptedServer()
    yield scripted
    scripted.stop()


@pytest.fixture
def kubeconfig(tmp_path: Path, server: ScriptedServer) -> Path:
    """Write a kubeconfig for the server, whose token stands in the file `token` beside it."""
    (tmp_path / "token").write_text("first\n")
    path = tmp_path / "config"
    config = {
        "current-context": "kind",
        "contexts": [{"name": "kind", "context": {"cluster": "kind", "user": "ada", "namespace": "ml"}}],
        "clusters": [{"name": "kind", "cluster": {"server": server.url}}],
        "users": [{"name": "ada", "user": {"tokenFile": "token"}}],
    }
    path.write_text(json.dumps(config))
    return path


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[KubernetesCluster]:
    """Open the scripted server as a cluster; three tries, a few milliseconds apart, and 0.3 s for each answer."""
    patience = Patience(connect=1.0, read=0.3, read_list=0.3, delays=(0.01, 0.01), longest_delay=0.2)
    with closing(open_kubernetes_cluster(None, environ={"KUBECONFIG": str(kubeconfig)}, patience=patience)) as cluster:
        yield cluster
