"""What became of each record of a journal, by columns: see replay.py for the plain way to say it.

Both must say the same; tests hold them against each other.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from binlog._codec import journal_states
from binlog.format.journal.compiled import scan_columns
from binlog.format.journal.file_header import FileHeader
from binlog.format.journal.record import Kind

_WITH_COUNTS = re.compile(b"[%c%c]" % (Kind.PREPARE, Kind.COMMIT))


class RecordState(enum.IntEnum):
    """What became of a record.

    Of adds and updates: LIVE: it is there, and nothing came behind it.  UPDATED: it is there, and an update of it came
    behind it.  DELETED: it was there.
    Of records of transactions: OPEN: nobody has ended it; the next load does, where no process has the journal.
    PREPARED: it waits for its commit or rollback.  ROLLED_BACK.  FAILED: a part of it is missing, so none of it counts.
    Of any: VOID: nothing came of it: what it updates or deletes is not there, or what it prepares was prepared again.
    DONE: of a delete, of what ends a transaction, or of what prepared one that was committed: it did what it says.
    """

    LIVE = 1
    UPDATED = 2
    DELETED = 3
    OPEN = 4
    PREPARED = 5
    ROLLED_BACK = 6
    FAILED = 7
    VOID = 8
    DONE = 9


class Event(enum.IntEnum):
    """What is odd about a record.

    An update, or a delete outside of transactions, of what is not there; a commit or prepare that counts more records
    of its transaction in another file than that has.
    """

    UPDATE_OF_NONE = 1
    DELETE_OF_NONE = 2
    LACKING = 3


class FileColumns(NamedTuple):
    """The records of a file, in the order in which they lie: a value of each column for each of them.

    offset, record_bytes, tx_id, record_id: int64.  kind: a byte.
    counts: of each COMMIT and PREPARE what it says, as it lies there.
    end: where the last record ends.  gaps, doubts: as Scan has them.
    """

    header: FileHeader
    offset: bytes
    record_bytes: bytes
    tx_id: bytes
    record_id: bytes
    kind: bytes
    counts: list[bytes]
    end: int
    gaps: list[tuple[int, int]]
    doubts: list[int]

    @property
    def record_count(self) -> int:
        """How many there are."""
        return len(self.kind)

    def offset_of(self, index: int) -> int:
        """Where one of them lies."""
        return int(memoryview(self.offset).cast("q")[index])

    def id_of(self, index: int) -> int:
        """The record that one of them adds, updates or deletes."""
        return int(memoryview(self.record_id).cast("q")[index])

    def tx_id_of(self, index: int) -> int:
        """The transaction that one of them is of."""
        return int(memoryview(self.tx_id).cast("q")[index])


@dataclass(frozen=True, slots=True)
class Odd:
    """Something that is odd: by the file's place among those given, and the record's in the file.

    other, count: for LACKING another file's place, and how many records of the transaction it has.
    """

    event: Event
    file: int
    index: int
    other: int
    count: int


class RecordStates(NamedTuple):
    """What became of all records.

    states: for each file a byte for each of its records, a RecordState.  live_bytes: for each file how many bytes those
    records take that are there.  odd: a thousand things at most.
    """

    states: list[bytes]
    live_bytes: list[int]
    odd: list[Odd]


def file_columns(data: bytes, header: FileHeader) -> FileColumns:
    """All records of a file whose bytes are `data`."""
    scans = list(scan_columns(data, header))
    counts: list[bytes] = []
    for scan in scans:
        bodies, body_sizes = memoryview(scan.body_offset).cast("q"), memoryview(scan.body_bytes).cast("i")
        counts_sizes = memoryview(scan.counts_bytes).cast("i")
        for found in _WITH_COUNTS.finditer(scan.kind):
            i = found.start()
            start = bodies[i] + body_sizes[i]
            counts.append(bytes(scan.data[start : start + counts_sizes[i]]))
    return FileColumns(
        header=header,
        offset=b"".join(scan.offset for scan in scans),
        record_bytes=b"".join(scan.record_bytes for scan in scans),
        tx_id=b"".join(scan.tx_id for scan in scans),
        record_id=b"".join(scan.record_id for scan in scans),
        kind=b"".join(scan.kind for scan in scans),
        counts=counts,
        end=scans[-1].end,
        gaps=[gap for scan in scans for gap in scan.gaps],
        doubts=[at for scan in scans for at in scan.doubts],
    )


def record_states(files: Sequence[FileColumns], lost_ids: Iterable[int] = ()) -> RecordStates:
    """What became of the records of all files, which come oldest first.

    lost_ids: of files that are there, but cannot be read: a transaction with records in one of them has failed.
    """
    given = tuple(
        (file.header.record_id, file.kind, file.tx_id, file.record_id, file.record_bytes, file.counts) for file in files
    )
    no_counts: list[bytes] = []
    lost = tuple((file_id & 0xFFFFFFFF, b"", b"", b"", b"", no_counts) for file_id in lost_ids)
    found, odd = journal_states((*given, *lost))
    found = found[: len(given)]
    return RecordStates(
        [states for states, _ in found],
        [live_bytes for _, live_bytes in found],
        [Odd(Event(what), *rest) for what, *rest in odd],
    )
