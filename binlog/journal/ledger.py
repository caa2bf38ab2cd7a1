"""Which records are there, in which files, and which files still matter.

A file counts its adds and updates that are there, and the transactions that go on with records in it.  A record that
ends others, a delete, a commit or a rollback, keeps its file for as long as the files of these are there: without it
they would come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from binlog.format.journal.compiled import ColumnScan
from binlog.format.journal.record import Kind
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.loading.record_states import RecordStates

# A file's number << 32 | the bytes that a record takes in it: plain numbers, for there may be millions.  A list where
# there are updates: of what was added first, and then of these.
Places = int | list[int]
_SHIFT = 32
_BYTES = (1 << _SHIFT) - 1


class Operation(NamedTuple):
    """What a record of a transaction does, and where it lies."""

    kind: Kind | int
    record_id: int
    file: JournalFile
    record_bytes: int


class Transaction:
    """A transaction that was not ended.

    counts: for each file with records of it how many.
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
        """Whether it waits for a commit or rollback, whatever happens meanwhile."""
        return self.extra is not None


class Kept(NamedTuple):
    """What keeps a file.

    records: ids of those that lie in it and are there.  transactions: those that go on and have records in it.
    outlasts: names of files that mean something else without it: with records that something in it ended, and that
    would come back; or with the commit of a transaction of which it is known by this file that records are missing.
    """

    name: str
    file_id: int
    records: list[int]
    transactions: list[int]
    outlasts: list[str]


class Ledger:
    """Where each record lies that is there, and each transaction that goes on.

    failed: transactions of whose records a commit counts more than there are, until a rollback follows it.
    adding: records that a transaction adds which goes on, and which one.
    watched: for each record that is deleted the file of what deletes it; None where nobody wants to know.
    """

    def __init__(self) -> None:
        self.watched: dict[int, JournalFile] | None = None
        self.records: dict[int, Places] = {}
        self._files: dict[int, JournalFile] = {}
        self.transactions: dict[int, Transaction] = {}
        self.failed: dict[int, Transaction] = {}
        self.adding: dict[int, int] = {}

    def take(self, files: Sequence[JournalFile], columns: Sequence[ColumnScan], found: RecordStates) -> None:
        """Begin with what is there in files of which it was found out what became of their records."""
        self.records = found.places
        for place, file in enumerate(files):
            if columns[place].record_count:
                self.meet(file)
            file.alive = found.live_count(place)
            file.alive_bytes = found.live_bytes[place]
            # Even if nothing else shows it, so that no compaction takes the file: what is missing would not be known.
            file.damaged = file.damaged or found.lacking[place]
        for one, other in found.outlasts:
            files[one].outlasts.add(files[other])
        for tx_id, _, _, content in found.transactions:
            for place, index, said in content:
                kind, file = columns[place].kind[index], files[place]
                if kind == Kind.PREPARE:
                    self.prepare(tx_id, said or b"", file)
                elif kind == Kind.COMMIT:
                    self._fail(tx_id, file)
                else:
                    size = columns[place].bytes_of(index)
                    self.join(tx_id, Operation(kind, columns[place].id_of(index), file, size))

    def meet(self, file: JournalFile) -> None:
        """A file may have records from now on."""
        self._files[file.number] = file

    def forget(self, file: JournalFile) -> None:
        """Nothing that is there lies in a file any more."""
        self._files.pop(file.number, None)

    def add(self, record_id: int, file: JournalFile, record_bytes: int) -> None:
        """A record, or an update of it, lies in a file."""
        file.alive += 1
        file.alive_bytes += record_bytes
        place = file.number << _SHIFT | record_bytes
        there = self.records.get(record_id)
        if there is None:
            self.records[record_id] = place
        elif isinstance(there, list):
            there.append(place)
        else:
            self.records[record_id] = [there, place]

    def delete(self, record_id: int, file: JournalFile) -> bool:
        """A record in `file` says that a record is deleted; whether there was one."""
        places = self.records.pop(record_id, None)
        if places is None:
            return False
        if self.watched is not None:
            self.watched[record_id] = file
        for place, record_bytes in self.pairs(places):
            place.alive_bytes -= record_bytes
            file.end(place)
        return True

    def pairs(self, places: Places) -> list[tuple[JournalFile, int]]:
        """Each file with how many bytes a record takes in it."""
        all_ = places if isinstance(places, list) else [places]
        return [(self._files[place >> _SHIFT], place & _BYTES) for place in all_]

    def move(self, record_id: int, pairs: Iterable[tuple[JournalFile, int]]) -> None:
        """What a record and its updates come to lies elsewhere; what the files count is not changed."""
        places = [file.number << _SHIFT | record_bytes for file, record_bytes in pairs]
        self.records[record_id] = places if len(places) > 1 else places[0]

    def join(self, tx_id: int, operation: Operation) -> Transaction:
        """A record of a transaction lies in its file; the first one of a transaction begins it."""
        found = self.transactions.get(tx_id)
        if found is None:
            found = self.transactions[tx_id] = Transaction(tx_id)
        file = operation.file
        self._pin(found, file)
        found.counts[file] = found.counts.get(file, 0) + 1
        found.operations.append(operation)
        if operation.kind == Kind.ADD_TX:
            self.adding[operation.record_id] = tx_id
        elif operation.kind == Kind.DELETE_TX:
            self._give_up(operation.record_id, tx_id)
        return found

    def prepare(self, tx_id: int, extra: bytes, file: JournalFile) -> Transaction:
        """A record in `file` says that a transaction, which may have no other, is prepared."""
        found = self.transactions.get(tx_id)
        if found is None:
            found = self.transactions[tx_id] = Transaction(tx_id)
        self._pin(found, file)
        found.extra = extra
        return found

    def commit(self, tx_id: int, file: JournalFile) -> Transaction:
        """A record in `file` says that what a transaction did is there, but updates of what is not.

        Raises: KeyError.
        """
        found = self._take(self.transactions, tx_id)
        for operation in found.operations:
            if operation.kind == Kind.DELETE_TX:
                self.delete(operation.record_id, operation.file)
            elif operation.kind == Kind.ADD_TX or operation.record_id in self.records:
                self.add(operation.record_id, operation.file, operation.record_bytes)
        self._unpin(found, file)
        return found

    def _fail(self, tx_id: int, file: JournalFile) -> None:
        """A record in `file` commits a transaction of which records are missing.

        The rollback that is to come must stay for as long: without it the transaction would be told again.
        """
        failed = self._take(self.transactions, tx_id) if tx_id in self.transactions else Transaction(tx_id)
        self.failed[tx_id] = failed
        self._pin(failed, file)

    def roll_back(self, tx_id: int, file: JournalFile) -> None:
        """A record in `file` says that what a transaction did never is; one that goes on, or has failed."""
        for all_ in (self.transactions, self.failed):
            if tx_id in all_:
                self._unpin(self._take(all_, tx_id), file)
                return

    def kept_files(self, files: Iterable[JournalFile]) -> list[Kept]:
        """What keeps each of the files."""
        found = {file: Kept(file.name, file.header.file_id, [], [], []) for file in files}
        for record_id, places in self.records.items():
            for file in {file for file, _ in self.pairs(places)} & found.keys():
                found[file].records.append(record_id)
        for tx_id, transaction in self.transactions.items():
            for file in transaction.pinned.keys() & found.keys():
                found[file].transactions.append(tx_id)
        for file, kept in found.items():
            others = sorted(file.outlasts & found.keys(), key=lambda other: other.header.file_id)
            kept.outlasts.extend(other.name for other in others)
        return list(found.values())

    def _take(self, all_: dict[int, Transaction], tx_id: int) -> Transaction:
        found = all_.pop(tx_id)
        for operation in found.operations:
            self._give_up(operation.record_id, tx_id)
        return found

    def _give_up(self, record_id: int, tx_id: int) -> None:
        """A transaction does not add a record any more."""
        if self.adding.get(record_id) == tx_id:
            del self.adding[record_id]

    def _pin(self, transaction: Transaction, file: JournalFile) -> None:
        if file not in transaction.pinned:
            transaction.pinned[file] = None
            file.alive += 1

    def _unpin(self, transaction: Transaction, file: JournalFile) -> None:
        for pinned in transaction.pinned:
            file.end(pinned)


def dead_files(files: Sequence[JournalFile], current: JournalFile | None) -> list[JournalFile]:
    """Those of the files, oldest first, that nobody needs any more.

    current: the one in which the journal goes on, which stays.
    """
    there = {*files, current}
    for file in files:
        if not file.alive and file.outlasts.isdisjoint(there):
            there.remove(file)
    return [file for file in files if file not in there]
