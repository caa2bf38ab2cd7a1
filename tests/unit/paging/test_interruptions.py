"""Ctrl-C at each place of a call: the paging is usable or poisoned; nothing is lost, comes twice, or stays for ever."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from binlog.errors import BusyError, GoneError, PoisonedError, StateError
from binlog.paging import addresses
from binlog.paging.cursor.cursor import PageCursor
from binlog.paging.manager import PagingManager
from binlog.paging.page_transaction import Outcome, PageTransaction
from binlog.paging.store import PagingStore
from binlog.queue import queue as shared_sync
from binlog.queue.queue import Queue
from binlog.storage.files import commit_at
from binlog.storage.group_commit import Mode
from binlog.storage.native import CommitGroup
from tests.support.interruptions import Interruption, at_each_place
from tests.support.paging import ADDRESS, SMALL, MemoryStore, numbered
from tests.support.queues import taken
from tests.support.signals import signal_main_thread

_BEFORE = numbered(20)
_DELIVERED = 200
# Where a directory is taken, or given up: an exception in the middle of that is no matter of paging.
_PAGING = "/binlog/paging/"
# What is raised while a generator is closed is told as that, and goes no further.
_swallowed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """In memory, for the calls of each place: what the disk makes of them is not what is tested."""
    return in_memory


class Stage:
    """What a call is made with: a store with messages, its cursor, of which some were given, and a transaction."""

    def __init__(self, path: Path, records: MemoryStore) -> None:
        path.mkdir(exist_ok=True)
        self.manager = PagingManager(path, SMALL, store=records, stored=records)
        self.manager.start()
        self.store: PagingStore = self.manager.store(ADDRESS)
        self.store.start_paging()
        self.cursor: PageCursor = self.manager.cursor(ADDRESS)

    def fill(self) -> None:
        """Put the messages into pages."""
        self.places = [self.store.append(message) or 0 for message in _BEFORE]
        self.transaction: PageTransaction = self.manager.begin()
        self.store.append(b"of a transaction", self.transaction)


def _acknowledge_a_page(stage: Stage) -> None:
    stage.cursor.ack(1 << 32, sum(1 for place in stage.places if place >> 32 == 1))


def _sync_acknowledgements(stage: Stage) -> None:
    stage.cursor.ack(stage.places[3])
    stage.cursor.sync()


_CALLS: dict[str, Callable[[Stage], object]] = {
    "page": lambda stage: stage.store.page(b"interrupted"),
    "page on the next": lambda stage: stage.store.page(b"interrupted" + bytes(1000)),
    "page with a transaction": lambda stage: stage.store.page(b"interrupted", stage.transaction),
    "acknowledge": lambda stage: stage.cursor.ack(stage.places[3]),
    "acknowledge a page": _acknowledge_a_page,
    "acknowledge with a transaction": lambda stage: stage.cursor.ack(stage.places[3], transaction=stage.transaction),
    "commit": lambda stage: stage.transaction.commit(),
    "roll back": lambda stage: stage.transaction.rollback(),
    "sync": lambda stage: stage.store.sync(),
    "sync acknowledgements": _sync_acknowledgements,
    "begin": lambda stage: stage.manager.begin(),
    "add an address": lambda stage: stage.manager.store("another").start_paging(),
    "stop": lambda stage: stage.manager.stop(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _CALLS)
def test_a_call_that_is_interrupted_leaves_all_right(tmp_path: Path, name: str) -> None:
    at, usable = at_each_place(lambda at: _interrupt(tmp_path / str(at), name, at))
    assert at > 2
    assert usable


def _interrupt(path: Path, name: str, at: int) -> bool | None:
    """Interrupt a call at one of its places, then look at what there is.

    Returns whether the paging was usable, and not poisoned; None if the call has no such place.
    """
    records = MemoryStore()
    stage = Stage(path, records)
    stage.fill()
    interruption = Interruption(at, _PAGING) if name == "stop" else Interruption(at)
    interruption.run(lambda: _CALLS[name](stage))
    found: list[bytes] = []
    is_usable = True
    try:
        if name != "stop":
            _use(stage, found)
        stage.manager.stop()
    except PoisonedError:
        is_usable = False
        with suppress(PoisonedError):
            stage.manager.stop()
    state = stage.transaction.state
    after = Stage(path, records)
    if state is Outcome.UNKNOWN or (is_usable and state is Outcome.OPEN):
        records.drop_open()
    left = _read_and_acknowledge(after.cursor)
    if is_usable and name != "stop":
        assert left == []
    after.manager.drain()
    assert records.records == []
    after.manager.stop()
    _judge(found + left, stage)
    return is_usable if interruption.raised else None


def _use(stage: Stage, found: list[bytes]) -> None:
    """End the transaction, put one more message, and read and acknowledge all."""
    if stage.transaction.state is Outcome.OPEN:
        stage.transaction.commit()
    stage.store.page(b"behind")
    _read_and_acknowledge(stage.cursor, found)
    assert found[-1] == b"behind"
    stage.manager.drain()
    assert [page.is_open for page in stage.store.pages] == [True]


def _judge(found: list[bytes], stage: Stage) -> None:
    expected = [*_BEFORE, b"of a transaction"]
    kept = [message for message in found if not message.startswith((b"interrupted", b"behind"))]
    assert len(found) - len(kept) <= 2
    assert [message for message in expected if message in kept] == kept
    state = stage.transaction.state
    if state is not Outcome.OPEN:
        assert (expected[-1] in kept) == (state is Outcome.COMMITTED)
    # What the call may have acknowledged.
    missing = [message for message in _BEFORE if message not in kept]
    assert missing in ([], [_BEFORE[3]], [m for m, p in zip(_BEFORE, stage.places, strict=True) if p >> 32 == 1])


def _read_and_acknowledge(cursor: PageCursor, found: list[bytes] | None = None) -> list[bytes]:
    """All messages that can be read and acknowledged, also added to those that were found before."""
    found = [] if found is None else found
    while run := cursor.read():
        for index, message in enumerate(run.messages):
            try:
                cursor.ack(run.place + index)
            except (StateError, GoneError):
                continue
            found.append(message)
    return found


@_swallowed
@pytest.mark.slow
def test_reading_that_is_interrupted_gives_nothing_twice(tmp_path: Path) -> None:
    at = 0
    interrupted = True
    while interrupted:
        stage = Stage(tmp_path / str(at), MemoryStore())
        stage.fill()
        stage.transaction.commit()
        found: list[bytes] = []

        def read(found: list[bytes] = found, cursor: PageCursor = stage.cursor) -> None:
            while run := cursor.read():
                found.extend(run.messages)

        interruption = Interruption(at)
        interruption.run(read)
        interrupted = interruption.raised
        with suppress(PoisonedError):
            read()
            stage.manager.stop()
        expected = [*_BEFORE, b"of a transaction"]
        assert [message for message in expected if message in found] == found
        if not interrupted:
            assert found == expected
        with suppress(PoisonedError):
            stage.manager.stop()
        at += 1
    assert at > 20


@pytest.mark.slow
def test_depaging_that_is_interrupted_delivers_each_message_once(tmp_path: Path) -> None:
    at, usable = at_each_place(lambda at: _interrupt_depaging(tmp_path / str(at), at))
    assert at > 20
    assert usable > 20


def _interrupt_depaging(path: Path, at: int) -> bool | None:
    records = MemoryStore()
    manager = PagingManager(path, SMALL, store=records, stored=records)
    manager.start()
    store = manager.store(ADDRESS)
    store.start_paging()
    for message in _BEFORE:
        store.append(message)

    def depage(manager: PagingManager) -> bool:
        def deliver(_: str, messages: list[bytes], tx_id: int) -> None:
            for message in messages:
                records.append_add_tx(tx_id, records.new_id(), _DELIVERED, message)

        return manager.depage(ADDRESS, deliver)

    interruption = Interruption(at)
    interruption.run(lambda: depage(manager))
    is_usable = True
    try:
        while depage(manager):
            pass
        manager.stop()
    except PoisonedError:
        is_usable = False
        with suppress(PoisonedError):
            manager.stop()
        records.drop_open()
        with PagingManager(path, SMALL, store=records, stored=records) as manager:
            while depage(manager):
                pass
    assert [(record.user_type, record.body) for record in records.records] == [(_DELIVERED, each) for each in _BEFORE]
    return is_usable if interruption.raised else None


class QueueStage:
    """A queue with messages, of which one was got, and a transaction."""

    def __init__(self, path: Path, records: MemoryStore) -> None:
        self.manager = PagingManager(path, SMALL, store=records, stored=records)
        self.manager.start()
        self.queue = Queue(self.manager, mode=Mode.FLUSH)

    def fill(self) -> None:
        """Put messages, of which some are in memory alone."""
        for message in _BEFORE:
            self.queue.put(message)
        self.got = self.queue.get()


def _transact(stage: QueueStage) -> None:
    with stage.queue.transaction() as transaction:
        transaction.ack(stage.got)
        transaction.put(b"interrupted")


_QUEUE_CALLS: dict[str, Callable[[QueueStage], object]] = {
    "put": lambda stage: stage.queue.put(b"interrupted"),
    "put synced": lambda stage: stage.queue.put(b"interrupted", mode=Mode.SYNC),
    "get": lambda stage: stage.queue.get(),
    "ack": lambda stage: stage.queue.ack(stage.got),
    "ack synced": lambda stage: stage.queue.ack(stage.got, mode=Mode.SYNC),
    "nack": lambda stage: stage.queue.nack(stage.got, delay=0),
    "transact": _transact,
    "sync": lambda stage: stage.queue.sync(),
    "close": lambda stage: stage.queue.close(),
}


@_swallowed
@pytest.mark.slow
@pytest.mark.parametrize("name", _QUEUE_CALLS)
def test_a_queue_whose_call_is_interrupted_gives_each_message_once(tmp_path: Path, name: str) -> None:
    at, usable = at_each_place(lambda at: _interrupt_queue(tmp_path / str(at), name, at))
    assert at > 2
    assert usable


def _interrupt_queue(path: Path, name: str, at: int) -> bool | None:
    records = MemoryStore()
    stage = QueueStage(path, records)
    stage.fill()
    interruption = Interruption(at, _PAGING) if name == "close" else Interruption(at)
    interruption.run(lambda: _QUEUE_CALLS[name](stage))
    found: list[bytes] = []
    is_usable = True
    try:
        if name != "close":
            stage.queue.put(b"behind")
            while not stage.queue.empty():
                message = stage.queue.get_nowait()
                stage.queue.ack(message)
                found.append(message.body)
            assert found[-1] == b"behind"
        stage.queue.close()
    except PoisonedError:
        is_usable = False
        with suppress(PoisonedError):
            stage.queue.close()
        records.drop_open()
    after = QueueStage(path, records)
    found += taken(after.queue)
    after.queue.close()
    interrupted, behind = found.count(b"interrupted"), found.count(b"behind")
    assert interrupted <= 1
    assert behind <= 1
    kept = sorted(message for message in found if message not in (b"interrupted", b"behind"))
    was_acked = sorted(_BEFORE[1:])
    if name == "transact":
        assert kept == (was_acked if interrupted else sorted(_BEFORE))
    else:
        assert kept == sorted(_BEFORE) or (name.startswith("ack") and kept == was_acked)
    return is_usable if interruption.raised else None


@pytest.mark.parametrize("name", ["put synced", "ack synced", "sync"])
def test_a_signal_handler_that_closes_the_queue_into_whose_sync_it_broke_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stage = QueueStage(tmp_path, MemoryStore())
    stage.fill()
    refused: list[StateError] = []

    def close(_: int, __: object) -> None:
        try:
            stage.queue.close()
        except StateError as error:
            refused.append(error)

    sync_file = addresses.sync

    def commit_struck(group: CommitGroup, fd: int, data: bytes, offset: int, path: str) -> None:
        signal_main_thread(signal.SIGUSR1)
        commit_at(group, fd, data, offset, path)

    def sync_struck(fd: int, path: str) -> None:
        signal_main_thread(signal.SIGUSR1)
        sync_file(fd, path)

    stage.manager.drain()  # a sync of another thread would strike anywhere
    held = signal.signal(signal.SIGUSR1, close)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(shared_sync, "commit_at", commit_struck)
            patched.setattr(addresses, "sync", sync_struck)
            _QUEUE_CALLS[name](stage)
    finally:
        signal.signal(signal.SIGUSR1, held)
    assert refused
    stage.queue.close()


def _left(path: Path, records: MemoryStore) -> PagingManager:
    """A manager to be started where messages were left in pages, of which one was acknowledged whole."""
    stage = Stage(path, records)
    stage.fill()
    stage.transaction.commit()
    _acknowledge_a_page(stage)
    stage.manager.stop()
    return PagingManager(path, SMALL, store=records, stored=records)


@pytest.mark.slow
def test_wherever_a_start_is_interrupted_another_manager_can_be_started(tmp_path: Path) -> None:
    count = busy = 0
    while True:
        path, records = tmp_path / str(count), MemoryStore()
        manager = _left(path, records)
        was_interrupted = Interruption(count, _PAGING).run(manager.start)
        with suppress(PoisonedError):
            manager.stop()
        try:
            with PagingManager(path, SMALL, store=records, stored=records) as another:
                found = _read_and_acknowledge(another.cursor(ADDRESS))
        except BusyError:
            busy += 1  # the exception came after the directory was taken, and before the manager had that
        else:
            assert found[-1] == b"of a transaction"
            assert found[:-1] == _BEFORE[-len(found) + 1 :]
        if not was_interrupted:
            break
        count += 1
    assert count > 10
    assert busy <= 1
