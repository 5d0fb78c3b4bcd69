"""Open the cluster that `--cluster` names."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

from reconciler.cli.output import note
from reconciler.cluster.interface import LOCAL

if TYPE_CHECKING:
    from reconciler.cluster.interface import Cluster


def open_cluster(name: str | None, *, runs_jobs: bool = False) -> AbstractContextManager[Cluster]:
    """Open this machine (`local`) or a kubeconfig context (None: the current one), to be closed by `with`.

    Never one for the other: without a kubeconfig the error says how to ask for the local cluster. Raises UsageError.
    """
    if name == LOCAL:
        from reconciler.cluster.local import open_local_cluster

        if runs_jobs:
            note("--cluster local runs the repository's commands on this machine, as you and without isolation")
        return closing(open_local_cluster(os.environ))
    from reconciler.cluster.kubernetes import open_kubernetes_cluster

    return closing(open_kubernetes_cluster(name, environ=os.environ))
