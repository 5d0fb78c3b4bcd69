"""Start, kill and await the processes of one folder, which remembers them: `logs/NAME.log`, `pids/NAME.json`.

A process outlives who started it, so any later command that knows the folder can stop it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class NotReadyError(Exception):
    """What was waited for did not come."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The named processes of a folder."""

    folder: Path

    def start(self, name: str, *command: str) -> None:
        """Start a program in a session of its own. Descriptors that were made inheritable go with it."""
        logs, pids = self.folder / "logs", self.folder / "pids"
        logs.mkdir(exist_ok=True)
        pids.mkdir(exist_ok=True)
        log = str(logs / f"{name}.log")
        # NB: not subprocess, which wants to see its children end and warns of those that are left running.
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
        (pids / f"{name}.json").write_text(json.dumps({"pid": pid, "command": command}))

    def kill(self, name: str) -> None:
        """Kill a process as a crash would and wait until it is gone; fine when it is gone already."""
        file = self.folder / "pids" / f"{name}.json"
        if not file.exists():
            return
        pid, command = json.loads(file.read_text()).values()
        if _runs(pid, command):
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:  # another process started it
            self.wait(lambda: not _runs(pid, command), f"{name} to end", seconds=10)

    def restart(self, name: str) -> None:
        """Start a program again with the same arguments, killing it first if it runs."""
        self.kill(name)
        self.start(name, *json.loads((self.folder / "pids" / f"{name}.json").read_text())["command"])

    def started(self, name: str) -> bool:
        """Tell whether the folder ever had this process."""
        return (self.folder / "pids" / f"{name}.json").exists()

    def wait(self, check: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
        """Wait until `check` holds; an OSError in it means not yet. Raises NotReadyError."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if check():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise NotReadyError(f"waited {seconds:.0f} s for {what}; see {self.folder / 'logs'}")


def _runs(pid: int, command: list[str]) -> bool:
    """Tell whether a pid is still this program's: pids are used again, and a zombie has no command line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - as short as it gets
            return file.read().decode().rstrip("\0").split("\0") == command
    except OSError:
        return False
