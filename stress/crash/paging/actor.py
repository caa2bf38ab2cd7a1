"""One who has a queue to itself: each call is marked before it is made, and what it promised after."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from binlog import Mode, open_queue
from binlog.journal import JournalOptions
from binlog.paging import Message, PagingOptions, Queue
from stress.paging.ledger import Identity, Mark, What
from stress.paging.messages import identity_of, short_message_of

# So small that a few messages fill a page, and a few transactions a file of the journal.
_PAGES = PagingOptions(page_bytes=1024)
_JOURNAL = JournalOptions(file_bytes=4096)
_MEMORY_BYTES = 1500
_NONE = Identity(0, 0, 0)
_PROBABLY_FLUSHED = (Mode.FLUSH, Mode.FLUSH, Mode.FLUSH, Mode.SYNC)


class Witness(Protocol):
    """Where marks go."""

    def mark(self, mark: Mark) -> None:
        """Note a mark, now."""


def open_small(path: Path) -> Queue:
    """The queue, as all have it."""
    return open_queue(path, mode=Mode.FLUSH, memory_bytes=_MEMORY_BYTES, options=_PAGES, journal_options=_JOURNAL)


class Actor:
    """It puts and gets, as chance has it.  life: which process it is, by which its messages are told from others'."""

    def __init__(self, queue: Queue, witness: Witness, life: int, chance: random.Random) -> None:
        self._queue = queue
        self._witness = witness
        self._life = life
        self._chance = chance
        self._got: list[Message] = []
        self._number = self._tx = 0

    def put(self) -> None:
        """Put one message."""
        identity = self._next()
        mode = self._mode()
        self._mark(What.PUT_TRIED, identity)
        self._queue.put(short_message_of(identity), mode=mode)
        self._mark(What.PUT_DONE, identity)
        if mode is Mode.SYNC:
            self._mark(What.PUTS_SYNCED)

    def get(self) -> None:
        """Get one message, if there is one."""
        if not self._queue.empty():
            self._got.append(self._queue.get_nowait())
            self._mark(What.GOT, identity_of(self._got[-1].body))

    def ack(self) -> None:
        """Acknowledge one of those that were got, any of them."""
        if not self._got:
            return self.get()
        message = self._got.pop(self._chance.randrange(len(self._got)))
        identity = identity_of(message.body)
        mode = self._mode()
        self._mark(What.ACK_TRIED, identity)
        self._queue.ack(message, mode=mode)
        self._mark(What.ACK_DONE, identity)
        if mode is Mode.SYNC:
            self._mark(What.ACKS_SYNCED)
        return None

    def drain(self) -> None:
        """Get all there is, and acknowledge it, so that pages go."""
        while self._got or not self._queue.empty():
            self.ack()

    def transact(self) -> None:
        """Put and acknowledge some together."""
        self._tx += 1
        with self._queue.transaction() as transaction:
            for _ in range(self._chance.randrange(3)):
                if self._got:
                    message = self._got.pop()
                    self._mark(What.TX_ACK, identity_of(message.body))
                    transaction.ack(message)
            for _ in range(self._chance.randrange(1, 4)):
                identity = self._next()
                self._mark(What.TX_PUT, identity)
                transaction.put(short_message_of(identity))
            self._mark(What.TX_TRIED)
        self._mark(What.TX_DONE)

    def sync(self) -> None:
        """Have all be durable."""
        self._queue.sync()
        self.closed()

    def closed(self) -> None:
        """The queue was closed, which promises all."""
        self._mark(What.PUTS_SYNCED)
        self._mark(What.ACKS_SYNCED)

    def _next(self) -> Identity:
        self._number += 1
        return Identity(self._life, 0, self._number)

    def _mode(self) -> Mode:
        return self._chance.choice(_PROBABLY_FLUSHED)

    def _mark(self, what: What, message: Identity = _NONE) -> None:
        in_transaction = what in (What.TX_ACK, What.TX_PUT, What.TX_TRIED, What.TX_DONE)
        self._witness.mark(Mark(what, self._life, 0, self._tx if in_transaction else 0, message))


Step = Callable[[Actor], None]
PUTS: dict[Step, int] = {Actor.put: 5, Actor.get: 2, Actor.ack: 3, Actor.sync: 1}
TRANSACTIONS: dict[Step, int] = {Actor.put: 2, Actor.get: 2, Actor.ack: 1, Actor.transact: 3}
REMOVAL: dict[Step, int] = {Actor.put: 12, Actor.transact: 1, Actor.ack: 8, Actor.drain: 1}
ALL = {**PUTS, **TRANSACTIONS, Actor.drain: 1}


@contextmanager
def _opened(path: Path, witness: Witness, life: int, chance: random.Random) -> Iterator[Actor]:
    with open_small(path) as queue:
        actor = Actor(queue, witness, life, chance)
        yield actor
    actor.closed()


def live(path: Path, witness: Witness, life: int, seed: str, steps: dict[Step, int], count: int) -> None:
    """Open the queue, take so many steps, and close it."""
    chance = random.Random(f"{seed}/{life}")
    with _opened(path, witness, life, chance) as actor:
        for step in chance.choices([*steps], [*steps.values()], k=count):
            step(actor)
