"""A process that appends records and producer batches to a log, and marks each call before and after it."""

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
from stress.crash.system import Actor, ProcessContext, Step

PREPARE_BYTES = 4096
ASIDE = "aside"
"""The folder of external files, in the log's directory, in which a job's tasks write them."""

_NAME_BYTES = 8
_NOWHERE = Ref(0, 0)


class How(enum.IntEnum):
    """How records are appended together: in a call, as a producer batch, or as one made of two external files."""

    PLAIN = 0
    BATCH = 1
    FILES = 2


class MarkKind(enum.IntEnum):
    """TRIED comes before the call, the others after it."""

    TRIED = 1
    DURABLE = 2
    KEPT = 3  # in the file or in shared memory: it survives the process, but perhaps not a power cut
    REFUSED = 4  # an error said that it is not in the log
    DECIDED = 5  # an error said that the next writer will put it into the log
    SYNCED = 6  # all KEPT records of the writer are durable
    CUT_OVER = 7  # ref: the file that was opened
    SHOWN = 8  # a reader returned it after a crash, so it is durable


class Mark(NamedTuple):
    """One mark.

    writer, first, record_count: the records of one call, from the writer's `first` on: all are in the log or none.
    ref: of the first of them, which the others follow; (0, 0) if the caller does not get it.
    """

    kind: MarkKind
    writer: int
    first: int = 0
    record_count: int = 0
    how: How = How.PLAIN
    ref: Ref = _NOWHERE


def mark_of(values: Values) -> Mark:
    """Return the mark with these values."""
    kind, writer, first, count, how, number, offset, *_ = values
    return Mark(MarkKind(kind), writer, first, count, How(how), Ref(number, offset))


class ProducerCall(NamedTuple):
    """A batch of a producer, which is a writer here; its sequence number is the index of its first record."""

    writer: int
    first: int
    record_count: int
    how: How

    @property
    def source(self) -> str:
        """The name of the producer."""
        return f"writer {self.writer}"


def producer_calls(marks: Sequence[Values]) -> list[ProducerCall]:
    """Return each producer batch that was tried and not refused, in each producer's order."""
    tried: dict[tuple[int, int], ProducerCall] = {}
    for mark in map(mark_of, marks):
        if mark.kind is MarkKind.TRIED and mark.how:
            tried[mark.writer, mark.first] = ProducerCall(mark.writer, mark.first, mark.record_count, mark.how)
        elif mark.kind is MarkKind.REFUSED:
            tried.pop((mark.writer, mark.first), None)
    return [tried[key] for key in sorted(tried)]


def append_producer_batch(writer: Writer[Any], log: Path, call: ProducerCall) -> list[tuple[int, Ref]]:
    """Append a producer batch; return the record count and first ref of each run, nothing if it is in the log
    already."""
    records = [record_bytes(call.writer, call.first + at) for at in range(call.record_count)]
    if call.how is How.BATCH:
        batches = [Batch.from_records(part) for part in (records[:1], records[1:])]
        taken = writer.append_idempotent(batches, producer=call.source, sequence=call.first)
        return [] if taken is None else [(call.record_count, taken.ref)]
    writer.last_producer_batch(call.source)  # a poisoned log refuses here, before the external files are touched
    batches = [Batch.from_records(part) for part in (records[:1], records[1:]) if part]
    files = [external_file_of(log / ASIDE, batch) for batch in batches]
    taken = writer.ingest(files, producer=call.source, sequence=call.first)
    if taken is None:
        return []
    return [(len(batch), Ref(number, FIRST_OFFSET)) for number, batch in enumerate(batches, taken.number)]


def external_file_of(folder: Path, batch: Batch) -> ExternalFile:
    """Write a batch as a synced external file, in a folder that is made if it is missing.

    The name is a new one each time, because a dead process may have left a file there.
    """
    make_directory(str(folder))
    with ExternalFileWriter(folder / os.urandom(_NAME_BYTES).hex()) as file:
        file.append(batch)
        return file.finish()


def read(log: Path) -> list[Entry]:
    """Return all entries of a log."""
    with Reader(log) as reader:
        return list(reader)


class LogActor(Actor):
    """A writer whose records no other process appends."""

    def __init__(self, log: Path, process: ProcessContext, **options: Any) -> None:
        super().__init__(process)
        self._log = log
        self._count = 0
        self._writer = Writer(log, **{"prepare_bytes": PREPARE_BYTES, **options})

    def append_one(self) -> None:
        """Append a record, durably."""
        self.append()

    def append(self, mode: Mode = Mode.SYNC, *, size: int = 0) -> None:
        """Append the next record."""
        self._append(1, mode, lambda: [self._writer.append(record_bytes(*self._next(1)[0], size), mode=mode)])

    def append_many(self, count: int, mode: Mode = Mode.SYNC, *, size: int = 0) -> None:
        """Append the next records in one call."""
        records = [record_bytes(*each, size) for each in self._next(count)]
        self._append(count, mode, lambda: self._writer.append_many(records, mode=mode))

    def produce(self, count: int, how: How = How.BATCH) -> None:
        """Append the next records as a producer batch."""
        self._count += count
        call = ProducerCall(self._process.number, self._count - count, count, how)
        with self.refusing(Mark(MarkKind.REFUSED, *call)):
            self._take(call)

    def again(self) -> None:
        """Retry all producer batches that were tried before, by any process."""
        for call in producer_calls(self._process.before):
            self._take(call)  # an error here does not refuse the earlier attempt

    def cutover(self) -> None:
        """Cut over."""
        self.mark(Mark(MarkKind.CUT_OVER, self._process.number, ref=Ref(self._writer.cutover(), 0)))

    def maybe_cutover(self) -> None:
        """Append and cut over, half of the time: only a cutover meets files that must not be in the log."""
        if self._chance.random() < 0.5:
            self.append()
            self.cutover()

    def sync(self) -> None:
        """Sync, which makes all KEPT records durable."""
        self._writer.sync()
        self.mark(Mark(MarkKind.SYNCED, self._process.number))

    def any_size(self) -> int:
        """Return a random record size; one in ten spans several sectors and pages."""
        return self._chance.choices(
            (self._chance.randrange(16, 200), self._chance.randrange(200, 1500), self._chance.randrange(1500, 4000)),
            (6, 3, 1),
        )[0]

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def _next(self, count: int) -> list[tuple[int, int]]:
        return [(self._process.number, self._count + at) for at in range(count)]

    def _append(self, count: int, mode: Mode, call: Callable[[], Sequence[Ref | None]]) -> None:
        """Make one call that appends the next `count` records."""
        writer, first = self._process.number, self._count
        self.mark(Mark(MarkKind.TRIED, writer, first, count))
        with self.refusing(Mark(MarkKind.REFUSED, writer, first, count)):
            try:
                refs = call()
            finally:
                self._count += count
        kind = MarkKind.DURABLE if mode is Mode.SYNC else MarkKind.KEPT
        self.mark(Mark(kind, writer, first, count, How.PLAIN, (refs and refs[0]) or _NOWHERE))

    def _take(self, call: ProducerCall) -> None:
        self.mark(Mark(MarkKind.TRIED, *call))
        try:
            runs = append_producer_batch(self._writer, self._log, call)
        except UnknownOutcomeError:
            if call.how is How.FILES:
                self.mark(Mark(MarkKind.DECIDED, *call))
            raise
        first = call.first
        for count, ref in runs or [(call.record_count, _NOWHERE)]:
            self.mark(Mark(MarkKind.DURABLE, call.writer, first, count, call.how, ref))
            first += count


def in_mode(mode: Mode, *, size: int = 0) -> Step:
    """Return a step that appends a record."""
    return lambda actor: actor.append(mode, size=size)


def many(count: int, mode: Mode = Mode.SYNC, *, size: int = 0) -> Step:
    """Return a step that appends several records in one call."""
    return lambda actor: actor.append_many(count, mode, size=size)


def produce(count: int, how: How = How.BATCH) -> Step:
    """Return a step that appends several records as a producer batch."""
    return lambda actor: actor.produce(count, how)
