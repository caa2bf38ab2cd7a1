"""The interface of the transactional store that paging needs: `binlog.journal` has it, and a database could.

Also refuses a journal whose record types were numbered as JBoss Messaging did in 2008.
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

# A store call that raises one of these has done nothing.
NOTHING_DONE = (FullError, AccessError, StateError, NotFoundError, ClosedError)


class StoredRecord(Protocol):
    """A record that the store had at opening, or an update of one."""

    @property
    def record_id(self) -> int: ...
    @property
    def user_type(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class StoredTransaction(Protocol):
    """A prepared transaction of the store."""

    @property
    def tx_id(self) -> int: ...
    @property
    def extra(self) -> bytes: ...
    @property
    def records(self) -> Sequence[StoredRecord]: ...


class StoreContents(Protocol):
    """The contents of the store at opening.  records: updates follow the record that they change."""

    @property
    def records(self) -> Sequence[StoredRecord]: ...
    @property
    def prepared(self) -> Sequence[StoredTransaction]: ...


class TransactionStore(Protocol):
    """A store of records by id, with atomic transactions.

    If a call raises FullError, AccessError, StateError, NotFoundError or ClosedError, it has done nothing.  After any
    other exception its outcome is unknown until the store is opened again.  `commit`, `prepare` and `append_delete`
    return when their effect is durable.  An id is never returned twice.
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
    """Roll back a transaction of the store; if that fails, the next load rolls it back."""
    with suppress(BinlogError):
        store.rollback(tx_id)


# From September 2008 to January 2009 type 34 was a page transaction, and 35 the last page that was depaged.  Since then
# 34 is an update of a message with its delivery count.
_PAGE_TRANSACTION_OF_2008 = 34


def refuse_2008_records(records: Iterable[StoredRecord]) -> None:
    """Refuse records with the types of 2008, because their transactions would be taken for uncommitted ones.

    records: updates follow the record that they change.
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
            text = f"record {record.record_id} has type {record.user_type}, as JBoss Messaging numbered it in 2008"
            raise VersionError(f"{text}; nothing was changed", found=2008, known=(2009,))


def _is_transaction(record: StoredRecord) -> bool:
    try:
        parse_page_transaction(record.body, record.record_id)
    except CorruptError:
        return False
    return True
