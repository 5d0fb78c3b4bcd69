"""Run `reconcile` in a process that is forked from one that has imported it: most of a short pass is its imports.

It answers requests, a JSON object a line on its standard input, with exit codes, a line each. The process of a command
has a folder, an environment and output of its own, and does what `python -m reconciler` does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
from typing import Any, NoReturn

import reconciler

UNUSED = ("__main__", "kubernetes", "kubeconfig", "transport")  # those on this machine don't need the big client
LONGEST = 120  # seconds; what takes longer hangs


def serve() -> None:
    """Import all that short commands use, then run one after the other, each in a child."""
    for module in pkgutil.walk_packages(reconciler.__path__, "reconciler."):
        if not module.name.endswith(UNUSED):
            importlib.import_module(module.name)
    importlib.import_module("git")
    gc.freeze()  # no collection in a child touches, and so copies, what all share
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(request: dict[str, Any]) -> NoReturn:
    """Be the process that the request asks for."""
    from reconciler.__main__ import main

    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, path in enumerate(request["streams"]):
        os.dup2(os.open(path, os.O_RDWR), number)
    signal.alarm(LONGEST)
    sys.argv = ["reconcile", *request["arguments"]]
    try:
        main()
    finally:
        os._exit(70)


if __name__ == "__main__":
    serve()
