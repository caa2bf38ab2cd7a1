"""Writing anew what is alive in files that are mostly dead, while appends go on.

1. The journal goes on in another file, so that all before are whole.
2. Runs of files are read (see `runs`), and what of them is alive is written beside them, with ids of theirs.
3. A control file says what takes whose place; then files are renamed, and dead ones freed.  A process that ends before
   the control file is whole did nothing, and of one that ends after it the next load does the rest.
4. Records that were deleted meanwhile are deleted in the new files too, for the deletes lie behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from binlog.errors import BinlogError, CorruptError, PoisonedError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.problem import Problem, problem_of
from binlog.journal.appender import Appender
from binlog.journal.compaction.control_file import (
    FileMoves,
    header_crc,
    name_control,
    remove_control,
    rename_all,
    write_control,
)
from binlog.journal.compaction.live_records import find_survivors
from binlog.journal.compaction.output_files import WrittenFile, pieces_of, remove_written, write_files
from binlog.journal.compaction.plan import find_runs
from binlog.journal.files.journal_files import JournalFile, JournalFiles, ignored_until_later
from binlog.journal.ledger import Ledger
from binlog.journal.options import JournalOptions
from binlog.storage.native import Guard

_RUN_BYTES_MAX = 64 << 20
# Files for which it could do nothing do not count before there are so many times as many: it reads them all.
_MORE = 1.5


class _Run(NamedTuple):
    """Files, and those that take their place."""

    sources: list[JournalFile]
    written: list[WrittenFile]


class Compactor:
    """Compacts a journal.  Only one thread does at a time, and nobody frees files meanwhile.

    problems: what was found damaged by it.
    """

    def __init__(
        self,
        guard: Guard,
        files_guard: Guard,
        files: JournalFiles,
        ledger: Ledger,
        appender: Appender,
        options: JournalOptions,
    ) -> None:
        self._guard = guard
        self._files_guard = files_guard
        self._files = files
        self._ledger = ledger
        self._appender = appender
        self._options = options
        self.problems: list[Problem] = []
        self._stuck_count = 0  # of files for which the last one could do nothing; all where it failed
        self._dead: deque[JournalFile] = deque()  # in whose place others are, and that are to be freed
        self._is_unfinished = False  # its control file is there

    def is_due(self) -> bool:
        """Whether there are many files, of which little is alive.  The guard is held."""
        count = len(self._files.data)
        self._stuck_count = min(self._stuck_count, count)  # some were freed
        least = max(self._options.compact_files_min, self._stuck_count * _MORE)
        if not self._is_possible or not self._options.compact_files_min or count < least:
            return False
        alive = sum(file.alive_bytes for file in self._files.data)
        return alive < self._options.compact_ratio * sum(file.file_bytes for file in self._files.data)

    def compact(self) -> int:
        """Do it; how many files fewer there are with records: none if the layout is not ours.

        Another program that shares the folder knows no control file.  If this process died half-way, the other one
        would read some records twice and others not at all, and a load would then finish over what the other wrote.
        Raises: FullError and AccessError, where nothing was done; PoisonedError.
        """
        if not self._is_possible:
            return 0
        self.finish()
        with self._guard:
            self._appender.go_on()
            sources = list(self._files.data)
            counts = {file: (file.alive, file.alive_bytes) for file in sources}
            self._ledger.watched = {}
            self._stuck_count = len(sources)
            count = self._appender.appended
        try:
            self._appender.wait(count)
            runs, stuck_count = self._write(sources, counts)
            if not runs:
                return 0
            self._replace(runs)
            self._stuck_count = stuck_count
            return sum(len(run.sources) - len(run.written) for run in runs)
        finally:
            with self._guard:
                self._ledger.watched = None

    @property
    def _is_possible(self) -> bool:
        return self._files.layout is JournalLayout.NATIVE

    def finish(self) -> None:
        """Do what the last one has left: it may have had no descriptor for it.

        Until then no file may be freed: by its control file the next load looks for those that it wrote.
        Raises: FullError; AccessError; PoisonedError.
        """
        while self._dead:
            with self._files_guard:
                self._files.recycle(self._dead[0])
            self._dead.popleft()
        if self._is_unfinished:
            remove_control(self._files.directory)
            self._is_unfinished = False

    def _write(self, sources: list[JournalFile], counts: dict[JournalFile, tuple[int, int]]) -> tuple[list[_Run], int]:
        """Write what is alive of each run that comes to fewer files; for how many files nothing can be done.

        Not of those that are mostly alive: soon they may not be.
        """
        there = find_survivors(sources, counts)
        self.problems += there.problems
        done: list[_Run] = []
        stuck_count = len(sources)
        try:
            for run in find_runs(sources, there.unlike, there.spans, _RUN_BYTES_MAX):
                if 2 * sum(counts[file][1] for file in run) > sum(file.file_bytes for file in run):
                    stuck_count -= len(run)
                    continue
                try:
                    pieces = list(pieces_of(there.of_run(run)))
                    written = write_files(self._files, self._options, run, pieces)
                except CorruptError as error:
                    self._tell(run, error)  # it stays as it is
                    continue
                if written is not None:
                    done.append(_Run(run, written))
                    stuck_count -= len(run)
        except BaseException:
            self._remove(done)
            raise
        return done, stuck_count

    def _tell(self, run: list[JournalFile], error: CorruptError) -> None:
        """A file was found damaged."""
        for file in run:
            file.damaged = file.damaged or file.path == error.path
        self.problems.append(problem_of(error, error.path))

    def _replace(self, runs: Sequence[_Run]) -> None:
        """Have the new files take the place of the old ones, on the disk and here."""
        directory = self._files.directory
        renamed = {each.file.name: each.crc for run in runs for each in run.written}
        dead = [file for run in runs for file in run.sources if file.name not in renamed]
        replaced = [file for run in runs for file in run.sources if file.name in renamed] + dead
        moves = FileMoves(
            tuple(renamed.items()),
            tuple((file.name, file.header.file_id) for file in dead),
            tuple((file.name, header_crc(file.header)) for file in replaced),
        )
        directory.sync()  # the names of the new files first: the control file means nothing without
        self._write_control(runs, moves)
        try:
            rename_all(directory, moves)
        except BinlogError as error:
            # The next load does the rest; this process must not go on with files that are not what it knows.
            raise PoisonedError(f"{directory.path}: {error}") from error
        with self._guard, self._files_guard:
            for run in runs:
                self._switch(run)
        self._dead.extend(dead)
        self._is_unfinished = True
        with ignored_until_later():
            self.finish()

    def _write_control(self, runs: Sequence[_Run], moves: FileMoves) -> None:
        """From its end on the next load does what this process does not; before it, nobody does."""
        directory = self._files.directory
        try:
            write_control(directory, moves)
        except PoisonedError:
            raise
        except BinlogError:
            with ignored_until_later():  # it means nothing, but takes room; the next one, or a load, removes it too
                remove_control(directory)
            self._remove(runs)
            raise
        try:
            name_control(directory)
        except PoisonedError:
            raise
        except BinlogError:
            self._undo(runs)
            raise

    def _undo(self, runs: Sequence[_Run]) -> None:
        """Nothing was renamed yet, but maybe the control file."""
        directory = self._files.directory
        try:
            remove_control(directory)  # before what it names
        except BinlogError as error:
            # Nobody knows whether the next load does it all.
            raise PoisonedError(f"{directory.path}: {error}") from error
        self._remove(runs)

    def _switch(self, run: _Run) -> None:
        """Count in the new files what is counted in the old ones."""
        sources = set(run.sources)
        watched = self._ledger.watched or {}
        outer = {other for source in run.sources for other in source.outlasts} - sources
        copies: dict[int, list[tuple[JournalFile, int]]] = {}
        for file, _, items in run.written:
            self._ledger.meet(file)
            for record_id, size in items:
                if size is None:
                    file.outlasts |= outer
                else:
                    copies.setdefault(record_id, []).append((file, size))
        for record_id, new in copies.items():
            there = self._ledger.pairs(self._ledger.records.get(record_id, []))
            if any(file in sources for file, _ in there):
                kept = [(file, size) for file, size in there if file not in sources]
                self._ledger.move(record_id, sorted([*new, *kept], key=lambda each: each[0].header.file_id))
                for file, size in new:
                    file.alive += 1
                    file.alive_bytes += size
            else:  # it was deleted meanwhile
                watched[record_id].outlasts.update(file for file, _ in new)
        self._files.replace(run.sources, [each.file for each in run.written])
        for source in run.sources:
            self._ledger.forget(source)
        for file in self._files:
            file.outlasts -= sources

    def _remove(self, runs: Sequence[_Run]) -> None:
        for run in runs:
            remove_written(self._files.directory, run.written)
