"""What the records of a journal come to, in the order in which they were appended."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

from binlog.format.journal.compiled import Adds, Scanned
from binlog.format.journal.record import JOURNAL_COUNT, Kind
from binlog.format.problem import Problem
from binlog.journal.journal_file import JournalFile
from binlog.journal.ledger import Ledger, Operation, Transaction, bytes_of
from binlog.journal.record import Deleted, Record, TransactionContent

# Deletes may come to half of what there was before those are thrown away which they delete.
_DELETES_MIN = 1000

_ADD, _UPDATE, _ADD_TX, _UPDATE_TX, _DELETE_TX, _DELETE, _PREPARE, _COMMIT, _ROLLBACK = map(int, Kind)


class Replay:
    """Goes through the files, oldest first, and keeps what is there.

    files: all that there are.  ledger: is told of all.  unknown: ids of the first uses of files whose headers are lost.
    doubt: one of these in which a transaction may have had records, and a text that says so; None where none may.
    keeps_deletes: deletes are among the items, each where it was done.
    tell_committed: is called with the id of each transaction that is committed, and what it does, before that is done.
    Bodies are not looked at, so who does not want them may give something else in their place.
    A transaction does what it does where its commit lies; one of which a part is missing does nothing.  A part that
    lies in a file that is gone is not missing: a file only goes once nobody needs what is in it.
    What is deleted is not taken out of the row at once, which would need the place of every record: of each delete it
    is remembered how long the row was.
    """

    def __init__(
        self,
        ledger: Ledger,
        files: Iterable[JournalFile],
        *,
        keeps_deletes: bool = False,
        unknown: Iterable[int] = (),
        tell_committed: Callable[[int, Sequence[Record | Deleted]], None] | None = None,
    ) -> None:
        self.ledger = ledger
        self.doubt: tuple[int, str] | None = None
        self._unknown = tuple(unknown)
        self._problems: list[Problem] = []
        self._orphans: dict[int, Problem] = {}
        self.failed: dict[int, TransactionContent] = {}
        self.id_max = 0
        self._there = {file.header.record_id: file for file in files}
        self._items: list[Record | Deleted] = []
        self._keeps_deletes = keeps_deletes
        self._tell_committed = tell_committed
        self._ends: dict[int, int] = {}
        self._contents: dict[int, list[Record | Deleted]] = {}
        self._unhealthy: set[int] = set()

    def go_through(self, file: JournalFile, items: Iterable[Scanned | Adds]) -> None:
        """All that a file has, which is the one behind the last one."""
        self.ledger.meet(file)
        for item in items:
            if len(item) == 3:
                self._add_all(file, *item)
            else:
                self._go_on(file, item)

    def records(self) -> list[Record]:
        """All that are there."""
        self._sweep()
        return self._items if not self._keeps_deletes else [item for item in self._items if isinstance(item, Record)]  # type: ignore[return-value]

    def items(self) -> list[Record | Deleted]:
        """All that are there, and the deletes that are kept."""
        self._sweep()
        return self._items

    def problems(self) -> list[Problem]:
        """What shows that records are missing."""
        return [*self._problems, *self._orphans.values()]

    def prepared(self) -> list[TransactionContent]:
        """Transactions that are prepared, and whole."""
        open_ones = self.ledger.transactions
        return [
            self._content(each) for tx_id, each in open_ones.items() if each.prepared and tx_id not in self._unhealthy
        ]

    def left(self) -> list[TransactionContent]:
        """Transactions that nobody ended, or that were prepared, and a part is missing."""
        open_ones = self.ledger.transactions
        return [
            self._content(each) for tx_id, each in open_ones.items() if not each.prepared or tx_id in self._unhealthy
        ]

    def _add_all(self, file: JournalFile, places: dict[int, int], records: list[Record], total_bytes: int) -> None:
        self.id_max = max(max(places), self.id_max)  # noqa: PLW3301 - there may be millions
        if self.ledger.add_all(file, places, total_bytes):
            self._items += records
            return
        for record, place in zip(records, places.values(), strict=True):  # an id is there already
            self._items.append(record)
            self.ledger.add(record.record_id, file, bytes_of(place))

    def _go_on(self, file: JournalFile, scanned: Scanned) -> None:
        kind, at, end, tx_id, record_id, user_type, body, counts = scanned
        self.id_max = max(self.id_max, record_id, tx_id)
        if kind == _ADD:
            self._items.append(Record(record_id, user_type, body))
            self.ledger.add(record_id, file, end - at)
        elif kind == _UPDATE:
            self._update(file, at, end, Record(record_id, user_type, body, is_update=True))
        elif kind == _DELETE:
            self._take(Deleted(record_id, body))
            self.ledger.delete(record_id, file)
        elif kind in (_PREPARE, _COMMIT, _ROLLBACK):
            self._end(kind, file, at, tx_id, body, counts)
        else:
            self._join(Operation(kind, record_id, file, end - at), tx_id, user_type, body)

    def _take(self, deleted: Deleted) -> None:
        self._ends[deleted.record_id] = len(self._items)
        self._orphans.pop(deleted.record_id, None)
        if self._keeps_deletes:
            self._items.append(deleted)
        if len(self._ends) > max(_DELETES_MIN, len(self._items) // 2):
            self._sweep()

    def _sweep(self) -> None:
        """Take what is deleted out of the row."""
        if self._ends:
            self._items = list(self._alive())
            self._ends.clear()

    def _alive(self) -> Iterator[Record | Deleted]:
        for place, item in enumerate(self._items):
            if isinstance(item, Deleted) or self._ends.get(item.record_id, 0) <= place:
                yield item

    def _update(self, file: JournalFile, at: int, end: int, record: Record) -> None:
        if record.record_id not in self.ledger.records:
            # The file with the record may be gone, and then a delete comes; or else it is damaged.
            text = f"an update of the record {record.record_id}, which is not there"
            self._orphans[record.record_id] = Problem(file.path, at, "update", text, end)
        # Counted in any case: the delete must stay for as long as the update does.
        self.ledger.add(record.record_id, file, end - at)
        self._items.append(record)

    def _join(self, operation: Operation, tx_id: int, user_type: int, body: bytes) -> None:
        self.ledger.join(tx_id, operation)
        content = self._contents.setdefault(tx_id, [])
        if operation.kind == _DELETE_TX:
            content.append(Deleted(operation.record_id, body))
        else:
            content.append(Record(operation.record_id, user_type, body, operation.kind == _UPDATE_TX))

    def _end(self, kind: int, file: JournalFile, at: int, tx_id: int, extra: bytes, counts: bytes) -> None:
        if kind == _ROLLBACK:
            if tx_id not in self.ledger.transactions:
                self.failed.pop(tx_id, None)
            self.ledger.roll_back(tx_id, file)
            self._forget(tx_id)
            return
        found = self.ledger.transactions.get(tx_id)
        lacking = self._compare(found, file, counts)
        if lacking:
            names = ", ".join(f"{each.name} has {count} records" for each, count in lacking.items())
            text = f"of the transaction {tx_id} something is missing: {names} of it"
            self._problems.append(Problem(file.path, at, "transaction", text))
            self.ledger.lack(file, lacking)
        if kind == _PREPARE:
            self.ledger.prepare(tx_id, extra, file)
            if lacking:
                self._unhealthy.add(tx_id)
        elif lacking or tx_id in self._unhealthy:
            self.failed[tx_id] = self._content(found or Transaction(tx_id))
            self.ledger.fail(tx_id, file)
            self._forget(tx_id)
        elif found is not None:
            self._commit(found, file)

    def _commit(self, transaction: Transaction, file: JournalFile) -> None:
        content = self._contents.pop(transaction.tx_id, [])  # an empty one that was prepared has none
        if self._tell_committed is not None:
            self._tell_committed(transaction.tx_id, content)
        there = {item.record_id: item.record_id in self.ledger.records for item in content}
        for item in content:
            if isinstance(item, Deleted):
                self._take(item)
                there[item.record_id] = False
            elif not item.is_update or there[item.record_id]:
                self._items.append(item)
                there[item.record_id] = True
        self.ledger.commit(transaction.tx_id, file)

    def _compare(self, found: Transaction | None, file: JournalFile, counts: bytes) -> dict[JournalFile, int]:
        """Files with fewer records of a transaction than its end in `file` counts, and how many they have.

        Also where no writer counts so, whose layout does not see that a number was flipped: a file twice, or one that
        came into use later, or none of its records; or that leaves out what cannot be an earlier transaction's.
        """
        said = _counts(counts)
        if found is not None:
            self._look_for_unknown(found, said)
        lacking = {} if found is None else self._leave_orphans(found, said)
        lacking |= self._lacking(found, said)
        own = file.header.record_id
        is_odd = any(count < 1 or _is_later(file_id, own) for file_id, count in said.items())
        if is_odd or len(said) * JOURNAL_COUNT.size < len(counts):
            lacking.setdefault(file, 0 if found is None else found.counts.get(file, 0))
        return lacking

    def _look_for_unknown(self, found: Transaction, said: dict[int, int]) -> None:
        """Whether a file that is gone, it seems, may be one whose header is lost: not in a use before its first one."""
        gone = [file_id for file_id in said if file_id not in self._there]
        for first in self._unknown:
            if not all(_is_later(first, file_id) for file_id in gone):
                text = f"the transaction {found.tx_id} may have had records in it, and others of it are there"
                self.doubt = self.doubt or (first, text)

    def _leave_orphans(self, found: Transaction, said: dict[int, int]) -> dict[JournalFile, int]:
        """Leave out what is more than a commit or prepare counts: of an earlier transaction with the same id.

        JBoss Messaging ends none that a crash left, and its ids may come again; the earlier records lie before the
        others.  Files in which they do not, with how many records they have.
        """
        left = {file: count - said.get(file.header.record_id, 0) for file, count in found.counts.items()}
        left = {file: count for file, count in left.items() if count > 0}
        if not left:
            return {}
        oldest = _oldest(said)
        later = {file: found.counts[file] for file in left if said and _is_later(file.header.record_id, oldest)}
        self._leave(found, left)
        return later

    def _leave(self, found: Transaction, left: dict[JournalFile, int]) -> None:
        """Leave out so many records of each file, the first of them."""
        content = self._contents.get(found.tx_id, [])
        kept = []
        for operation, item in zip(found.operations, content, strict=True):
            if left.get(operation.file, 0) > 0:
                left[operation.file] -= 1
            else:
                kept.append((operation, item))
        self.ledger.keep(found, [operation for operation, _ in kept])
        content[:] = [item for _, item in kept]

    def _lacking(self, found: Transaction | None, said: dict[int, int]) -> dict[JournalFile, int]:
        here: dict[int, int] = {}
        if found is not None:
            here = {file.header.record_id: count for file, count in found.counts.items()}
        return {
            self._there[file_id]: here.get(file_id, 0)
            for file_id, count in said.items()
            if file_id in self._there and here.get(file_id, 0) != count
        }

    def _content(self, transaction: Transaction) -> TransactionContent:
        items = self._contents.get(transaction.tx_id, [])
        records = [item for item in items if isinstance(item, Record)]
        deletes = [item for item in items if isinstance(item, Deleted)]
        return TransactionContent(transaction.tx_id, transaction.extra or b"", records, deletes)

    def _forget(self, tx_id: int) -> None:
        self._contents.pop(tx_id, None)
        self._unhealthy.discard(tx_id)


def _is_later(file_id: int, other: int) -> bool:
    """Whether a file came into use behind another one, by their ids as records have them, which begin anew at 2**32."""
    return 0 < (file_id - other) % (1 << 32) < 1 << 31


def _oldest(file_ids: Iterable[int]) -> int:
    """Which came into use first; 0 where there is none."""
    return functools.reduce(lambda one, other: other if _is_later(one, other) else one, file_ids or (0,))


def _counts(data: bytes) -> dict[int, int]:
    """How many records each file has, as a commit or prepare says it, by the files' ids."""
    found = (JOURNAL_COUNT.unpack(data, at) for at in range(0, len(data), JOURNAL_COUNT.size))
    return {each["file_id"]: each["record_count"] for each in found}
