"""Run one container's command to its end: a process of its own that outlives the pass that started it.

Started by `container` as a plain file, with the standard library alone, so that it is there in milliseconds. It holds
`lock` as long as it lives, and its children hold `alive`: so nobody has to trust a process id that may be another's by
now. A folder is run at most once: whoever finds `record.json` or `stop` there leaves.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_START_ERROR = 128  # what a container runtime reports for a command that it can't start


def main(folder: str) -> None:
    """Run what `spec.json` in `folder` says, and write down in `record.json` how it ended."""
    with suppress(FileNotFoundError):  # the pod is gone: nothing to run
        os.chdir(folder)
        with Path("lock").open("w") as lock:
            if _lock(lock) and not Path("stop").exists() and not Path("record.json").exists():
                _run(Path.cwd(), json.loads(Path("spec.json").read_bytes()))


def _lock(file: IO[str]) -> bool:
    """Take the lock unless another runner has it; one that only looks lets go at once."""
    for _ in range(20):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.05)
    return False


def _run(folder: Path, spec: dict[str, Any]) -> None:
    wakeup, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # a shell's background job, as we are, ignores these, and so would ours
    record = {"pid": os.getpid(), "startedAt": _now()}  # NB: from here on others may signal, so not before the handlers
    write("record.json", record)
    try:
        child = _start(folder, spec)
    except OSError as error:
        record |= {"exitCode": _START_ERROR, "reason": "StartError", "message": str(error)}
    else:
        code = _wait(child, wakeup)
        record |= {"exitCode": code if code >= 0 else 128 - code}
    write("record.json", record | {"finishedAt": _now()})


def _start(folder: Path, spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    alive = os.open("alive", os.O_RDWR | os.O_CREAT)
    fcntl.flock(alive, fcntl.LOCK_EX)
    try:
        with Path("log").open("ab") as log:
            return subprocess.Popen(
                spec["command"],
                cwd=spec["cwd"],
                env=spec["env"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[alive],
                # the child says itself which session it leads: we may be killed before we could. There are no threads.
                preexec_fn=lambda: write(folder / "session", os.getpid()),  # noqa: PLW1509
            )
    finally:
        os.close(alive)


def _wait(child: subprocess.Popen[bytes], wakeup: int) -> int:
    """Wait for the end; when `stop` appears, pass on TERM, and KILL after the grace it holds."""
    deadline: float | None = None
    while child.poll() is None:
        if deadline is None and Path("stop").exists():
            deadline = time.monotonic() + json.loads(Path("stop").read_bytes())
            child.terminate()  # as a kubelet: the first process alone
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            kill_session(child.pid)
            remaining = None
        if select.select([wakeup], [], [], remaining)[0]:
            os.read(wakeup, 4096)
    kill_session(child.pid)  # what the command left behind ends with it, as in a container
    return child.returncode


def kill_session(session: int) -> None:
    """Kill all processes of a session, those too that are born meanwhile. They may be in many process groups."""
    killed: set[int] = set()
    while fresh := {process for process in _processes() if _session_of(process) == session} - killed:
        for process in fresh:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        killed |= fresh


def _processes() -> list[int]:
    if Path("/proc/self").exists():
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [int(word) for word in subprocess.check_output(["ps", "-A", "-o", "pid="]).split()]


def _session_of(process: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(process)
    return None


def write(path: str | Path, value: object) -> None:
    """Write a value to a file, whole or not at all."""
    draft = Path(f"{path}.draft")
    draft.write_text(json.dumps(value), encoding="utf-8")
    draft.replace(path)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


if __name__ == "__main__":
    main(sys.argv[1])
