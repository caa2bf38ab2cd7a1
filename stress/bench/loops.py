"""The loops in which a Python peer writes or reads records until it is stopped, but at least once.

So a machine that is too busy to schedule a process in time gives a bad figure, and not none.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stress.bench.processes import Loop, Work

# A check of the flag costs a twentieth of the fastest append, so it is not made for each record.
_RECORDS_PER_CHECK = 50

_Item = TypeVar("_Item")


def append_loop(append: Callable[[_Item], object], record: _Item) -> Loop:
    """Append one record a call; time each call if waits are kept."""

    def loop(work: Work) -> int:
        if work.waits is None:
            return _count(work, append, record, _RECORDS_PER_CHECK)
        return _count_and_time(work, work.waits, append, record)

    return loop


def append_many_loop(append_many: Callable[[list[_Item]], object], records: list[_Item]) -> Loop:
    """Append many records a call."""
    return lambda work: _count(work, append_many, records, 1) * len(records)


def in_threads(loop: Loop, threads: int) -> Loop:
    """Run the loop in several threads at once; a single one runs in the process's own."""
    if threads == 1:
        return loop

    def loops(work: Work) -> int:
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(lambda _: loop(work), range(threads)))

    return loops


def ask_loop(ask: Callable[[int], object], count: int) -> Loop:
    """Ask for a random one of `count` by its number, again and again; time each question."""

    def loop(work: Work) -> int:
        assert work.waits is not None
        chance = random.Random(work.index)
        return _count_and_time(work, work.waits, lambda all_: ask(chance.randrange(all_)), count)

    return loop


def pass_loop(read: Callable[[], object], records: int) -> Loop:
    """Read everything, which is `records` records, again and again.  The last pass is complete too."""

    def loop(work: Work) -> int:
        count = 0
        while True:
            read()
            count += records
            if work.stop[0]:
                return count

    return loop


def take(records: Iterable[object]) -> None:
    """Take every record, and do nothing with it."""
    for _ in records:
        pass


def _count_and_time(work: Work, waits: memoryview, append: Callable[[_Item], object], record: _Item) -> int:
    stop, now = work.stop, time.monotonic_ns
    count = 0
    before = now()
    while True:
        append(record)
        after = now()
        waits[count] = after - before
        before = after
        count += 1
        if stop[0]:
            return count


def _count(work: Work, append: Callable[[_Item], object], item: _Item, calls: int) -> int:
    stop = work.stop
    count = 0
    while True:
        for _ in itertools.repeat(None, calls):
            append(item)
        count += calls
        if stop[0]:
            return count
