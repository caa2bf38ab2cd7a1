"""The system of a queue over pages (`binlog.open_queue`): small, with random puts, gets and acknowledgements."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from queue import Full
from typing import ClassVar

from binlog import Mode, open_queue
from binlog.journal import JournalOptions
from binlog.paging import PagingOptions
from binlog.queue import Message, Queue
from stress.crash.system import ProcessContext, Scenario, Step, Storm
from stress.crash.systems.messages.marks import Identity, MarkKind, identity_of, short_message_of
from stress.crash.systems.messages.system import MessageActor, MessagesSystem
from stress.crash.workers.victim_process import repeat_in_threads

# So small that a few messages fill a page, and a few transactions a file of the journal.
PAGES = PagingOptions(page_bytes=1024, commit_markers_above=2)
JOURNAL = JournalOptions(file_bytes=4096)
_MEMORY_BYTES = 1500
_CALLS_ABOUT = 100
_PROBABLY_FLUSHED = (Mode.FLUSH, Mode.FLUSH, Mode.FLUSH, Mode.SYNC)
# In a storm messages are paged and depaged all the time, and producers wait for consumers.
_STORM_PAGES = PagingOptions(page_bytes=4096, page_count_max=20)
_PRODUCERS, _CONSUMERS = (1, 4, 16), 2


def _open(path: Path, pages: PagingOptions = PAGES) -> Queue:
    return open_queue(path, mode=Mode.FLUSH, memory_bytes=_MEMORY_BYTES, options=pages, journal_options=JOURNAL)


class QueueActor(MessageActor):
    """Puts, gets and acknowledges; several threads may have an actor each."""

    def __init__(self, queue: Queue, process: ProcessContext, thread: int = 0) -> None:
        super().__init__(process, thread)
        self._queue = queue
        self._got: list[Message] = []

    def put(self) -> None:
        """Put one message."""
        identity = self._next()
        mode = self._mode()
        self._mark(MarkKind.PUT_TRIED, identity)
        with self.refusing(self._made(MarkKind.PUT_REFUSED, identity)):
            self._queue.put(short_message_of(identity), mode=mode)
        self._mark(MarkKind.PUT_DONE, identity)
        if mode is Mode.SYNC:
            self._mark(MarkKind.PUTS_SYNCED)

    def for_thread(self, thread: int) -> QueueActor:
        """Return an actor for another thread."""
        return QueueActor(self._queue, replace(self._process, chance=random.Random(f"{self._chance.random()}")), thread)

    def get(self) -> None:
        """Get one message, if there is one."""
        if not self._queue.empty():
            self._got.append(self._queue.get_nowait())
            self._mark(MarkKind.GOT, identity_of(self._got[-1].body))

    def ack(self) -> None:
        """Acknowledge a random message of those got."""
        if not self._got:
            return self.get()
        message = self._got.pop(self._chance.randrange(len(self._got)))
        identity = identity_of(message.body)
        mode = self._mode()
        self._mark(MarkKind.ACK_TRIED, identity)
        with self.refusing(self._made(MarkKind.ACK_REFUSED, identity)):
            self._queue.ack(message, mode=mode)
        self._mark(MarkKind.ACK_DONE, identity)
        if mode is Mode.SYNC:
            self._mark(MarkKind.ACKS_SYNCED)
        return None

    def drain(self) -> None:
        """Get and acknowledge all messages, so that pages are removed."""
        while self._got or not self._queue.empty():
            self.ack()

    def transact(self) -> None:
        """Put and acknowledge several messages in a transaction."""
        self._tx += 1
        acked = [self._got.pop() for _ in range(min(self._chance.randrange(3), len(self._got)))]
        with self.refusing(self._made(MarkKind.TX_DROPPED)), self._queue.transaction() as transaction:
            for message in acked:
                self._mark(MarkKind.TX_ACK, identity_of(message.body))
                transaction.ack(message)
            for _ in range(self._chance.randrange(1, 4)):
                identity = self._next()
                self._mark(MarkKind.TX_PUT, identity)
                transaction.put(short_message_of(identity))
            self._mark(MarkKind.TX_TRIED)
        self._mark(MarkKind.TX_DONE)

    def produce(self) -> None:
        """Put one message, or several in a transaction, or roll one back; wait if the queue is full."""
        draw = self._chance.random()
        if draw < 0.08:
            self._exchange()
        elif draw < 0.1:
            self._tx += 1
            with self._queue.transaction() as transaction:
                transaction.put(b"never")
                transaction.rollback()
        else:
            self.put()

    def consume(self) -> None:
        """Wait for a message and most often acknowledge it; a few are left for later."""
        self._got.append(self._queue.get())
        self._mark(MarkKind.GOT, identity_of(self._got[-1].body))
        draw = self._chance.random()
        if draw < 0.1:
            self._exchange()
        elif draw > 0.15 or len(self._got) > 5:
            self.ack()

    def _exchange(self) -> None:
        """Transact, though there may be no space for more pages."""
        got = [*self._got]
        try:
            self.transact()
        except Full:
            self._mark(MarkKind.TX_DROPPED)
            self._got = got

    def sync(self) -> None:
        """Sync everything."""
        self._queue.sync()
        self._mark(MarkKind.PUTS_SYNCED)
        self._mark(MarkKind.ACKS_SYNCED)

    def _close(self) -> None:
        self._queue.close()

    def _mode(self) -> Mode:
        return self._chance.choice(_PROBABLY_FLUSHED)


_PUTS: dict[Step, int] = {QueueActor.put: 5, QueueActor.get: 2, QueueActor.ack: 3, QueueActor.sync: 1}
_TRANSACTIONS: dict[Step, int] = {QueueActor.put: 2, QueueActor.get: 2, QueueActor.ack: 1, QueueActor.transact: 3}
_REMOVAL: dict[Step, int] = {QueueActor.put: 12, QueueActor.transact: 1, QueueActor.ack: 8, QueueActor.drain: 1}
_ALL = {**_PUTS, **_TRANSACTIONS, QueueActor.drain: 1}


def _use_until_killed(path: Path, process: ProcessContext, variant: str) -> None:
    actor = QueueActor(_open(path, _STORM_PAGES), process)
    producers = process.chance.choice(_PRODUCERS)
    others = [actor.for_thread(thread) for thread in range(1, producers + _CONSUMERS)]
    repeat_in_threads(
        actor.produce, *(each.produce for each in others[_CONSUMERS:]), *(each.consume for each in others[:_CONSUMERS])
    )


class QueueSystem(MessagesSystem):
    """See the module."""

    name = "paging"
    noun = "queue"
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        "puts": Scenario(_PUTS, 20),
        "transactions": Scenario(_TRANSACTIONS, 10),
        "removal": Scenario(_REMOVAL, 30),
        "all": Scenario(_ALL, 20),
    }
    storm = Storm(_use_until_killed, kills=8, marks=1500)

    def __init__(self) -> None:
        self.workloads = {name: self.repeated(each, 2) for name, each in self.scenarios.items() if name != "all"}
        self.workloads["killed"] = self.killed(self.scenarios["all"], Scenario(_ALL, 8), _CALLS_ABOUT)
        self.workloads["recovery"] = self.continued(Scenario(_ALL, 8))

    def open(self, path: Path, process: ProcessContext, variant: str) -> QueueActor:
        """Open the queue."""
        return QueueActor(_open(path), process)

    def read_all(self, path: Path) -> list[Identity]:
        """Return all messages, and leave them."""
        found = []
        with _open(path) as queue:
            while not queue.empty():
                found.append(identity_of(queue.get_nowait().body))
        return found

    def drain(self, path: Path) -> list[Identity]:
        """Return all messages, and acknowledge them."""
        found = []
        with _open(path) as queue:
            while not queue.empty():
                message = queue.get_nowait()
                found.append(identity_of(message.body))
                queue.ack(message)
        return found

    def put(self, path: Path, messages: list[Identity]) -> None:
        """Put messages."""
        with _open(path) as queue:
            queue.put(short_message_of(messages[0]))
            with queue.transaction() as transaction:
                for each in messages[1:]:
                    transaction.put(short_message_of(each))
