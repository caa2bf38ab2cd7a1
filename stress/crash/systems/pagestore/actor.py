"""A process that owns a page store; a transaction is marked before its commit, and its promise after it.

In place of a thread, a mark says from which queue a message was got.
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
from stress.crash.system import Actor, ProcessContext, Scenario, Step
from stress.crash.systems.messages.marks import Identity, Mark, MarkKind, identity_of, message_of

QUEUES = ("a", "b")
# So small that pages are written all the time, and a few transactions fill the log.
_OPTIONS = PageStoreOptions(cache_pages=8, log_bytes=8192)
_NONE = Identity(0, 0, 0)
# The kind of a transaction that is not a plain commit: the second number of its mark.
PREPARE, COMMIT, ROLL_BACK = 1, 2, 3
_MODES = (Mode.FLUSH, Mode.FLUSH, Mode.SYNC)
_BACKUP = "backup"
# So few that other calls come in between: a store has hardly more pages here.
backup.PAGES_A_STEP = 3


def open_small(path: Path) -> PageStore:
    """Open the store with these options and create its queues."""
    with ExitStack() as failing:
        store = failing.enter_context(PageStore(path, _OPTIONS))
        for queue in QUEUES:
            store.create_queue(queue)
        failing.pop_all()
    return store


def backup_name(number: int) -> str:
    """Return the name of a backup's folder, in the store's folder."""
    return f"{_BACKUP}-{number}"


def backups_in(path: Path) -> dict[int, Path]:
    """Return the folders of backups, finished or not, by number."""
    return {int(each.name.partition("-")[2]): each for each in path.glob(f"{_BACKUP}-*")}


def queues_of(identity: Identity) -> tuple[str, ...]:
    """Return the queues of a message; if there are several, they share it."""
    return QUEUES if identity.number % 5 == 0 else (QUEUES[identity.number % len(QUEUES)],)


def put_into(transaction: Transaction, identity: Identity, body: bytes) -> None:
    """Put a message into its queues."""
    queues, priority = queues_of(identity), priority_of(identity)
    if len(queues) > 1:
        transaction.put_shared(queues, body, priority=priority)
    else:
        transaction.put(queues[0], body, priority=priority)


def priority_of(identity: Identity) -> int:
    """Return the priority of a message."""
    return 4 + (identity.number % 3 == 0)


def xid_of(number: int) -> Xid:
    """Return the name of a prepared transaction."""
    return Xid(7, number.to_bytes(8, "big"))


def number_of(xid: Xid) -> int:
    """Return the number of a prepared transaction."""
    return int.from_bytes(xid.global_id, "big")


def all_in(store: PageStore) -> dict[str, list[Identity]]:
    """Return the messages in the queues, in the order of delivery, and leave them."""
    transaction = store.transaction()
    found: dict[str, list[Identity]] = {queue: [] for queue in QUEUES}
    for queue in QUEUES:
        while (message := transaction.get(queue)) is not None:
            found[queue].append(identity_of(message.body))
    transaction.rollback()
    return found


class PageStoreActor(Actor):
    """Puts and gets at random."""

    def __init__(self, store: PageStore, process: ProcessContext) -> None:
        super().__init__(process)
        self._store = store
        self._number = self._tx = self._backups = 0
        found, prepared = all_in(store), store.prepared
        for queue, identities in found.items():
            for identity in identities:
                self._mark(MarkKind.GOT, identity, queue)
        for each in prepared:
            self._mark(MarkKind.GOT, Identity(0, 0, number_of(each.xid)))
        self._mark(MarkKind.OPENED)

    def append_one(self) -> None:
        """Put some messages, durably."""
        self._transact(puts=1, gets=0, mode=Mode.SYNC)

    def put(self) -> None:
        """Put some messages."""
        self._transact(puts=self._chance.choice((1, 1, 1, 3)), gets=0)

    def get(self) -> None:
        """Get some messages, which removes them."""
        self._transact(puts=0, gets=self._chance.choice((1, 1, 2, 4)))

    def move(self) -> None:
        """Get some messages and put others."""
        self._transact(puts=self._chance.randrange(1, 3), gets=self._chance.randrange(1, 4))

    def many(self) -> None:
        """Put enough messages that a queue's index needs another page."""
        self._transact(puts=70, gets=0)

    def prepare(self) -> None:
        """Prepare a transaction like that of `move`; another step ends it."""
        self._tx += 1
        transaction = self._store.transaction()
        with self._dropping(transaction):
            self._exchange(transaction, puts=self._chance.randrange(3), gets=self._chance.randrange(3))
            number = self._process.number << 8 | self._tx
            self._mark(MarkKind.TX_TRIED, Identity(0, PREPARE, number))
            transaction.prepare(xid_of(number))
        self._done(synced=True)

    def end_prepared(self) -> None:
        """Commit or roll back a prepared transaction."""
        prepared = self._store.prepared
        if not prepared:
            return self.prepare()
        self._tx += 1
        xid = self._chance.choice(prepared).xid
        commits = self._chance.random() < 0.6
        with self._dropping():
            self._mark(MarkKind.TX_TRIED, Identity(0, COMMIT if commits else ROLL_BACK, number_of(xid)))
            (self._store.commit_prepared if commits else self._store.rollback_prepared)(xid)
        self._done(synced=True)
        return None

    def drain(self) -> None:
        """Get all messages."""
        self._transact(puts=0, gets=1000)

    def roll_back(self) -> None:
        """Get and put some messages, and roll back."""
        transaction = self._store.transaction()
        transaction.get(self._chance.choice(QUEUES))
        transaction.put(QUEUES[0], b"never")
        transaction.rollback()

    def checkpoint(self) -> None:
        """Make a checkpoint."""
        self._store.checkpoint()
        self.closed()

    def shrink(self) -> None:
        """Make a checkpoint and cut off free pages at the end."""
        self._store.shrink()
        self.closed()

    def backup(self) -> None:
        """Make a backup while other transactions run."""
        self._backups += 1
        number = self._process.number << 8 | self._backups
        self._mark(MarkKind.BACKUP_TRIED, Identity(0, 0, number))
        path = os.path.join(self._store.path, backup_name(number))
        with ThreadPoolExecutor(1) as executor:
            done = executor.submit(self._store.backup, path)
            for _ in range(self._chance.randrange(3)):
                self.move()
        done.result()
        self._mark(MarkKind.BACKUP_DONE, Identity(0, 0, number))

    def close(self) -> None:
        """Close the store, which promises everything."""
        self._store.close()
        self.closed()

    def closed(self) -> None:
        """Mark that everything is promised."""
        self._mark(MarkKind.PUTS_SYNCED)

    def _transact(self, puts: int, gets: int, mode: Mode | None = None) -> None:
        self._tx += 1
        mode = mode or self._chance.choice(_MODES)
        transaction = self._store.transaction()
        with self._dropping(transaction):
            self._exchange(transaction, puts, gets)
            is_empty = not (transaction.puts or transaction.taken)
            self._mark(MarkKind.TX_TRIED)
            transaction.commit(mode=mode)
        # An empty transaction syncs nothing.
        self._done(synced=mode is Mode.SYNC and not is_empty)

    @contextmanager
    def _dropping(self, transaction: Transaction | None = None) -> Iterator[None]:
        """Run the end of a transaction; if its error says that nothing was done, mark that and roll it back."""
        try:
            with self.refusing(self._made(MarkKind.TX_DROPPED)):
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
            identity = Identity(self._process.number, 0, self._number)
            self._mark(MarkKind.TX_PUT, identity)
            put_into(transaction, identity, message_of(identity))

    def _done(self, *, synced: bool) -> None:
        self._mark(MarkKind.TX_DONE)
        if synced:
            self._mark(MarkKind.PUTS_SYNCED)

    def _get(self, transaction: Transaction, queue: str, count: int) -> None:
        while count and (message := transaction.get(queue)) is not None:
            self._mark(MarkKind.TX_ACK, identity_of(message.body), queue)
            count -= 1

    def _made(self, kind: MarkKind, message: Identity = _NONE, queue: str = QUEUES[0]) -> Mark:
        return Mark(kind, self._process.number, QUEUES.index(queue), self._tx, message)

    def _mark(self, kind: MarkKind, message: Identity = _NONE, queue: str = QUEUES[0]) -> None:
        self.mark(self._made(kind, message, queue))


_A = PageStoreActor
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
