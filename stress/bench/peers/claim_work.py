"""The work of a queue's workers: claim the oldest message, and acknowledge it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stress.bench.contestant import BODY_BYTES, Measure
from stress.bench.loops import append_loop
from stress.bench.measuring import Prepare, measuring
from stress.bench.processes import Loop, Work
from stress.bench.sample import Sample

# Messages that are put together, at first and if a worker finds none.
FILLED = 1000


class Claims(NamedTuple):
    """The calls of a worker.

    take: claim messages, acknowledge them, and return how many there were.  fill: put messages together.
    """

    take: Callable[[], int]
    fill: Callable[[list[bytes]], object]


def claiming(peer: Callable[[int], Prepare], a_second: int, *, processes: int = 1, keep_waits: bool = False) -> Measure:
    """Measure messages a second.

    peer: prepares this number of waiting messages.
    a_second: messages for each second of the measurement; a faster worker puts more when none are left.
    """

    def measure(directory: Path, seconds: float) -> Sample:
        prepare = peer(max(int(a_second * seconds), FILLED))
        return measuring(prepare, processes=processes, keep_waits=keep_waits)(directory, seconds)

    return measure


def claim_loop(claims: Claims) -> Loop:
    """Take one message after another."""
    return append_loop(_refilled(claims), None)


def claim_many_loop(claims: Claims) -> Loop:
    """Take several messages at a time."""
    take = _refilled(claims)

    def loop(work: Work) -> int:
        count = 0
        while True:
            count += take()
            if work.stop[0]:
                return count

    return loop


def _refilled(claims: Claims) -> Callable[..., int]:
    take, fill = claims
    messages = [os.urandom(BODY_BYTES)] * FILLED

    def refilled(_: object = None) -> int:
        while not (count := take()):
            fill(messages)
        return count

    return refilled


def parts(count: int) -> Iterator[list[bytes]]:
    """Yield `count` messages, as many at a time as are put together."""
    body = os.urandom(BODY_BYTES)
    for first in range(0, count, FILLED):
        yield [body] * min(FILLED, count - first)
