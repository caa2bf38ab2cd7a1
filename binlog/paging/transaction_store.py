"""What paging asks of the transactional store beside it: `binlog.journal` fits it, and so would a database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from binlog.errors import AccessError, BinlogError, ClosedError, FullError, NotFoundError, StateError

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


class Stored(Protocol):
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


def give_up(store: TransactionStore, tx_id: int) -> None:
    """Roll back what nobody will commit.  What cannot be rolled back the next load rolls back."""
    with suppress(BinlogError):
        store.rollback(tx_id)
