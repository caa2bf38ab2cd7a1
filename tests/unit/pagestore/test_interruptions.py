"""Ctrl-C at each place of a call: the store is usable or poisoned, and a transaction is done whole, or not at all."""

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
from binlog.pagestore.recovery import OpenFiles
from binlog.pagestore.transaction import State
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.interruptions import Interruption, at_each_place
from tests.support.pagestores import QUEUE, SMALL, peek, put
from tests.support.repeated_interrupts import AGAIN_SECONDS, repeated_interrupts, swallowed
from tests.support.signals import signal_main_thread


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """In memory, for the calls of each place: what the disk makes of them is not what is tested."""
    return in_memory


class Stage:
    """What a call is made with: a store, and a transaction that got a message and puts two."""

    def __init__(self, path: Path) -> None:
        self.store = PageStore(path, SMALL)
        self.store.create_queue(QUEUE)
        put(self.store, b"one", b"two", b"three")
        self.transaction: Transaction = self.store.transaction()
        self.transaction.get(QUEUE)
        self.transaction.put(QUEUE, b"four")
        self.transaction.put(QUEUE, b"five")


def _block(stage: Stage) -> None:
    with stage.store.transaction() as transaction:
        transaction.remove(QUEUE, 2)


_CALLS: dict[str, Callable[[Stage], object]] = {
    "commit": lambda stage: stage.transaction.commit(),
    "roll back": lambda stage: stage.transaction.rollback(),
    "get": lambda stage: stage.transaction.get(QUEUE),
    "put": lambda stage: stage.transaction.put(QUEUE, b"six"),
    "create": lambda stage: stage.store.create_queue("another"),
    "checkpoint": lambda stage: stage.store.checkpoint(),
    "block": _block,
    "close": lambda stage: stage.store.close(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _CALLS)
def test_a_call_that_is_interrupted_leaves_all_right(tmp_path: Path, name: str) -> None:
    at, usable = at_each_place(lambda at: _interrupt(tmp_path / str(at), name, at))
    assert at > 2
    assert usable


def _interrupt(path: Path, name: str, at: int) -> bool | None:
    """Interrupt a call at one of its places, then look at what there is.

    Returns whether the store was usable, and not poisoned; None if the call has no such place.
    """
    stage = Stage(path)
    interruption = Interruption(at)
    interruption.run(lambda: _CALLS[name](stage))
    found: list[bytes] = []
    try:
        if name != "close":
            put(stage.store, b"behind")
            if stage.transaction.state is State.OPEN:
                stage.transaction.rollback()
            found = peek(stage.store)
        stage.store.close()
        is_usable = True
    except PoisonedError:
        is_usable, found = False, []
        with suppress(PoisonedError):
            stage.store.close()
    assert check_page_store(path) == []
    with PageStore(path, SMALL) as store:
        if found:
            assert peek(store) == found
        found = peek(store)
        assert store.queues in ([QUEUE], ["another", QUEUE])
    _judge(found, stage.transaction, name, is_usable=is_usable)
    return is_usable if interruption.raised else None


def _judge(found: list[bytes], transaction: Transaction, name: str, *, is_usable: bool) -> None:
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
def test_wherever_an_opening_is_interrupted_the_store_is_nobodys(tmp_path: Path) -> None:
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
    plain = OpenFiles.__init__

    def struck(*arguments: Any) -> None:
        signal_main_thread(signal.SIGUSR1)
        plain(*arguments)

    before = descriptors_before()
    with repeated_interrupts() as twice:
        for again_seconds in AGAIN_SECONDS:
            with monkeypatch.context() as patch:
                patch.setattr(OpenFiles, "__init__", struck)
                twice.interrupt(again_seconds, lambda: PageStore(tmp_path, SMALL))
            PageStore(tmp_path, SMALL).close()
            assert count_descriptors() == before
