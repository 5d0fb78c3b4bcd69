"""How the process begins and ends: with three open streams, and soon and quietly on SIGTERM and Ctrl-C.

The first signal raises KeyboardInterrupt, so that what is open is closed on the way out; the second one, or too long a
way, ends the process where it is. That loses nothing: a pass may be killed anywhere. Nothing waits at the end for
threads, since one of them may hang in a request for minutes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from reconciler.errors import ExitCode

PATIENCE = 5.0  # seconds from a signal to the end, whatever hangs
_PAUSE = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WAKES = signal.SIGURG  # ignored unless somebody handles it
_codes: dict[int, int] = dict.fromkeys(_SIGNALS, ExitCode.INTERRUPTED)


def begin() -> None:
    """Prepare the process; until `interruptible` a signal ends it at once."""
    _open_missing_streams()
    _handle(leave)
    signal.signal(_WAKES, lambda *_: None)
    sys.unraisablehook = _end_unraisable
    threading.Thread(target=_watch, args=(_signal_pipe(),), daemon=True).start()


def interruptible() -> None:
    """Let the first signal raise KeyboardInterrupt from now on."""
    _handle(_interrupt)


def on_sigterm(act: Callable[[], None], code: int) -> None:
    """Let the first SIGTERM do that instead, and make `code` the exit code that SIGTERM leads to."""

    def once(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        signal.signal(signal.SIGTERM, leave)
        act()

    _codes[signal.SIGTERM] = code
    signal.signal(signal.SIGTERM, once)


def leave(signum: int, frame: FrameType | None = None) -> NoReturn:
    """End the process where it is."""
    del frame
    _exit(_codes[signum])


def end(code: int) -> NoReturn:
    """End the process, without taking its objects apart, which takes a tenth of a pass, or waiting for idle threads."""
    _handle(leave)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it any more, or the disk is full
        code = code or ExitCode.FAILED
    _exit(code)


def _exit(code: int) -> NoReturn:
    atexit._run_exitfuncs()  # noqa: SLF001 - the client's deletes the keys that it wrote to temporary files
    os._exit(code)


def _handle(handler: Callable[[int, FrameType | None], Any]) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and a shell's `&` have it
            signal.signal(number, handler)


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    del signum, frame
    _handle(leave)
    raise KeyboardInterrupt


def _end_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Heed a signal that came while an object was finalised, where Python only prints the exception and goes on."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _exit(ExitCode.INTERRUPTED)
    sys.__unraisablehook__(unraisable)


def _signal_pipe() -> int:
    """Return a descriptor on which each signal is written as it comes, even while the main thread hangs in C."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _watch(reader: int) -> None:
    """See to it that the first signal ends the process.

    NB: one that comes just before the main thread begins to wait for another thread is not heard while that waits: it
    must be interrupted again, and another signal does that. What hangs in C is not interrupted at all.
    """
    while (number := os.read(reader, 1)[0]) not in _SIGNALS:
        pass
    for _ in range(round(PATIENCE / _PAUSE)):
        time.sleep(_PAUSE)
        signal.pthread_kill(threading.main_thread().ident or 0, _WAKES)
    _exit(_codes[number])


def _open_missing_streams() -> None:
    """Open what was closed by the caller (`>&-`): the next file to be opened would else be taken for it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
