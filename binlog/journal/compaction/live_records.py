"""Live records of the files that a compaction reads, and a check of their counts.

Bodies are not kept in memory: `BodyReader` reads and validates each one when it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from binlog._codec import join_fragments
from binlog.errors import CorruptError
from binlog.format.journal.compiled import ColumnScan, scan_file
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import CHECK_BYTES, Kind, record_bytes
from binlog.format.problem import Problem
from binlog.journal.compaction.plan import TransactionSpan, TransactionSpans
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.loading.damage import file_problems
from binlog.journal.loading.record_states import StatesInput, record_states
from binlog.storage.files import read_at

_OPEN_MAX = 8
DELETES = (Kind.DELETE, Kind.DELETE_TX)


class LiveRecord(NamedTuple):
    """An add, an update, a delete or a commit that still matters, and its location.

    body_bytes: 0 for a delete, since only a load that finds a transaction prepared returns the body of its deletes.
    counts: of a commit to be written, how many records of the transaction each new file has.
    """

    kind: Kind
    tx_id: int
    record_id: int
    user_type: int
    file: JournalFile
    at: int
    record_bytes: int
    body_bytes: int
    counts: tuple[tuple[int, int], ...] = ()

    @property
    def new_bytes(self) -> int:
        """Its size in a new file, without the heads of its fragments."""
        return record_bytes(self.kind, self.body_bytes, len(self.counts), JournalLayout.NATIVE)


class LiveRecords(NamedTuple):
    """The live records of some files, in the order of their appends.

    miscounted: files with another number of live records than the journal counts.  spans: of all transactions.
    problems: damage that was found; the `damaged` flags of the files are set.
    """

    items: list[LiveRecord]
    miscounted: set[JournalFile]
    spans: list[TransactionSpan]
    problems: list[Problem]

    def of_group(self, group: Sequence[JournalFile]) -> list[LiveRecord]:
        """Return the live records of a group, with its deletes only if earlier files may have the deleted records."""
        members = set(group)
        needs_deletes = any(not file.must_outlive <= members for file in group)
        return [each for each in self.items if each.file in members and (needs_deletes or each.kind not in DELETES)]


def find_live_records(files: Sequence[JournalFile], counts: Mapping[JournalFile, tuple[int, int]]) -> LiveRecords:
    """Read all complete files with records, oldest first, and return their live records.

    counts: how many live records the journal counts in each file, and their bytes.
    Raises: NotFoundError; AccessError.
    """
    all_columns: list[ColumnScan] = []
    spans = TransactionSpans()
    problems: list[Problem] = []
    for number, file in enumerate(files):
        data = file.read()
        columns = scan_file(data, file.header)
        damage = list(file_problems(file.path, file.header, data, columns))
        if columns.record_count != file.record_count and not damage:
            text = f"{file.record_count} records were written, and {columns.record_count} were found"
            damage.append(Problem(file.path, columns.end, "count", text))
        if damage and not file.damaged:
            file.damaged = True
            problems += damage
        spans.add_file(number, columns)
        all_columns.append(columns)
    ids = [file.header.record_id for file in files]
    states = record_states(map(StatesInput, ids, all_columns))
    miscounted = {
        file for index, file in enumerate(files) if counts[file] != (states.live_count(index), states.live_bytes[index])
    }
    return LiveRecords(list(_live_records(files, all_columns, states.order)), miscounted, spans.all(), problems)


def _live_records(
    files: Sequence[JournalFile], all_columns: Sequence[ColumnScan], order: bytes
) -> Iterator[LiveRecord]:
    numbers = memoryview(order).cast("I")
    for number, index in zip(numbers[::2], numbers[1::2], strict=True):
        columns = all_columns[number]
        kind = Kind(columns.kind[index])
        yield LiveRecord(
            kind, columns.tx_id_of(index), columns.id_of(index), columns.user_type[index], files[number],
            columns.offset_of(index), columns.bytes_of(index), 0 if kind in DELETES else columns.body_bytes_of(index),
        )  # fmt: skip


class BodyReader:
    """A reader for bodies of records; a context manager, because it keeps files open."""

    def __init__(self) -> None:
        self._fds: dict[JournalFile, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def read(self, record: LiveRecord) -> bytes:
        """Return the body of a record.  Raises: CorruptError if the record is damaged; NotFoundError; AccessError."""
        file = record.file
        fd = self._fds.get(file)
        if fd is None:
            if len(self._fds) >= _OPEN_MAX:
                self._close()
            fd = self._fds[file] = file.directory.open(file.name, writable=False)
        data = read_at(fd, record.record_bytes, record.at, file.path)
        if file.header.layout is JournalLayout.NATIVE:
            joined = join_fragments(bytearray(data), record.at, file.header.salt)
        else:
            end = record.record_bytes - CHECK_BYTES
            joined = data[:end] if int.from_bytes(data[end:]) == record.record_bytes else None
        if joined is None:
            raise CorruptError(file.path, record.at, "check", "the record is not what was written")
        return joined[len(joined) - record.body_bytes :]

    def _close(self) -> None:
        while self._fds:
            file, fd = self._fds.popitem()
            file.directory.close_file(fd)
