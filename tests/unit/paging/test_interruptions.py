"""Ctrl-C in the middle of a call: behind it all goes on, and nothing is lost, comes twice, or stays for ever."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.errors import GoneError, StateError
from binlog.paging.cursor import PageCursor
from binlog.paging.manager import PagingManager
from binlog.paging.page_transaction import Outcome, PageTransaction
from binlog.paging.store import PagingStore
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.interruptions import Interruption
from tests.support.paging import ADDRESS, SMALL, MemoryStore, numbered
from tests.support.signals import strike
from tests.support.step_threads import join_step_threads
from tests.support.twice import AGAIN_SECONDS, raising_twice, swallowed

_BEFORE = numbered(20)


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


def _page(stage: Stage) -> None:
    stage.store.page(b"interrupted")


def _page_on_the_next(stage: Stage) -> None:
    stage.store.page(b"interrupted" + bytes(1000))


def _page_with_a_transaction(stage: Stage) -> None:
    stage.store.page(b"interrupted", stage.transaction)


def _acknowledge(stage: Stage) -> None:
    stage.cursor.ack(stage.places[3])


def _acknowledge_a_page(stage: Stage) -> None:
    stage.cursor.ack(1 << 32, sum(1 for place in stage.places if place >> 32 == 1))


def _acknowledge_with_a_transaction(stage: Stage) -> None:
    stage.cursor.ack(stage.places[3], transaction=stage.transaction)


def _commit(stage: Stage) -> None:
    stage.transaction.commit()


def _roll_back(stage: Stage) -> None:
    stage.transaction.rollback()


def _sync(stage: Stage) -> None:
    stage.store.sync()


_CALLS = [
    _page, _page_on_the_next, _page_with_a_transaction, _acknowledge, _acknowledge_a_page,
    _acknowledge_with_a_transaction, _commit, _roll_back, _sync,
]  # fmt: skip


# What is raised while a generator is closed is told as that, and goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("call", _CALLS)
def test_a_call_that_is_interrupted_leaves_all_right(tmp_path: Path, call: Callable[[Stage], None]) -> None:
    at = 0
    while _interrupt(tmp_path / str(at), call, at):
        at += 1
    assert at > 2


def _interrupt(path: Path, call: Callable[[Stage], None], at: int) -> bool:
    """Interrupt a call at one of its places, then look at what there is; whether there is such a place."""
    records = MemoryStore()
    stage = Stage(path, records)
    stage.fill()
    interruption = Interruption(at)
    interruption.run(lambda: call(stage))
    if stage.transaction.state is Outcome.OPEN:
        _end(stage.transaction)
    while stage.transaction.state is Outcome.OPEN:
        pass  # a step that goes on, in its own thread
    stage.store.page(b"behind")
    found = _read_and_acknowledge(stage.cursor)
    stage.manager.drain()
    _judge(found, stage)
    assert [page.is_open for page in stage.store.pages] == [True]
    stage.manager.stop()
    stage = Stage(path, records)
    assert _read_and_acknowledge(stage.cursor) == []
    stage.manager.drain()
    assert records.records == []
    stage.manager.stop()
    return interruption.raised


def _end(transaction: PageTransaction) -> None:
    try:
        transaction.commit()
    except StateError:
        if transaction.state is Outcome.OPEN:
            transaction.rollback()


def _judge(found: list[bytes], stage: Stage) -> None:
    expected = list(_BEFORE)
    if stage.transaction.state is Outcome.COMMITTED:
        expected.append(b"of a transaction")
    kept = [message for message in found if not message.startswith(b"interrupted")]
    assert len(found) - len(kept) <= 1
    assert kept[-1] == b"behind"
    missing = [message for message in expected if message not in kept]
    assert [message for message in expected if message in kept] == kept[:-1]
    # What the call may have acknowledged.
    assert missing in ([], [_BEFORE[3]], [m for m, p in zip(_BEFORE, stage.places, strict=True) if p >> 32 == 1])


def _read_and_acknowledge(cursor: PageCursor) -> list[bytes]:
    found = []
    while run := cursor.read():
        for index, message in enumerate(run.messages):
            try:
                cursor.ack(run.place + index)
            except (StateError, GoneError):
                continue
            found.append(message)
    return found


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
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
        read()
        expected = [*_BEFORE, b"of a transaction"]
        assert [message for message in expected if message in found] == found
        if not interrupted:
            assert found == expected
        stage.manager.stop()
        at += 1
    assert at > 20


def _left(path: Path, records: MemoryStore) -> PagingManager:
    """A manager to be started where messages were left in pages, of which one was acknowledged whole."""
    stage = Stage(path, records)
    stage.fill()
    stage.transaction.commit()
    _acknowledge_a_page(stage)
    stage.manager.stop()
    return PagingManager(path, SMALL, store=records, stored=records)


def _goes_on(manager: PagingManager) -> None:
    """Start it, and find all that there is."""
    manager.start()
    found = _read_and_acknowledge(manager.cursor(ADDRESS))
    assert found[-1] == b"of a transaction"
    assert found[:-1] == _BEFORE[-len(found) + 1 :]
    manager.stop()


@pytest.mark.slow
def test_wherever_a_start_is_interrupted_it_can_be_done_again(tmp_path: Path) -> None:
    count, before = 0, descriptors_before()
    while True:
        path, records = tmp_path / str(count), MemoryStore()
        manager = _left(path, records)
        was_interrupted = Interruption(count).run(manager.start)
        join_step_threads()
        if not was_interrupted:
            break
        assert count_descriptors() == before
        _goes_on(manager)
        count += 1
    manager.stop()
    assert count > 10


@pytest.mark.slow
@swallowed
def test_a_start_that_is_interrupted_twice_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PagingManager._forget_gone

    def struck(manager: PagingManager) -> None:
        plain(manager)
        strike(signal.SIGUSR1)

    before = descriptors_before()
    with raising_twice() as twice:
        for number, again_seconds in enumerate(AGAIN_SECONDS[::4]):
            manager = _left(tmp_path / str(number), MemoryStore())
            with monkeypatch.context() as patch:
                patch.setattr(PagingManager, "_forget_gone", struck)
                twice.interrupt(again_seconds, manager.start)
            join_step_threads()
            assert count_descriptors() == before
            _goes_on(manager)
