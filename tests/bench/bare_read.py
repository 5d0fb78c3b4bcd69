"""What a no-op pass can't do without: the client, its LISTs, and reading git. `bare_read.py CLONE`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from reconciler.cluster.kubernetes import open_kubernetes_cluster

LABELS = "job-reconciler/owner=bench"


def main(clone: Path) -> None:
    """Read both branches of git and all lists of the cluster, as bytes and JSON, and look at nothing."""
    lines = [line.split("\t") for line in _git(clone, "ls-remote", "origin").decode().splitlines()]
    refs = {ref: commit for commit, ref in lines}
    for commit in (_git(clone, "rev-parse", "HEAD").decode().strip(), refs.get("refs/heads/job-status")):
        if commit:
            entries = _git(clone, "ls-tree", "-r", commit).decode().splitlines()
            blobs = "\n".join(entry.split()[2] for entry in entries)
            _git(clone, "cat-file", "--batch", stdin=blobs.encode())
    cluster = open_kubernetes_cluster(None, environ=os.environ)
    cluster.uid()
    if cluster.list("Job", labels=LABELS):
        cluster.list("Pod", labels=LABELS)
    cluster.list("PriorityClass")
    cluster.close()


def _git(clone: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    return subprocess.run(["git", "-C", str(clone), *arguments], check=True, capture_output=True, input=stdin).stdout


main(Path(sys.argv[1]))
