"""Loading a journal: from its files to what is there, and to where it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.block import zeros_end
from binlog.format.journal.compiled import ColumnScan, scan_file
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind
from binlog.format.problem import Problem
from binlog.journal.compaction.control_file import finish
from binlog.journal.files.journal_files import JournalFile, JournalFiles, ignored_until_later
from binlog.journal.files.listing import Listing
from binlog.journal.files.quarantine import keep_copy, move_file
from binlog.journal.ledger import Ledger
from binlog.journal.loading.damage import file_problems, has_begun, size_problems
from binlog.journal.loading.recognition import LaidOut, recognise, recognised_for_writing
from binlog.journal.loading.record_states import RecordState, StatesInput, TransactionState, odd_problems, record_states
from binlog.journal.options import JournalOptions
from binlog.journal.record import Deleted, Loaded, Record, TransactionContent
from binlog.storage.directory import Directory
from binlog.storage.files import read_at

_CHUNK_BYTES = 1 << 20


class _Read(NamedTuple):
    """A file that was gone through.  is_ended: it says itself where its records end."""

    file: JournalFile
    columns: ColumnScan
    is_ended: bool
    problems: list[Problem]


class Loading:
    """One load.

    files: the journal's, from then on.  ledger: what is there.  at, record_count: where the journal goes on in the last
    file with records, where it can.  record_id_max: the largest id that a record or a transaction has had.
    """

    def __init__(self, directory: Directory, options: JournalOptions) -> None:
        """Raises: CorruptError, also for a layout that is not known or not sure; VersionError; AccessError; ValueError
        for a layout that is another."""
        self._directory = directory
        self._options = options
        listing, files = self._list()
        self._problems = finish(directory, options.names)
        if listing.layout is JournalLayout.NATIVE:
            listing, files = self._list()  # a compaction may have been finished
        layout = files[0].header.layout if files else options.layout or JournalLayout.NATIVE
        self.files = JournalFiles(directory, options, layout)
        self.ledger = Ledger()
        self.at = 0
        self.record_count = 0
        self._unused: list[JournalFile] = []
        self._columns: list[ColumnScan] = []
        self._used: list[_Read] = []  # files with records
        ids = (max(file.number, file.header.file_id) for file in listing.files)
        self.files.id_max = max((*listing.short.values(), *ids), default=0)
        self._found = record_states(self._read(files), unknown_ids=listing.short.values())
        self._tell_short(listing.short)
        self.ledger.take(files, self._columns, self._found)
        self.record_id_max = max((self._found.id_max, *(file.header.record_id_max for file in files)))
        self.files.record_id_max = lambda: self.record_id_max
        self._paths = [file.path for file in files]
        self._clear(listing.short)
        if self._used:
            self._go_on_in(self._used[-1])

    def loaded(self) -> Loaded:
        """What is there.

        Transactions that nobody ended are told as failed, and go on in the ledger until they are rolled back.
        """
        found = self._found
        prepared = [self._content(each) for each in found.transactions if each.state == RecordState.PREPARED]
        failed = [self._content(each) for each in self._failed()]
        problems = [*self._problems, *odd_problems(self._paths, self._columns, found)]
        return Loaded(found.records, prepared, failed, self.record_id_max, problems)

    def failed_ids(self) -> list[int]:
        """Transactions for which a rollback is to be appended, so that none of their records ever counts.

        Not in a file that has a commit of one of them: that file may go first, and the rollback must stay.
        """
        return [each.tx_id for each in self._failed()]

    def _content(self, transaction: TransactionState) -> TransactionContent:
        """What a transaction does."""
        content = TransactionContent(transaction.tx_id, b"", [], [])
        for place, index, said in transaction.content:
            columns = self._columns[place]
            kind = columns.kind[index]
            if kind == Kind.PREPARE:
                content = content._replace(extra=said)
            elif kind == Kind.DELETE_TX:
                content.deletes.append(Deleted(columns.id_of(index), said))
            elif kind != Kind.COMMIT:
                content.records.append(said)
        return content

    def _failed(self) -> list[TransactionState]:
        return [each for each in self._found.transactions if each.state != RecordState.PREPARED]

    def _list(self) -> tuple[Listing, list[JournalFile]]:
        """The files, oldest first, with the layout that their records have.  Changes nothing.

        Raises: CorruptError if they are not of the layout that was named, or none was and the records leave it open.
        """
        directory, options = self._directory, self._options
        listing = Listing()
        for name in sorted(directory.names()):
            if (number := options.names.number(name)) is not None:
                listing.add(directory, name, number, options.layout)
        listing.finish()
        if listing.refused:
            raise listing.refused[0][1]
        seen = listing.files
        files = [JournalFile(directory, each.name, each.header, each.file_bytes) for each in seen]
        if listing.layout not in (None, JournalLayout.NATIVE):
            laid_out = (
                LaidOut(file.path, file.header, each.number, file.read) for each, file in zip(seen, files, strict=True)
            )
            found = recognise(laid_out)
            layout = found.layout_for(options.layout) or recognised_for_writing(found, files[0].path)
            for file in files:
                file.header = file.header._replace(layout=layout)
        return listing, files

    def _read(self, files: list[JournalFile]) -> Iterator[StatesInput]:
        """Go through all files, for what became of their records."""
        for file in files:
            data = file.read()
            columns = scan_file(data, file.header, Record)
            self._columns.append(columns._replace(records=[]))
            is_ended = file.header.parse_end(data) is not None
            problems = list(size_problems(file.path, file.header, file.file_bytes))
            if is_ended or has_begun(file.header, data, columns):
                if self._used:
                    self._keep(self._used[-1])
                problems += file_problems(file.path, file.header, data, columns)
                self._used.append(_Read(file, self._columns[-1], is_ended, problems))
            else:
                file.damaged = bool(problems)
                self._problems += problems
                self._unused.append(file)
            yield StatesInput(file.header.record_id, columns, file.number)

    def _tell_short(self, short: dict[str, int]) -> None:
        """Files that have not even a header.  Raises: CorruptError where a transaction would be there in part."""
        doubt = self._found.doubt
        for place, name in enumerate(short):
            path, text = self._directory.file_path(name), "it ends before its header does"
            if doubt is not None and doubt[0] == place:
                tx_id = self._columns[doubt[1]].tx_id_of(doubt[2])
                text = f"{text}; the transaction {tx_id} may have had records in it, and others of it are there"
                raise CorruptError(path, 0, "short", text)
            self._problems.append(Problem(path, 0, "short", text))

    def _keep(self, read: _Read) -> None:
        """A file that the journal has gone on from."""
        read.file.damaged = read.file.damaged or bool(read.problems)
        read.file.record_count = read.columns.record_count
        self._problems += read.problems
        self.files.data.append(read.file)

    def _keep_lacking(self, file: JournalFile) -> None:
        """A file without a record, which shows that a transaction's are missing."""
        data = self.files.data
        place = sum(each.header.file_id < file.header.file_id for each in data)
        data.insert(place, file)

    def _go_on_in(self, read: _Read) -> None:
        """The last file with records: the journal goes on in it where it can."""
        read.file.open()
        try:
            self._begin_behind(read)
        except BaseException:
            read.file.close()
            raise

    def _begin_behind(self, read: _Read) -> None:
        file, end = read.file, read.columns.end
        self._write_again(file, end)
        if not self._fits(read):
            file.close()
            self._keep(read)
            return
        stop = end
        if file.header.layout is JournalLayout.NATIVE:
            stop = zeros_end(end, file.file_bytes)
        if read.problems:
            self._problems += read.problems
            stop = max(stop, self._set_tail_aside(read))
        for at in range(end, stop, _CHUNK_BYTES):
            file.write(bytes([file.header.layout.fill]) * min(_CHUNK_BYTES, stop - at), at)
        file.sync()
        self.files.current = file
        self.at, self.record_count = end, read.columns.record_count

    def _fits(self, read: _Read) -> bool:
        """Whether others may be put behind a file's records."""
        return not read.is_ended and all(problem.rule == "tail" for problem in read.problems)

    def _write_again(self, file: JournalFile, end: int) -> None:
        """Put what is told on the disk, for it is as good as acknowledged.

        It is written, for where a sync had failed another one says that all is well, and writes nothing (fsync(2)).
        """
        for at in range(0, end, _CHUNK_BYTES):
            file.write(read_at(file.fd, min(_CHUNK_BYTES, end - at), at, file.path), at)
        file.sync()

    def _set_tail_aside(self, read: _Read) -> int:
        """Keep a copy of all that lies behind the last record, for it is going to be written over; where that ends."""
        file, start = read.file, read.columns.end
        rest = read_at(file.fd, file.file_bytes - start, start, file.path).rstrip(bytes([file.header.layout.fill]))
        stop = start + len(rest)
        keep_copy(self._directory, f"{file.name}.{file.header.file_id}.{start}-{stop}", rest)
        return stop

    def _clear(self, short: Iterable[str]) -> None:
        """Remove what a process left that ended while it made a file, and files that have not even a header."""
        for name in filter(self._options.names.is_unfinished, self._directory.names()):
            self._directory.remove(name)
        for file in self._unused:
            if file.outlasts:
                self._keep_lacking(file)
            elif file.file_bytes == self._options.file_bytes:
                file.write_header()
                self.files.free.append(file)
            else:
                # Behind a header that has the largest id; without room for one it stays until another load.
                with ignored_until_later():
                    self.files.recycle(file)
        for name in short:
            move_file(self._directory, name, name)
        # Also what another process did: a file that it removed, or gave a name, must not come back, or go, once files
        # are freed for which it mattered.
        self._directory.sync()
