"""What was promised for each record, and whether the files keep it.

A record's bytes tell who it is, so that whatever a file shows can be told from what nobody wrote.
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
    """How far a record must be kept."""

    NONE = "it may be there"
    BOOT = "until power fails or a write does"
    ASIDE = "for good, in the log or in what was set aside"
    DURABLE = "for good"
    NEVER = "it was taken back"


@dataclass(slots=True)
class Known:
    """One record that somebody began to append."""

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
        self.known: dict[int, Known] = {}
        self.failures = 0
        self._world = world
        self._seen: dict[int, tuple[int, int]] = {}  # file: seen up to, of which durable
        self._dropped: dict[int, int] = {}
        self._foreign: list[tuple[int, int, int]] = []  # what another program wrote and did not sync

    # ---- what is told ----

    def new(self, writer: int, filler: int) -> int:
        """A record that is going to be appended."""
        key = len(self.known) + 1
        self.known[key] = Known(writer, _record(key, filler))
        return key

    def promise(self, ids: list[int], promise: Promise, place: tuple[int, int] | None = None) -> None:
        """The call that appended these was told so."""
        for key in ids:
            known = self.known[key]
            known.staged = False
            if known.promise is not Promise.DURABLE:
                known.promise = promise
            if place is not None:
                known.place = place
                place = (place[0], place[1] + len(known.framed))

    def staged(self, ids: list[int]) -> None:
        """They are safe from any process's death until they are in the file."""
        for key in ids:
            self.known[key].staged = True

    def foreign(self, number: int, start: int, end: int) -> None:
        """Another program wrote here, and did not sync yet."""
        self._foreign.append((number, start, end))
        self._dropped.pop(number, None)  # it reuses offsets as it likes

    def foreign_synced(self) -> None:
        self._foreign.pop()

    def dropped(self, number: int, tail: int) -> None:
        """A recovery dropped bytes from here on."""
        self._dropped[number] = tail

    def failed(self) -> None:
        """A write to the disk failed: what was not synced may be lost."""
        self.failures += 1
        self._drop_promises(Promise.BOOT)

    def forgot(self, number: int) -> None:
        """The page cache may show the file as it was when its last write came to the disk."""
        _, durable = self._seen.get(number, (FIRST_OFFSET, FIRST_OFFSET))
        self._seen[number] = (durable, durable)

    def lost_power(self, *, torn_lines: bool) -> None:
        if torn_lines:  # a tail without its live block reads as another program's, with bytes that nothing proves
            self._foreign += [(number, durable, tail) for number, (tail, durable) in self._seen.items()]
        self._seen.clear()
        self._drop_promises(Promise.BOOT)
        for known in self.known.values():
            known.staged = False

    def _drop_promises(self, promise: Promise) -> None:
        for known in self.known.values():
            if known.promise is promise:
                known.promise = Promise.NONE

    # ---- what is looked at ----

    def published(self, file: SimFile) -> None:
        """A reader looks at once: what it sees is whole, and what it is told is durable stays."""
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
        """The header is on the disk as well, which the strict order waits for before anyone is told.

        Until then another program that comes first after a power cut would begin at the tail before.
        """
        tail, durable = self._seen[file.number]
        self._seen[file.number] = (tail, self._confirmed(file, durable, file.header().confirmed_end))

    def _confirmed(self, file: SimFile, durable: int, end: int) -> int:
        if end > durable:
            for offset, key in self._records(file, durable, end):
                self.promise([key], Promise.DURABLE, (file.number, offset))
        return max(durable, end)

    def _records(self, file: SimFile, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Offset and key of each record.  Raises: ViolationError at what nobody wrote."""
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
                raise ViolationError(f"file {file.number}: nobody wrote the record at {start}")
            start = after

    def _unproven(self, number: int, start: int, end: int) -> bool:
        """Lengths are all that tells another program's records, and after a power cut they may lie.

        Where a write failed, what was not confirmed may be anything.
        """
        lost = self._world.directory.logs[number].errors > 0 and start >= self._seen.get(number, (0, FIRST_OFFSET))[1]
        return lost or any(at[0] == number and at[1] <= start and end <= at[2] for at in self._foreign)

    def everything(self) -> None:
        """Read the whole log as a reader does, and compare.  Raises: ViolationError."""
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
                    raise ViolationError(f"record {key} is there twice, at {found[key]} and {number}:{offset}")
                found[key] = (number, offset)
                writer = self.known[key].writer or -number  # another program's order is one file's
                if last.get(writer, 0) > key:
                    raise ViolationError(f"record {key} of writer {writer} comes after its record {last[writer]}")
                last[writer] = key
        for key, known in self.known.items():
            self._compare(key, known, found.get(key))

    def _compare(self, key: int, known: Known, found: tuple[int, int] | None) -> None:
        if found is None and known.promise in (Promise.BOOT, Promise.DURABLE):
            raise ViolationError(f"record {key} is lost, that must be kept {known.promise.value}")
        if found is None and known.promise is Promise.ASIDE and not self._is_aside(known):
            raise ViolationError(f"record {key} of another program is neither in the log nor set aside")
        if found is not None and known.promise is Promise.NEVER:
            raise ViolationError(f"record {key} is there, though it was taken back")
        if found is not None and known.promise is Promise.DURABLE and known.place not in (None, found):
            raise ViolationError(f"record {key} was told to be at {known.place}, and is at {found}")

    def _is_aside(self, known: Known) -> bool:
        """Or will be: until then it lies beyond where the records end."""
        return any(known.framed in file.cache for file in self._world.directory.files.values())

    def nothing_staged(self) -> None:
        """At the end, with everything drained.  Raises: ViolationError."""
        for key, known in self.known.items():
            if known.staged:
                raise ViolationError(f"record {key} was staged and never written")
