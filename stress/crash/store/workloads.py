"""What is recorded of stores: small runs that mark what they tried, and what they were promised."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time
import traceback
from pathlib import Path

from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.store import MessageStore
from stress.crash.marks import Recorder
from stress.crash.mortal import common_path
from stress.crash.store.aftermath import POOL
from stress.crash.store.inspection import Place, inspect
from stress.crash.store.judge import WRITERS
from stress.crash.store.marks import Mark, MarkKind, offset_mark
from stress.crash.store.messages import message_of
from stress.crash.store.options import REMOVING, options
from stress.crash.striker import Action, Kind, Strike, arm
from stress.crash.subject import Workload
from stress.crash.together import at_once

_AFTER_RECOVERY = 20  # the writer of what is appended once a crashed store was opened
_LARGE_BYTES = 1900
_BEGIN = 1_700_000_000
_CHANGES = (Kind.WRITE, Kind.STORE, Kind.ALLOCATE, Kind.TRUNCATE, Kind.UNLINK, Kind.MAKE_DIRECTORY)
_CHANGES_ABOUT = 150


class Told:
    """A writer of a store, whose every call is marked."""

    def __init__(self, store: MessageStore, number: int, *, first: int = 0) -> None:
        self.count = first
        self._store = store
        self._number = number
        self._recorder = Recorder()

    def append(self, *sizes: int) -> None:
        """Append the next messages, in one call; 0: of a size of its own."""
        first, self.count = self.count, self.count + len(sizes)
        messages = [message_of(self._number, first + at, size) for at, size in enumerate(sizes)]
        for index in range(first, self.count):
            self._recorder.mark(Mark(MarkKind.TRIED, self._number, index, Place(0, 0)))
        appended = self._store.append(messages)
        for index, offset, queue_offset in zip(
            range(first, self.count), appended.offsets, appended.queue_offsets, strict=True
        ):
            self._recorder.mark(Mark(MarkKind.APPENDED, self._number, index, Place(offset, queue_offset)))
        if self._store._options.flush is Flush.SYNC:
            self._recorder.mark(offset_mark(MarkKind.DURABLE, appended.next_offset))
        else:
            self.flushed()

    def flushed(self) -> None:
        """Mark what was flushed by now."""
        self._recorder.mark(offset_mark(MarkKind.DURABLE, self._store._log.files.flushed_where))


class Clock:
    """Store times that go by in seconds: of the three by which recovery begins earlier, a message takes four."""

    def __init__(self, hours: int = 0) -> None:
        self._now = _BEGIN + 3600.0 * hours

    def __call__(self) -> float:
        self._now += 4.0
        return self._now


def opened(path: Path, how: StoreOptions, clock: Clock) -> MessageStore:
    """A store with such a clock."""
    store = MessageStore(path, how)
    store._log._clock = clock
    return store


def closed(store: MessageStore) -> None:
    """Close it, which promises all that is in it."""
    store.close()
    Recorder().mark(offset_mark(MarkKind.DURABLE, store.max_offset))


def _sizes(chance: random.Random) -> tuple[int, ...]:
    """Of the messages of one call, which go into one file."""
    count = chance.choices((0, 1, 2, 3), (6, 2, 1, 1))[0]
    return (chance.choices((0, _LARGE_BYTES), (5, 1))[0], *(0,) * count)


def _some(told: Told, chance: random.Random, calls: int) -> None:
    """Append a few times, with time for the services in between."""
    for _ in range(calls):
        told.append(*_sizes(chance))
        if chance.random() < 0.5:
            time.sleep(chance.choice((0.001, 0.003)))
            told.flushed()


def _life(flush: Flush) -> Workload:
    """A store that is opened twice, with two threads that append."""

    def workload(path: Path, seed: str) -> None:
        chance = random.Random(seed)
        clock = Clock()
        counts = [0, 0]
        for _ in range(2):
            store = opened(path, options(flush), clock)
            writers = [Told(store, number, first=count) for number, count in enumerate(counts)]
            chances = [random.Random(chance.random()) for _ in writers]
            at_once(
                *(
                    lambda told=told, own=own: _some(told, own, own.randint(3, 5))
                    for told, own in zip(writers, chances, strict=True)
                )
            )
            counts = [told.count for told in writers]
            closed(store)

    return workload


def removing(path: Path, seed: str) -> None:
    """A store whose first files are removed, now and then and when it is closed."""
    chance = random.Random(seed)
    recorder = Recorder()
    store = opened(path, dataclasses.replace(REMOVING, flush=Flush.SYNC), Clock())
    told = Told(store, 0)

    def begin() -> None:
        recorder.mark(offset_mark(MarkKind.REMOVING, store._log.files.files[-1].offset))

    for _ in range(2):
        for _ in range(chance.randint(5, 8)):
            told.append(*_sizes(chance), _LARGE_BYTES)
        begin()
        store.remove_expired()
        recorder.mark(offset_mark(MarkKind.REMOVED, store._log.files.min_offset))
    told.append(0)
    begin()
    closed(store)


def killed(path: Path, seed: str) -> None:
    """A process is killed at a call that changes something, and another one opens what it left, and goes on."""
    chance = random.Random(seed)
    flush = chance.choice([*Flush])
    child = os.fork()
    if child == 0:
        try:
            arm(Strike(Action.KILL_BEFORE, chance.randrange(_CHANGES_ABOUT), _CHANGES), common_path(path, POOL))
            _some(Told(opened(path, options(flush), Clock()), 0), chance, 12)
            os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
            traceback.print_exc()
        os._exit(1)
    if os.waitpid(child, 0)[1] != signal.SIGKILL:
        raise RuntimeError("a process that was to be killed failed")
    _go_on(path, seed, Clock(hours=1))


def recovery(path: Path, seed: str) -> None:
    """A store is opened that a power cut left, and gone on with."""
    _go_on(path, seed, Clock(hours=2))


def _go_on(path: Path, seed: str, clock: Clock) -> None:
    """What is there once it was opened is promised, whatever was before."""
    chance = random.Random(f"{seed}/recovery")
    recorder = Recorder()
    store = opened(path, options(chance.choice([*Flush])), clock)
    contents = inspect(store, writers=WRITERS)
    if contents.problems:
        raise RuntimeError(f"once it was opened: {contents.problems}")
    for (writer, index), place in contents.messages.items():
        recorder.mark(Mark(MarkKind.APPENDED, writer, index, place))
    recorder.mark(offset_mark(MarkKind.DURABLE, store.max_offset))
    _some(Told(store, _AFTER_RECOVERY), chance, chance.randint(2, 4))
    closed(store)


WORKLOADS: dict[str, Workload] = {
    **{flush.value: _life(flush) for flush in Flush},
    "removing": removing,
    "killed": killed,
    "recovery": recovery,
}
