"""Start, stop and look at the process of a pod, through the folder that it shares with its `runner`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.cluster.local import runner
from reconciler.core.pod.delivery import FOLDER_VARIABLE

_LOST = {"exitCode": 255, "reason": "ContainerStatusUnknown", "message": "its process disappeared without a word"}
_LONGEST_MESSAGE = 4096
_TIME_TO_START = 5.0


@dataclass(frozen=True, slots=True)
class Container:
    """The folder of one pod; all of its state is there, none in this process."""

    folder: Path

    @property
    def prepared(self) -> bool:
        """Whether there is something to run."""
        return (self.folder / "spec.json").exists()

    def prepare(self, command: list[str], env: dict[str, str], files: dict[str, bytes]) -> None:
        """Lay out the folder, with the run's `files` and an empty one to work in; nothing runs yet."""
        work = self.folder / "work"
        work.mkdir(parents=True, exist_ok=True)
        basics = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ} | {"HOME": str(work)}
        basics["JOB_TERMINATION_LOG"] = str(self.folder / "termination-log")
        basics[FOLDER_VARIABLE] = str(self.folder / "volumes")
        (self.folder / "volumes" / "files").mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (self.folder / "volumes" / "files" / name).write_bytes(content)
        runner.write(self.folder / "spec.json", {"command": command, "cwd": str(work), "env": basics | env})

    def pursue(self, grace: int | None) -> None:
        """See to it that it runs, or, with the `grace` of a pod that is being deleted, that it ends. Often repeated."""
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended, or is gone altogether, meanwhile
            if self.prepared and grace is not None:
                self._stop(grace)
            elif self.prepared and not self._started() and not _held(self.folder / "lock"):
                self._start()

    def _start(self) -> None:
        """Ask for a runner, and again when it was not there in time: it may have been killed before it could begin."""
        asked = self.folder / "asked"
        if not asked.exists() or abs(time.time() - asked.stat().st_mtime) > _TIME_TO_START:
            asked.touch()
            # the shell leaves at once, so that a loop that lives for weeks collects no zombies
            arguments = [sys.executable, "-I", "-S", runner.__file__, str(self.folder)]
            script = '"$@" </dev/null >/dev/null 2>&1 &'
            subprocess.run(["/bin/sh", "-c", script, "sh", *arguments], cwd="/", start_new_session=True, check=True)

    def _stop(self, grace: int) -> None:
        if not (self.folder / "stop").exists():
            runner.write(self.folder / "stop", grace)
        if _held(self.folder / "lock") and self._started():
            record = self._read("record.json")
            if "exitCode" not in record:
                os.kill(record["pid"], signal.SIGTERM)  # only wakes the runner: it reads `stop`

    def look(self) -> dict[str, Any] | None:
        """Return the runner's record, with `exitCode` once all is over. None before it began; {} if it never will.

        A runner that vanished (kill -9, a reboot) takes its command along: the record is complete only when that has
        ended too.
        """
        # NB: in this order. A runner that begins in between is not lost, and a record may be older than the lock's end.
        started = self._started()
        running = _held(self.folder / "lock")
        if not started:
            never = not running and (self.folder / "stop").exists() and not self._started()
            return {} if never else None
        record: dict[str, Any] = self._read("record.json")
        if running or "exitCode" in record:
            return record
        if _held(self.folder / "alive"):
            with suppress(FileNotFoundError):
                runner.kill_session(self._read("session"))
            return record
        return record | _LOST

    def last_words(self) -> str:
        """Return what the command wrote to its termination log."""
        with suppress(FileNotFoundError), (self.folder / "termination-log").open("rb") as file:
            return file.read(_LONGEST_MESSAGE).decode(errors="replace")
        return ""

    def output(self, *, follow: bool) -> Iterator[bytes]:
        """Yield the log; with `follow`, as it grows until the container has ended."""
        with suppress(FileNotFoundError), (self.folder / "log").open("rb") as file:
            over = False
            while not over:
                over = not follow or not self.prepared or "exitCode" in (self.look() or {})
                while piece := file.read(65536):
                    yield piece
                if not over:
                    time.sleep(0.1)

    def remove(self) -> None:
        """Remove the folder of a container that has ended; a runner that comes late finds nothing."""
        with suppress(FileNotFoundError), (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _started(self) -> bool:
        return (self.folder / "record.json").exists()

    def _read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_bytes())


def _held(path: Path) -> bool:
    """Tell whether a live process holds this lock."""
    with suppress(FileNotFoundError), path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
