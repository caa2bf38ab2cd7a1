"""Prepared transactions: they wait for `commit` or `rollback`, also in the next process.

The messages that one puts are in their queues, and so are those that it gets.  It has taken all of them, so no other
transaction gets them.  A message in a queue of its own records the transaction.  That message is added by the log
record that prepares the transaction, and removed by the record that ends it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from binlog.errors import NotFoundError, StateError
from binlog.format.pagestore.prepared import PREPARED_QUEUE, PreparedRecord, Xid, check_xid, parse_prepared
from binlog.pagestore.pages.changes import Changes
from binlog.pagestore.pages.messages import read_message
from binlog.pagestore.queues import Added, Queues, put_messages
from binlog.pagestore.transaction import PRIORITY, Put, State, Taken, Transaction


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A prepared transaction.

    puts, gets: queue and key of each of its messages.  prepared_ms: when, in milliseconds since 1970 UTC.
    """

    xid: Xid
    prepared_ms: int
    puts: tuple[tuple[str, int], ...]
    gets: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class _Prepared:
    """A prepared transaction in memory.  record_message: the message that records it."""

    record: PreparedRecord
    record_message: Taken
    puts: list[Taken]
    gets: list[Taken]


class PreparedTransactions:
    """All prepared transactions; the caller holds the store's mutex."""

    def __init__(self, queues: Queues) -> None:
        """Load the prepared transactions of the store.  Raises: CorruptError; NotFoundError; AccessError."""
        self._queues = queues
        self._prepared: dict[Xid, _Prepared] = {}
        if PREPARED_QUEUE not in queues.first_pages:
            return
        queue = queues.get(PREPARED_QUEUE)
        while (entry := queue.next()) is not None:
            record = parse_prepared(read_message(queues.cache, entry.message_page), queues.cache.file.path)
            queue.take(entry)
            puts, gets = ([self._take(*each) for each in part] for part in (record.puts, record.gets))
            self._prepared[record.xid] = _Prepared(record, (queue, entry), puts, gets)

    def _take(self, name: str, key: int) -> Taken:
        queue = self._queues.get(name)
        entry = queue.index.entry(key, self._queues.cache)
        queue.take(entry)
        return queue, entry

    def all(self) -> list[PreparedTransaction]:
        """Return them in the order in which they were prepared."""
        return [PreparedTransaction(*each.record) for each in self._prepared.values()]

    def prepare(self, transaction: Transaction, xid: Xid) -> None:
        """Prepare a transaction.

        Raises: StateError, also if the name is in use; NotFoundError; FullError; CorruptError.
        """
        transaction.check()
        check_xid(xid)
        if xid in self._prepared:
            raise StateError(f"another prepared transaction has the xid {xid}")
        self._queues.create(PREPARED_QUEUE)
        queue = self._queues.get(PREPARED_QUEUE)
        gets = list(transaction.taken)
        records: list[PreparedRecord] = []

        def add_record(changes: Changes, added: Added) -> Added:
            record = PreparedRecord(xid, time.time_ns() // 1_000_000, _names(added), _names(gets))
            records.append(record)
            return put_messages(changes, [Put((PREPARED_QUEUE,), record.pack(), PRIORITY, 0)], [[queue]])

        added = self._queues.exchange([], transaction.puts, transaction.tx_id, then=add_record)
        for each, entry in added:
            each.take(entry)
        *puts, record_message = added
        self._prepared[xid] = _Prepared(records[0], record_message, puts, gets)
        transaction.end(State.PREPARED)

    def commit(self, xid: Xid) -> None:
        """Commit.  Raises: NotFoundError; FullError; CorruptError; AccessError, after which it is still prepared."""
        found = self._find(xid)
        self._queues.exchange([*found.gets, found.record_message], [], 0)
        for queue, entry in found.puts:
            queue.give_back(entry)
        del self._prepared[xid]

    def roll_back(self, xid: Xid) -> None:
        """Roll back.  Raises: as `commit`."""
        found = self._find(xid)
        self._queues.exchange([*found.puts, found.record_message], [], 0)
        self._queues.return_messages(found.gets, 0)
        del self._prepared[xid]

    def _find(self, xid: Xid) -> _Prepared:
        found = self._prepared.get(xid)
        if found is None:
            raise NotFoundError(f"no prepared transaction has the xid {xid}")
        return found


def _names(taken: list[Taken]) -> tuple[tuple[str, int], ...]:
    return tuple((queue.name, entry.key) for queue, entry in taken)
