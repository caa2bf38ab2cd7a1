"""An interrupt at every position of a call: paging is usable or poisoned; nothing is lost or delivered twice."""

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
from binlog.storage.mode import Mode
from binlog.storage.native import CommitGroup
from tests.support.interruptions import Interruption, at_each_place
from tests.support.paging import ADDRESS, SMALL, MemoryStore, numbered_messages
from tests.support.queues import get_all
from tests.support.signals import signal_main_thread

_BEFORE = numbered_messages(20)
_DELIVERED = 200
# The positions at which a directory is acquired or released; they do not belong to paging.
_PAGING = "/binlog/paging/"
# An exception that is raised while a generator is closed is reported as unraisable.
_swallowed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """A folder in memory: the disk does not matter here."""
    return in_memory


class CallContext:
    """The arguments of a call: a store with messages, its cursor, which has delivered some, and a transaction."""

    def __init__(self, path: Path, records: MemoryStore) -> None:
        path.mkdir(exist_ok=True)
        self.manager = PagingManager(path, SMALL, store=records, stored=records)
        self.manager.start()
        self.store: PagingStore = self.manager.store(ADDRESS)
        self.store.start_paging()
        self.cursor: PageCursor = self.manager.cursor(ADDRESS)

    def fill(self) -> None:
        """Put the messages into pages."""
        self.message_ids = [self.store.append(message) or 0 for message in _BEFORE]
        self.transaction: PageTransaction = self.manager.begin()
        self.store.append(b"of a transaction", self.transaction)


def _acknowledge_a_page(context: CallContext) -> None:
    context.cursor.ack(1 << 32, sum(1 for message_id in context.message_ids if message_id >> 32 == 1))


def _sync_acknowledgements(context: CallContext) -> None:
    context.cursor.ack(context.message_ids[3])
    context.cursor.sync()


_CALLS: dict[str, Callable[[CallContext], object]] = {
    "page": lambda context: context.store.page(b"interrupted"),
    "page on the next": lambda context: context.store.page(b"interrupted" + bytes(1000)),
    "page with a transaction": lambda context: context.store.page(b"interrupted", context.transaction),
    "acknowledge": lambda context: context.cursor.ack(context.message_ids[3]),
    "acknowledge a page": _acknowledge_a_page,
    "acknowledge with a transaction": lambda context: context.cursor.ack(
        context.message_ids[3], transaction=context.transaction
    ),
    "commit": lambda context: context.transaction.commit(),
    "roll back": lambda context: context.transaction.rollback(),
    "sync": lambda context: context.store.sync(),
    "sync acknowledgements": _sync_acknowledgements,
    "begin": lambda context: context.manager.begin(),
    "add an address": lambda context: context.manager.store("another").start_paging(),
    "stop": lambda context: context.manager.stop(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _CALLS)
def test_a_call_that_is_interrupted_leaves_all_right(tmp_path: Path, name: str) -> None:
    at, usable = at_each_place(lambda at: _interrupt(tmp_path / str(at), name, at))
    assert at > 2
    assert usable


def _interrupt(path: Path, name: str, at: int) -> bool | None:
    """Interrupt a call at one position, and check the paging.

    Returns whether the paging was usable and not poisoned, or None if the call has no such position.
    """
    records = MemoryStore()
    context = CallContext(path, records)
    context.fill()
    interruption = Interruption(at, _PAGING) if name == "stop" else Interruption(at)
    interruption.run(lambda: _CALLS[name](context))
    found: list[bytes] = []
    is_usable = True
    try:
        if name != "stop":
            _finish(context, found)
        context.manager.stop()
    except PoisonedError:
        is_usable = False
        with suppress(PoisonedError):
            context.manager.stop()
    state = context.transaction.state
    after = CallContext(path, records)
    if state is Outcome.UNKNOWN or (is_usable and state is Outcome.OPEN):
        records.drop_open()
    left = _read_and_acknowledge(after.cursor)
    if is_usable and name != "stop":
        assert left == []
    after.manager.drain()
    assert records.records == []
    after.manager.stop()
    _check_messages(found + left, context)
    return is_usable if interruption.raised else None


def _finish(context: CallContext, found: list[bytes]) -> None:
    """End the transaction, put one more message, and read and acknowledge all messages."""
    if context.transaction.state is Outcome.OPEN:
        context.transaction.commit()
    context.store.page(b"behind")
    _read_and_acknowledge(context.cursor, found)
    assert found[-1] == b"behind"
    context.manager.drain()
    assert [page.is_open for page in context.store.pages] == [True]


def _check_messages(found: list[bytes], context: CallContext) -> None:
    expected = [*_BEFORE, b"of a transaction"]
    kept = [message for message in found if not message.startswith((b"interrupted", b"behind"))]
    assert len(found) - len(kept) <= 2
    assert [message for message in expected if message in kept] == kept
    state = context.transaction.state
    if state is not Outcome.OPEN:
        assert (expected[-1] in kept) == (state is Outcome.COMMITTED)
    # The messages that the call may have acknowledged.
    missing = [message for message in _BEFORE if message not in kept]
    assert missing in ([], [_BEFORE[3]], [m for m, p in zip(_BEFORE, context.message_ids, strict=True) if p >> 32 == 1])


def _read_and_acknowledge(cursor: PageCursor, found: list[bytes] | None = None) -> list[bytes]:
    """Read and acknowledge all messages, and add them to those that were found before."""
    found = [] if found is None else found
    while run := cursor.read():
        for index, message in enumerate(run.messages):
            try:
                cursor.ack(run.message_id + index)
            except (StateError, GoneError):
                continue
            found.append(message)
    return found


@_swallowed
@pytest.mark.slow
def test_an_interrupted_read_delivers_nothing_twice(tmp_path: Path) -> None:
    at = 0
    interrupted = True
    while interrupted:
        context = CallContext(tmp_path / str(at), MemoryStore())
        context.fill()
        context.transaction.commit()
        found: list[bytes] = []

        def read(found: list[bytes] = found, cursor: PageCursor = context.cursor) -> None:
            while run := cursor.read():
                found.extend(run.messages)

        interruption = Interruption(at)
        interruption.run(read)
        interrupted = interruption.raised
        with suppress(PoisonedError):
            read()
            context.manager.stop()
        expected = [*_BEFORE, b"of a transaction"]
        assert [message for message in expected if message in found] == found
        if not interrupted:
            assert found == expected
        with suppress(PoisonedError):
            context.manager.stop()
        at += 1
    assert at > 20


@pytest.mark.slow
def test_interrupted_depaging_delivers_each_message_once(tmp_path: Path) -> None:
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


class QueueContext:
    """A queue with messages, of which one was got, and a transaction."""

    def __init__(self, path: Path, records: MemoryStore) -> None:
        self.manager = PagingManager(path, SMALL, store=records, stored=records)
        self.manager.start()
        self.queue = Queue(self.manager, mode=Mode.FLUSH)

    def fill(self) -> None:
        """Put messages; memory has some of them."""
        for message in _BEFORE:
            self.queue.put(message)
        self.got = self.queue.get()


def _run_transaction(context: QueueContext) -> None:
    with context.queue.transaction() as transaction:
        transaction.ack(context.got)
        transaction.put(b"interrupted")


_QUEUE_CALLS: dict[str, Callable[[QueueContext], object]] = {
    "put": lambda context: context.queue.put(b"interrupted"),
    "put synced": lambda context: context.queue.put(b"interrupted", mode=Mode.SYNC),
    "get": lambda context: context.queue.get(),
    "ack": lambda context: context.queue.ack(context.got),
    "ack synced": lambda context: context.queue.ack(context.got, mode=Mode.SYNC),
    "nack": lambda context: context.queue.nack(context.got, delay=0),
    "transact": _run_transaction,
    "sync": lambda context: context.queue.sync(),
    "close": lambda context: context.queue.close(),
}


@_swallowed
@pytest.mark.slow
@pytest.mark.parametrize("name", _QUEUE_CALLS)
def test_an_interrupted_queue_delivers_each_message_once(tmp_path: Path, name: str) -> None:
    at, usable = at_each_place(lambda at: _interrupt_queue(tmp_path / str(at), name, at))
    assert at > 2
    assert usable


def _interrupt_queue(path: Path, name: str, at: int) -> bool | None:
    records = MemoryStore()
    context = QueueContext(path, records)
    context.fill()
    interruption = Interruption(at, _PAGING) if name == "close" else Interruption(at)
    interruption.run(lambda: _QUEUE_CALLS[name](context))
    found: list[bytes] = []
    is_usable = True
    try:
        if name != "close":
            context.queue.put(b"behind")
            while not context.queue.empty():
                message = context.queue.get_nowait()
                context.queue.ack(message)
                found.append(message.body)
            assert found[-1] == b"behind"
        context.queue.close()
    except PoisonedError:
        is_usable = False
        with suppress(PoisonedError):
            context.queue.close()
        records.drop_open()
    after = QueueContext(path, records)
    found += get_all(after.queue)
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
def test_a_signal_handler_cannot_close_the_queue_during_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    context = QueueContext(tmp_path, MemoryStore())
    context.fill()
    refused: list[StateError] = []

    def close(_: int, __: object) -> None:
        try:
            context.queue.close()
        except StateError as error:
            refused.append(error)

    sync_file = addresses.sync

    def commit_struck(group: CommitGroup, fd: int, data: bytes, offset: int, path: str) -> None:
        signal_main_thread(signal.SIGUSR1)
        commit_at(group, fd, data, offset, path)

    def sync_struck(fd: int, path: str) -> None:
        signal_main_thread(signal.SIGUSR1)
        sync_file(fd, path)

    context.manager.drain()  # a sync of another thread would raise at any position
    held = signal.signal(signal.SIGUSR1, close)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(shared_sync, "commit_at", commit_struck)
            patched.setattr(addresses, "sync", sync_struck)
            _QUEUE_CALLS[name](context)
    finally:
        signal.signal(signal.SIGUSR1, held)
    assert refused
    context.queue.close()


def _manager_with_pages(path: Path, records: MemoryStore) -> PagingManager:
    """Create a manager to start, with messages in pages; all of one page were acknowledged."""
    context = CallContext(path, records)
    context.fill()
    context.transaction.commit()
    _acknowledge_a_page(context)
    context.manager.stop()
    return PagingManager(path, SMALL, store=records, stored=records)


@pytest.mark.slow
def test_another_manager_can_start_after_an_interrupted_start(tmp_path: Path) -> None:
    count = busy = 0
    while True:
        path, records = tmp_path / str(count), MemoryStore()
        manager = _manager_with_pages(path, records)
        was_interrupted = Interruption(count, _PAGING).run(manager.start)
        with suppress(PoisonedError):
            manager.stop()
        try:
            with PagingManager(path, SMALL, store=records, stored=records) as another:
                found = _read_and_acknowledge(another.cursor(ADDRESS))
        except BusyError:
            busy += 1  # the exception came after the directory was acquired, and before the manager had it
        else:
            assert found[-1] == b"of a transaction"
            assert found[:-1] == _BEFORE[-len(found) + 1 :]
        if not was_interrupted:
            break
        count += 1
    assert count > 10
    assert busy <= 1
