"""A queue over pages (`binlog.open_queue`): small, and used by one who puts and gets as chance has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from binlog import Mode, open_queue
from binlog.journal import JournalOptions
from binlog.paging import Message, PagingOptions, Queue
from stress.crash.system import Scenario, Step, Who
from stress.crash.systems.messages import MessageActor, MessagesSystem
from stress.paging.ledger import Identity, What
from stress.paging.messages import identity_of, short_message_of

# So small that a few messages fill a page, and a few transactions a file of the journal.
PAGES = PagingOptions(page_bytes=1024, settle_above=2)
JOURNAL = JournalOptions(file_bytes=4096)
_MEMORY_BYTES = 1500
_PROBABLY_FLUSHED = (Mode.FLUSH, Mode.FLUSH, Mode.FLUSH, Mode.SYNC)


def _open(path: Path) -> Queue:
    return open_queue(path, mode=Mode.FLUSH, memory_bytes=_MEMORY_BYTES, options=PAGES, journal_options=JOURNAL)


class QueueActor(MessageActor):
    """It puts, gets and acknowledges."""

    def __init__(self, path: Path, who: Who) -> None:
        super().__init__(who)
        self._queue = _open(path)
        self._got: list[Message] = []

    def put(self) -> None:
        """Put one message."""
        identity = self._next()
        mode = self._mode()
        self._mark(What.PUT_TRIED, identity)
        with self.refusing(self._made(What.PUT_REFUSED, identity)):
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
        with self.refusing(self._made(What.ACK_REFUSED, identity)):
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
        with self.refusing(self._made(What.TX_DROPPED)), self._queue.transaction() as transaction:
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
        self._mark(What.PUTS_SYNCED)
        self._mark(What.ACKS_SYNCED)

    def _close(self) -> None:
        self._queue.close()

    def _mode(self) -> Mode:
        return self._chance.choice(_PROBABLY_FLUSHED)


_PUTS: dict[Step, int] = {QueueActor.put: 5, QueueActor.get: 2, QueueActor.ack: 3, QueueActor.sync: 1}
_TRANSACTIONS: dict[Step, int] = {QueueActor.put: 2, QueueActor.get: 2, QueueActor.ack: 1, QueueActor.transact: 3}
_REMOVAL: dict[Step, int] = {QueueActor.put: 12, QueueActor.transact: 1, QueueActor.ack: 8, QueueActor.drain: 1}
_ALL = {**_PUTS, **_TRANSACTIONS, QueueActor.drain: 1}


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

    def __init__(self) -> None:
        self.workloads = {name: self.lives(each, 2) for name, each in self.scenarios.items() if name != "all"}
        self.workloads["recovery"] = self.going_on(Scenario(_ALL, 8))

    def open(self, path: Path, who: Who, kept: str) -> QueueActor:
        """Open it."""
        return QueueActor(path, who)

    def look(self, path: Path) -> list[Identity]:
        """All messages, which stay."""
        found = []
        with _open(path) as queue:
            while not queue.empty():
                found.append(identity_of(queue.get_nowait().body))
        return found

    def drain(self, path: Path) -> list[Identity]:
        """All messages, which are acknowledged."""
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
