"""The system of pages that are depaged into a journal: each message moves in its page's transaction.

A message is put by paging it, and acknowledged by deleting its record from the journal.  Pages are depaged by the
process's own calls (`PagingManager.depage`), or by threads of the manager.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from binlog.compose import open_paging
from binlog.errors import PoisonedError
from stress.crash.system import ProcessContext, Scenario, Step
from stress.crash.systems.messages.marks import Identity, MarkKind, identity_of, short_message_of
from stress.crash.systems.messages.queue import JOURNAL, PAGES
from stress.crash.systems.messages.system import MessageActor, MessagesSystem

_ADDRESS = "depaged"
# Paging's own records have other types.
_DELIVERED = 200
_CALLS_ABOUT = 100


class Component(enum.Enum):
    """The two files that a call may use."""

    PAGES = "pages"
    JOURNAL = "journal"


class PoisonTracker:
    """Checks that a poisoned component refuses calls, if several components fail independently.

    If a call uses both and reports a failed write or sync, it does not say which of them failed.  A component that
    serves a later call had not failed, so it was the other one; if none is left, the failure was forgotten.
    """

    def __init__(self, wrong: list[str]) -> None:
        """wrong: the list to which violations are added."""
        self._wrong = wrong
        self._suspected: list[set[Component]] = []

    @contextmanager
    def may_poison(self, *used: Component) -> Iterator[None]:
        """Run a call that may report that one of these has failed."""
        try:
            yield
        except PoisonedError:
            self._suspected.append(set(used))
            raise

    def accepted(self, *used: Component) -> None:
        """Note that a call was accepted that certainly used all of these."""
        for each in self._suspected:
            each.difference_update(used)
        if not all(self._suspected):
            self._suspected = [each for each in self._suspected if each]
            self._wrong.append(f"{' and '.join(each.value for each in used)} served after a failed write or sync")

    @contextmanager
    def using(self, *used: Component) -> Iterator[None]:
        """Run a call that uses all of these."""
        with self.may_poison(*used):
            yield
        self.accepted(*used)


class _DepageFailedError(Exception):
    pass


class _PagedJournal:
    """Paging whose messages are depaged into its journal.  delivered: the messages there, by record, in order."""

    def __init__(self, path: Path) -> None:
        with ExitStack() as opening:
            self.manager, self.journal, loaded = opening.enter_context(open_paging(path, PAGES, JOURNAL))
            self.store = self.manager.store(_ADDRESS)
            there = [record for record in loaded.records if record.user_type == _DELIVERED]
            there.sort(key=lambda record: record.record_id)
            self.delivered = {record.record_id: identity_of(record.body) for record in there}
            self._closing = opening.pop_all()

    def page(self, identity: Identity) -> None:
        """Put a message into a page."""
        self.store.start_paging()
        while not self.store.page(short_message_of(identity)):
            self.store.start_paging()  # page mode ended meanwhile

    def depage(self, *, failing: bool = False) -> list[Identity]:
        """Depage a page and return its messages; none if page mode has ended, or if it fails half-way."""
        taken: dict[int, Identity] = {}

        def deliver(_: str, messages: list[bytes], store_tx_id: int) -> None:
            taken.update(self.record(messages, store_tx_id))
            if failing:
                raise _DepageFailedError

        with suppress(_DepageFailedError):
            if self.manager.depage(_ADDRESS, deliver):
                self.delivered.update(taken)
                return [*taken.values()]
        return []

    def record(self, messages: list[bytes], store_tx_id: int) -> dict[int, Identity]:
        """Add the messages to the journal, in one of its transactions."""
        taken = {}
        for message in messages:
            record_id = self.journal.new_id()
            self.journal.append_add_tx(store_tx_id, record_id, _DELIVERED, message)
            taken[record_id] = identity_of(message)
        return taken

    def depage_all(self) -> None:
        """Depage until page mode ends."""
        while self.store.is_paging:
            self.depage()

    def close(self) -> None:
        """Close both."""
        self._closing.close()


class Depager(MessageActor):
    """Pages messages, depages them, and acknowledges the delivered ones."""

    def __init__(self, path: Path, process: ProcessContext) -> None:
        super().__init__(process)
        self._poison_tracker = PoisonTracker(process.wrong)
        self._have = _PagedJournal(path)
        self._taken: dict[int, Identity] = {}
        self._by_threads = False

    def put(self) -> None:
        """Page one message."""
        identity = self._next()
        self._mark(MarkKind.PUT_TRIED, identity)
        with self.refusing(self._made(MarkKind.PUT_REFUSED, identity)), self._poison_tracker.using(Component.PAGES):
            self._have.page(identity)
        self._mark(MarkKind.PUT_DONE, identity)

    def transact(self) -> None:
        """Page several messages in a transaction, acknowledging one in it, or roll it back."""
        have, using = self._have, self._poison_tracker.using
        self._tx += 1
        with using(Component.PAGES):
            have.store.start_paging()
        with using(Component.PAGES, Component.JOURNAL):
            begun = have.manager.begin()
        with self.refusing(self._made(MarkKind.TX_DROPPED)), begun as transaction:
            for _ in range(self._chance.randrange(1, 4)):
                identity = self._next()
                self._mark(MarkKind.TX_PUT, identity)
                with using(Component.PAGES):
                    while not have.store.page(short_message_of(identity), transaction):
                        have.store.start_paging()  # page mode ended meanwhile
            if self._chance.random() < 0.2:
                transaction.rollback()
                return
            acked = self._chance.choice([0, *have.delivered])
            if acked:
                self._mark(MarkKind.TX_ACK, have.delivered[acked])
                with using(Component.JOURNAL):
                    have.journal.append_delete_tx(transaction.store_tx_id, acked)
            self._mark(MarkKind.TX_TRIED)
            with using(Component.PAGES, Component.JOURNAL):
                transaction.commit()
        have.delivered.pop(acked, None)
        self._mark(MarkKind.TX_DONE)

    def depage(self) -> None:
        """Depage a page, or fail half-way."""
        self._depage(failing=self._chance.random() < 0.15)

    def end(self) -> None:
        """Depage everything, which ends page mode."""
        while self._have.store.is_paging:
            self._depage()

    def _depage(self, *, failing: bool = False) -> None:
        with self._poison_tracker.may_poison(Component.PAGES, Component.JOURNAL):
            delivered = self._have.depage(failing=failing)
        self._poison_tracker.accepted(Component.PAGES, *[Component.JOURNAL][: len(delivered)])
        for identity in delivered:
            self._mark(MarkKind.MESSAGE_SYNCED, identity)

    def ack(self) -> None:
        """Acknowledge a random delivered message."""
        if not self._have.delivered:
            return self.drain() if self._by_threads else self.depage()
        record_id = self._chance.choice([*self._have.delivered])
        identity = self._have.delivered.pop(record_id)
        self._mark(MarkKind.ACK_TRIED, identity)
        with self.refusing(self._made(MarkKind.ACK_REFUSED, identity)), self._poison_tracker.using(Component.JOURNAL):
            self._have.journal.append_delete(record_id)
        self._mark(MarkKind.ACK_DONE, identity)
        self._mark(MarkKind.ACKS_SYNCED)
        return None

    def sync(self) -> None:
        """Sync everything that was paged."""
        with self._poison_tracker.using(Component.PAGES):
            self._have.store.sync()
        self._mark(MarkKind.PUTS_SYNCED)

    def _close(self) -> None:
        self._have.close()

    def drain(self) -> None:
        """Let the manager's threads depage from now on, and wait until they have depaged everything."""
        if not self._by_threads:
            self._have.manager.depage_to(self._deliver)
            self._by_threads = True
        with self._poison_tracker.may_poison(Component.PAGES, Component.JOURNAL):
            self._have.manager.drain()
        if not self._have.store.is_paging:
            taken, self._taken = self._taken, {}
            self._have.delivered.update(taken)
            for identity in taken.values():
                self._mark(MarkKind.MESSAGE_SYNCED, identity)

    def _deliver(self, _: str, messages: list[bytes], store_tx_id: int) -> None:
        self._taken.update(self._have.record(messages, store_tx_id))


_PAGES: dict[Step, int] = {Depager.put: 6, Depager.depage: 2, Depager.ack: 2, Depager.sync: 1}
_TRANSACTIONS: dict[Step, int] = {Depager.put: 1, Depager.transact: 4, Depager.depage: 2, Depager.ack: 1}
_ENDS: dict[Step, int] = {Depager.put: 4, Depager.transact: 1, Depager.end: 2, Depager.ack: 1}
_THREADS: dict[Step, int] = {Depager.put: 5, Depager.transact: 3, Depager.drain: 3, Depager.ack: 2}
_ALL = {**_PAGES, **_TRANSACTIONS, Depager.end: 1}


class DepageSystem(MessagesSystem):
    """See the module."""

    name = "depage"
    noun = "depaged"
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        "pages": Scenario(_PAGES, 20),
        "transactions": Scenario(_TRANSACTIONS, 12),
        "ends": Scenario(_ENDS, 14),
        "all": Scenario(_ALL, 16),
        "threads": Scenario(_THREADS, 14),
    }
    refuses_all = False  # its actors check that
    fault_stride = 1
    places_about = 6  # so that a short run has many faults, also in calls that are rare

    def __init__(self) -> None:
        names = ("pages", "transactions", "ends")
        self.workloads = {name: self.repeated(self.scenarios[name], 2) for name in names}
        self.workloads["killed"] = self.killed(self.scenarios["all"], Scenario(_ALL, 8), _CALLS_ABOUT)
        self.workloads["recovery"] = self.continued(Scenario(_ALL, 8))

    def open(self, path: Path, process: ProcessContext, variant: str) -> Depager:
        """Open paging and its journal."""
        return Depager(path, process)

    def read_all(self, path: Path) -> list[Identity]:
        """Return all messages and leave them: after depaging they are in the journal."""
        with closing(_PagedJournal(path)) as have:
            have.depage_all()
            return [*have.delivered.values()]

    def drain(self, path: Path) -> list[Identity]:
        """Return all messages, and delete them from the journal."""
        with closing(_PagedJournal(path)) as have:
            have.depage_all()
            for record_id in have.delivered:
                have.journal.append_delete(record_id)
            return [*have.delivered.values()]

    def put(self, path: Path, messages: list[Identity]) -> None:
        """Page messages."""
        with closing(_PagedJournal(path)) as have:
            have.page(messages[0])
            with have.manager.begin() as transaction:
                for each in messages[1:]:
                    assert have.store.page(short_message_of(each), transaction)
