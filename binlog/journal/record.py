"""What a journal gives: records, transactions, and what loading found."""

from __future__ import annotations

from typing import NamedTuple

from binlog.format.problem import Problem


class Record(NamedTuple):
    """A record as it was added, or one update of it.

    user_type: 0 to 255, what the user says of the body.
    """

    record_id: int
    user_type: int
    body: bytes
    is_update: bool = False


class Deleted(NamedTuple):
    """That a transaction deletes a record, with what the user says of it."""

    record_id: int
    body: bytes = b""


class TransactionContent(NamedTuple):
    """What a transaction does, in the order in which it was appended; extra: what was given with `prepare`."""

    tx_id: int
    extra: bytes
    records: list[Record]
    deletes: list[Deleted]


class Loaded(NamedTuple):
    """What a journal holds.

    records: those that are there, in the order in which they came to be, each update behind what it updates.
    prepared: transactions that wait for `commit` or `rollback`.  failed: those that nobody ended, or of which a part is
    damaged; none of what they did is there, and they are told this once.
    id_max: the largest id of a record or a transaction that was met, 0 at least.
    problems: what is damaged, and was left out.
    """

    records: list[Record]
    prepared: list[TransactionContent]
    failed: list[TransactionContent]
    id_max: int
    problems: list[Problem]
