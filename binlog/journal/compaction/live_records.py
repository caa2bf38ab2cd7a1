"""What is alive in files of a journal that are to be written again, and whether they are what the journal counts.

Bodies are not held: each is read, and its check compared, when it is written.
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


class Survivor(NamedTuple):
    """A record that counts, and where it lies: an add, an update, a delete, or the commit of those before it.

    body_bytes: none of a delete: a transaction's may have a body, which only a load tells that finds it prepared.
    counts: of a commit that is to be written: in which of the new files how many records of the transaction lie.
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
        """How many bytes it has where it is written again, without the heads of its fragments."""
        return record_bytes(self.kind, self.body_bytes, len(self.counts), JournalLayout.NATIVE)


class Survivors(NamedTuple):
    """What counts, in the order in which it came to be.

    unlike: files in which another number of records is alive than the journal counts.  spans: of all transactions.
    problems: what is damaged, also told by `damaged` of the files.
    """

    items: list[Survivor]
    unlike: set[JournalFile]
    spans: list[TransactionSpan]
    problems: list[Problem]

    def of_run(self, run: Sequence[JournalFile]) -> list[Survivor]:
        """Those of a run; the deletes only where files before the run have what they delete."""
        there = set(run)
        ends_others = any(not file.outlasts <= there for file in run)
        return [each for each in self.items if each.file in there and (ends_others or each.kind not in DELETES)]


def find_survivors(files: Sequence[JournalFile], counts: Mapping[JournalFile, tuple[int, int]]) -> Survivors:
    """Go through the files, which are all that have records but the last one, oldest first.

    counts: how many records the journal counts in each, and how many bytes these take in it.
    Raises: NotFoundError; AccessError.
    """
    all_columns: list[ColumnScan] = []
    spans = TransactionSpans()
    problems: list[Problem] = []
    for number, file in enumerate(files):
        data = file.read()
        columns = scan_file(data, file.header)
        found = list(file_problems(file.path, file.header, data, columns))
        if columns.record_count != file.record_count and not found:
            text = f"{file.record_count} records were written, and {columns.record_count} are there"
            found.append(Problem(file.path, columns.end, "count", text))
        if found and not file.damaged:
            file.damaged = True
            problems += found
        spans.go_through(number, columns)
        all_columns.append(columns)
    ids = [file.header.record_id for file in files]
    states = record_states(map(StatesInput, ids, all_columns))
    unlike = {
        file for place, file in enumerate(files) if counts[file] != (states.live_count(place), states.live_bytes[place])
    }
    return Survivors(list(_survivors(files, all_columns, states.order)), unlike, spans.all(), problems)


def _survivors(files: Sequence[JournalFile], all_columns: Sequence[ColumnScan], order: bytes) -> Iterator[Survivor]:
    numbers = memoryview(order).cast("I")
    for place, index in zip(numbers[::2], numbers[1::2], strict=True):
        columns = all_columns[place]
        kind = Kind(columns.kind[index])
        yield Survivor(
            kind, columns.tx_id_of(index), columns.id_of(index), columns.user_type[index], files[place],
            columns.offset_of(index), columns.bytes_of(index), 0 if kind in DELETES else columns.body_bytes_of(index),
        )  # fmt: skip


class BodyReader:
    """Reads bodies where they lie; a context manager, for files stay open."""

    def __init__(self) -> None:
        self._fds: dict[JournalFile, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def read(self, place: Survivor) -> bytes:
        """The body.  Raises: CorruptError where its record is not what was written; NotFoundError; AccessError."""
        file = place.file
        fd = self._fds.get(file)
        if fd is None:
            if len(self._fds) >= _OPEN_MAX:
                self._close()
            fd = self._fds[file] = file.directory.open(file.name, writable=False)
        data = read_at(fd, place.record_bytes, place.at, file.path)
        if file.header.layout is JournalLayout.NATIVE:
            joined = join_fragments(bytearray(data), place.at, file.header.salt)
        else:
            end = place.record_bytes - CHECK_BYTES
            joined = data[:end] if int.from_bytes(data[end:]) == place.record_bytes else None
        if joined is None:
            raise CorruptError(file.path, place.at, "check", "the record is not what was written")
        return joined[len(joined) - place.body_bytes :]

    def _close(self) -> None:
        while self._fds:
            file, fd = self._fds.popitem()
            file.directory.close_file(fd)
