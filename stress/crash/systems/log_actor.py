"""One who appends to a log: records, and turns, which are tried again; each call is marked before it and after."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from binlog import Batch, Entry, ExternalFile, ExternalFileWriter, Mode, Reader, Ref, Writer
from binlog.errors import UnknownOutcomeError
from binlog.format.log_header import FIRST_OFFSET
from binlog.storage.files import make_directory
from stress.crash.marks import Values
from stress.crash.records import record_bytes
from stress.crash.system import Actor, Step, Who

PREPARE_BYTES = 4096
ASIDE = "aside"
"""The folder of drafts, in the log's directory, as a job's tasks write them."""

_NAME_BYTES = 8
_NOWHERE = Ref(0, 0)


class How(enum.IntEnum):
    """How records are appended together: in a call, as a turn, or as a turn that is written aside, in two drafts."""

    PLAIN = 0
    TURN = 1
    DRAFTS = 2


class MarkKind(enum.IntEnum):
    """Tried comes before the call, the others after it."""

    TRIED = 1
    DURABLE = 2
    KEPT = 3  # in the file or in shared memory: a process's death does not take it, a power cut may
    REFUSED = 4  # by an error that says that it is not in the log
    DECIDED = 5  # by an error that says that it comes into the log once a writer can go on with it
    SYNCED = 6  # all that was kept of the writer's records is durable
    CUT_OVER = 7  # ref: the file that was opened
    SHOWN = 8  # a reader shows it after a crash: so it is durable, whatever was kept with it


class Mark(NamedTuple):
    """One mark.

    writer, first, record_count: records of a writer, from its `first` on, which are one call's: all or none.
    ref: where the first of them lies, the others behind it; (0, 0) if the caller is not told.
    """

    kind: MarkKind
    writer: int
    first: int = 0
    record_count: int = 0
    how: How = How.PLAIN
    ref: Ref = _NOWHERE


def mark_of(values: Values) -> Mark:
    """The mark that has these values."""
    kind, writer, first, count, how, number, offset, *_ = values
    return Mark(MarkKind(kind), writer, first, count, How(how), Ref(number, offset))


class Turn(NamedTuple):
    """Records that a source, which is a writer, gives together; the turn has the number of the first."""

    writer: int
    first: int
    record_count: int
    how: How

    @property
    def source(self) -> str:
        """Whose turn it is."""
        return f"writer {self.writer}"


def turns_in(marks: Sequence[Values]) -> list[Turn]:
    """Each turn that was tried and not refused, in the order of each source."""
    tried: dict[tuple[int, int], Turn] = {}
    for mark in map(mark_of, marks):
        if mark.kind is MarkKind.TRIED and mark.how:
            tried[mark.writer, mark.first] = Turn(mark.writer, mark.first, mark.record_count, mark.how)
        elif mark.kind is MarkKind.REFUSED:
            tried.pop((mark.writer, mark.first), None)
    return [tried[key] for key in sorted(tried)]


def take_turn(writer: Writer[Any], log: Path, turn: Turn) -> list[tuple[int, Ref]]:
    """Have a turn appended: how many records lie from which place on; none if they are in the log already."""
    records = [record_bytes(turn.writer, turn.first + at) for at in range(turn.record_count)]
    if turn.how is How.TURN:
        batches = [Batch.from_records(part) for part in (records[:1], records[1:])]
        taken = writer.append_idempotent(batches, producer=turn.source, sequence=turn.first)
        return [] if taken is None else [(turn.record_count, taken.ref)]
    writer.last_producer_batch(turn.source)  # a log that refuses all says so, whatever would befall the drafts
    batches = [Batch.from_records(part) for part in (records[:1], records[1:]) if part]
    drafts = [draft_of(log / ASIDE, batch) for batch in batches]
    taken = writer.ingest(drafts, producer=turn.source, sequence=turn.first)
    if taken is None:
        return []
    return [(len(batch), Ref(number, FIRST_OFFSET)) for number, batch in enumerate(batches, taken.number)]


def draft_of(folder: Path, batch: Batch) -> ExternalFile:
    """The records of a batch as a draft, synced, in a folder that is made where it is missing.

    Its name is a new one each time: what a process that died has left there is nobody's.
    """
    make_directory(str(folder))
    with ExternalFileWriter(folder / os.urandom(_NAME_BYTES).hex()) as draft:
        draft.append(batch)
        return draft.finish()


def read(log: Path) -> list[Entry]:
    """All of a log."""
    with Reader(log) as reader:
        return list(reader)


class LogActor(Actor):
    """A writer; the records of its life are its own."""

    def __init__(self, log: Path, who: Who, **options: Any) -> None:
        super().__init__(who)
        self._log = log
        self._count = 0
        self._writer = Writer(log, **{"prepare_bytes": PREPARE_BYTES, **options})

    def go_on(self) -> None:
        """Append a record, durably."""
        self.append()

    def append(self, mode: Mode = Mode.SYNC, *, size: int = 0) -> None:
        """Append the next record."""
        self._append(1, mode, lambda: [self._writer.append(record_bytes(*self._next(1)[0], size), mode=mode)])

    def append_many(self, count: int, mode: Mode = Mode.SYNC, *, size: int = 0) -> None:
        """Append the next records together."""
        records = [record_bytes(*each, size) for each in self._next(count)]
        self._append(count, mode, lambda: self._writer.append_many(records, mode=mode))

    def turn(self, count: int, how: How = How.TURN) -> None:
        """Append the next records as a turn."""
        self._count += count
        turn = Turn(self._who.life, self._count - count, count, how)
        with self.refusing(Mark(MarkKind.REFUSED, *turn)):
            self._take(turn)

    def again(self) -> None:
        """Take all turns again that were tried before, by whomever."""
        for turn in turns_in(self._who.before):
            self._take(turn)  # an error says nothing of those who tried it before

    def cutover(self) -> None:
        """Cut over, whatever the open file is."""
        self.mark(Mark(MarkKind.CUT_OVER, self._who.life, ref=Ref(self._writer.cutover(), 0)))

    def perhaps_cutover(self) -> None:
        """Append and cut over, half of the time: what was not to be in the log is in the way only of who cuts over."""
        if self._chance.random() < 0.5:
            self.append()
            self.cutover()

    def sync(self) -> None:
        """Sync, which makes durable all that was kept."""
        self._writer.sync()
        self.mark(Mark(MarkKind.SYNCED, self._who.life))

    def any_size(self) -> int:
        """Of a record: one in ten goes through several sectors and pages."""
        return self._chance.choices(
            (self._chance.randrange(16, 200), self._chance.randrange(200, 1500), self._chance.randrange(1500, 4000)),
            (6, 3, 1),
        )[0]

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def _next(self, count: int) -> list[tuple[int, int]]:
        return [(self._who.life, self._count + at) for at in range(count)]

    def _append(self, count: int, mode: Mode, call: Callable[[], Sequence[Ref | None]]) -> None:
        """Make one call that appends so many of the next records."""
        writer, first = self._who.life, self._count
        self.mark(Mark(MarkKind.TRIED, writer, first, count))
        with self.refusing(Mark(MarkKind.REFUSED, writer, first, count)):
            try:
                refs = call()
            finally:
                self._count += count
        kind = MarkKind.DURABLE if mode is Mode.SYNC else MarkKind.KEPT
        self.mark(Mark(kind, writer, first, count, How.PLAIN, (refs and refs[0]) or _NOWHERE))

    def _take(self, turn: Turn) -> None:
        self.mark(Mark(MarkKind.TRIED, *turn))
        try:
            runs = take_turn(self._writer, self._log, turn)
        except UnknownOutcomeError:
            if turn.how is How.DRAFTS:
                self.mark(Mark(MarkKind.DECIDED, *turn))
            raise
        first = turn.first
        for count, ref in runs or [(turn.record_count, _NOWHERE)]:
            self.mark(Mark(MarkKind.DURABLE, turn.writer, first, count, turn.how, ref))
            first += count


def in_mode(mode: Mode, *, size: int = 0) -> Step:
    """A step: append a record."""
    return lambda actor: actor.append(mode, size=size)


def many(count: int, mode: Mode = Mode.SYNC, *, size: int = 0) -> Step:
    """A step: append several together."""
    return lambda actor: actor.append_many(count, mode, size=size)


def turn(count: int, how: How = How.TURN) -> Step:
    """A step: append several as a turn."""
    return lambda actor: actor.turn(count, how)
