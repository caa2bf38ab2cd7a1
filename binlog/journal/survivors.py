"""What is alive in files of a journal that are to be written anew, and whether they are what the journal counts.

Bodies are not held: each is read, and its check compared, when it is written.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, cast

from binlog._codec import join_fragments
from binlog.errors import CorruptError
from binlog.format.journal.compiled import Scanned
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import CHECK_BYTES
from binlog.format.problem import Problem
from binlog.journal.damage import file_problems
from binlog.journal.journal_file import JournalFile
from binlog.journal.ledger import Ledger
from binlog.journal.listing import read_file
from binlog.journal.record import Deleted, Record
from binlog.journal.replay import Replay
from binlog.journal.runs import TransactionSpan, TransactionSpans
from binlog.storage.files import open_file, read_at

_OPEN_MAX = 8


class Place(NamedTuple):
    """Where a record lies; goes through a replay in place of its body."""

    file: JournalFile
    at: int
    record_bytes: int
    body_bytes: int


class Count(NamedTuple):
    """What should be alive in a file: how many records, and how many bytes they take in it."""

    records: int
    bytes: int


# Which one of them, counted from 1, and its id.
Transactions = dict[Place, tuple[int, int]]


class Survivors(NamedTuple):
    """What is alive, records and deletes, by files, in the order in which it came to be; with places for bodies.

    transactions: of what was committed, by where its records lie.
    unlike: files in which another number of records is alive than the journal counts.  spans: of all transactions.
    problems: what is damaged, also told by `damaged` of the files.
    """

    items: dict[JournalFile, list[tuple[int, Record | Deleted]]]
    transactions: Transactions
    unlike: set[JournalFile]
    spans: list[TransactionSpan]
    problems: list[Problem]

    def of_run(self, run: Sequence[JournalFile]) -> list[Record | Deleted]:
        """Those of a run; the deletes only where files before the run have what they delete."""
        there = set(run)
        ends_others = any(other not in there for file in run for other in file.negated)
        numbered = sorted((each for file in run for each in self.items.get(file, ())), key=lambda each: each[0])
        return [item for _, item in numbered if ends_others or not isinstance(item, Deleted)]


def find_survivors(files: Sequence[JournalFile], counts: Mapping[JournalFile, Count]) -> Survivors:
    """Go through the files, which are all that have records but the last one, oldest first.

    counts: what the journal counts in each.  Raises: NotFoundError; AccessError.
    """
    uncounted = [file.uncounted() for file in files]  # the journal's own are counted already
    transactions: Transactions = {}
    numbers = itertools.count(1)

    def note(tx_id: int, content: Sequence[Record | Deleted]) -> None:
        transactions.update(dict.fromkeys(map(place_of, content), (next(numbers), tx_id)))

    replay = Replay(Ledger(), uncounted, keeps_deletes=True, tell_committed=note)
    spans = TransactionSpans()
    problems: list[Problem] = []
    for number, file in enumerate(files):
        _, data, scan = read_file(file)
        found = list(file_problems(file.path, file.header, data, scan))
        if scan.record_count != file.record_count and not found:
            text = f"{file.record_count} records were written, and {scan.record_count} are there"
            found.append(Problem(file.path, scan.end, "count", text))
        if found and not file.damaged:
            file.damaged = True
            problems += found
        spans.go_through(number, scan.records)
        replay.go_through(uncounted[number], [_with_place(each, file) for each in scan.records])
    items: dict[JournalFile, list[tuple[int, Record | Deleted]]] = {}
    for place, item in enumerate(replay.items()):
        items.setdefault(place_of(item).file, []).append((place, item))
    unlike = {file for file in files if _count(items.get(file, ())) != counts[file]}
    return Survivors(items, transactions, unlike, spans.all(), problems)


def _with_place(scanned: Scanned, file: JournalFile) -> Scanned:
    _, at, end, _, _, _, body, _ = scanned
    return (*scanned[:6], Place(file, at, end - at, len(body)), scanned[7])  # type: ignore[return-value]


def _count(items: Sequence[tuple[int, Record | Deleted]]) -> Count:
    sizes = Counter(place_of(item).record_bytes for _, item in items if isinstance(item, Record))
    return Count(sizes.total(), sum(size * count for size, count in sizes.items()))


def place_of(item: Record | Deleted) -> Place:
    """Where it lies."""
    return cast("Place", item.body)


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

    def read(self, place: Place) -> bytes:
        """The body.  Raises: CorruptError where its record is not what was written; NotFoundError; AccessError."""
        file = place.file
        fd = self._fds.get(file)
        if fd is None:
            if len(self._fds) >= _OPEN_MAX:
                self._close()
            fd = self._fds[file] = open_file(file.directory_fd, file.name, file.path, writable=False)
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
            os.close(self._fds.popitem()[1])
