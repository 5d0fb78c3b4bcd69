"""A stand-in for a cluster: the jobs run as processes of this machine, as you, with your rights.

For a first look without Kubernetes, and for tests. Who runs and who is preempted, graceful termination, recovery and
its count are as on a real cluster; `core.preview` decides as the scheduler. There is no daemon: each look at the
cluster moves it on, so a job that waits for another's place gets it at the next pass (or `--wait`). What runs goes on
between the looks, and is stopped and killed in time.

It runs the repository's commands on your machine: only use it with a repository that you trust. What it does not do:

- images: a command finds the programs of this machine; `image` and `workingDir` are ignored
- isolation: a pod has a folder (its HOME and working folder), not a file system, a network or a user of its own
- limits: CPU, memory and GPUs are counted, never enforced
- volumes: the files of a run are there, `emptyDir` is accepted and not mounted; others are refused
- init containers, sidecars, several containers: refused
- Secrets and ConfigMaps: none but those of runs; a pod that needs another waits with CreateContainerConfigError
- probes, lifecycle hooks, OOMKilled, services, node failures, quotas, events, RBAC
- namespaces are names only; every name exists
- several nodes: there is no JobSet, so a job with `num_nodes` above 1 is held
- Jobs other than Indexed ones with parallelism 1 and backoffLimitPerIndex: refused
- a first process without a handler for TERM dies of it at once, which in a container it would not
- a process that starts a session of its own (setsid) is not stopped with its pod

`runner` runs one container, `container` speaks with it, `node` is kubelet and scheduler, `lifecycle` the Job
controller, `admission` the API server's checks, `store` the objects on disk, `cluster` the API.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from reconciler.cluster.local.cluster import LocalCluster
from reconciler.core.quantity import parse_quantity
from reconciler.errors import UsageError

__all__ = ["LocalCluster", "open_local_cluster"]


def open_local_cluster(environ: Mapping[str, str]) -> LocalCluster:
    """Return the cluster in RECONCILER_LOCAL_HOME, with this machine's capacity or RECONCILER_LOCAL_CAPACITY's.

    A capacity such as `cpu=4,memory=8Gi,nvidia.com/gpu=1` changes what it names. Raises UsageError.
    """
    folder = Path(environ.get("RECONCILER_LOCAL_HOME") or _state(environ) / "job-reconciler" / "local").absolute()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    capacity = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory}Ki", "pods": "110"}
    for part in filter(None, environ.get("RECONCILER_LOCAL_CAPACITY", "").split(",")):
        name, _, quantity = (word.strip() for word in part.partition("="))
        try:
            parse_quantity(quantity)
        except ValueError as error:
            raise UsageError(f"RECONCILER_LOCAL_CAPACITY: {part!r} should read like cpu=4: {error}") from error
        capacity[name] = quantity
    return LocalCluster(folder, capacity)


def _state(environ: Mapping[str, str]) -> Path:
    try:
        return Path(environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or Path.home(), ".local", "state"))
    except RuntimeError as error:
        raise UsageError("there is no home folder to keep the cluster in: set HOME or RECONCILER_LOCAL_HOME") from error
