"""An interrupt at every position of a call: the store is usable or poisoned, and a transaction is atomic."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from binlog.errors import PoisonedError
from binlog.pagestore import PageStore, Transaction, check_page_store
from binlog.pagestore.recovery import StoreFiles
from binlog.pagestore.transaction import State
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.interruptions import Interruption, at_each_place
from tests.support.pagestores import QUEUE, SMALL, peek, put
from tests.support.repeated_interrupts import AGAIN_SECONDS, repeated_interrupts, swallowed
from tests.support.signals import signal_main_thread


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """A folder in memory: the disk does not matter here."""
    return in_memory


class CallContext:
    """The arguments of a call: a store, and a transaction with one message got and two put."""

    def __init__(self, path: Path) -> None:
        self.store = PageStore(path, SMALL)
        self.store.create_queue(QUEUE)
        put(self.store, b"one", b"two", b"three")
        self.transaction: Transaction = self.store.transaction()
        self.transaction.get(QUEUE)
        self.transaction.put(QUEUE, b"four")
        self.transaction.put(QUEUE, b"five")


def _run_block(context: CallContext) -> None:
    with context.store.transaction() as transaction:
        transaction.remove(QUEUE, 2)


_CALLS: dict[str, Callable[[CallContext], object]] = {
    "commit": lambda context: context.transaction.commit(),
    "roll back": lambda context: context.transaction.rollback(),
    "get": lambda context: context.transaction.get(QUEUE),
    "put": lambda context: context.transaction.put(QUEUE, b"six"),
    "create": lambda context: context.store.create_queue("another"),
    "checkpoint": lambda context: context.store.checkpoint(),
    "block": _run_block,
    "close": lambda context: context.store.close(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _CALLS)
def test_a_call_that_is_interrupted_leaves_all_right(tmp_path: Path, name: str) -> None:
    at, usable = at_each_place(lambda at: _interrupt(tmp_path / str(at), name, at))
    assert at > 2
    assert usable


def _interrupt(path: Path, name: str, at: int) -> bool | None:
    """Interrupt a call at one position, and check the store.

    Returns whether the store was usable and not poisoned, or None if the call has no such position.
    """
    context = CallContext(path)
    interruption = Interruption(at)
    interruption.run(lambda: _CALLS[name](context))
    found: list[bytes] = []
    try:
        if name != "close":
            put(context.store, b"behind")
            if context.transaction.state is State.OPEN:
                context.transaction.rollback()
            found = peek(context.store)
        context.store.close()
        is_usable = True
    except PoisonedError:
        is_usable, found = False, []
        with suppress(PoisonedError):
            context.store.close()
    assert check_page_store(path) == []
    with PageStore(path, SMALL) as store:
        if found:
            assert peek(store) == found
        found = peek(store)
        assert store.queues in ([QUEUE], ["another", QUEUE])
    _check_messages(found, context.transaction, name, is_usable=is_usable)
    return is_usable if interruption.raised else None


def _check_messages(found: list[bytes], transaction: Transaction, name: str, *, is_usable: bool) -> None:
    left = [body for body in found if body != b"behind"]
    committed, dropped = [b"two", b"three", b"four", b"five"], [b"one", b"two", b"three"]
    if name == "block":
        assert left in (dropped, [b"one", b"three"])
    elif not is_usable:
        assert left in (committed, dropped)
    elif transaction.state is State.COMMITTED:
        assert left == committed
    else:
        assert left == dropped


@pytest.mark.slow
def test_an_interrupted_opening_releases_the_store(tmp_path: Path) -> None:
    count, before = 0, descriptors_before()
    opened: list[PageStore] = []
    while Interruption(count).run(lambda: opened.append(PageStore(tmp_path, SMALL))):
        with PageStore(tmp_path, SMALL) as store:
            store.create_queue(QUEUE)
        gc.collect()
        assert count_descriptors() == before
        count += 1
    opened[0].close()
    assert count > 10


@pytest.mark.slow
@swallowed
def test_an_opening_that_is_interrupted_twice_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = StoreFiles.__init__

    def struck(*arguments: Any) -> None:
        signal_main_thread(signal.SIGUSR1)
        plain(*arguments)

    before = descriptors_before()
    with repeated_interrupts() as twice:
        for again_seconds in AGAIN_SECONDS:
            with monkeypatch.context() as patch:
                patch.setattr(StoreFiles, "__init__", struck)
                twice.interrupt(again_seconds, lambda: PageStore(tmp_path, SMALL))
            PageStore(tmp_path, SMALL).close()
            assert count_descriptors() == before
