"""Loading a journal: reads all files, repairs the end, and fills the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.block import zeros_end
from binlog.format.journal.compiled import ColumnScan, scan_file
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind
from binlog.format.problem import Problem
from binlog.journal.compaction.control_file import roll_forward
from binlog.journal.files.journal_files import JournalFile, JournalFiles, suppress_transient
from binlog.journal.files.listing import Listing
from binlog.journal.files.quarantine import keep_copy, move_file
from binlog.journal.ledger import Ledger
from binlog.journal.loading.damage import file_problems, size_problems, was_written
from binlog.journal.loading.recognition import JbmFile, layout_for_writing, recognise
from binlog.journal.loading.record_states import (
    RecordState,
    StatesInput,
    TransactionState,
    missing_record_problems,
    record_states,
)
from binlog.journal.options import JournalOptions
from binlog.journal.record import Deleted, Loaded, Record, TransactionContent
from binlog.storage.directory import Directory
from binlog.storage.files import read_at, write_again

_CHUNK_BYTES = 1 << 20


class _ScannedFile(NamedTuple):
    """A file with its records.  has_end: it declares where its records end."""

    file: JournalFile
    columns: ColumnScan
    has_end: bool
    problems: list[Problem]


class Loading:
    """One load of a journal.

    files, ledger: as the journal uses them from then on.  record_id_max: the largest id of a record or a transaction.
    at, record_count: the end of the records in the current file, if the last file with records takes more of them.
    """

    def __init__(self, directory: Directory, options: JournalOptions) -> None:
        """Read all files and complete what a crash has left.

        Raises: CorruptError, also if the layout is unknown or ambiguous; VersionError; AccessError; ValueError if the
        layout differs from the one in the options.
        """
        self._directory = directory
        self._options = options
        listing, files = self._list()
        self._problems = roll_forward(directory, options.names)
        if listing.layout is JournalLayout.NATIVE:
            listing, files = self._list()  # rolling forward may have renamed files
        layout = files[0].header.layout if files else options.layout or JournalLayout.NATIVE
        self.files = JournalFiles(directory, options, layout)
        self.ledger = Ledger()
        self.at = 0
        self.record_count = 0
        self._unused: list[JournalFile] = []
        self._columns: list[ColumnScan] = []
        self._used: list[_ScannedFile] = []  # files with records
        ids = (max(file.number, file.header.file_id) for file in listing.files)
        self.files.id_max = max((*listing.short.values(), *ids), default=0)
        self._states = record_states(self._scan(files), headerless_ids=listing.short.values())
        self._report_short(listing.short)
        self.ledger.restore(files, self._columns, self._states)
        self.record_id_max = max((self._states.id_max, *(file.header.record_id_max for file in files)))
        self.files.record_id_max = lambda: self.record_id_max
        self._paths = [file.path for file in files]
        self._remove_leftovers(listing.short)
        if self._used:
            self._resume_in(self._used[-1])

    def loaded(self) -> Loaded:
        """Return the records and transactions.

        Transactions left open are returned as failed, and stay open in the ledger until they are rolled back.
        """
        states = self._states
        prepared = [self._content(each) for each in states.transactions if each.state == RecordState.PREPARED]
        failed = [self._content(each) for each in self._failed()]
        problems = [*self._problems, *missing_record_problems(self._paths, self._columns, states)]
        return Loaded(states.records, prepared, failed, self.record_id_max, problems)

    def failed_ids(self) -> list[int]:
        """Return the transactions to roll back, so that none of their records can take effect later.

        Append the rollbacks to a file without a commit of theirs: that file may be freed first, and rollbacks must
        stay.
        """
        return [each.tx_id for each in self._failed()]

    def _content(self, transaction: TransactionState) -> TransactionContent:
        """Return the operations of a transaction."""
        content = TransactionContent(transaction.tx_id, b"", [], [])
        for number, index, loaded in transaction.content:
            columns = self._columns[number]
            kind = columns.kind[index]
            if kind == Kind.PREPARE:
                content = content._replace(extra=loaded)
            elif kind == Kind.DELETE_TX:
                content.deletes.append(Deleted(columns.id_of(index), loaded))
            elif kind != Kind.COMMIT:
                content.records.append(loaded)
        return content

    def _failed(self) -> list[TransactionState]:
        return [each for each in self._states.transactions if each.state != RecordState.PREPARED]

    def _list(self) -> tuple[Listing, list[JournalFile]]:
        """List the files, oldest first, and recognise their layout.  Changes nothing.

        Raises: CorruptError if the records contradict the layout in the options, or leave it open and none is given.
        """
        directory, options = self._directory, self._options
        listing = Listing()
        for name in sorted(directory.names()):
            if (number := options.names.number(name)) is not None:
                listing.add(directory, name, number, options.layout)
        listing.finish()
        if listing.refused:
            raise listing.refused[0][1]
        uses = listing.files
        files = [JournalFile(directory, each.name, each.header, each.file_bytes) for each in uses]
        if listing.layout not in (None, JournalLayout.NATIVE):
            recognition = recognise(
                JbmFile(file.path, file.header, each.number, file.read) for each, file in zip(uses, files, strict=True)
            )
            layout = recognition.confirm_layout(options.layout) or layout_for_writing(recognition, files[0].path)
            for file in files:
                file.header = file.header._replace(layout=layout)
        return listing, files

    def _scan(self, files: list[JournalFile]) -> Iterator[StatesInput]:
        """Scan the files one by one, and sort them into files with and without records."""
        for file in files:
            data = file.read()
            columns = scan_file(data, file.header, Record)
            self._columns.append(columns._replace(records=[]))
            has_end = file.header.parse_end(data) is not None
            problems = list(size_problems(file.path, file.header, file.file_bytes))
            if has_end or was_written(file.header, data, columns):
                if self._used:
                    self._add_closed(self._used[-1])
                problems += file_problems(file.path, file.header, data, columns)
                self._used.append(_ScannedFile(file, self._columns[-1], has_end, problems))
            else:
                file.damaged = bool(problems)
                self._problems += problems
                self._unused.append(file)
            yield StatesInput(file.header.record_id, columns, file.number)

    def _report_short(self, short: dict[str, int]) -> None:
        """Report files without a header.

        Raises: CorruptError if one may have held records of a transaction that was committed or prepared.
        """
        suspect = self._states.suspect_commit
        for index, name in enumerate(short):
            path, text = self._directory.file_path(name), "it ends before its header does"
            if suspect is not None and suspect[0] == index:
                tx_id = self._columns[suspect[1]].tx_id_of(suspect[2])
                text = f"{text}; it may have held records of the transaction {tx_id}, and others exist"
                raise CorruptError(path, 0, "short", text)
            self._problems.append(Problem(path, 0, "short", text))

    def _add_closed(self, scanned: _ScannedFile) -> None:
        """Add a file that takes no more appends."""
        scanned.file.damaged = scanned.file.damaged or bool(scanned.problems)
        scanned.file.record_count = scanned.columns.record_count
        self._problems += scanned.problems
        self.files.data.append(scanned.file)

    def _insert_incomplete(self, file: JournalFile) -> None:
        """Keep a file without records, in its place, as evidence that a transaction is incomplete."""
        data = self.files.data
        index = sum(each.header.file_id < file.header.file_id for each in data)
        data.insert(index, file)

    def _resume_in(self, scanned: _ScannedFile) -> None:
        """Make the last file with records the current one if it can take more."""
        scanned.file.open()
        try:
            self._resume_after_records(scanned)
        except BaseException:
            scanned.file.close()
            raise

    def _resume_after_records(self, scanned: _ScannedFile) -> None:
        file, end = scanned.file, scanned.columns.end
        # Returning these records to the user is as good as acknowledging them, so they must be durable.
        write_again(file.fd, end, file.path)
        file.sync()
        if not self._takes_appends(scanned):
            file.close()
            self._add_closed(scanned)
            return
        stop = end
        if file.header.layout is JournalLayout.NATIVE:
            stop = zeros_end(end, file.file_bytes)
        if scanned.problems:
            self._problems += scanned.problems
            stop = max(stop, self._quarantine_tail(scanned))
        for at in range(end, stop, _CHUNK_BYTES):
            file.write(bytes([file.header.layout.fill]) * min(_CHUNK_BYTES, stop - at), at)
        file.sync()
        self.files.current = file
        self.at, self.record_count = end, scanned.columns.record_count

    def _takes_appends(self, scanned: _ScannedFile) -> bool:
        """Whether records may follow: the file has no end yet, and is undamaged except for its tail."""
        return not scanned.has_end and all(problem.rule == "tail" for problem in scanned.problems)

    def _quarantine_tail(self, scanned: _ScannedFile) -> int:
        """Copy the bytes after the last record to the quarantine before they are overwritten; return where they end."""
        file, start = scanned.file, scanned.columns.end
        rest = read_at(file.fd, file.file_bytes - start, start, file.path).rstrip(bytes([file.header.layout.fill]))
        stop = start + len(rest)
        keep_copy(self._directory, f"{file.name}.{file.header.file_id}.{start}-{stop}", rest)
        return stop

    def _remove_leftovers(self, short: Iterable[str]) -> None:
        """Remove unfinished files, free files without records, and quarantine files without a header."""
        for name in filter(self._options.names.is_unfinished, self._directory.names()):
            self._directory.remove(name)
        for file in self._unused:
            if file.must_outlive:
                self._insert_incomplete(file)
            elif file.file_bytes == self._options.file_bytes:
                file.write_header()
                self.files.free.append(file)
            else:
                # Recycling needs a file whose header has the largest id.  On a full disk, the file stays until later.
                with suppress_transient():
                    self.files.recycle(file)
        for name in short:
            move_file(self._directory, name, name)
        # Also sync the renames and removals of the previous process.  If one of them were undone by a power cut after
        # this process has freed files, deleted records could reappear.
        self._directory.sync()
