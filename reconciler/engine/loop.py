"""Pass again and again: on a new commit, on a change in the cluster, and periodically whatever happens.

Events only say when to look. A burst of them is one pass, and passes that write status keep a distance of
`status_interval` seconds, so that a flapping job can't fill the branch with commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reconciler.cluster.interface import Cluster
from reconciler.errors import Forbidden, ReconcilerError
from reconciler.model import JOBSET, OWNER_LABEL

FIRST_RETRY = 1.0
LAST_RETRY = 60.0
WATCH_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often the loop looks, in seconds."""

    interval: float
    status_interval: float


class Loop:
    """Calls a pass whenever there is something to see, until it is stopped.

    `one_pass` returns whether it wrote status. A pass that raises an expected error is reported by `complain`, once per
    text, and tried again with growing distance: an unreachable cluster changes nothing and heals by itself.
    """

    def __init__(self, one_pass: Callable[[], bool], rhythm: Rhythm, complain: Callable[[str], None]) -> None:
        self.one_pass = one_pass
        self.rhythm = rhythm
        self.complain = complain
        self.stop = threading.Event()
        self._look = threading.Event()

    def look(self) -> None:
        """Ask for a pass soon; any thread may."""
        self._look.set()

    def end(self) -> None:
        """Stop after the pass that is under way; any thread may ask."""
        self.stop.set()
        self._look.set()

    def follow(self, events: Iterable[object]) -> None:
        """Ask for a pass at each event, in a thread of its own; the iterable ends when the loop stops."""

        def run() -> None:
            try:
                for _ in events:
                    self.look()
            except ReconcilerError as error:  # without it the interval still makes the loop look
                self.complain(f"{error}; the loop looks every {self.rhythm.interval:g} s all the same")

        threading.Thread(target=run, daemon=True).start()

    def run(self) -> None:
        """Pass until stopped. A KeyboardInterrupt ends it too; whoever raised it decides what that means."""
        retry = FIRST_RETRY
        complaint = None
        try:
            while not self.stop.is_set():
                self._look.clear()
                try:
                    wrote = self.one_pass()
                except ReconcilerError as error:
                    if str(error) != complaint:
                        complaint = str(error)
                        self.complain(complaint)
                    self._rest(retry)
                    retry = min(retry * 2, LAST_RETRY)
                    continue
                retry, complaint = FIRST_RETRY, None
                if wrote:
                    self._rest(self.rhythm.status_interval)
                self._look.wait(self.rhythm.interval)
        finally:
            self.end()

    def _rest(self, seconds: float) -> None:
        """Pause, whatever happens meanwhile; what happened is seen by the next pass."""
        self.stop.wait(seconds)


def watched_namespaces(cluster: Cluster, owner: str, namespaces: Sequence[str]) -> Sequence[str | None]:
    """Return where to watch: everywhere at once (None), or in each of these for who may not look everywhere."""
    try:
        cluster.list("Job", labels=f"{OWNER_LABEL}={owner}")
    except Forbidden:
        return namespaces
    except ReconcilerError:
        pass  # away for now: the watch tries again by itself
    return [None]


def watched_kinds(cluster: Cluster) -> Sequence[str]:
    """Return what to watch; where JobSet comes later, the pods of its Jobs say when to look."""
    try:
        return ("Job", JOBSET, "Pod") if cluster.serves(JOBSET) else ("Job", "Pod")
    except ReconcilerError:
        return ("Job", "Pod")


def watch_cluster(
    cluster: Cluster, kind: str, owner: str, stop: threading.Event, *, namespace: str | None = None
) -> Iterable[None]:
    """Yield whenever one of our objects changes, until `stop` is set.

    A watch that ends is opened again; what happened in between is seen by the pass that this yields for. One that can't
    be opened is tried again with growing distance: without it the interval is what makes the loop look.
    """
    rest, labels = FIRST_RETRY, f"{OWNER_LABEL}={owner}"
    while not stop.wait(rest):
        try:
            for _ in cluster.watch(kind, namespace=namespace, labels=labels, timeout=WATCH_TIMEOUT):
                yield None
                if stop.is_set():
                    return
        except ReconcilerError:
            rest = min(rest * 2, LAST_RETRY)
            continue
        rest = FIRST_RETRY
        yield None
