"""Pages that are depaged into a journal, and are broken: each message goes there in the transaction of its page.

A message is put by paging it, and acknowledged by the removal of its record from the journal.  Pages are depaged by
who uses them, or by threads of the manager.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from pathlib import Path

from binlog.compose import open_paging
from binlog.paging.page_transaction import PageTransaction
from stress.crash.paging.actor import Actor, Kind, Scenario, Step, Who
from stress.crash.paging.queues import JOURNAL, PAGES
from stress.crash.paging.refusals import Refusals, Used
from stress.paging.ledger import Identity, What
from stress.paging.messages import identity_of, short_message_of

_ADDRESS = "depaged"
# Paging's own records are of other types.
_DELIVERED = 200


class _NotNowError(Exception):
    pass


class _Journalled:
    """Paging whose messages are depaged into its journal.  delivered: by the records there, in their order."""

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
            self.store.start_paging()  # page mode has ended meanwhile

    def depage(self, *, failing: bool = False) -> list[Identity]:
        """Depage a page; what was delivered, nothing where page mode has ended, or it fails in the middle."""
        taken: dict[int, Identity] = {}

        def deliver(_: str, messages: list[bytes], store_tx_id: int) -> None:
            taken.update(self.record(messages, store_tx_id))
            if failing:
                raise _NotNowError

        with suppress(_NotNowError):
            if self.manager.depage(_ADDRESS, deliver):
                self.delivered.update(taken)
                return [*taken.values()]
        return []

    def record(self, messages: list[bytes], store_tx_id: int) -> dict[int, Identity]:
        """Have them be records of the journal, in a transaction of it."""
        taken = {}
        for message in messages:
            record_id = self.journal.new_id()
            self.journal.append_add_tx(store_tx_id, record_id, _DELIVERED, message)
            taken[record_id] = identity_of(message)
        return taken

    def depage_all(self) -> None:
        """Until page mode ends."""
        while self.store.is_paging:
            self.depage()

    def close(self) -> None:
        """Close both."""
        self._closing.close()


class Depager(Actor):
    """It pages, depages, and acknowledges what was delivered."""

    def __init__(self, path: Path, who: Who) -> None:
        super().__init__(who)
        self._refusals = Refusals(who.wrong)
        self._have = _Journalled(path)

    def put(self) -> None:
        """Page one message."""
        identity = self._next()
        self._mark(What.PUT_TRIED, identity)
        with self._refusing(What.PUT_REFUSED, identity), self._refusals.using(Used.PAGES):
            self._have.page(identity)
        self._mark(What.PUT_DONE, identity)

    def transact(self) -> None:
        """Page some together, and acknowledge one with them; or roll it back."""
        have, using = self._have, self._refusals.using
        self._tx += 1
        with using(Used.PAGES):
            have.store.start_paging()
        with using(Used.JOURNAL):
            begun = have.manager.begin()
        with self._refusing(What.TX_DROPPED), begun as transaction:
            for _ in range(self._chance.randrange(1, 4)):
                identity = self._next()
                self._mark(What.TX_PUT, identity)
                with using(Used.PAGES):
                    self._page_with(transaction, identity)
            if self._chance.random() < 0.2:
                transaction.rollback()
                return
            acked = self._chance.choice([0, *have.delivered])
            if acked:
                self._mark(What.TX_ACK, have.delivered[acked])
                with using(Used.JOURNAL):
                    have.journal.append_delete_tx(transaction.store_tx_id, acked)
            self._mark(What.TX_TRIED)
            with using(Used.PAGES, Used.JOURNAL):
                transaction.commit()
        have.delivered.pop(acked, None)
        self._mark(What.TX_DONE)

    def _page_with(self, transaction: PageTransaction, identity: Identity) -> None:
        assert self._have.store.page(short_message_of(identity), transaction)

    def depage(self) -> None:
        """Depage a page, or fail to."""
        self._depage(failing=self._chance.random() < 0.15)

    def end(self) -> None:
        """Depage all, which ends page mode."""
        while self._have.store.is_paging:
            self._depage()

    def _depage(self, *, failing: bool = False) -> None:
        with self._refusals.told(Used.PAGES, Used.JOURNAL):
            delivered = self._have.depage(failing=failing)
        self._refusals.accepted(Used.PAGES, *[Used.JOURNAL][: len(delivered)])
        for identity in delivered:
            self._mark(What.MESSAGE_SYNCED, identity)

    def ack(self) -> None:
        """Acknowledge one of those that were delivered, any of them."""
        if not self._have.delivered:
            return self.depage()
        record_id = self._chance.choice([*self._have.delivered])
        identity = self._have.delivered.pop(record_id)
        self._mark(What.ACK_TRIED, identity)
        with self._refusing(What.ACK_REFUSED, identity), self._refusals.using(Used.JOURNAL):
            self._have.journal.append_delete(record_id)
        self._mark(What.ACK_DONE, identity)
        self._mark(What.ACKS_SYNCED)
        return None

    def sync(self) -> None:
        """Have all that was paged be durable."""
        with self._refusals.using(Used.PAGES):
            self._have.store.sync()
        self._mark(What.PUTS_SYNCED)

    def _close(self) -> None:
        self._have.close()


class ThreadsDepager(Depager):
    """The manager depages by itself, in its threads, as soon as there is something in pages."""

    def __init__(self, path: Path, who: Who) -> None:
        super().__init__(path, who)
        self._taken: dict[int, Identity] = {}
        self._have.manager.depage_to(self._deliver)

    def _deliver(self, _: str, messages: list[bytes], store_tx_id: int) -> None:
        self._taken.update(self._have.record(messages, store_tx_id))

    def _page_with(self, transaction: PageTransaction, identity: Identity) -> None:
        # Where page mode has ended meanwhile it begins anew.
        while not self._have.store.page(short_message_of(identity), transaction):
            self._have.store.start_paging()

    def depage(self) -> None:
        """Wait until all has been."""
        with self._refusals.told(Used.PAGES, Used.JOURNAL):
            self._have.manager.drain()
        if not self._have.store.is_paging:
            taken, self._taken = self._taken, {}
            self._have.delivered.update(taken)
            for identity in taken.values():
                self._mark(What.MESSAGE_SYNCED, identity)


def _look(path: Path) -> list[Identity]:
    with closing(_Journalled(path)) as have:
        have.depage_all()
        return [*have.delivered.values()]


def _drain(path: Path) -> list[Identity]:
    with closing(_Journalled(path)) as have:
        have.depage_all()
        for record_id in have.delivered:
            have.journal.append_delete(record_id)
        return [*have.delivered.values()]


def _put(path: Path, identities: list[Identity]) -> None:
    with closing(_Journalled(path)) as have:
        have.page(identities[0])
        with have.manager.begin() as transaction:
            for each in identities[1:]:
                assert have.store.page(short_message_of(each), transaction)


DEPAGED = Kind(Depager, _look, _drain, _put)
_BY_THREADS = Kind(ThreadsDepager, _look, _drain, _put)

_PAGES: dict[Step, int] = {Depager.put: 6, Depager.depage: 2, Depager.ack: 2, Depager.sync: 1}
_TRANSACTIONS: dict[Step, int] = {Depager.put: 1, Depager.transact: 4, Depager.depage: 2, Depager.ack: 1}
_ENDS: dict[Step, int] = {Depager.put: 4, Depager.transact: 1, Depager.end: 2, Depager.ack: 1}
_THREADS: dict[Step, int] = {Depager.put: 5, Depager.transact: 3, ThreadsDepager.depage: 3, Depager.ack: 2}
_ALL = {**_PAGES, **_TRANSACTIONS, Depager.end: 1}

SCENARIOS = {
    "pages": Scenario(DEPAGED, _PAGES, 20),
    "transactions": Scenario(DEPAGED, _TRANSACTIONS, 12),
    "ends": Scenario(DEPAGED, _ENDS, 14),
    "all": Scenario(DEPAGED, _ALL, 16),
}
FAULTED = {**SCENARIOS, "threads": Scenario(_BY_THREADS, _THREADS, 14)}
AFTER = Scenario(DEPAGED, _ALL, 8)
"""What goes on with what a power cut left."""
