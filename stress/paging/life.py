"""One process that has the queue: threads that put and threads that get, until it is killed."""

from __future__ import annotations

import os
import random
import threading
import traceback
from pathlib import Path
from queue import Full

from binlog import Mode, open_queue
from binlog.errors import FullError
from binlog.paging import Message, PagingOptions, Queue
from stress.crash.marks import Ledger
from stress.paging.ledger import Identity, Mark, What
from stress.paging.messages import identity_of, message_of

# So little that messages go to pages and come back all the time, and producers wait for consumers.
OPTIONS = PagingOptions(page_bytes=16 << 10, page_count_max=100)
MEMORY_BYTES = 32 << 10
_NONE = Identity(0, 0, 0)
_SYNCED = 0.02
_IN_TRANSACTION = 0.1
_DROPPED = 0.2
_LEFT = 0.05


def open_small(path: Path) -> Queue:
    """The queue, as all of the processes have it."""
    return open_queue(path, mode=Mode.FLUSH, memory_bytes=MEMORY_BYTES, options=OPTIONS)


def live(path: Path, ledger: Ledger, life: int, producers: int, consumers: int) -> None:
    """Put and get, for ever."""
    threading.excepthook = _end
    queue = open_small(path)
    ledger.mark(Mark(What.OPENED, life, 0, 0, _NONE))
    threads: list[_Actor] = [_Producer(queue, ledger, life, number) for number in range(producers)]
    threads += [_Consumer(queue, ledger, life, producers + number) for number in range(consumers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raise AssertionError("a thread has ended")


def _end(what: threading.ExceptHookArgs) -> None:
    """A thread failed: then the process has ended by itself, which is told."""
    traceback.print_exception(what.exc_type, what.exc_value, what.exc_traceback)
    os._exit(1)


class _Actor(threading.Thread):
    def __init__(self, queue: Queue, ledger: Ledger, life: int, number: int) -> None:
        super().__init__(daemon=True)
        self._queue = queue
        self._ledger = ledger
        self._life = life
        self._me = number
        self._tx = 0
        self._count = 0
        self._chance = random.Random(f"{life}/{number}")

    def _mark(self, what: What, message: Identity = _NONE, tx: int = 0) -> None:
        self._ledger.mark(Mark(what, self._life, self._me, tx, message))

    def _next(self) -> Identity:
        self._count += 1
        return Identity(self._life, self._me, self._count)

    def _mode(self) -> Mode:
        return Mode.SYNC if self._chance.random() < _SYNCED else Mode.FLUSH

    def _transact(self, acked: list[Message]) -> bool:
        """Put some messages, and acknowledge others, together, or change one's mind; False where there is no room."""
        self._tx += 1
        transaction = self._queue.transaction()
        for message in acked:
            self._mark(What.TX_ACK, identity_of(message.body), self._tx)
            transaction.ack(message)
        for _ in range(self._chance.randrange(1, 5)):
            identity = self._next()
            self._mark(What.TX_PUT, identity, self._tx)
            transaction.put(message_of(identity))
        if not acked and self._chance.random() < _DROPPED:
            self._mark(What.TX_DROPPED, tx=self._tx)
            transaction.rollback()
            return True
        self._mark(What.TX_TRIED, tx=self._tx)
        try:
            transaction.commit()
        except (FullError, Full):
            self._mark(What.TX_DROPPED, tx=self._tx)
            return False
        self._mark(What.TX_DONE, tx=self._tx)
        return True


class _Producer(_Actor):
    def run(self) -> None:
        while True:
            if self._chance.random() < _IN_TRANSACTION:
                self._transact([])
                continue
            identity = self._next()
            self._mark(What.PUT_TRIED, identity)
            self._queue.put(message_of(identity), mode=self._mode())
            self._mark(What.PUT_DONE, identity)


class _Consumer(_Actor):
    def run(self) -> None:
        left: list[Message] = []
        while True:
            message = self._queue.get()
            identity = identity_of(message.body)
            self._mark(What.GOT, identity)
            draw = self._chance.random()
            if draw < _LEFT and len(left) < 5:
                left.append(message)  # for another time, if there is any
            elif draw < _LEFT + _IN_TRANSACTION and self._transact([message, *left]):
                left = []
            else:
                self._mark(What.ACK_TRIED, identity)
                self._queue.ack(message, mode=self._mode())
                self._mark(What.ACK_DONE, identity)
