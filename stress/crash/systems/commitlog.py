"""A store of messages (`binlog.commitlog`), in files so small that a run of some messages goes through several.

Whoever appends marks what it tries, where each message lies, and up to where all is promised: with sync flush that is
where an append returned, else what was flushed; after `close`, and once a store was opened after a crash, all of it.
To judge a state it is opened, looked at, appended to and closed three times.
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
from stress.crash.fault import NO_SPACE, Fared, Fault
from stress.crash.marks import Values
from stress.crash.mortal import for_ever
from stress.crash.records import Identity
from stress.crash.striker import Kind
from stress.crash.system import AFTER_DEATH, AFTER_POWER_CUT, Actor, Crash, Observing, Scenario, Storm, System, Who
from stress.crash.systems.commitlog_contents import Contents, Place, inspect, message_of

POOL = "binlog-pool-"
"""What the names of a store's shared memory begin with."""

_QUICK = Pace(0.002, 1, 0.008)
_RETENTION = Retention(expire_ratio=2.0, force_ratio=2.0, full_ratio=2.0)  # whatever the disk here has left
_OPTIONS = StoreOptions(
    file_bytes=1 << 13,
    units_in_file=26,  # 520 bytes, so that a unit lies across the end of a sector
    key_index=KeyIndexSize(slots=7, entries=40),
    flush_pace=_QUICK,
    commit_pace=_QUICK,
    queues_pace=_QUICK,
    retention=_RETENTION,
)
_REMOVING = replace(_RETENTION, hours=-1.0, at_hour=None, pause_seconds=0.0)
"""With which files go at once: when they are told to, and when the store is closed."""

_JUDGES = (199, 198)
_CALLS = (1, 3, 1)  # how many messages the judge appends in each
_THREADS_MAX = 4
_LARGE_BYTES = 1900
_BEGIN = 1_700_000_000


class MarkKind(enum.IntEnum):
    """Tried and removing come before the call, the others after it."""

    TRIED = 1  # a writer's message
    APPENDED = 2  # it lies at this place, as the call said
    DURABLE = 3  # all before this offset is promised to survive a power cut
    REMOVING = 4  # files may go, up to this offset
    REMOVED = 5  # they are gone, up to this offset
    REFUSED = 6  # an error said that this message was not appended
    ENDED = 7  # here the log ended when it was opened after a power cut


class Mark(NamedTuple):
    """One mark.  writer, number: of a message.  place: where it lies; of all other marks the offset is in it."""

    kind: MarkKind
    writer: int
    number: int
    place: Place = Place(0, 0)


def offset_mark(kind: MarkKind, offset: int) -> Mark:
    """A mark that says nothing but an offset."""
    return Mark(kind, 0, 0, Place(offset, 0))


@dataclass
class Expectation:
    """By the marks until some tick.

    placed: where messages lie, as calls said.  durable: the offset before which all is promised.
    removing, removed: where the log may begin at most, and must at least.
    """

    tried: set[Identity] = field(default_factory=set)
    placed: dict[Identity, Place] = field(default_factory=dict)
    durable: int = 0
    removing: int = 0
    removed: int = 0

    def add(self, values: Values) -> None:
        """Take one more mark into account."""
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
                # What lay there or behind it, and was not promised, is gone: others will lie in its place.
                end = max(offset, self.durable)
                self.placed = {which: place for which, place in self.placed.items() if place.offset < end}

    def died(self) -> None:
        """All that calls had returned for is promised."""
        self.durable = max([self.durable, *(place.offset + 1 for place in self.placed.values())])

    @property
    def promised(self) -> int:
        """How many messages must be there."""
        return sum(place.offset < self.durable for place in self.placed.values())


class StoreActor(Actor):
    """It appends to a store; also in a thread beside others."""

    def __init__(self, store: MessageStore, who: Who, thread: int = 0) -> None:
        super().__init__(who)
        self._store = store
        self._writer = who.life * _THREADS_MAX + thread
        self._count = 0

    def beside(self, thread: int) -> StoreActor:
        """One more, in another thread."""
        chance = random.Random(f"{self._chance.random()}/{thread}")
        return StoreActor(self._store, Who(self._who.witness, self._who.life, chance), thread)

    def go_on(self) -> None:
        """Append a message."""
        self._append(0)

    def several(self) -> None:
        """Append some together."""
        self._append(0, 0, 0)

    def large(self) -> None:
        """Append one that takes a quarter of a file."""
        self._append(_LARGE_BYTES)

    def several_large(self) -> None:
        """Append some of those together."""
        self._append(*(_LARGE_BYTES,) * 3)

    def some(self) -> None:
        """Append as chance has it, with time for the services after it."""
        self._append(*self._sizes())
        if self._chance.random() < 0.5:
            time.sleep(self._chance.choice((0.001, 0.003)))
            self.flushed()

    def few(self) -> None:
        """Append a few times as chance has it."""
        for _ in range(self._chance.randint(3, 5)):
            self.some()

    def many(self) -> None:
        """Append as in a storm."""
        # As long as each other with pooled flush: what a buffer had before lies where the last message ends.
        size = 300 if self._flush is Flush.POOLED else 0
        self._append(*([size] * self._chance.choices((1, 2, 5), (8, 1, 1))[0]))
        if self._flush is not Flush.SYNC:
            time.sleep(0.0005)  # else a life is over before any service has worked

    def removing(self) -> None:
        """From now on files go, when they are told to, and when the store is closed."""
        self._store._cleaner._retention = _REMOVING

    def remove(self) -> None:
        """Have files go, while there are more to come."""
        self._may_remove()
        self._store.remove_expired()
        self.mark(offset_mark(MarkKind.REMOVED, self._store._log.files.min_offset))

    def flushed(self) -> None:
        """Mark what was flushed by now."""
        self.mark(offset_mark(MarkKind.DURABLE, self._store._log.files.flushed_where))

    def close(self) -> None:
        """Close it, which promises all that is in it."""
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
        """Of the messages of one call, which go into one file."""
        count = self._chance.choices((0, 1, 2, 3), (6, 2, 1, 1))[0]
        return (self._chance.choices((0, _LARGE_BYTES), (5, 1))[0], *(0,) * count)

    def _append(self, *sizes: int) -> None:
        """Append the next messages, in one call; 0: of a size of its own."""
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


def _two_threads(actor: StoreActor) -> None:
    with ThreadPoolExecutor() as threads:
        _ = [*threads.map(StoreActor.few, (actor, actor.beside(1)))]


def _append_for_ever(path: Path, who: Who, kept: str) -> None:
    actor = CommitLogSystem().open(path, who, kept)
    for_ever(actor.many, *(actor.beside(thread).many for thread in range(1, _THREADS_MAX)))


class CommitLogSystem(System[Expectation, Contents]):
    """See the module."""

    name = "store"
    noun = "store"
    kept = tuple(flush.value for flush in Flush)
    by_kept = True
    mixes = True
    memory = POOL
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        "open": Scenario((StoreActor.go_on,)),
        "append": Scenario((*(StoreActor.go_on,) * 3, StoreActor.several, StoreActor.go_on)),
        # The messages of each file are as long as those of the others: what a buffer had before lies where one may end.
        "roll": Scenario((*(StoreActor.large,) * 9, StoreActor.several_large, StoreActor.go_on)),
        "remove": Scenario(
            (StoreActor.removing, *(*(StoreActor.several_large,) * 3, StoreActor.remove) * 2, StoreActor.go_on)
        ),
    }
    first = "append"
    recovers = "open"
    storm = Storm(_append_for_ever, kills=12)
    faulted = ("open", "append", "roll")
    fault_stride = 1
    harmless = frozenset({Kind.MEMORY})
    full_errors = frozenset({"FullError"})

    def __init__(self) -> None:
        going_on = Scenario({StoreActor.some: 1}, 3)
        removing = (StoreActor.removing, *(*(StoreActor.some, StoreActor.large) * 6, StoreActor.remove) * 2)
        self.workloads = {
            **{flush.value: self.lives(Scenario((_two_threads,)), 2, flush.value) for flush in Flush},
            "removing": self.lives(Scenario((*removing, StoreActor.go_on)), 1, Flush.SYNC.value),
            "killed": self.killed(Scenario({StoreActor.some: 1}, 12), going_on, 150),
            "recovery": self.going_on(going_on),
        }

    def open(self, path: Path, who: Who, kept: str) -> StoreActor:
        """Open it; in a recorded run all is promised that is there once it was opened after a crash."""
        store = MessageStore(path, replace(_OPTIONS, flush=Flush(kept)))
        store._log._clock = _Clock(who.life)
        actor = StoreActor(store, who)
        if who.life in (AFTER_DEATH, AFTER_POWER_CUT):
            contents = inspect(store)
            who.wrong.extend(contents.problems)
            if who.life == AFTER_POWER_CUT:
                actor.mark(offset_mark(MarkKind.ENDED, store.max_offset))
            for identity, place in contents.messages.items():
                actor.mark(Mark(MarkKind.APPENDED, *identity, place))
            actor.mark(offset_mark(MarkKind.DURABLE, store.max_offset))
        return actor

    def wrong_errors(self, fault: Fault, fared: Fared, expected: Expectation) -> list[str]:
        """What is wrong with the errors that somebody was told of a fault.

        PoisonedError is right if a write finds no space: a store that syncs each append has buffered it by then.  What
        is made, or gets its blocks, finds that out before, and FullError alone is right.
        """
        if Kind.WRITE in fault.kinds and fault.error in NO_SPACE:
            fared = replace(fared, errors=[each for each in fared.errors if each != "PoisonedError"])
        return super().wrong_errors(fault, fared, expected)

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def observe(self, path: Path, marks: Sequence[Values], *, again: bool = False, stays: bool = False) -> Contents:
        """Open it, look at it and append to it, three times; what it had at first.

        Whoever opens it need not flush as those before did.
        """
        problems: list[str] = []
        first = Contents(0, 0)
        with Observing(problems):
            first = before = _visit(path, problems, "at first", _JUDGES[again], 0, [*Flush][len(marks) % len(Flush)])
            for visit, when, flush in ((1, "the second time", Flush.ASYNC), (2, "the third time", Flush.SYNC)):
                after = _visit(path, problems, when, _JUDGES[again], visit, flush)
                new = {(_JUDGES[again], (visit - 1) * sum(_CALLS) + index) for index in range(sum(_CALLS))}
                there = {which: place for which, place in after.messages.items() if which not in new}
                if after.start != before.start or there != before.messages:
                    problems.append("what was there is not there, or elsewhere, when it is opened again")
                if missing := new - after.messages.keys():
                    problems.append(f"what was appended and closed is not there: {sorted(missing)}")
                before = after
        return replace(first, problems=problems)

    def compare(self, seen: Contents, least: Expectation, most: Expectation, crash: Crash) -> list[str]:
        """What is wrong."""
        wrong = []
        if not least.removed <= seen.start <= most.removing:
            wrong.append(f"the log begins at {seen.start}, not from {least.removed} to {most.removing}")
        wrong += [
            f"{which}, promised at {place}, is not there"
            for which, place in least.placed.items()
            if seen.start <= place.offset < least.durable and which not in seen.messages
        ]
        there = {which: place for which, place in seen.messages.items() if which[0] not in _JUDGES}
        wrong += [
            f"{which} lies at {place}, and was appended at {most.placed[which]}"
            for which, place in there.items()
            if most.placed.get(which, place) != place
        ]
        wrong += [
            f"{which} is there, which nobody had tried yet, or was refused" for which in there.keys() - most.tried
        ]
        return wrong + _in_order(seen, least)

    def lasted(self, before: Contents, after: Contents) -> list[str]:
        """What is wrong after a power cut."""
        return [
            f"{which}, which was at {place} when the store was closed, is not there"
            for which, place in before.messages.items()
            if after.messages.get(which) != place
        ]

    def remove(self, path: Path, memory: str) -> None:
        """Remove it, and its shared memory."""
        remove_pools(path)
        shutil.rmtree(path, ignore_errors=True)


class _Clock:
    """Store times that go by in seconds: of the three by which recovery begins earlier, a message takes four."""

    def __init__(self, life: int) -> None:
        self._now = _BEGIN + 1e6 * life

    def __call__(self) -> float:
        self._now += 4.0
        return self._now


def _in_order(seen: Contents, least: Expectation) -> list[str]:
    """Each writer's messages are there in its order, and none that was appended is missing between two of them."""
    wrong = []
    last: dict[int, int] = {}
    for writer, index in seen.messages:
        before = last.get(writer, -1)
        if index <= before:
            wrong.append(f"message {index} of writer {writer} comes after {before}")
        wrong += [
            f"message {missing} of writer {writer} is not there, and {index} is"
            for missing in range(before + 1, index)
            if (place := least.placed.get((writer, missing))) and place.offset >= seen.start
        ]
        last[writer] = index
    return wrong


def _visit(path: Path, problems: list[str], when: str, writer: int, visit: int, flush: Flush) -> Contents:
    """Open it once, look at it, and append to it."""
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
                    f"{when}: {count} messages were appended at {appended}, and the log ended at {contents.end}"
                )
    if (path / ABORT_FILE).exists():
        problems.append(f"{when}: the marker of a crash is there after a clean stop")
    return contents


def remove_pools(path: Path) -> None:
    """Remove the shared memory of the store in a folder, which need not be there."""
    with suppress(FileNotFoundError):
        status = path.stat()
        for name in os.listdir("/dev/shm"):
            if name.startswith(f"{POOL}{status.st_dev:x}-{status.st_ino:x}-"):
                os.unlink(f"/dev/shm/{name}")
