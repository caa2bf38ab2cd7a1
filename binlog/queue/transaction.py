"""A transaction of a queue."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, Self

from binlog.errors import FullError, StateError
from binlog.format.values import plain_bytes


class GotMessage(Protocol):
    """A message that a consumer has got."""

    @property
    def message_id(self) -> int: ...


Commit = Callable[[Iterable[bytes], Iterable[tuple[int, int]]], None]


class QueueTransaction:
    """A group of puts and acknowledgements that are committed together.  It belongs to one thread at a time.

    It is kept in memory until `commit`, and nothing is written before.  As a context manager it commits after the
    block, or rolls back if the block raises.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._messages: list[bytes] = []
        self._acked: set[int] = set()
        self._is_ended = False

    def put(self, message: bytes) -> None:
        """Put a message with the commit.  Raises: StateError; TypeError."""
        self._check()
        self._messages.append(message if type(message) is bytes else plain_bytes(message))

    def ack(self, message: GotMessage) -> None:
        """Acknowledge a message with the commit.  Raises: StateError."""
        self._check()
        if message.message_id in self._acked:
            raise StateError("this transaction has already acknowledged the message")
        self._acked.add(message.message_id)

    def commit(self) -> None:
        """Commit durably; after a crash before that, nothing of the transaction remains.

        After the commit consumers can get its messages, one after the other, in the order of the commits.
        Blocks: for syncs, in any mode of the queue.
        Raises: StateError if another caller has acknowledged one of the messages, or if the transaction has ended;
        FullError for a full disk and queue.Full if all pages are full, after which nothing was done and it can be
        retried; PoisonedError, after which it may have been committed: open the queue again to find out; ClosedError.
        After an exception of a signal handler it may have been committed, and cannot be retried.
        """
        self._check()
        self._is_ended = True
        if self._messages or self._acked:
            try:
                self._commit(self._messages, _consecutive(sorted(self._acked)))
            except (FullError, queue.Full):
                self._is_ended = False
                raise

    def rollback(self) -> None:
        """Discard the transaction.  Raises: StateError."""
        self._check()
        self._is_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not self._is_ended:
            self.commit() if kind is None else self.rollback()

    def _check(self) -> None:
        if self._is_ended:
            raise StateError("the transaction has ended")


def _consecutive(message_ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Group ids into runs of consecutive ones: the first id and the count of each."""
    first = count = 0
    for message_id in message_ids:
        if count and message_id == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = message_id, 1
    if count:
        yield first, count
