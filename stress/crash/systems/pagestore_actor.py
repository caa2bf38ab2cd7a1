"""One who has a page store to itself: a transaction is marked before its commit, and what was promised after.

In place of a thread a mark says which queue a message was got from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from binlog import Mode
from binlog.errors import AccessError, BinlogError, FullError
from binlog.pagestore import PageStore, PageStoreOptions, Transaction, Xid, backup
from stress.crash.system import Actor, Scenario, Step, Who
from stress.crash.systems.message_marks import Identity, Mark, What, identity_of, message_of

QUEUES = ("a", "b")
# So small that pages are written all the time, and a few transactions fill the log.
_OPTIONS = PageStoreOptions(cache_pages=8, log_bytes=8192)
_NONE = Identity(0, 0, 0)
# What a transaction that is tried does, where it is not a commit: the second number of its mark.
PREPARE, COMMIT, ROLL_BACK = 1, 2, 3
_MODES = (Mode.FLUSH, Mode.FLUSH, Mode.SYNC)
_BACKUP = "backup"
# So few that others come between: a store has hardly more here.
backup.PAGES_A_STEP = 3


def open_small(path: Path) -> PageStore:
    """The store, as all have it, with its queues."""
    with ExitStack() as failing:
        store = failing.enter_context(PageStore(path, _OPTIONS))
        for queue in QUEUES:
            store.create_queue(queue)
        failing.pop_all()
    return store


def backup_name(number: int) -> str:
    """The folder of a backup, in that of its store."""
    return f"{_BACKUP}-{number}"


def backups_in(path: Path) -> dict[int, Path]:
    """Folders of backups, finished or not, by their numbers."""
    return {int(each.name.partition("-")[2]): each for each in path.glob(f"{_BACKUP}-*")}


def queues_of(identity: Identity) -> tuple[str, ...]:
    """The queues that a message is put into; where there are more than one they share it."""
    return QUEUES if identity.number % 5 == 0 else (QUEUES[identity.number % len(QUEUES)],)


def put_into(transaction: Transaction, identity: Identity, body: bytes) -> None:
    """Put a message into its queues."""
    queues, priority = queues_of(identity), priority_of(identity)
    if len(queues) > 1:
        transaction.put_shared(queues, body, priority=priority)
    else:
        transaction.put(queues[0], body, priority=priority)


def priority_of(identity: Identity) -> int:
    """The priority that it has there."""
    return 4 + (identity.number % 3 == 0)


def xid_of(number: int) -> Xid:
    """The name of a transaction that is prepared."""
    return Xid(7, number.to_bytes(8, "big"))


def number_of(xid: Xid) -> int:
    """Which transaction has the name."""
    return int.from_bytes(xid.global_id, "big")


def all_in(store: PageStore) -> dict[str, list[Identity]]:
    """What is in the queues, in the order in which it is got; it is there still."""
    transaction = store.transaction()
    found: dict[str, list[Identity]] = {queue: [] for queue in QUEUES}
    for queue in QUEUES:
        while (message := transaction.get(queue)) is not None:
            found[queue].append(identity_of(message.body))
    transaction.rollback()
    return found


class StoreActor(Actor):
    """It puts and gets, as chance has it."""

    def __init__(self, store: PageStore, who: Who) -> None:
        super().__init__(who)
        self._store = store
        self._number = self._tx = self._backups = 0
        found, prepared = all_in(store), store.prepared
        for queue, identities in found.items():
            for identity in identities:
                self._mark(What.GOT, identity, queue)
        for each in prepared:
            self._mark(What.GOT, Identity(0, 0, number_of(each.xid)))
        self._mark(What.OPENED)

    def go_on(self) -> None:
        """Put some messages, durably."""
        self._transact(puts=1, gets=0, mode=Mode.SYNC)

    def put(self) -> None:
        """Put some messages."""
        self._transact(puts=self._chance.choice((1, 1, 1, 3)), gets=0)

    def get(self) -> None:
        """Get some, which are removed with that."""
        self._transact(puts=0, gets=self._chance.choice((1, 1, 2, 4)))

    def move(self) -> None:
        """Get some, and put others."""
        self._transact(puts=self._chance.randrange(1, 3), gets=self._chance.randrange(1, 4))

    def many(self) -> None:
        """Put so many that the index of a queue has another page."""
        self._transact(puts=70, gets=0)

    def prepare(self) -> None:
        """As `move`, but for the end, which is another step's."""
        self._tx += 1
        transaction = self._store.transaction()
        with self._dropping(transaction):
            self._exchange(transaction, puts=self._chance.randrange(3), gets=self._chance.randrange(3))
            number = self._who.life << 8 | self._tx
            self._mark(What.TX_TRIED, Identity(0, PREPARE, number))
            transaction.prepare(xid_of(number))
        self._done(synced=True)

    def end_prepared(self) -> None:
        """Commit or roll back one that is prepared."""
        prepared = self._store.prepared
        if not prepared:
            return self.prepare()
        self._tx += 1
        xid = self._chance.choice(prepared).xid
        commits = self._chance.random() < 0.6
        with self._dropping():
            self._mark(What.TX_TRIED, Identity(0, COMMIT if commits else ROLL_BACK, number_of(xid)))
            (self._store.commit_prepared if commits else self._store.rollback_prepared)(xid)
        self._done(synced=True)
        return None

    def drain(self) -> None:
        """Get all there is."""
        self._transact(puts=0, gets=1000)

    def roll_back(self) -> None:
        """Get and put some, and leave all as it was."""
        transaction = self._store.transaction()
        transaction.get(self._chance.choice(QUEUES))
        transaction.put(QUEUES[0], b"never")
        transaction.rollback()

    def checkpoint(self) -> None:
        """Have all be in the pages."""
        self._store.checkpoint()
        self.closed()

    def shrink(self) -> None:
        """The same, and have pages at the end go that are free."""
        self._store.shrink()
        self.closed()

    def backup(self) -> None:
        """Make a backup, and meanwhile go on."""
        self._backups += 1
        number = self._who.life << 8 | self._backups
        self._mark(What.BACKUP_TRIED, Identity(0, 0, number))
        path = os.path.join(self._store.path, backup_name(number))
        with ThreadPoolExecutor(1) as beside:
            done = beside.submit(self._store.backup, path)
            for _ in range(self._chance.randrange(3)):
                self.move()
        done.result()
        self._mark(What.BACKUP_DONE, Identity(0, 0, number))

    def close(self) -> None:
        """Close the store, which promises all."""
        self._store.close()
        self.closed()

    def closed(self) -> None:
        """All is promised."""
        self._mark(What.PUTS_SYNCED)

    def _transact(self, puts: int, gets: int, mode: Mode | None = None) -> None:
        self._tx += 1
        mode = mode or self._chance.choice(_MODES)
        transaction = self._store.transaction()
        with self._dropping(transaction):
            self._exchange(transaction, puts, gets)
            is_empty = not (transaction.puts or transaction.taken)
            self._mark(What.TX_TRIED)
            transaction.commit(mode=mode)
        # One that did nothing waits for nothing.
        self._done(synced=mode is Mode.SYNC and not is_empty)

    @contextmanager
    def _dropping(self, transaction: Transaction | None = None) -> Iterator[None]:
        """For what does all of a transaction, or if its error says so nothing of it."""
        try:
            with self.refusing(self._made(What.TX_DROPPED)):
                yield
        except (FullError, AccessError):
            if transaction is not None:
                with suppress(BinlogError):
                    transaction.rollback()
            raise

    def _exchange(self, transaction: Transaction, puts: int, gets: int) -> None:
        for queue in self._chance.sample(QUEUES, len(QUEUES)):
            self._get(transaction, queue, gets)
        for _ in range(puts):
            self._number += 1
            identity = Identity(self._who.life, 0, self._number)
            self._mark(What.TX_PUT, identity)
            put_into(transaction, identity, message_of(identity))

    def _done(self, *, synced: bool) -> None:
        self._mark(What.TX_DONE)
        if synced:
            self._mark(What.PUTS_SYNCED)

    def _get(self, transaction: Transaction, queue: str, count: int) -> None:
        while count and (message := transaction.get(queue)) is not None:
            self._mark(What.TX_ACK, identity_of(message.body), queue)
            count -= 1

    def _made(self, what: What, message: Identity = _NONE, queue: str = QUEUES[0]) -> Mark:
        return Mark(what, self._who.life, QUEUES.index(queue), self._tx, message)

    def _mark(self, what: What, message: Identity = _NONE, queue: str = QUEUES[0]) -> None:
        self.mark(self._made(what, message, queue))


_A = StoreActor
_PUTS: dict[Step, int] = {_A.put: 5, _A.get: 3, _A.roll_back: 1}
_CHECKPOINTS: dict[Step, int] = {_A.put: 3, _A.move: 3, _A.checkpoint: 2}
_PREPARED: dict[Step, int] = {_A.put: 2, _A.prepare: 3, _A.end_prepared: 3, _A.move: 1}
_INDEXES: dict[Step, int] = {_A.many: 2, _A.get: 2, _A.drain: 1, _A.put: 1, _A.shrink: 1}
_BACKUPS: dict[Step, int] = {_A.put: 2, _A.backup: 2, _A.prepare: 1, _A.get: 1}
_ALL = {**_PUTS, **_CHECKPOINTS, **_INDEXES, _A.prepare: 2, _A.end_prepared: 2, _A.backup: 1}
SCENARIOS = {
    "puts": Scenario(_PUTS, 15),
    "checkpoints": Scenario(_CHECKPOINTS, 10),
    "prepared": Scenario(_PREPARED, 10),
    "indexes": Scenario(_INDEXES, 4),
    "backups": Scenario(_BACKUPS, 6),
    "all": Scenario(_ALL, 6),
}
