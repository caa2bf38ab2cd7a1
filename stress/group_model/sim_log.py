"""Simulated logs: records, of which some are durable, and the writers and readers of them."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from binlog.consumers.state.logs import LastLetter
from binlog.errors import FullError, GoneError
from binlog.format.record import Ref, frame
from binlog.log.batch import Batch
from binlog.storage.mode import Mode
from binlog.storage.waiting.bell_watcher import NO_BELL, Bell

if TYPE_CHECKING:
    from stress.group_model.world import World

FIRST_OFFSET = 256


class SimLog:
    """A log.

    durable: how many records survive a power cut.  first: how many were removed.
    file_records: the records of a file, after which the next one begins; 0 for one file.
    starts: the index of the first record of each file.
    """

    def __init__(self, world: World, name: str, *, file_records: int = 0) -> None:
        self.path = f"/nowhere/{name}"
        self.world = world
        self.records: list[bytes] = []
        self.durable = 0
        self.first = 0
        self.file_records = file_records
        self.starts = [0]
        self.producers: dict[str, int] = {}

    def append(self, record: bytes, mode: Mode) -> Ref:
        """Append, with a step before and after each effect, at which the process may die or be interrupted."""
        self.world.step()
        if self.world.is_full():
            raise FullError(f"{self.path}: no space", limit=0, size=len(record))
        if self.file_records and len(self.records) - self.starts[-1] >= self.file_records:
            self.durable = len(self.records)  # a file is synced when it is closed
            self.starts.append(len(self.records))
            self.world.step()
        ref = self.ref(len(self.records))
        self.records.append(record)
        self.world.appended(self, record)
        self.world.step()
        if mode is Mode.SYNC:
            self.sync()
        return ref

    def sync(self) -> None:
        """Make everything durable."""
        self.durable = len(self.records)
        self.world.step()

    def lose_power(self) -> None:
        """Keep the durable records, and perhaps some of the others."""
        kept = self.world.random.randint(self.durable, len(self.records))
        del self.records[kept:]
        self.durable = kept
        self.starts = [each for each in self.starts if each <= kept]

    @property
    def numbers(self) -> range:
        """The numbers of the files that were not removed."""
        return range(bisect_right(self.starts, self.first), len(self.starts) + 1)

    def remove_before(self, number: int) -> None:
        """Remove the files before a file."""
        self.first = max(self.first, self.starts[number - 1])

    def ref(self, index: int) -> Ref:
        """Return the place of a record."""
        number = bisect_right(self.starts, index)
        return Ref(
            number, FIRST_OFFSET + sum(4 + len(record) for record in self.records[self.starts[number - 1] : index])
        )

    def index(self, ref: Ref) -> int:
        """Return how many records end at or before a place."""
        if ref.number == 0:
            return 0
        index, at = self.starts[ref.number - 1], FIRST_OFFSET
        end = self.starts[ref.number] if ref.number < len(self.starts) else len(self.records)
        while index < end and at < ref.offset:
            at += 4 + len(self.records[index])
            index += 1
        return index


class SimWriter:
    """A writer of a simulated log."""

    def __init__(self, log: SimLog) -> None:
        self._log = log

    def append(self, record: bytes, *, mode: Mode) -> Ref:
        if mode is Mode.SYNC and self._log.world.has("ack-unsynced"):
            mode = Mode.FLUSH
        return self._log.append(record, mode)

    def append_idempotent(self, batches: list[Batch], *, producer: str, sequence: int) -> object:
        """Append unless the producer's last batch is this one or a later one; all of it or nothing, durably."""
        if self._log.producers.get(producer, -1) >= sequence and not self._log.world.has("letter-repeated"):
            return None
        self._log.world.step()
        for batch in batches:
            self._log.records += list(batch)
        self._log.producers[producer] = sequence
        self._log.sync()
        return sequence

    def last_letter(self, producer: str) -> LastLetter | None:
        """Return the last record of a producer."""
        number = self._log.producers.get(producer)
        if number is None or self._log.world.has("letter-repeated"):
            return None
        return LastLetter(number, self._log.records[-1])

    def sync(self) -> None:
        self._log.world.step()
        if not self._log.world.has("letter-unsynced"):
            self._log.sync()

    def close(self) -> None:
        pass


class SimReader:
    """A reader of a simulated log, from a sequence number on."""

    def __init__(self, log: SimLog, sequence: int = 0) -> None:
        self._log, self._next = log, sequence
        self._check()

    def _check(self) -> None:
        if self._next < self._log.first:
            raise GoneError(f"sequence {self._next}: the log begins with {self._log.first}")

    def read_batch(self, *, records_max: int = 4096) -> Batch:
        log, first = self._log, self._next
        self._check()
        number = bisect_right(log.starts, first)
        end = log.starts[number] if number < len(log.starts) else len(log.records)
        records = log.records[first : min(first + records_max, end)]
        data = b"".join(map(frame, records))
        offsets, at = [0], 0
        for record in records:
            at += 4 + len(record)
            offsets.append(at)
        self._next += len(records)
        places = memoryview(b"".join(each.to_bytes(4, "little") for each in offsets)).cast("I")
        return Batch(*log.ref(first), data, places, first)

    def skip(self, ref: Ref, size: int) -> bool:
        is_next = ref == self._log.ref(self._next)
        self._next += is_next
        return is_next

    def read_to(self, ref: Ref, size: int) -> Batch | None:
        next_ref = self._log.ref(self._next)
        if next_ref.number != ref.number or next_ref > ref:
            return None
        return self.read_batch(records_max=self._log.index(Ref(ref.number, ref.offset + 1)) - self._next)

    def bell_to_wait_on(self) -> tuple[Bell, int, float] | None:
        return None if self._next < len(self._log.records) else (NO_BELL, 0, 5.0)

    def close(self) -> None:
        pass


class SimMessageLog:
    """A simulated log, as a MessageLog."""

    def __init__(self, log: SimLog) -> None:
        self._log = log
        self.path = log.path

    def reader_at(self, sequence: int) -> SimReader:
        return SimReader(self._log, sequence)

    def first_sequence(self) -> int:
        return self._log.first

    def make_durable(self, number: int, offset: int) -> bool:
        if self._log.index(Ref(number, offset)) > self._log.durable and not self._log.world.has("window-unsynced"):
            self._log.world.step()
            self._log.sync()
        return True

    def close(self) -> None:
        pass
