"""binlog's consumer groups with many messages that wait: in order, or for another message with their key.

In turn, some messages are appended, and as many are taken and acknowledged.  Only the second half counts, so the number
of waiting messages is the same throughout.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import binlog
from binlog import ConsumerGroup, Item, Message
from stress.bench.contestant import BODY_BYTES, Measure
from stress.bench.peers.claim_work import FILLED, parts
from stress.bench.peers.our_group import NAME, WAIT_SECONDS_MAX, fill, log_of
from stress.bench.processes import Loop, Work, run_processes
from stress.bench.sample import Sample

WAITING_A_SECOND = 500_000
"""Messages that wait for each second of a measurement; in the usual two seconds a million."""

HOT_A_SECOND = 25_000
"""Messages of one key that wait for each second of a measurement; in the usual two seconds 50,000."""

_HOT_KEY, _OTHER_KEYS = b"hot", 100


class _Opened(NamedTuple):
    """A worker's group, and the messages to append in turn."""

    group: ConsumerGroup
    messages: list[bytes]


# Opens a group, in the process of its worker.
_Opener = Callable[[], AbstractContextManager[_Opened]]


def backlog(*, is_long: bool) -> Measure:
    """Measure microseconds for a message while a million wait, or as few as are appended in turn."""
    names = (f"{NAME}-{number}" for number in itertools.count())

    def prepare(directory: Path, seconds: float) -> _Opener:
        count = int(WAITING_A_SECOND * seconds) if is_long else FILLED
        log = _filled(directory.parent, max(count, FILLED))
        end = binlog.stat(log).end_sequence
        assert end is not None
        start, name = binlog.Sequence(end - count), next(names)

        @contextmanager
        def open_() -> Iterator[_Opened]:
            with ConsumerGroup(log, name, start=start, mode=binlog.Mode.FLUSH) as group:
                yield _Opened(group, next(parts(FILLED)))

        return open_

    return lambda directory, seconds: Sample(_median_ns(prepare, directory, seconds) / 1000)


def hot_key(*, is_waiting: bool) -> Measure:
    """Measure messages a second of other keys, while messages of one key wait because the first of them is in hand."""

    def prepare(directory: Path, seconds: float) -> _Opener:
        log = log_of(directory)
        hot = Message(body=os.urandom(BODY_BYTES), key=_HOT_KEY).pack()
        with binlog.Writer(log) as writer:
            writer.append(hot)
            for _ in range(int(HOT_A_SECOND * seconds) // FILLED + 1 if is_waiting else 0):
                writer.append_many([hot] * FILLED)
        keys = itertools.cycle(range(_OTHER_KEYS))
        body = os.urandom(BODY_BYTES)
        others = [Message(body=body, key=b"%d" % next(keys)).pack() for _ in range(FILLED)]

        @contextmanager
        def open_() -> Iterator[_Opened]:
            with ConsumerGroup(log, NAME, order="strict", mode=binlog.Mode.FLUSH) as group:
                group.get(timeout=WAIT_SECONDS_MAX)
                yield _Opened(group, others)

        return open_

    return lambda directory, seconds: Sample(1e9 / _median_ns(prepare, directory, seconds))


def _median_ns(prepare: Callable[[Path, float], _Opener], directory: Path, seconds: float) -> float:
    """Return the median of the time for a message."""
    open_ = prepare(directory, seconds)

    @contextmanager
    def opener(index: int) -> Iterator[Loop]:
        with open_() as (group, messages), binlog.Writer(group.path) as writer:
            writer.append_many(messages)
            items = iter(group.consume(timeout=WAIT_SECONDS_MAX))
            first = next(items)  # it passes all messages that wait for another one
            yield lambda work: _take_in_turn(work, first, items, lambda: writer.append_many(messages))

    run = run_processes(opener, processes=1, seconds=seconds, keep_waits=True)
    assert run.waits is not None
    return run.waits.p50_ns / FILLED


def _take_in_turn(work: Work, item: Item, items: Iterator[Item], append: Callable[[], object]) -> int:
    assert work.waits is not None
    for number in itertools.count():
        append()
        begun = time.monotonic_ns()
        for _ in range(FILLED):
            item.ack()
            item = next(items)
        work.waits[number] = time.monotonic_ns() - begun
        if work.stop[0]:
            return number + 1
    raise AssertionError


@functools.cache
def _filled(place: Path, count: int) -> Path:
    """Return a log with this number of messages; it is made on first use, and removed with the run."""
    folder = tempfile.mkdtemp(prefix="bench-group-", dir=place)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    log = Path(folder) / "log"
    fill(log, count)
    return log
