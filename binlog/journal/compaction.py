"""Writing anew what is alive in files that are mostly dead, while appends go on.

1. The journal goes on in another file, so that all before are whole.
2. Runs of files are read (see `runs`), and what of them is alive is written beside them, with ids of theirs.
3. A control file says what takes whose place; then files are renamed, and dead ones freed.  A process that ends before
   the control file is whole did nothing, and of one that ends after it the next load does the rest.
4. Records that were deleted meanwhile are deleted in the new files too, for the deletes lie behind.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import NamedTuple, Self, cast

from binlog.errors import FullError, PoisonedError
from binlog.format.crc import crc32c
from binlog.format.journal.file_header import JOURNAL_END, FileHeader, JournalLayout
from binlog.format.journal.names import COMPACTED_END
from binlog.format.journal.record import Kind, record_bytes
from binlog.journal.appender import Appender, aligned
from binlog.journal.control_file import FileMoves, remove_control, rename_all, write_control
from binlog.journal.files import JournalFiles
from binlog.journal.journal_file import JournalFile
from binlog.journal.ledger import Ledger
from binlog.journal.listing import read_file
from binlog.journal.options import JournalOptions
from binlog.journal.record import Deleted, Record
from binlog.journal.replay import Replay
from binlog.journal.runs import TransactionSpan, TransactionSpans, find_runs
from binlog.storage.files import create_file, remove_file, sync, sync_directory, write_at
from binlog.storage.journal_records import pack_journal

_RUN_BYTES_MAX = 64 << 20
_HEAD_ROOM = 64
# Where it brought nothing, it is tried again when there are so many times as many files: it reads them all.
_MORE = 1.5


class _Written(NamedTuple):
    """A new file, with the ids of the records in it, and how many bytes each takes; a delete is None bytes.

    crc: CRC-32C of all its bytes.
    """

    file: JournalFile
    crc: int
    items: list[tuple[int, int | None]]


class _Run(NamedTuple):
    """Files, and those that take their place."""

    sources: list[JournalFile]
    written: list[_Written]


class Compactor:
    """Compacts a journal.  Only one thread does at a time, and nobody frees files meanwhile."""

    def __init__(
        self,
        mutex: threading.Lock,
        files_mutex: threading.Lock,
        files: JournalFiles,
        ledger: Ledger,
        appender: Appender,
        options: JournalOptions,
    ) -> None:
        self._mutex = mutex
        self._files_mutex = files_mutex
        self._files = files
        self._ledger = ledger
        self._appender = appender
        self._options = options
        self._vain = 0  # so many files there were when it brought nothing

    def is_due(self) -> bool:
        """Whether there are many files, of which little is alive.  The mutex is held."""
        count = len(self._files.data)
        if not self._options.compact_files_min or count < max(self._options.compact_files_min, self._vain * _MORE):
            return False
        alive = sum(file.alive_bytes for file in self._files.data)
        return alive < self._options.compact_ratio * sum(file.file_bytes for file in self._files.data)

    def compact(self) -> int:
        """Do it; how many files fewer there are with records.

        Raises: FullError, where nothing was done; AccessError; PoisonedError.
        """
        with self._mutex:
            self._appender.check()
            self._appender.go_on()
            sources = list(self._files.data)
            self._ledger.watched = {}
            count = self._appender.appended
        try:
            self._appender.wait(count)
            runs = self._write(sources)
            self._vain = 0 if runs else len(sources)
            if not runs:
                return 0
            self._replace(runs)
            return sum(len(run.sources) - len(run.written) for run in runs)
        finally:
            with self._mutex:
                self._ledger.watched = None

    def _write(self, sources: list[JournalFile]) -> list[_Run]:
        """Write what is alive of each run that comes to fewer files."""
        there = _There.of(sources)
        runs = find_runs(sources, there.spans, _RUN_BYTES_MAX)
        done: list[_Run] = []
        try:
            for run in runs:
                room = min(file.file_bytes for file in run) // 2
                if sum(file.alive_bytes for file in run) <= room * (len(run) - 1):
                    done.append(_Run(run, self._write_run(run, there)))
        except BaseException:
            for each in done:
                self._remove(each.written)
            raise
        for each in done:
            if len(each.written) >= len(each.sources):
                self._remove(each.written)
        return [run for run in done if len(run.written) < len(run.sources)]

    def _write_run(self, run: list[JournalFile], there: _There) -> list[_Written]:
        items = there.of_run(run)
        written: list[_Written] = []
        left = list(run)
        at = 0
        try:
            while at < len(items):
                source = left.pop(0)
                new, at = self._write_file(source, items, at)
                written.append(new)
        except BaseException:
            self._remove(written)
            raise
        return written

    def _write_file(self, source: JournalFile, items: list[Record | Deleted], start: int) -> tuple[_Written, int]:
        """A file with the id and the name of `source`, with as many of the items as fit; where those end."""
        options, layout = self._options, self._files.layout
        salt = os.urandom(8) if layout is JournalLayout.NATIVE else b""
        header = source.header._replace(salt=salt, alignment=options.alignment)
        first = aligned(layout.header_bytes, options.alignment)
        file_bytes = max(options.file_bytes, first + _size(items[start]))
        data = bytearray([layout.fill]) * (file_bytes + _HEAD_ROOM)
        packed = header.pack()
        data[: len(packed)] = packed
        data[len(packed) : first] = bytes(first - len(packed))
        at, index, sizes = first, start, list[tuple[int, int | None]]()
        while index < len(items) and at + _size(items[index]) <= file_bytes:
            item = items[index]
            at = _pack(data, at, header, item)
            sizes.append((item.record_id, None if isinstance(item, Deleted) else _size(item)))
            index += 1
        if layout is JournalLayout.NATIVE:
            data[JOURNAL_END.base : JOURNAL_END.end] = header.pack_end(at, len(sizes))
        del data[file_bytes:]
        name = source.name + COMPACTED_END
        path = source.path + COMPACTED_END
        directory_fd = self._files.directory_fd
        remove_file(directory_fd, name, path)
        fd = create_file(directory_fd, name, path, mode=None)
        try:
            write_at(fd, data, 0, path)
            sync(fd, path)
        finally:
            os.close(fd)
        new = JournalFile(self._files.folder, directory_fd, source.name, header, file_bytes)
        return _Written(new, crc32c(memoryview(data)), sizes), index

    def _replace(self, runs: Sequence[_Run]) -> None:
        """Have the new files take the place of the old ones, on the disk and here."""
        folder, directory_fd = self._files.folder, self._files.directory_fd
        renamed = {each.file.name: each.crc for run in runs for each in run.written}
        dead = [file for run in runs for file in run.sources if file.name not in renamed]
        moves = FileMoves(tuple(renamed.items()), tuple((file.name, file.header.file_id) for file in dead))
        sync_directory(directory_fd, folder)  # the names of the new files first: the control file means nothing without
        try:
            write_control(folder, directory_fd, moves)
        except FullError:
            remove_control(folder, directory_fd)  # before what it names
            for run in runs:
                self._remove(run.written)
            raise
        try:
            self._move(runs, moves, dead)
        except FullError as error:
            # The next load does the rest; this process must not go on with files that are not what it knows.
            raise PoisonedError(f"{folder}: {error}") from error

    def _move(self, runs: Sequence[_Run], moves: FileMoves, dead: Sequence[JournalFile]) -> None:
        folder, directory_fd = self._files.folder, self._files.directory_fd
        rename_all(folder, directory_fd, moves)
        with self._mutex, self._files_mutex:
            for run in runs:
                self._switch(run)
        with self._files_mutex:
            for file in dead:
                self._files.recycle(file)
        remove_control(folder, directory_fd)

    def _switch(self, run: _Run) -> None:
        sources = set(run.sources)
        watched = self._ledger.watched or {}
        copies: dict[int, list[tuple[JournalFile, int]]] = {}
        for file, _, items in run.written:
            self._ledger.meet(file)
            for record_id, size in items:
                if size is None:
                    # It ended records of files before this run, which are still counted as the old files had it.
                    for outer in {other for source in run.sources for other in source.negated} - sources:
                        file.negated.setdefault(outer, 0)
                else:
                    copies.setdefault(record_id, []).append((file, size))
                    file.alive += 1
        for record_id, new in copies.items():
            there = self._ledger.pairs(self._ledger.records.get(record_id, []))
            if any(file in sources for file, _ in there):
                kept = [(file, size) for file, size in there if file not in sources]
                self._ledger.move(record_id, sorted([*new, *kept], key=lambda each: each[0].header.file_id))
                for file, size in new:
                    file.alive_bytes += size
            else:
                for file, _ in new:
                    watched[record_id].negate(file)
        with_deletes = next((each.file for each in run.written if each.file.negated), None)
        if with_deletes is not None:
            for source in run.sources:
                for other, count in source.negated.items():
                    if other not in sources:
                        with_deletes.negated[other] = with_deletes.negated.get(other, 0) + count
        self._files.replace(run.sources, [each.file for each in run.written])
        for source in run.sources:
            self._ledger.forget(source)
            for file in self._files:
                file.negated.pop(source, None)

    def _remove(self, written: Sequence[_Written]) -> None:
        for each in written:
            remove_file(self._files.directory_fd, each.file.name + COMPACTED_END, each.file.path)


class _Place(NamedTuple):
    """Where a record lies; goes through a replay in place of its body."""

    file: JournalFile
    at: int


class _There(NamedTuple):
    """What is alive in files: records and deletes, in the order in which they came to be, with places for bodies.

    spans: of all transactions.
    """

    items: list[Record | Deleted]
    spans: list[TransactionSpan]

    @classmethod
    def of(cls, files: Sequence[JournalFile]) -> Self:
        """Go through all of them."""
        uncounted = [file.uncounted() for file in files]  # the journal's own are counted already
        replay = Replay(Ledger(), uncounted, keeps_deletes=True)
        spans = TransactionSpans()
        for number, file in enumerate(files):
            records = read_file(file).scan.records
            spans.go_through(number, records)
            replay.go_through(uncounted[number], [(*each[:6], _Place(file, each[1]), each[7]) for each in records])  # type: ignore[misc]
        return cls(replay.items(), spans.all())

    def of_run(self, run: Sequence[JournalFile]) -> list[Record | Deleted]:
        """Those of a run, with their bodies; the deletes only where files before the run have what they delete."""
        there = set(run)
        ends_others = any(other not in there for file in run for other in file.negated)
        wanted = [item for item in self.items if _place(item).file in there]
        bodies = {_Place(file, each[1]): each[6] for file in run for each in read_file(file).scan.records}
        return [
            item if isinstance(item, Deleted) else item._replace(body=bodies[_place(item)])
            for item in wanted
            if ends_others or not isinstance(item, Deleted)
        ]


def _place(item: Record | Deleted) -> _Place:
    return cast("_Place", item.body)


def _kind(item: Record | Deleted) -> Kind:
    if isinstance(item, Deleted):
        return Kind.DELETE
    return Kind.UPDATE if item.is_update else Kind.ADD


def _size(item: Record | Deleted) -> int:
    return record_bytes(_kind(item), 0 if isinstance(item, Deleted) else len(item.body), 0)


def _pack(data: bytearray, at: int, header: FileHeader, item: Record | Deleted) -> int:
    kind = _kind(item)
    if isinstance(item, Deleted):
        return pack_journal(data, at, header.record_id, header.salt, at, kind, 0, item.record_id, 0, b"", b"")
    return pack_journal(
        data, at, header.record_id, header.salt, at, kind, 0, item.record_id, item.user_type, item.body, b""
    )
