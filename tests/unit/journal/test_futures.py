"""Futures and their callbacks, which run in the worker thread of the journal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import PoisonedError, StateError
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from tests.support.failing import raising
from tests.support.journals import SMALL, ids, journal, reload
from tests.support.waiting import until

_SECONDS = 30.0


def _in_callback(opened: Journal, work: Callable[[], object]) -> BaseException | None:
    """Run something in the callback of a future, and return its exception."""
    raised: Future[BaseException | None] = Future()

    def callback(_: Future[None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told
            raised.set_result(error)
        else:
            raised.set_result(None)

    future = opened.append_add(opened.new_id(), 1, b"", sync=Sync.FUTURE)
    future.add_done_callback(callback)
    assert not raised.done(), "the callback ran here"
    return raised.result(_SECONDS)


def _hold(opened: Journal) -> threading.Event:
    """Block the worker thread, so that callbacks added now run there."""
    held, entered = threading.Event(), threading.Event()

    def hold(_: Future[None]) -> None:
        entered.set()
        held.wait(_SECONDS)

    def hold_there(future: Future[None]) -> None:
        if (
            threading.current_thread() is not threading.main_thread()
        ):  # the main thread runs it if the future was done already
            hold(future)

    while not entered.is_set():
        opened.append_add(opened.new_id(), 1, b"", sync=Sync.FUTURE).add_done_callback(hold_there)
        entered.wait(0.1)
    return held


_WAITING: list[Callable[[Journal], object]] = [
    lambda journal: journal.append_add(1000, 1, b""),
    lambda journal: journal.try_append_add(1000, 1, b""),
    lambda journal: journal.append_add_tx(500, 1000, 1, b"", sync=Sync.WAIT),
    lambda journal: journal.prepare(7),
    lambda journal: journal.commit(7),
    lambda journal: journal.rollback(7),
    lambda journal: journal.reclaim(),
    lambda journal: journal.compact(),
]


@pytest.mark.parametrize("work", _WAITING)
def test_a_callback_may_wait_for_the_journal(tmp_path: Path, work: Callable[[Journal], object]) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add_tx(7, 7, 1, b"")
        threading.Timer(0.1, _hold(opened).set).start()
        assert _in_callback(opened, lambda: work(opened)) is None
        opened.append_add(2000, 1, b"")
    assert 2000 in ids(reload(tmp_path))


def test_a_callback_cannot_close_the_journal(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        threading.Timer(0.1, _hold(opened).set).start()
        assert isinstance(_in_callback(opened, opened.close), StateError)
        opened.append_add(2000, 1, b"")
    assert 2000 in ids(reload(tmp_path))


def test_a_callback_may_append_without_a_wait(tmp_path: Path) -> None:
    """It may append more than the buffers hold, for which another thread would wait."""
    later: list[Future[None]] = []

    def much() -> None:
        for number in range(1000, 1200):
            opened.append_add(number, 1, bytes(500), sync=Sync.LATER)
        later.append(opened.append_add(1200, 1, b"", sync=Sync.FUTURE))

    with journal(tmp_path, replace(SMALL, buffer_bytes=1024)) as (opened, _):
        threading.Timer(0.1, _hold(opened).set).start()
        assert _in_callback(opened, much) is None
        later[0].result(_SECONDS)
    assert set(ids(reload(tmp_path))) >= {*range(1000, 1201)}


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, ValueError])
def test_an_exception_of_a_callback_ends_nothing(
    tmp_path: Path, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda given: reported.append(given.exc_type))

    def raises(_: Future[None]) -> None:
        raise kind

    with journal(tmp_path) as (opened, _):
        held = _hold(opened)
        future = opened.append_add(1000, 1, b"", sync=Sync.FUTURE)
        future.add_done_callback(raises)
        later = opened.append_add(1001, 1, b"", sync=Sync.FUTURE)
        held.set()
        later.result(_SECONDS)
        opened.append_add(1002, 1, b"")
    assert ids(reload(tmp_path))[-3:] == [1000, 1001, 1002]
    assert reported == ([] if issubclass(kind, Exception) else [kind])


def test_a_callback_of_a_failed_future_can_neither_append_nor_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Journal(tmp_path, SMALL)
    opened.start()
    opened.load()
    held = _hold(opened)
    future = opened.append_add(1000, 1, b"", sync=Sync.FUTURE)
    raised: list[type[BaseException]] = []
    closed = threading.Event()

    def callback(failed: Future[None]) -> None:
        assert isinstance(failed.exception(), PoisonedError)
        for work in (lambda: opened.append_add(1001, 1, b"", sync=Sync.LATER), opened.close):
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - told
                raised.append(type(error))
        closed.set()

    future.add_done_callback(callback)

    monkeypatch.setattr(opened._maintenance, "_run_tasks", raising(PoisonedError("a fault")))
    opened._maintenance.wake()
    until(lambda: opened._guard.failure is not None)
    held.set()
    assert closed.wait(_SECONDS)
    assert raised == [PoisonedError, StateError]
    with pytest.raises(PoisonedError):
        opened.close()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_try_call_returns_a_future_if_it_appends(tmp_path: Path, is_there: bool) -> None:
    with journal(tmp_path) as (opened, _):
        if is_there:
            opened.append_add(1, 1, b"")
        tried = [opened.try_append_add(1, 1, b"", sync=Sync.FUTURE)]
        if not is_there:
            opened.append_delete(1)
        tried += [
            opened.try_append_update(1, 1, b"", sync=Sync.FUTURE),
            opened.try_append_delete(1, sync=Sync.FUTURE),
        ]
        assert [each is not False for each in tried] == [not is_there, is_there, is_there]
        for each in tried:
            if each is not False:
                assert each.result(_SECONDS) is None
