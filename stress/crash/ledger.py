"""What processes that may die at any moment say of their appends, in memory that they share with who judges them.

Each writer (a place for processes, one after the other) numbers its records.  A call is noted before it is made, and
what it returned after: what a process was told is known whatever became of it.  Numbers are stored through a cast
memoryview, each by one machine store; struct.pack_into would clear a number before it writes it, and a process that
died in between would leave it zero.
"""

from __future__ import annotations

import enum
import mmap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import binlog
from binlog import Batch, Mode, Ref, Turn, Writer
from binlog.errors import AccessError, BinlogError, FullError, UnknownOutcomeError
from binlog.format.log_header import FIRST_OFFSET
from stress.crash.drafting import draft_of

_TRIED, _TOLD, _TEXT_SIZE, _NUMBERS = range(4)  # the first numbers of an own part; then a text; then the records
_TEXT_BYTES = 4096 - 8 * _NUMBERS
_RECORDS_AT = 4096 // 8
_PLACE, _FATE, _FIRST, _ENTRY = range(4)  # of a record: where it lies; its fate; the first record of its call
_OFFSET_BITS = 40


class Fate(enum.IntEnum):
    """What a call was told of a record."""

    TRIED = 0
    DURABLE = 1
    KEPT = 2  # in the file or in shared memory: a process's death does not take it, a power cut may
    REFUSED = 3  # by an error that says that it is not in the log
    DECIDED = 4  # by an error that says that it comes into the log once a writer can go on with it


def record_bytes(writer: int, index: int, size: int = 0) -> bytes:
    """The `index`-th record of a writer, of about 30 to 400 bytes, or of `size`: no other is like it."""
    head = b"%d:%d:" % (writer, index)
    size = size or 30 + (index * 2654435761 >> 7) % 370
    return head + (head * (size // len(head) + 1))[:size]


def is_whole(data: bytes, writer: int, index: int) -> bool:
    """Whether it is that writer's record as it was made."""
    head = b"%d:%d:" % (writer, index)
    return data.startswith(head) and data == record_bytes(writer, index, len(data) - len(head))


class Part:
    """One writer's part of the ledger."""

    def __init__(self, memory: memoryview, writer: int, room: int) -> None:
        self._numbers = memory.cast("Q")
        self._text = memory[8 * _NUMBERS : 4096]
        self.writer = writer
        self._room = room

    def clear(self) -> None:
        """Begin anew."""
        self._numbers[_TRIED] = self._numbers[_TOLD] = self._numbers[_TEXT_SIZE] = 0

    @property
    def tried(self) -> int:
        """How many records were tried."""
        return self._numbers[_TRIED]

    @property
    def told(self) -> int:
        """How many records calls returned for."""
        return self._numbers[_TOLD]

    @property
    def has_room(self) -> bool:
        """Whether more can be tried."""
        return self.tried + 1000 < self._room

    @property
    def text(self) -> str:
        """What the process said last, such as an error."""
        return bytes(self._text[: self._numbers[_TEXT_SIZE]]).decode(errors="replace")

    def say(self, text: str) -> None:
        """Leave a text."""
        data = text.encode()[-_TEXT_BYTES:]
        self._text[: len(data)] = data
        self._numbers[_TEXT_SIZE] = len(data)

    def entries(self) -> Iterator[tuple[int, Ref | None, Fate, int]]:
        """Each record that was tried: its index, where it lies as far as told, what was told, its call's first."""
        for index in range(self.tried):
            place, fate, first = self._entry(index)
            ref = Ref(place >> _OFFSET_BITS, place & ((1 << _OFFSET_BITS) - 1)) if place else None
            yield index, ref, Fate(fate), first

    def _try(self, count: int) -> int:
        first = self.tried
        for index in range(first, first + count):
            self._put(index, 0, Fate.TRIED, first)
        self._numbers[_TRIED] = first + count
        return first

    def _called(self, first: int, count: int, call: Any) -> Any:
        try:
            return call()
        except (FullError, AccessError):
            for index in range(first, first + count):
                self._put(index, 0, Fate.REFUSED, first)
            raise

    def _tell(self, first: int, count: int, refs: list[Ref], fate: Fate) -> None:
        for index in range(count):
            place = refs[index].number << _OFFSET_BITS | refs[index].offset if refs else 0
            self._put(first + index, place, fate, first)
        self._numbers[_TOLD] += count

    def _entry(self, index: int) -> tuple[int, int, int]:
        at = _RECORDS_AT + index * _ENTRY
        return self._numbers[at + _PLACE], self._numbers[at + _FATE], self._numbers[at + _FIRST]

    def _put(self, index: int, place: int, fate: int, first: int) -> None:
        if index >= self._room:
            raise MemoryError("the ledger is full")
        at = _RECORDS_AT + index * _ENTRY
        self._numbers[at + _FIRST] = first
        self._numbers[at + _PLACE] = place
        self._numbers[at + _FATE] = fate


class Own(Part):
    """One writer of a log."""

    def append(self, writer: Writer[Any], mode: Mode = Mode.SYNC, *, size: int = 0) -> None:
        """Append the next record."""
        first = self._try(1)
        ref = self._called(first, 1, lambda: writer.append(record_bytes(self.writer, first, size), mode=mode))
        self._tell(first, 1, [] if ref is None else [ref], Fate.DURABLE if mode is Mode.SYNC else Fate.KEPT)

    def append_many(self, writer: Writer[Any], count: int, mode: Mode = Mode.SYNC, *, size: int = 0) -> None:
        """Append the next records together."""
        first = self._try(count)
        records = [record_bytes(self.writer, index, size) for index in range(first, first + count)]
        refs = self._called(first, count, lambda: writer.append_many(records, mode=mode))
        self._tell(first, count, refs, Fate.DURABLE if mode is Mode.SYNC else Fate.KEPT)

    def append_turn(self, writer: Writer[Any], count: int, *, first: int | None = None) -> None:
        """Append records as a turn of a source of this writer's own: the next ones, or again those from `first` on."""
        if first is None or first >= self.tried:
            first = self._try(count)
        records = [record_bytes(self.writer, index) for index in range(first, first + count)]
        batches = [Batch.from_records(records)]
        source = f"writer {self.writer}"
        turn = self._called(first, count, lambda: writer.append_turn(batches, source=source, turn=first))
        refs = [] if turn is None else [Ref(turn.number, turn.start + offset) for offset in batches[0].offsets[:-1]]
        self._tell(first, count, refs, Fate.DURABLE)

    def append_drafts(
        self, writer: Writer[Any], folder: Path, counts: Sequence[int], *, first: int | None = None
    ) -> None:
        """Append records as such a turn that is written aside, with so many in each draft, which is a file then."""
        count = sum(counts)
        if first is None or first >= self.tried:
            first = self._try(count)
        turn_number, records = first, iter([record_bytes(self.writer, index) for index in range(first, first + count)])
        batches = [Batch.from_records([*islice(records, each)]) for each in counts]
        source = f"writer {self.writer}"

        def call() -> Turn | None:
            writer.last_turn(source)  # a log that refuses all says so, whatever would befall the drafts
            drafts = [draft_of(folder, batch) for batch in batches]
            return writer.append_drafts(drafts, source=source, turn=turn_number)

        try:
            turn = self._called(first, count, call)
        except UnknownOutcomeError:
            for index in range(first, first + count):
                self._put(index, 0, Fate.DECIDED, first)
            raise
        refs = []
        if turn is not None:
            for number, batch in enumerate(batches, turn.number):
                refs += [Ref(number, FIRST_OFFSET + offset) for offset in batch.offsets[:-1]]
        self._tell(first, count, refs, Fate.DURABLE)

    @property
    def decided(self) -> int:
        """How many calls were told that their records come into the log later."""
        return len({first for _, _, fate, first in self.entries() if fate is Fate.DECIDED})

    def append_drafts_again(self, writer: Writer[Any], folder: Path) -> None:
        """Append what was tried last once more where that was a turn written aside that nobody answered for."""
        _, fate, first = self._entry(self.tried - 1) if self.tried else (0, Fate.DURABLE, 0)
        count = self.tried - first
        if fate == Fate.TRIED and count > 1:
            self.append_drafts(writer, folder, (1, count - 1), first=first)

    def sync(self, writer: Writer[Any]) -> None:
        """Sync, which makes durable all that was kept."""
        writer.sync()
        for index in range(self.tried):
            place, fate, first = self._entry(index)
            if fate == Fate.KEPT:
                self._put(index, place, Fate.DURABLE, first)


PartT = TypeVar("PartT", bound=Part)


class AnyLedger(Generic[PartT]):
    """All writers' parts.  Make it before the processes are forked."""

    def __init__(self, kind: type[PartT], writers: int, room: int) -> None:
        own_bytes = 4096 + room * _ENTRY * 8
        memory = memoryview(mmap.mmap(-1, writers * own_bytes))
        parts = [memory[index * own_bytes : (index + 1) * own_bytes] for index in range(writers)]
        self.writers = [kind(part, index, room) for index, part in enumerate(parts)]

    def clear(self) -> None:
        """Begin anew."""
        for own in self.writers:
            own.clear()

    @property
    def told(self) -> int:
        """Records that calls returned for."""
        return sum(own.told for own in self.writers)

    def judge(self, log: Iterable[binlog.Entry], *, least: Fate = Fate.KEPT) -> list[str]:
        """What is wrong with what a log holds, read from its start.

        least: KEPT where nothing but processes died, DURABLE where the disk lost what was not synced.
        """
        wrong: list[str] = []
        found: list[dict[int, Ref]] = [{} for _ in self.writers]
        last = [-1] * len(self.writers)
        for entry in log:
            identity = _identity(entry.data, len(self.writers))
            if identity is None:
                wrong.append(f"at {entry.ref} is a record that nobody appended: {entry.data[:40]!r}")
                continue
            writer, index = identity
            if index >= self.writers[writer].tried:
                wrong.append(f"at {entry.ref} is record {index} of writer {writer}, which was never tried")
            elif index in found[writer]:
                wrong.append(f"record {index} of writer {writer} is there twice: {found[writer][index]}, {entry.ref}")
            elif index < last[writer]:
                wrong.append(f"at {entry.ref} record {index} of writer {writer} comes after its record {last[writer]}")
            found[writer].setdefault(index, entry.ref)
            last[writer] = max(last[writer], index)
        for own, there in zip(self.writers, found, strict=True):
            wrong += _compare(own, there, least)
        return wrong


class Ledger(AnyLedger[Own]):
    """Of the writers of a log."""

    def __init__(self, writers: int, room: int) -> None:
        super().__init__(Own, writers, room)


def _identity(data: bytes, writers: int) -> tuple[int, int] | None:
    with suppress(ValueError):
        writer, index = map(int, data[:24].split(b":", 2)[:2])
        if writer < writers and is_whole(data, writer, index):
            return writer, index
    return None


def _compare(own: Part, there: dict[int, Ref], least: Fate) -> list[str]:
    wrong = []
    for index, ref, fate, first in own.entries():
        what = f"record {index} of writer {own.writer}"
        owed = fate in (Fate.DURABLE, Fate.DECIDED, least)
        if fate is Fate.DECIDED and index not in there:
            wrong.append(f"{what} was to come into the log, and is not there")
        elif owed and index not in there:
            wrong.append(f"{what}, acknowledged{'' if ref is None else f' at {ref}'}, is not there")
        elif owed and ref is not None and there[index] != ref:
            wrong.append(f"{what} was acknowledged at {ref} and lies at {there[index]}")
        elif fate is Fate.REFUSED and index in there:
            wrong.append(f"{what} was refused, and lies at {there[index]}")
        elif (index in there) != (first in there):
            wrong.append(f"{what} and record {first} are one call's, and only one of them is there")
    return wrong


def tell_error(own: Part, error: BaseException) -> None:
    """Say what ended a process that nobody killed."""
    ours = "" if isinstance(error, BinlogError) else "an error that is none of binlog's: "
    own.say(f"{ours}{type(error).__name__}: {error}")
