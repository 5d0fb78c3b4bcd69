"""A local cluster to act on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_cluster import FaultyCluster

from reconciler.cluster.local import LocalCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FaultyCluster]:
    """Offer a machine of 4 CPUs, and end its jobs afterwards."""
    local = LocalCluster(tmp_path / "cluster", {"cpu": "4", "memory": "4Gi", "pods": "110"})
    yield FaultyCluster(local)
    for job in local.list("Job"):
        local.delete(job)
    while local.list("Pod"):
        pass
    local.close()
