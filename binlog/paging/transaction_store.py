"""What paging asks of the transactional store beside it: `binlog.journal` fits it, and so would a database.

Records of a journal whose types have the numbers of JBoss Messaging of 2008, when they meant something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from binlog.errors import (
    AccessError,
    BinlogError,
    ClosedError,
    CorruptError,
    FullError,
    NotFoundError,
    StateError,
    VersionError,
)
from binlog.format.paging.store_records import StoreRecord, parse_page_transaction

# A call of a store that raises one of these did nothing.
NOTHING_DONE = (FullError, AccessError, StateError, NotFoundError, ClosedError)


class StoredRecord(Protocol):
    """A record that the store had when it was opened, or an update of one."""

    @property
    def record_id(self) -> int: ...
    @property
    def user_type(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class StoredTransaction(Protocol):
    """A transaction that was prepared, and waits."""

    @property
    def tx_id(self) -> int: ...
    @property
    def extra(self) -> bytes: ...
    @property
    def records(self) -> Sequence[StoredRecord]: ...


class StoreContents(Protocol):
    """What the store had when it was opened.  records: each update of one comes behind it."""

    @property
    def records(self) -> Sequence[StoredRecord]: ...
    @property
    def prepared(self) -> Sequence[StoredTransaction]: ...


class TransactionStore(Protocol):
    """Records by their ids, in transactions of which all is there or nothing.

    Where a call raises FullError, AccessError, StateError, NotFoundError or ClosedError it did nothing; after another
    error it is not known what is there, until the store is opened anew.
    `commit`, `prepare` and `append_delete` return once what they did is durable; ids are never given twice.
    """

    def new_id(self) -> int: ...
    def append_delete(self, record_id: int) -> None: ...
    def append_add_tx(self, tx_id: int, record_id: int, user_type: int, body: bytes) -> None: ...
    def append_update_tx(self, tx_id: int, record_id: int, user_type: int, body: bytes) -> None: ...
    def append_delete_tx(self, tx_id: int, record_id: int) -> None: ...
    def prepare(self, tx_id: int, extra: bytes) -> None: ...
    def commit(self, tx_id: int) -> None: ...
    def rollback(self, tx_id: int) -> None: ...


def roll_back_if_possible(store: TransactionStore, tx_id: int) -> None:
    """Roll back what nobody will commit.  What cannot be rolled back the next load rolls back."""
    with suppress(BinlogError):
        store.rollback(tx_id)


# From September 2008 to January 2009 a page transaction was 34, and 35 the last page that was depaged.  After that 34
# is an update of a message, which says how often it was delivered.
_PAGE_TRANSACTION_OF_2008 = 34


def refuse_2008_records(records: Iterable[StoredRecord]) -> None:
    """Refuse records that were numbered in 2008: their transactions would be taken for such as were never committed.

    records: each update of one comes behind it.
    Raises: VersionError.
    """
    added: set[int] = set()
    for record in records:
        is_added = record.record_id not in added
        added.add(record.record_id)
        is_transaction = _is_transaction(record)
        if is_added and (
            (record.user_type == _PAGE_TRANSACTION_OF_2008 and is_transaction)
            or (record.user_type == StoreRecord.PAGE_TRANSACTION and not is_transaction)
        ):
            text = f"record {record.record_id}, of type {record.user_type}, is one of paging as it was numbered in 2008"
            raise VersionError(f"{text}; nothing was changed", found=2008, known=(2009,))


def _is_transaction(record: StoredRecord) -> bool:
    try:
        parse_page_transaction(record.body, record.record_id)
    except CorruptError:
        return False
    return True
