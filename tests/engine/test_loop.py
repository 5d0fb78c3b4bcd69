"""When the loop looks: at events, now and then, with distance after a status commit and after errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from reconciler.engine.loop import Loop, Rhythm
from reconciler.errors import ClusterUnreachable


def run_until(number: int, passes: list[float], loop: Loop) -> None:
    """Run the loop until so many passes were made and no further one followed them at once, or for 20 s."""

    def end() -> None:
        last = time.monotonic() + 20
        while len(passes) < number and time.monotonic() < last:
            time.sleep(0.01)
        time.sleep(0.1)
        loop.end()

    threading.Thread(target=end).start()
    loop.run()


def await_first(passes: list[float]) -> None:
    """Wait for the first pass, which looks anyway, and let it end."""
    while not passes:
        time.sleep(0.01)
    time.sleep(0.05)


def counted(passes: list[float], *, wrote: bool = False) -> Callable[[], bool]:
    """Make a pass that notes when it was made."""

    def one_pass() -> bool:
        passes.append(time.monotonic())
        return wrote

    return one_pass


def test_it_looks_periodically_whatever_happens() -> None:
    """Events may be lost; the interval is the bound."""
    passes: list[float] = []
    run_until(3, passes, Loop(counted(passes), Rhythm(interval=0.2, status_interval=0), complain=print))

    assert all(later - earlier > 0.19 for earlier, later in pairwise(passes))
    assert len(passes) >= 3


def test_a_burst_of_events_is_one_pass() -> None:
    """Events only say when to look: a hundred in one moment are one look."""
    passes: list[float] = []
    loop = Loop(counted(passes), Rhythm(interval=60, status_interval=0), complain=print)

    def burst() -> None:
        await_first(passes)
        for _ in range(100):
            loop.look()

    threading.Thread(target=burst).start()
    run_until(2, passes, loop)

    assert len(passes) == 2


def test_an_event_during_the_rest_is_not_lost() -> None:
    """After a status commit there is a pause; what happened in it is seen right after."""
    passes: list[float] = []
    loop = Loop(counted(passes, wrote=True), Rhythm(interval=60, status_interval=0.3), complain=print)

    def event() -> None:
        await_first(passes)
        loop.look()

    threading.Thread(target=event).start()
    run_until(2, passes, loop)

    assert len(passes) == 2
    assert passes[1] - passes[0] >= 0.3


def test_an_error_is_told_once_and_tried_again() -> None:
    """An outage is one line, not one a second, and the first pass after it makes no noise."""
    told: list[str] = []
    tries = 0

    def one_pass() -> bool:
        nonlocal tries
        tries += 1
        if tries < 2:
            raise ClusterUnreachable("no answer")
        loop.end()
        return False

    loop = Loop(one_pass, Rhythm(interval=60, status_interval=0), complain=told.append)
    loop.run()

    assert (tries, told) == (2, ["no answer"])


def test_it_follows_a_source_of_events_until_it_ends() -> None:
    """Whatever yields wakes it."""
    passes: list[float] = []

    def events() -> Iterator[None]:
        await_first(passes)
        yield None

    loop = Loop(counted(passes), Rhythm(interval=60, status_interval=0), complain=print)
    loop.follow(events())
    run_until(2, passes, loop)

    assert len(passes) == 2
    assert loop.stop.is_set()
