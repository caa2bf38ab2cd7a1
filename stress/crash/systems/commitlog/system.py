"""The system of a commit log (`binlog.commitlog`), in files so small that a run of a few messages fills several.

An appending process marks each message that it tries, its offset, and the offset before which everything is promised:
with sync flush the end of an append that returned, otherwise the flushed offset; after `close`, and after the store was
opened after a crash, the end. To check a state, the store is opened, inspected, appended to and closed three times.
"""

from __future__ import annotations

import enum
import os
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from binlog.commitlog.append.flush_services import Pace
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.format.commitlog.indexes import KeyIndexSize
from binlog.format.commitlog.names import ABORT_FILE
from stress.crash.failure_modes.fault import NO_SPACE, Fault, FaultOutcome
from stress.crash.marks import Values
from stress.crash.preloaded.injector import Kind
from stress.crash.records import Identity
from stress.crash.system import (
    AFTER_DEATH,
    AFTER_POWER_CUT,
    Actor,
    Crash,
    ProblemCollector,
    ProcessContext,
    Scenario,
    Storm,
    System,
)
from stress.crash.systems.commitlog.contents import Contents, Place, inspect, message_of
from stress.crash.workers.victim_process import repeat_in_threads

POOL = "binlog-pool-"
"""The prefix of the names of a store's shared memory."""

_QUICK = Pace(0.002, 1, 0.008)
# not by how much space the disk here has left
_RETENTION = Retention(expire_ratio=2.0, force_ratio=2.0, full_ratio=2.0)
_OPTIONS = StoreOptions(
    file_bytes=1 << 13,
    units_in_file=26,  # 520 bytes, so that a unit crosses a sector border
    key_index=KeyIndexSize(slots=7, entries=40),
    flush_pace=_QUICK,
    commit_pace=_QUICK,
    queues_pace=_QUICK,
    retention=_RETENTION,
)
_REMOVING = replace(_RETENTION, hours=-1.0, at_hour=None, pause_seconds=0.0)
"""A retention with which files are removed at once: when asked, and when the store is closed."""

_CHECKERS = (199, 198)
_CALLS = (1, 3, 1)  # the number of messages in each call of the checker
_THREADS_MAX = 4
_LARGE_BYTES = 1900
_BEGIN = 1_700_000_000


class MarkKind(enum.IntEnum):
    """TRIED and REMOVING come before the call, the others after it."""

    TRIED = 1  # a writer's message
    APPENDED = 2  # the offsets that the call returned
    DURABLE = 3  # everything before this offset is promised to survive a power cut
    REMOVING = 4  # files up to this offset may be removed
    REMOVED = 5  # files up to this offset were removed
    REFUSED = 6  # an error said that this message was not appended
    ENDED = 7  # the end of the log when it was opened after a power cut


class Mark(NamedTuple):
    """One mark.  writer, number: of a message.  place: its offsets; for all other marks only the first is set."""

    kind: MarkKind
    writer: int
    number: int
    place: Place = Place(0, 0)


def offset_mark(kind: MarkKind, offset: int) -> Mark:
    """Return a mark with only an offset."""
    return Mark(kind, 0, 0, Place(offset, 0))


@dataclass
class Expectation:
    """The state of a store according to the marks until some tick.

    placed: offsets that calls returned.  durable: everything before this offset is promised.
    removing, removed: the log starts at most, and at least, at this offset.
    """

    tried: set[Identity] = field(default_factory=set)
    placed: dict[Identity, Place] = field(default_factory=dict)
    durable: int = 0
    removing: int = 0
    removed: int = 0

    def add(self, values: Values) -> None:
        """Add one mark."""
        kind, writer, index, offset, queue_offset, *_ = values
        match kind:
            case MarkKind.TRIED:
                self.tried.add((writer, index))
            case MarkKind.REFUSED:
                self.tried.discard((writer, index))
            case MarkKind.APPENDED:
                self.placed[writer, index] = Place(offset, queue_offset)
            case MarkKind.DURABLE:
                self.durable = max(self.durable, offset)
            case MarkKind.REMOVING:
                self.removing = max(self.removing, offset)
            case MarkKind.REMOVED:
                self.removed = max(self.removed, offset)
            case MarkKind.ENDED:
                # Messages at or after the end that were not promised are gone; others will be appended there.
                end = max(offset, self.durable)
                self.placed = {which: place for which, place in self.placed.items() if place.offset < end}

    def died(self) -> None:
        """Promise every call that returned."""
        self.durable = max([self.durable, *(place.offset + 1 for place in self.placed.values())])

    @property
    def promised(self) -> int:
        """The number of promised messages."""
        return sum(place.offset < self.durable for place in self.placed.values())


class CommitLogActor(Actor):
    """Appends to a store; several threads may have an actor each."""

    def __init__(self, store: MessageStore, process: ProcessContext, thread: int = 0) -> None:
        super().__init__(process)
        self._store = store
        self._writer = process.number * _THREADS_MAX + thread
        self._count = 0

    def for_thread(self, thread: int) -> CommitLogActor:
        """Return an actor for another thread."""
        chance = random.Random(f"{self._chance.random()}/{thread}")
        return CommitLogActor(self._store, ProcessContext(self._process.witness, self._process.number, chance), thread)

    def append_one(self) -> None:
        """Append a message."""
        self._append(0)

    def several(self) -> None:
        """Append several messages in one call."""
        self._append(0, 0, 0)

    def large(self) -> None:
        """Append a message that fills a quarter of a file."""
        self._append(_LARGE_BYTES)

    def several_large(self) -> None:
        """Append several large messages in one call."""
        self._append(*(_LARGE_BYTES,) * 3)

    def some(self) -> None:
        """Append a random number of messages, and sometimes give the services time."""
        self._append(*self._sizes())
        if self._chance.random() < 0.5:
            time.sleep(self._chance.choice((0.001, 0.003)))
            self.flushed()

    def few(self) -> None:
        """Append a few times."""
        for _ in range(self._chance.randint(3, 5)):
            self.some()

    def many(self) -> None:
        """Append as in a storm."""
        # All of equal length with pooled flush, so that old bytes of a buffer start at the end of the last message.
        size = 300 if self._flush is Flush.POOLED else 0
        self._append(*([size] * self._chance.choices((1, 2, 5), (8, 1, 1))[0]))
        if self._flush is not Flush.SYNC:
            time.sleep(0.0005)  # otherwise the process is killed before any service has run

    def removing(self) -> None:
        """Make files be removed when asked, and when the store is closed."""
        self._store._cleaner._retention = _REMOVING

    def remove(self) -> None:
        """Remove expired files while more are appended."""
        self._may_remove()
        self._store.remove_expired()
        self.mark(offset_mark(MarkKind.REMOVED, self._store._log.files.min_offset))

    def flushed(self) -> None:
        """Mark the flushed offset."""
        self.mark(offset_mark(MarkKind.DURABLE, self._store._log.files.flushed_where))

    def close(self) -> None:
        """Close the store, which promises everything in it."""
        self._may_remove()
        self._store.close()
        self.mark(offset_mark(MarkKind.DURABLE, self._store.max_offset))

    @property
    def _flush(self) -> Flush:
        return self._store._options.flush

    def _may_remove(self) -> None:
        if self._store._cleaner._retention is _REMOVING:
            self.mark(offset_mark(MarkKind.REMOVING, self._store._log.files.files[-1].offset))

    def _sizes(self) -> tuple[int, ...]:
        """Return the sizes of the messages of one call, which fit into one file."""
        count = self._chance.choices((0, 1, 2, 3), (6, 2, 1, 1))[0]
        return (self._chance.choices((0, _LARGE_BYTES), (5, 1))[0], *(0,) * count)

    def _append(self, *sizes: int) -> None:
        """Append the next messages in one call; size 0 is the default size."""
        own = [(self._writer, self._count + at) for at in range(len(sizes))]
        self._count += len(sizes)
        for identity in own:
            self.mark(Mark(MarkKind.TRIED, *identity))
        messages = [message_of(*identity, size) for identity, size in zip(own, sizes, strict=True)]
        with self.refusing(*(Mark(MarkKind.REFUSED, *identity) for identity in own)):
            appended = self._store.append(messages)
        for identity, *place in zip(own, appended.offsets, appended.queue_offsets, strict=True):
            self.mark(Mark(MarkKind.APPENDED, *identity, Place(*place)))
        if self._flush is Flush.SYNC:
            self.mark(offset_mark(MarkKind.DURABLE, appended.next_offset))
        else:
            self.flushed()


def _two_threads(actor: CommitLogActor) -> None:
    with ThreadPoolExecutor() as threads:
        _ = [*threads.map(CommitLogActor.few, (actor, actor.for_thread(1)))]


def _append_until_killed(path: Path, process: ProcessContext, variant: str) -> None:
    actor = CommitLogSystem().open(path, process, variant)
    repeat_in_threads(actor.many, *(actor.for_thread(thread).many for thread in range(1, _THREADS_MAX)))


class CommitLogSystem(System[Expectation, Contents]):
    """See the module."""

    name = "commitlog"
    noun = "commitlog"
    variants = tuple(flush.value for flush in Flush)
    rows_by_variant = True
    mixes_variants = True
    memory = POOL
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        "open": Scenario((CommitLogActor.append_one,)),
        "append": Scenario((*(CommitLogActor.append_one,) * 3, CommitLogActor.several, CommitLogActor.append_one)),
        # All files have messages of the same lengths, so that old bytes of a buffer start at the end of a message.
        "roll": Scenario((*(CommitLogActor.large,) * 9, CommitLogActor.several_large, CommitLogActor.append_one)),
        "remove": Scenario(
            (
                CommitLogActor.removing,
                *(*(CommitLogActor.several_large,) * 3, CommitLogActor.remove) * 2,
                CommitLogActor.append_one,
            )
        ),
    }
    first = "append"
    recovers = "open"
    storm = Storm(_append_until_killed, kills=12)
    faulted = ("open", "append", "roll")
    fault_stride = 1
    harmless = frozenset({Kind.MEMORY})
    full_errors = frozenset({"FullError"})

    def __init__(self) -> None:
        continuation = Scenario({CommitLogActor.some: 1}, 3)
        removing = (
            CommitLogActor.removing,
            *(*(CommitLogActor.some, CommitLogActor.large) * 6, CommitLogActor.remove) * 2,
        )
        self.workloads = {
            **{flush.value: self.repeated(Scenario((_two_threads,)), 2, flush.value) for flush in Flush},
            "removing": self.repeated(Scenario((*removing, CommitLogActor.append_one)), 1, Flush.SYNC.value),
            "killed": self.killed(Scenario({CommitLogActor.some: 1}, 12), continuation, 150),
            "recovery": self.continued(continuation),
        }

    def open(self, path: Path, process: ProcessContext, variant: str) -> CommitLogActor:
        """Open the store; in a recorded run everything in it after a crash is promised from then on."""
        store = MessageStore(path, replace(_OPTIONS, flush=Flush(variant)))
        store._log._clock = _Clock(process.number)
        actor = CommitLogActor(store, process)
        if process.number in (AFTER_DEATH, AFTER_POWER_CUT):
            contents = inspect(store)
            process.wrong.extend(contents.problems)
            if process.number == AFTER_POWER_CUT:
                actor.mark(offset_mark(MarkKind.ENDED, store.max_offset))
            for identity, place in contents.messages.items():
                actor.mark(Mark(MarkKind.APPENDED, *identity, place))
            actor.mark(offset_mark(MarkKind.DURABLE, store.max_offset))
        return actor

    def wrong_errors(self, fault: Fault, outcome: FaultOutcome, expected: Expectation) -> list[str]:
        """Return the violations in the errors that a fault caused.

        PoisonedError is right if a write finds no space, because a store that syncs each append has buffered it by
        then.  A file that is made, or gets its blocks, finds that out before, and only FullError is right.
        """
        if Kind.WRITE in fault.kinds and fault.error in NO_SPACE:
            outcome = replace(outcome, errors=[each for each in outcome.errors if each != "PoisonedError"])
        return super().wrong_errors(fault, outcome, expected)

    def expectation(self) -> Expectation:
        """Return an empty expectation."""
        return Expectation()

    def observe(self, path: Path, marks: Sequence[Values], *, again: bool = False, stays: bool = False) -> Contents:
        """Open the store, inspect it and append to it, three times; return its content at first.

        It need not be opened with the flush mode of the processes before.
        """
        problems: list[str] = []
        first = Contents(0, 0)
        with ProblemCollector(problems):
            first = before = _visit(path, problems, "at first", _CHECKERS[again], 0, [*Flush][len(marks) % len(Flush)])
            for visit, when, flush in ((1, "the second time", Flush.ASYNC), (2, "the third time", Flush.SYNC)):
                after = _visit(path, problems, when, _CHECKERS[again], visit, flush)
                new = {(_CHECKERS[again], (visit - 1) * sum(_CALLS) + index) for index in range(sum(_CALLS))}
                there = {which: place for which, place in after.messages.items() if which not in new}
                if after.start != before.start or there != before.messages:
                    problems.append("messages are missing, or have moved, after it was opened again")
                if missing := new - after.messages.keys():
                    problems.append(f"messages that were appended and closed are missing: {sorted(missing)}")
                before = after
        return replace(first, problems=problems)

    def compare(self, seen: Contents, least: Expectation, most: Expectation, crash: Crash) -> list[str]:
        """Return the violations."""
        wrong = []
        if not least.removed <= seen.start <= most.removing:
            wrong.append(f"the log begins at {seen.start}, not from {least.removed} to {most.removing}")
        wrong += [
            f"{which}, promised at {place}, is missing"
            for which, place in least.placed.items()
            if seen.start <= place.offset < least.durable and which not in seen.messages
        ]
        there = {which: place for which, place in seen.messages.items() if which[0] not in _CHECKERS}
        wrong += [
            f"{which} is at {place}, but was appended at {most.placed[which]}"
            for which, place in there.items()
            if most.placed.get(which, place) != place
        ]
        wrong += [f"{which} is in the log, but was not tried, or was refused" for which in there.keys() - most.tried]
        return wrong + _in_order(seen, least)

    def check_after_power_cut(self, before: Contents, after: Contents) -> list[str]:
        """Return the violations after a power cut."""
        return [
            f"{which}, which was at {place} when the store was closed, is missing"
            for which, place in before.messages.items()
            if after.messages.get(which) != place
        ]

    def remove(self, path: Path, memory: str) -> None:
        """Remove the store and its shared memory."""
        remove_pools(path)
        shutil.rmtree(path, ignore_errors=True)


class _Clock:
    """A clock that advances four seconds for each message: recovery begins three seconds earlier than its
    checkpoint."""

    def __init__(self, process_number: int) -> None:
        self._now = _BEGIN + 1e6 * process_number

    def __call__(self) -> float:
        self._now += 4.0
        return self._now


def _in_order(seen: Contents, least: Expectation) -> list[str]:
    """Check that each writer's messages are in its order, with none missing in between."""
    wrong = []
    last: dict[int, int] = {}
    for writer, index in seen.messages:
        before = last.get(writer, -1)
        if index <= before:
            wrong.append(f"message {index} of writer {writer} follows {before}")
        wrong += [
            f"message {missing} of writer {writer} is missing, but {index} is there"
            for missing in range(before + 1, index)
            if (place := least.placed.get((writer, missing))) and place.offset >= seen.start
        ]
        last[writer] = index
    return wrong


def _visit(path: Path, problems: list[str], when: str, writer: int, visit: int, flush: Flush) -> Contents:
    """Open the store, inspect it, and append to it."""
    with MessageStore(path, replace(_OPTIONS, flush=flush)) as store:
        contents = inspect(store)
        problems += [f"{when}: {line}" for line in contents.problems]
        index = visit * sum(_CALLS)
        for count in _CALLS:
            messages = [message_of(writer, index + each) for each in range(count)]
            appended = store.append(messages)
            index += count
            if not contents.end <= appended.offset or len(appended.offsets) != count:
                problems.append(
                    f"{when}: {count} messages were appended at {appended}, but the log ended at {contents.end}"
                )
    if (path / ABORT_FILE).exists():
        problems.append(f"{when}: the crash marker exists after a clean stop")
    return contents


def remove_pools(path: Path) -> None:
    """Remove the shared memory of the store in a folder, if the folder exists."""
    with suppress(FileNotFoundError):
        status = path.stat()
        for name in os.listdir("/dev/shm"):
            if name.startswith(f"{POOL}{status.st_dev:x}-{status.st_ino:x}-"):
                os.unlink(f"/dev/shm/{name}")
