"""Run `reconcile` in a process that is forked from one that has imported it: most of a short pass is its imports.

As a program it answers requests, a JSON object a line on its standard input, with exit codes, a line each. The process
of a command has its own folder, environment and output, and does what `python -m reconciler` does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import reconciler

UNUSED = ("__main__", "kubernetes", "kubeconfig", "transport")  # those on this machine don't need the big client


class Forks:
    """The process that has imported everything; a context manager."""

    def __enter__(self) -> Forks:
        """Start it; the first command waits until it is ready."""
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        with self._server:
            _stream(self._server.stdin).close()

    def run(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
        """Run a command to its end; return its exit code, and what it wrote to its output and errors."""
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
            streams = {"streams": [os.devnull, output.name, errors.name]}
            print(json.dumps(request | streams), file=_stream(self._server.stdin), flush=True)
            code = int(_stream(self._server.stdout).readline())
            return code, output.read(), errors.read()


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _serve() -> None:
    for module in pkgutil.walk_packages(reconciler.__path__, "reconciler."):
        if not module.name.endswith(UNUSED):
            importlib.import_module(module.name)
    importlib.import_module("git")
    gc.freeze()  # no collection in a child touches, and so copies, what all share
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: dict[str, Any]) -> NoReturn:
    from reconciler.cli import main

    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, path in enumerate(request["streams"]):
        os.dup2(os.open(path, os.O_RDWR), number)
    sys.argv = ["reconcile", *request["arguments"]]
    code: Any = 70
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    _serve()
