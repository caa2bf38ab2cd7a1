"""The compactor: rewrites live records of mostly dead files while appends continue.

1. The journal cuts over to another file, so that all files before it are complete.
2. The compactor reads groups of files (`compaction_groups`), and writes their live records to new files beside them,
   under ids of the group.
3. A control file says which file replaces which; then the new files are renamed, and the dead ones freed.  If the
   process dies before the control file is complete, nothing has changed.  If it dies later, the next load rolls
   forward.
4. A record that was deleted meanwhile is deleted in the new files too, because its delete is in a later file.
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
    commit_control,
    header_crc,
    remove_control,
    rename_all,
    write_control,
)
from binlog.journal.compaction.live_records import find_live_records
from binlog.journal.compaction.output_files import WrittenFile, output_records, remove_written, write_files
from binlog.journal.compaction.plan import compaction_groups
from binlog.journal.files.journal_files import JournalFile, JournalFiles, suppress_transient
from binlog.journal.ledger import Ledger
from binlog.journal.options import JournalOptions
from binlog.storage.native import Guard

_GROUP_BYTES_MAX = 64 << 20
# A compaction reads all files.  After one that had no use for n files, wait until there are n times this many.
_GROWTH = 1.5


class _Group(NamedTuple):
    """Old files, and the files that replace them."""

    sources: list[JournalFile]
    written: list[WrittenFile]


class Compactor:
    """Compacts a journal.  Only the maintenance thread calls it, and no other thread frees files.

    problems: damage that compactions have found.
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
        self._stuck_count = 0  # files that the last compaction could not shrink; all files if it failed
        self._dead: deque[JournalFile] = deque()  # replaced by others, and not freed yet
        self._is_unfinished = False  # the control file exists

    def is_due(self) -> bool:
        """Whether the journal has many files, and few of their bytes are live.  The caller holds the guard."""
        count = len(self._files.data)
        self._stuck_count = min(self._stuck_count, count)  # some may have been freed
        least = max(self._options.compact_files_min, self._stuck_count * _GROWTH)
        if not self._is_possible or not self._options.compact_files_min or count < least:
            return False
        live_bytes = sum(file.live_bytes for file in self._files.data)
        return live_bytes < self._options.compact_ratio * sum(file.file_bytes for file in self._files.data)

    def compact(self) -> int:
        """Compact, and return by how many files the journal shrank; always 0 in JBoss Messaging's layouts.

        JBoss Messaging ignores the control file.  If this process died during a compaction, JBoss Messaging would read
        some records twice and others not at all, and a later load would roll forward over its changes.
        Raises: FullError or AccessError, and nothing was changed; PoisonedError.
        """
        if not self._is_possible:
            return 0
        self.finish()
        with self._guard:
            self._appender.cut_over()
            sources = list(self._files.data)
            counts = {file: (file.pin_count, file.live_bytes) for file in sources}
            self._ledger.deletes_seen = {}
            self._stuck_count = len(sources)
            count = self._appender.appended
        try:
            self._appender.wait(count)
            groups, stuck_count = self._write(sources, counts)
            if not groups:
                return 0
            self._replace(groups)
            self._stuck_count = stuck_count
            return sum(len(group.sources) - len(group.written) for group in groups)
        finally:
            with self._guard:
                self._ledger.deletes_seen = None

    @property
    def _is_possible(self) -> bool:
        return self._files.layout is JournalLayout.NATIVE

    def finish(self) -> None:
        """Free the dead files of the last compaction, which may have lacked a descriptor to do so.

        Until then no other file may be freed: the next load would miss a file that the control file names.
        Raises: FullError; AccessError; PoisonedError.
        """
        while self._dead:
            with self._files_guard:
                self._files.recycle(self._dead[0])
            self._dead.popleft()
        if self._is_unfinished:
            remove_control(self._files.directory)
            self._is_unfinished = False

    def _write(
        self, sources: list[JournalFile], counts: dict[JournalFile, tuple[int, int]]
    ) -> tuple[list[_Group], int]:
        """Write the live records of each group that shrinks; also return how many files cannot be shrunk.

        Skips groups that are mostly live: they may be mostly dead soon.
        """
        live = find_live_records(sources, counts)
        self.problems += live.problems
        done: list[_Group] = []
        stuck_count = len(sources)
        try:
            for group in compaction_groups(sources, live.miscounted, live.spans, _GROUP_BYTES_MAX):
                if 2 * sum(counts[file][1] for file in group) > sum(file.file_bytes for file in group):
                    stuck_count -= len(group)
                    continue
                try:
                    records = list(output_records(live.of_group(group)))
                    written = write_files(self._files, self._options, group, records)
                except CorruptError as error:
                    self._report_damage(group, error)
                    continue
                if written is not None:
                    done.append(_Group(group, written))
                    stuck_count -= len(group)
        except BaseException:
            self._remove(done)
            raise
        return done, stuck_count

    def _report_damage(self, group: list[JournalFile], error: CorruptError) -> None:
        """Report damage in a file of a group.  The group stays as it is."""
        for file in group:
            file.damaged = file.damaged or file.path == error.path
        self.problems.append(problem_of(error, error.path))

    def _replace(self, groups: Sequence[_Group]) -> None:
        """Replace old files by new ones, on the disk and in memory."""
        directory = self._files.directory
        renamed = {each.file.name: each.crc for group in groups for each in group.written}
        dead = [file for group in groups for file in group.sources if file.name not in renamed]
        replaced = [file for group in groups for file in group.sources if file.name in renamed] + dead
        moves = FileMoves(
            tuple(renamed.items()),
            tuple((file.name, file.header.file_id) for file in dead),
            tuple((file.name, header_crc(file.header)) for file in replaced),
        )
        directory.sync()  # a durable control file must not name files whose names are not durable
        self._write_control(groups, moves)
        try:
            rename_all(directory, moves)
        except BinlogError as error:
            # The next load rolls forward.  This process must stop: it no longer knows which file has which name.
            raise PoisonedError(f"{directory.path}: {error}") from error
        with self._guard, self._files_guard:
            for group in groups:
                self._switch(group)
        self._dead.extend(dead)
        self._is_unfinished = True
        with suppress_transient():
            self.finish()

    def _write_control(self, groups: Sequence[_Group], moves: FileMoves) -> None:
        """Write the control file.

        Once it has its name, the compaction will be completed, if need be by the next load.
        """
        directory = self._files.directory
        try:
            write_control(directory, moves)
        except PoisonedError:
            raise
        except BinlogError:
            with suppress_transient():  # the unnamed file only takes space; the next compaction or load removes it
                remove_control(directory)
            self._remove(groups)
            raise
        try:
            commit_control(directory)
        except PoisonedError:
            raise
        except BinlogError:
            self._undo(groups)
            raise

    def _undo(self, groups: Sequence[_Group]) -> None:
        """Undo a compaction that has renamed nothing, except perhaps the control file."""
        directory = self._files.directory
        try:
            remove_control(directory)  # before the files that it names
        except BinlogError as error:
            # The next load may roll forward or not, so this process cannot continue.
            raise PoisonedError(f"{directory.path}: {error}") from error
        self._remove(groups)

    def _switch(self, group: _Group) -> None:
        """Move the counts of the old files to the new files."""
        sources = set(group.sources)
        deletes_seen = self._ledger.deletes_seen or {}
        outer = {other for source in group.sources for other in source.must_outlive} - sources
        copies: dict[int, list[tuple[JournalFile, int]]] = {}
        for file, _, items in group.written:
            self._ledger.track(file)
            for record_id, size in items:
                if size is None:
                    file.must_outlive |= outer
                else:
                    copies.setdefault(record_id, []).append((file, size))
        for record_id, new in copies.items():
            known = self._ledger.locations_of(self._ledger.records.get(record_id, []))
            if any(file in sources for file, _ in known):
                outside = [(file, size) for file, size in known if file not in sources]
                self._ledger.relocate(record_id, sorted([*new, *outside], key=lambda each: each[0].header.file_id))
                for file, size in new:
                    file.pin_count += 1
                    file.live_bytes += size
            else:  # the record was deleted while the compaction ran
                deletes_seen[record_id].must_outlive.update(file for file, _ in new)
        self._files.replace(group.sources, [each.file for each in group.written])
        for source in group.sources:
            self._ledger.forget(source)
        for file in self._files:
            file.must_outlive -= sources

    def _remove(self, groups: Sequence[_Group]) -> None:
        for group in groups:
            remove_written(self._files.directory, group.written)
