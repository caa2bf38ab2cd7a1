"""Records and transactions as a journal returns them."""

from __future__ import annotations

from typing import NamedTuple

from binlog.format.problem import Problem


class Record(NamedTuple):
    """A record as it was added, or one update of it.

    user_type: 0 to 255; its meaning is up to the user.
    """

    record_id: int
    user_type: int
    body: bytes
    is_update: bool = False


class Deleted(NamedTuple):
    """A delete in a transaction, with the body that the user gave."""

    record_id: int
    body: bytes = b""


class TransactionContent(NamedTuple):
    """The operations of a transaction, in the order of their appends.  extra: given with `prepare`."""

    tx_id: int
    extra: bytes
    records: list[Record]
    deletes: list[Deleted]


class Loaded(NamedTuple):
    """The result of a load.

    records: all live records, in the order of their appends, each update after its record.
    prepared: transactions that wait for `commit` or `rollback`.
    failed: transactions that were left open, or of which a part is damaged.  They have no effect, and are reported
    once.
    id_max: the largest id of a record or transaction; at least 0.
    problems: damage that was skipped.
    """

    records: list[Record]
    prepared: list[TransactionContent]
    failed: list[TransactionContent]
    id_max: int
    problems: list[Problem]
