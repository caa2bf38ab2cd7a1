"""The audit: the promise for each record, and whether the files keep it.

A record's bytes identify it, so that any bytes that no process wrote are recognised.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog.errors import CorruptError
from binlog.format.log_header import FIRST_OFFSET, Flag
from binlog.log.files.header import validated_header
from stress.model.disk import SimFile

if TYPE_CHECKING:
    from stress.model.world import World

_MARK = 2654435761


class ViolationError(Exception):
    """A promise was broken."""


class Promise(enum.Enum):
    """How long a record must be kept."""

    NONE = "it may exist"
    BOOT = "until a power cut or a failed write"
    ASIDE = "for good, in the log or in quarantine"
    DURABLE = "for good"
    NEVER = "it was withdrawn"


@dataclass(slots=True)
class KnownRecord:
    """A record whose append was tried."""

    writer: int
    framed: bytes
    promise: Promise = Promise.NONE
    staged: bool = False
    place: tuple[int, int] | None = None


def _record(key: int, filler: int) -> bytes:
    payload = key.to_bytes(4, "big") + (key * _MARK & 0xFFFFFFFF).to_bytes(4, "big") + bytes([key & 127 | 128]) * filler
    return len(payload).to_bytes(4, "big") + payload


def _count(file: SimFile, end: int) -> int:
    at, count = FIRST_OFFSET, 0
    while at < end:
        at += 4 + int.from_bytes(file.read(at, at + 4), "big")
        count += 1
    return count


class Audit:
    """Knows every record of a run."""

    def __init__(self, world: World) -> None:
        self.known: dict[int, KnownRecord] = {}
        self.failures = 0
        self._world = world
        self._seen: dict[int, tuple[int, int]] = {}  # by file: the offset that readers have seen, and the durable one
        self._dropped: dict[int, int] = {}
        self._foreign: list[tuple[int, int, int]] = []  # bytes that another program wrote and did not sync

    # ---- reports of the world ----

    def new(self, writer: int, filler: int) -> int:
        """Create a record that is going to be appended."""
        key = len(self.known) + 1
        self.known[key] = KnownRecord(writer, _record(key, filler))
        return key

    def promise(self, ids: list[int], promise: Promise, place: tuple[int, int] | None = None) -> None:
        """Note the promise that the appending call received."""
        for key in ids:
            known = self.known[key]
            known.staged = False
            if known.promise is not Promise.DURABLE:
                known.promise = promise
            if place is not None:
                known.place = place
                place = (place[0], place[1] + len(known.framed))

    def staged(self, ids: list[int]) -> None:
        """Note that these survive any process's death until they are in the file."""
        for key in ids:
            self.known[key].staged = True

    def foreign(self, number: int, start: int, end: int) -> None:
        """Note that another program wrote here, and did not sync yet."""
        self._foreign.append((number, start, end))
        self._dropped.pop(number, None)  # it may reuse offsets

    def foreign_synced(self) -> None:
        self._foreign.pop()

    def dropped(self, number: int, tail: int) -> None:
        """Note that a recovery dropped the bytes from here on."""
        self._dropped[number] = tail

    def failed(self) -> None:
        """Note that a write to the disk failed: unsynced data may be lost."""
        self.failures += 1
        self._drop_promises(Promise.BOOT)

    def forgot(self, number: int) -> None:
        """Note that the page cache may show the file as of its last write to the disk."""
        _, durable = self._seen.get(number, (FIRST_OFFSET, FIRST_OFFSET))
        self._seen[number] = (durable, durable)

    def lost_power(self, *, torn_lines: bool) -> None:
        if torn_lines:  # a tail without its live block reads as another program's, with unproven bytes
            self._foreign += [(number, durable, tail) for number, (tail, durable) in self._seen.items()]
        self._seen.clear()
        self._drop_promises(Promise.BOOT)
        for known in self.known.values():
            known.staged = False

    def _drop_promises(self, promise: Promise) -> None:
        for known in self.known.values():
            if known.promise is promise:
                known.promise = Promise.NONE

    # ---- checks ----

    def published(self, file: SimFile) -> None:
        """Read at once, as a reader may: every record is whole, and confirmed ones stay."""
        header = file.header()
        if file.number in self._dropped and header.tail > self._dropped[file.number]:
            raise ViolationError(f"file {file.number}: offset {self._dropped[file.number]} was used again")
        seen, durable = self._seen.get(file.number, (FIRST_OFFSET, FIRST_OFFSET))
        for _ in self._records(file, min(seen, header.tail), header.tail):
            pass
        if not header.flags & (Flag.FOREIGN_WRITERS | Flag.STRICT):
            durable = self._confirmed(file, durable, header.confirmed_end)
        self._seen[file.number] = (header.tail, durable)

    def synced(self, file: SimFile) -> None:
        """Note that the header is on the disk too, which the strict order awaits before it acknowledges.

        Until then another program that comes first after a power cut would begin at the previous tail.
        """
        tail, durable = self._seen[file.number]
        self._seen[file.number] = (tail, self._confirmed(file, durable, file.header().confirmed_end))

    def _confirmed(self, file: SimFile, durable: int, end: int) -> int:
        if end > durable:
            for offset, key in self._records(file, durable, end):
                self.promise([key], Promise.DURABLE, (file.number, offset))
        return max(durable, end)

    def _records(self, file: SimFile, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield offset and key of each record.  Raises: ViolationError, at bytes that no process wrote."""
        while start < end:
            after = start + 4 + int.from_bytes(file.read(start, start + 4), "big")
            data = file.read(start, after)
            key = int.from_bytes(data[4:8], "big")
            known = self.known.get(key)
            if after > end:
                raise ViolationError(f"file {file.number}: the record at {start} leads past the tail {end}")
            if known is not None and known.framed == data:
                yield start, key
            elif not self._unproven(file.number, start, after):
                raise ViolationError(f"file {file.number}: no process wrote the record at {start}")
            start = after

    def _unproven(self, number: int, start: int, end: int) -> bool:
        """Whether these bytes may be anything: another program's records have only lengths, which may be wrong after a
        power cut.

        After a failed write, so may everything that was not confirmed.
        """
        lost = self._world.directory.logs[number].errors > 0 and start >= self._seen.get(number, (0, FIRST_OFFSET))[1]
        return lost or any(at[0] == number and at[1] <= start and end <= at[2] for at in self._foreign)

    def everything(self) -> None:
        """Read the whole log as a reader does, and compare it with the promises.  Raises: ViolationError."""
        found: dict[int, tuple[int, int]] = {}
        last: dict[int, int] = {}
        for number, file in sorted(self._world.directory.logs.items()):
            try:
                with self._world.directory.log_file(number) as opened:
                    header = validated_header(opened, number, opened.path)
            except CorruptError as error:
                raise ViolationError(f"the log is refused: {error}") from error
            tail = header.tail
            if header.live_good and header.record_count != _count(file, header.published_tail):
                raise ViolationError(f"file {number}: the header's count of {header.record_count} records is wrong")
            for offset, key in self._records(file, FIRST_OFFSET, tail):
                if key in found:
                    raise ViolationError(f"record {key} is in the log twice, at {found[key]} and {number}:{offset}")
                found[key] = (number, offset)
                writer = self.known[key].writer or -number  # another program keeps its order only within a file
                if last.get(writer, 0) > key:
                    raise ViolationError(f"record {key} of writer {writer} follows its record {last[writer]}")
                last[writer] = key
        for key, known in self.known.items():
            self._compare(key, known, found.get(key))

    def _compare(self, key: int, known: KnownRecord, found: tuple[int, int] | None) -> None:
        if found is None and known.promise in (Promise.BOOT, Promise.DURABLE):
            raise ViolationError(f"record {key} is lost, but must be kept {known.promise.value}")
        if found is None and known.promise is Promise.ASIDE and not self._is_aside(known):
            raise ViolationError(f"record {key} of another program is neither in the log nor in quarantine")
        if found is not None and known.promise is Promise.NEVER:
            raise ViolationError(f"record {key} is in the log, but was withdrawn")
        if found is not None and known.promise is Promise.DURABLE and known.place not in (None, found):
            raise ViolationError(f"record {key} was acknowledged at {known.place}, but is at {found}")

    def _is_aside(self, known: KnownRecord) -> bool:
        """Whether the record is in quarantine, or will be: until then it is after the end of the records."""
        return any(known.framed in file.cache for file in self._world.directory.files.values())

    def nothing_staged(self) -> None:
        """Check at the end, after everything was drained.  Raises: ViolationError."""
        for key, known in self.known.items():
            if known.staged:
                raise ViolationError(f"record {key} was staged and never written")
