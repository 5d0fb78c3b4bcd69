"""Run processes and keep what they cost."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took: wall time and CPU time (its children's too) in seconds, its peak memory in MiB."""

    seconds: float
    cpu: float
    memory: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s (CPU {self.cpu:.2f} s)"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: what was measured, in its own terms, and what the budget is."""

    what: str
    measured: str
    budget: str
    kept: bool


def cost_of(command: Sequence[str], *, environ: Mapping[str, str], folder: Path | None = None) -> Cost:
    """Run a process to its end. Raises RuntimeError, with the end of what it said, when it fails."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=dict(environ), stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            said = output.read()[-2000:].decode(errors="replace")
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def middle(costs: Sequence[Cost]) -> Cost:
    """Return the median of each measure."""
    return Cost(*(statistics.median(getattr(cost, name) for cost in costs) for name in Cost.__slots__))


def together(*costs: Cost) -> Cost:
    """Return what processes take that run one after the other."""
    return Cost(sum(c.seconds for c in costs), sum(c.cpu for c in costs), max(c.memory for c in costs))
