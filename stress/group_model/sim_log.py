"""Simulated logs: records, of which some are durable, and the writers and readers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog.errors import GoneError
from binlog.format.record import Ref, frame
from binlog.log.batch import Batch
from binlog.storage.mode import Mode
from binlog.storage.waiting.bell_watcher import NO_BELL, Bell

if TYPE_CHECKING:
    from stress.group_model.world import World

_FIRST_OFFSET = 256


class SimLog:
    """A log of one file.  durable: how many records survive a power cut.  first: how many were pruned."""

    def __init__(self, world: World, name: str) -> None:
        self.path = f"/nowhere/{name}"
        self.world = world
        self.records: list[bytes] = []
        self.durable = 0
        self.first = 0
        self.producers: dict[str, int] = {}

    def append(self, record: bytes, mode: Mode) -> Ref:
        """Append, with a step before and after each effect, at which the process may die."""
        self.world.step()
        ref = Ref(1, self.offset(len(self.records)))
        self.records.append(record)
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

    def offset(self, index: int) -> int:
        """Return the offset of a record."""
        return _FIRST_OFFSET + sum(4 + len(record) for record in self.records[:index])

    def index(self, offset: int) -> int:
        """Return how many records end at or before an offset."""
        index, at = 0, _FIRST_OFFSET
        while index < len(self.records) and at < offset:
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

    def sync(self) -> None:
        self._log.world.step()
        if not self._log.world.has("letter-unsynced"):
            self._log.sync()

    def close(self) -> None:
        pass


class SimReader:
    """A reader of a simulated log, from a sequence number on."""

    def __init__(self, log: SimLog, sequence: int = 0) -> None:
        if sequence < log.first:
            raise GoneError(f"sequence {sequence}: the log begins with {log.first}")
        self._log, self._next = log, sequence

    def read_batch(self, *, records_max: int = 4096) -> Batch:
        log, first = self._log, self._next
        records = log.records[first : first + records_max]
        data = b"".join(map(frame, records))
        offsets, at = [0], 0
        for record in records:
            at += 4 + len(record)
            offsets.append(at)
        self._next += len(records)
        places = memoryview(b"".join(each.to_bytes(4, "little") for each in offsets)).cast("I")
        return Batch(1, log.offset(first), data, places, first)

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
        if self._log.index(offset) > self._log.durable and not self._log.world.has("window-unsynced"):
            self._log.world.step()
            self._log.sync()
        return True

    def close(self) -> None:
        pass
