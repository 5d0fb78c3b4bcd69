"""The bare cost of creating objects: eight threads that POST each manifest of a file. `bare_write.py FILE`."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reconciler.cluster.kubernetes import open_kubernetes_cluster


def main(path: Path) -> None:
    """Create all objects of the List in the file."""
    cluster = open_kubernetes_cluster(None, environ=os.environ)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(cluster.create, json.loads(path.read_text())["items"]))
    cluster.close()


main(Path(sys.argv[1]))
