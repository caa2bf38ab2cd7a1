"""The ledger: live records, open transactions, and the files that they pin.

Each live add or update pins its file, and so does each open transaction with records in the file.  A file that holds
deletes, commits or rollbacks for records of another file must outlive that file; otherwise those records would
reappear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from binlog.format.journal.compiled import ColumnScan
from binlog.format.journal.record import Kind
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.loading.record_states import RecordStates

# A file's number << 32 | the bytes that a record takes in it; for a record with updates, a list: the add comes first.
# Plain integers, because there may be millions of them.
PackedLocations = int | list[int]
_SHIFT = 32
_BYTES = (1 << _SHIFT) - 1


class Operation(NamedTuple):
    """One record of a transaction, and its file."""

    kind: Kind | int
    record_id: int
    file: JournalFile
    record_bytes: int


class Transaction:
    """A transaction without a commit or rollback.

    counts: how many of its records each file has.
    """

    __slots__ = ("counts", "extra", "operations", "pinned", "tx_id")

    def __init__(self, tx_id: int) -> None:
        self.tx_id = tx_id
        self.operations: list[Operation] = []
        self.counts: dict[JournalFile, int] = {}
        self.pinned: dict[JournalFile, None] = {}
        self.extra: bytes | None = None

    @property
    def prepared(self) -> bool:
        """Whether it is prepared: a restart does not roll it back."""
        return self.extra is not None


class FilePins(NamedTuple):
    """The reasons for which a file cannot be reused.

    records: ids of its live records.  transactions: open transactions with records in it.
    must_outlive: names of files that depend on this one.  It deletes records of theirs, which would reappear; or it
    shows that a transaction committed there is incomplete.
    """

    name: str
    file_id: int
    records: list[int]
    transactions: list[int]
    must_outlive: list[str]


class Ledger:
    """The files of each live record, and each open transaction.

    failed: transactions with a commit that counts more records than were found, until they are rolled back.
    being_added: records that an open transaction adds, with the id of the transaction.
    deletes_seen: while a compaction runs, the file that holds the delete of each record deleted meanwhile; else None.
    """

    def __init__(self) -> None:
        self.deletes_seen: dict[int, JournalFile] | None = None
        self.records: dict[int, PackedLocations] = {}
        self._files: dict[int, JournalFile] = {}
        self.transactions: dict[int, Transaction] = {}
        self.failed: dict[int, Transaction] = {}
        self.being_added: dict[int, int] = {}

    def restore(self, files: Sequence[JournalFile], columns: Sequence[ColumnScan], states: RecordStates) -> None:
        """Fill the ledger from the files of a journal and the states of their records."""
        self.records = states.locations
        for number, file in enumerate(files):
            if columns[number].record_count:
                self.track(file)
            file.pin_count = states.live_count(number)
            file.live_bytes = states.live_bytes[number]
            # A compaction must not take an incomplete file: the new file would not show that records are missing.
            file.damaged = file.damaged or states.is_incomplete[number]
        for one, other in states.must_outlive:
            files[one].must_outlive.add(files[other])
        for tx_id, _, _, content in states.transactions:
            for number, index, loaded in content:
                kind, file = columns[number].kind[index], files[number]
                if kind == Kind.PREPARE:
                    self.prepare(tx_id, loaded or b"", file)
                elif kind == Kind.COMMIT:
                    self._commit_incomplete(tx_id, file)
                else:
                    size = columns[number].bytes_of(index)
                    self.add_operation(tx_id, Operation(kind, columns[number].id_of(index), file, size))

    def track(self, file: JournalFile) -> None:
        """Track a file that may get records."""
        self._files[file.number] = file

    def forget(self, file: JournalFile) -> None:
        """Stop tracking a file without live records."""
        self._files.pop(file.number, None)

    def add(self, record_id: int, file: JournalFile, record_bytes: int) -> None:
        """Count a record, or an update, that is now live in a file."""
        file.pin_count += 1
        file.live_bytes += record_bytes
        location = file.number << _SHIFT | record_bytes
        known = self.records.get(record_id)
        if known is None:
            self.records[record_id] = location
        elif isinstance(known, list):
            known.append(location)
        else:
            self.records[record_id] = [known, location]

    def delete(self, record_id: int, file: JournalFile) -> bool:
        """Delete a record by a delete in `file`; return whether there was such a record."""
        packed = self.records.pop(record_id, None)
        if packed is None:
            return False
        if self.deletes_seen is not None:
            self.deletes_seen[record_id] = file
        for other, record_bytes in self.locations_of(packed):
            other.live_bytes -= record_bytes
            file.unpin(other)
        return True

    def locations_of(self, packed: PackedLocations) -> list[tuple[JournalFile, int]]:
        """Unpack locations: each file, and the bytes that the record takes in it."""
        locations = packed if isinstance(packed, list) else [packed]
        return [(self._files[each >> _SHIFT], each & _BYTES) for each in locations]

    def relocate(self, record_id: int, locations: Iterable[tuple[JournalFile, int]]) -> None:
        """Replace the locations of a record and its updates; the counts of the files do not change."""
        packed = [file.number << _SHIFT | record_bytes for file, record_bytes in locations]
        self.records[record_id] = packed if len(packed) > 1 else packed[0]

    def add_operation(self, tx_id: int, operation: Operation) -> Transaction:
        """Add a record to a transaction; the first one begins it."""
        transaction = self.transactions.get(tx_id)
        if transaction is None:
            transaction = self.transactions[tx_id] = Transaction(tx_id)
        file = operation.file
        self._pin(transaction, file)
        transaction.counts[file] = transaction.counts.get(file, 0) + 1
        transaction.operations.append(operation)
        if operation.kind == Kind.ADD_TX:
            self.being_added[operation.record_id] = tx_id
        elif operation.kind == Kind.DELETE_TX:
            self._stop_adding(operation.record_id, tx_id)
        return transaction

    def prepare(self, tx_id: int, extra: bytes, file: JournalFile) -> Transaction:
        """Prepare a transaction, which may be empty, by a record in `file`."""
        transaction = self.transactions.get(tx_id)
        if transaction is None:
            transaction = self.transactions[tx_id] = Transaction(tx_id)
        self._pin(transaction, file)
        transaction.extra = extra
        return transaction

    def commit(self, tx_id: int, file: JournalFile) -> Transaction:
        """Commit a transaction by a record in `file`.  Updates of unknown records have no effect.

        Raises: KeyError.
        """
        transaction = self._pop(self.transactions, tx_id)
        for operation in transaction.operations:
            if operation.kind == Kind.DELETE_TX:
                self.delete(operation.record_id, operation.file)
            elif operation.kind == Kind.ADD_TX or operation.record_id in self.records:
                self.add(operation.record_id, operation.file, operation.record_bytes)
        self._unpin(transaction, file)
        return transaction

    def _commit_incomplete(self, tx_id: int, file: JournalFile) -> None:
        """Note that a record in `file` commits a transaction of which records are missing.

        The file of the commit is pinned until the rollback, and the file of the rollback must outlive it.  Otherwise
        the next load would report the transaction again.
        """
        failed = self._pop(self.transactions, tx_id) if tx_id in self.transactions else Transaction(tx_id)
        self.failed[tx_id] = failed
        self._pin(failed, file)

    def roll_back(self, tx_id: int, file: JournalFile) -> None:
        """Roll back an open or failed transaction by a record in `file`."""
        for transactions in (self.transactions, self.failed):
            if tx_id in transactions:
                self._unpin(self._pop(transactions, tx_id), file)
                return

    def file_pins(self, files: Iterable[JournalFile]) -> list[FilePins]:
        """Return the pins of each of the files."""
        pins = {file: FilePins(file.name, file.header.file_id, [], [], []) for file in files}
        for record_id, packed in self.records.items():
            for file in {file for file, _ in self.locations_of(packed)} & pins.keys():
                pins[file].records.append(record_id)
        for tx_id, transaction in self.transactions.items():
            for file in transaction.pinned.keys() & pins.keys():
                pins[file].transactions.append(tx_id)
        for file, of_file in pins.items():
            others = sorted(file.must_outlive & pins.keys(), key=lambda other: other.header.file_id)
            of_file.must_outlive.extend(other.name for other in others)
        return list(pins.values())

    def _pop(self, transactions: dict[int, Transaction], tx_id: int) -> Transaction:
        transaction = transactions.pop(tx_id)
        for operation in transaction.operations:
            self._stop_adding(operation.record_id, tx_id)
        return transaction

    def _stop_adding(self, record_id: int, tx_id: int) -> None:
        """Note that a transaction no longer adds a record."""
        if self.being_added.get(record_id) == tx_id:
            del self.being_added[record_id]

    def _pin(self, transaction: Transaction, file: JournalFile) -> None:
        if file not in transaction.pinned:
            transaction.pinned[file] = None
            file.pin_count += 1

    def _unpin(self, transaction: Transaction, file: JournalFile) -> None:
        for pinned in transaction.pinned:
            file.unpin(pinned)


def dead_files(files: Sequence[JournalFile], current: JournalFile | None) -> list[JournalFile]:
    """Return the files without pins, oldest first, that no remaining file depends on.

    current: the file that takes appends, which is never dead.
    """
    remaining = {*files, current}
    for file in files:
        if not file.pin_count and file.must_outlive.isdisjoint(remaining):
            remaining.remove(file)
    return [file for file in files if file not in remaining]
