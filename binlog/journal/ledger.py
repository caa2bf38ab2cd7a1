"""Which records are there, in which files, and which files still matter.

The counts are JBoss Messaging's.  A file counts its adds and updates that are alive, and transactions that have records
in it.  A record that ends others, a delete, a commit or a rollback, counts in its own file how many it ended in which
others.  So a file is dead when as many of its own were ended, by itself and by those behind it, as it has; but one that
ended some of another file's stays for as long as that file does: without it they would come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from binlog.format.journal.record import Kind
from binlog.journal.journal_file import JournalFile

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

    def add_all(self, file: JournalFile, places: dict[int, int], total_bytes: int) -> bool:
        """Records lie in a file, if none of them is there already; whether they were added."""
        if not self.records.keys().isdisjoint(places):
            return False
        file.alive += len(places)
        file.alive_bytes += total_bytes
        self.records.update(places)
        return True

    def delete(self, record_id: int, file: JournalFile) -> bool:
        """A record in `file` says that a record is deleted; whether there was one."""
        places = self.records.pop(record_id, None)
        if places is None:
            return False
        if self.watched is not None:
            self.watched[record_id] = file
        for place, record_bytes in self.pairs(places):
            place.alive_bytes -= record_bytes
            file.negate(place)
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
        self._claim(operation, tx_id)
        return found

    def keep(self, transaction: Transaction, operations: list[Operation]) -> None:
        """These are all that a transaction does; the others were another one's with the same id."""
        for operation in transaction.operations:
            self._give_up(operation.record_id, transaction.tx_id)
        transaction.operations = operations
        transaction.counts = dict(Counter(operation.file for operation in operations))
        for operation in operations:
            self._claim(operation, transaction.tx_id)

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

    def lack(self, file: JournalFile, lacking: Iterable[JournalFile]) -> None:
        """A record in `file` counts more of a transaction's records in other files, the `lacking`, than these have.

        They must stay for as long as that record, and under their ids: without them it would not be known that
        something is missing.  So they are damaged, even where nothing else shows it, and no compaction takes them.
        """
        for each in lacking:
            each.damaged = True
            if each is not file:
                each.outlasts.add(file)

    def fail(self, tx_id: int, file: JournalFile) -> None:
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

    def _take(self, all_: dict[int, Transaction], tx_id: int) -> Transaction:
        found = all_.pop(tx_id)
        for operation in found.operations:
            self._give_up(operation.record_id, tx_id)
        return found

    def _claim(self, operation: Operation, tx_id: int) -> None:
        if operation.kind == Kind.ADD_TX:
            self.adding[operation.record_id] = tx_id
        elif operation.kind == Kind.DELETE_TX:
            self._give_up(operation.record_id, tx_id)

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
            file.negate(pinned)


def bytes_of(place: int) -> int:
    """How many bytes a record takes."""
    return place & _BYTES


def ended_counts(files: Iterable[JournalFile]) -> dict[JournalFile, int]:
    """Of how many records, and transactions, of each file these files have the end."""
    ended: dict[JournalFile, int] = {}
    for file in files:
        for other, count in file.negated.items():
            ended[other] = ended.get(other, 0) + count
    return ended


def dead_files(files: Sequence[JournalFile], current: JournalFile | None) -> list[JournalFile]:
    """Those of the files, oldest first, that nobody needs any more.

    current: the one in which the journal goes on: it stays, and counts what it ended.
    """
    all_files = [*files, current] if current is not None else files
    ended = ended_counts(all_files)
    there = set(all_files)
    dead: dict[JournalFile, None] = {}
    for file in files:
        others = (*file.negated, *file.outlasts)
        needed = any(other is not file and other in there and other not in dead for other in others)
        if ended.get(file, 0) >= file.alive and not needed:
            dead[file] = None
    return list(dead)
