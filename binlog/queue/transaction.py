"""A transaction of a queue."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, Self

from binlog.errors import FullError, StateError
from binlog.format.values import plain_bytes


class GotMessage(Protocol):
    """A message that was got."""

    @property
    def message_id(self) -> int: ...


Commit = Callable[[Iterable[bytes], Iterable[tuple[int, int]]], None]


class QueueTransaction:
    """What is put and acknowledged together.  It is one thread's at a time.

    It is kept in memory, and nothing is written, until `commit`.  As a context manager it is committed behind the
    block, or after an exception rolled back.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._messages: list[bytes] = []
        self._acked: set[int] = set()
        self._is_ended = False

    def put(self, message: bytes) -> None:
        """Have a message be put with the commit.  Raises: StateError; TypeError."""
        self._check()
        self._messages.append(message if type(message) is bytes else plain_bytes(message))

    def ack(self, message: GotMessage) -> None:
        """Have a message be acknowledged with the commit.  Raises: StateError."""
        self._check()
        if message.message_id in self._acked:
            raise StateError("the message was acknowledged in this transaction before")
        self._acked.add(message.message_id)

    def commit(self) -> None:
        """Have all of it be done, durably; after a crash before that nothing is.

        What was put can be got then, its messages one behind the other, in the order of the commits.
        Blocks: for syncs, whatever the queue's mode is.
        Raises: StateError where a message was acknowledged by others, or the transaction ended; FullError for a full
        disk, queue.Full where there may be no more pages: nothing was done then, and it can be tried again;
        PoisonedError: it may have been done, which opening the queue anew tells; ClosedError.
        After an exception of a signal handler it may have been done, and cannot be tried again.
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
        """Have none of it be done.  Raises: StateError."""
        self._check()
        self._is_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not self._is_ended:
            self.commit() if kind is None else self.rollback()

    def _check(self) -> None:
        if self._is_ended:
            raise StateError("the transaction was ended")


def _consecutive(message_ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Places one behind the other: the first, and how many."""
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
