"""binlog's commit log: appends by threads of one process, and lookups of messages."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from binlog.commitlog.append.message import Message
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.store import MessageStore
from stress.bench.contestant import BODY_BYTES, Measure
from stress.bench.loops import append_loop, append_many_loop, ask_loop, in_threads
from stress.bench.measuring import Prepare, preparing, waiting
from stress.bench.processes import Loop, Work
from stress.bench.sample import MeasureError, Sample

_TOPIC = "topic"
_POLL_SECONDS = 0.0002
_QUEUED_SECONDS_MAX = 60.0

MESSAGES_A_SECOND = 2_500_000
"""The number of messages in a lookup for each second of a measurement; for the usual two seconds, 5 million."""

_FOUND_BYTES = 100
_FILLED_AT_ONCE = 1000


def appending(flush: Flush, *, threads: int = 1, messages: int = 1, until_queued: bool = False) -> Prepare:
    """Append messages, `messages` a call; each thread has a queue of its own.

    until_queued: whether the time ends only when the queues have all messages.
    """

    def open_(directory: Path) -> MessageStore:
        return MessageStore(directory / "store", StoreOptions(flush=flush))

    def loop(store: MessageStore) -> Loop:
        appends = in_threads(_appends(store, messages), threads)

        def append_and_wait(work: Work) -> int:
            count = appends(work)
            _wait_queued(store, count)
            return count

        return append_and_wait if until_queued else appends

    def stored(directory: Path) -> int:
        with open_(directory) as store:
            return len(store.queue_range(_TOPIC, 0))

    return preparing(open_, loop, stored=stored)


def _appends(store: MessageStore, messages: int) -> Loop:
    message = Message.of(_TOPIC, os.urandom(BODY_BYTES), tag="tag")
    return append_loop(store.append, message) if messages == 1 else append_many_loop(store.append, [message] * messages)


def _wait_queued(store: MessageStore, count: int) -> None:
    deadline = time.monotonic() + _QUEUED_SECONDS_MAX
    while len(store.queue_range(_TOPIC, 0)) < count:
        if time.monotonic() > deadline:
            raise MeasureError(f"the queue did not receive {count} messages in {_QUEUED_SECONDS_MAX} s")
        time.sleep(_POLL_SECONDS)


class _Filled:
    """A store with `count` messages, each with a key of its own; made on first use, and removed with the run.

    times: when each was stored.
    """

    def __init__(self, place: Path, count: int) -> None:
        self.count = count
        self.folder = Path(tempfile.mkdtemp(prefix="bench-store-", dir=place))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.offsets: list[int] = []
        self.times: list[int] = []
        body = os.urandom(_FOUND_BYTES)
        with MessageStore(self.folder, StoreOptions(flush=Flush.ASYNC)) as store:
            for first in range(0, count, _FILLED_AT_ONCE):
                numbers = range(first, min(first + _FILLED_AT_ONCE, count))
                appended = store.append([Message.of(_TOPIC, body, keys=[str(number)]) for number in numbers])
                self.offsets += appended.offsets
                self.times += [appended.store_ms] * len(numbers)
            _wait_queued(store, count)


_filled = functools.cache(_Filled)

# Finds a message by its number, and returns its offset in the commit log.
Ask = Callable[[MessageStore, _Filled, int], int]


def by_offset(store: MessageStore, filled: _Filled, number: int) -> int:
    """Find a message by its offset in the commit log."""
    return store.read(filled.offsets[number]).offset


def by_queue_offset(store: MessageStore, filled: _Filled, number: int) -> int:
    """Find a message by its number in its queue."""
    return store.pull(_TOPIC, 0, number, 1)[0].offset


def by_time(store: MessageStore, filled: _Filled, number: int) -> int:
    """Find the first message with a given store time, which several messages of one call may have."""
    found = store.find_by_time(_TOPIC, 0, filled.times[number])
    if filled.times[found] != filled.times[number]:
        raise MeasureError(f"stored at {filled.times[number]} was found {found}, of {filled.times[found]}")
    return filled.offsets[number]


def by_key(store: MessageStore, filled: _Filled, number: int) -> int:
    """Find a message by its key."""
    (message,) = store.find(_TOPIC, str(number))
    return message.offset


def finding(ask: Ask) -> Measure:
    """Measure how long it takes to find a message."""

    def measure(directory: Path, seconds: float) -> Sample:
        filled = _filled(directory.parent, int(seconds * MESSAGES_A_SECOND))

        def loop(store: MessageStore) -> Loop:
            def read_one(number: int) -> None:
                if ask(store, filled, number) != filled.offsets[number]:
                    raise MeasureError(f"message {number} was not found")

            return ask_loop(read_one, filled.count)

        prepare = preparing(lambda _: MessageStore(filled.folder, StoreOptions(flush=Flush.ASYNC)), loop)
        return waiting(prepare, processes=1)(directory, seconds)

    return measure
