"""Calls of a signal handler that interrupted a call of its own thread, which would wait for itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlog.errors import StateError
from binlog.journal.appender import Appender
from binlog.journal.journal import Journal
from binlog.journal.loading.loading import Loading
from binlog.journal.options import Sync
from tests.support.journals import ids, journal, reload
from tests.support.signals import signal_main_thread

_CALLS: list[Callable[[Journal], object]] = [
    lambda opened: opened.append_add(2, 1, b"", sync=Sync.LATER),
    lambda opened: opened.append_delete_tx(3, 1),
    lambda opened: opened.commit(3),
    Journal.new_id,
    Journal.file_pins,
    Journal.problems,
    Journal.reclaim,
    Journal.compact,
    Journal.load,
    Journal.close,
]


class _Handler:
    """Makes all calls, and expects each to be refused."""

    def __init__(self, opened: Journal) -> None:
        self._opened = opened
        self.refused = 0
        self.ended = threading.Event()

    def __call__(self, *_: object) -> None:
        for call in _CALLS:
            with pytest.raises(StateError):
                call(self._opened)
            self.refused += 1
        self.ended.set()


@pytest.fixture(autouse=True)
def _never_for_ever() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError("a call waits for itself")

    before = {number: signal.signal(number, end) for number in (signal.SIGALRM, signal.SIGUSR1)}
    signal.alarm(20)
    yield
    signal.alarm(0)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_handler_within_a_change_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Appender.when_durable

    def struck(appender: Appender, sync: Sync) -> object:
        signal.raise_signal(signal.SIGUSR1)
        return plain(appender, sync)

    with journal(tmp_path) as (opened, _):
        handler = _Handler(opened)
        signal.signal(signal.SIGUSR1, handler)
        with monkeypatch.context() as patched:
            patched.setattr(Appender, "when_durable", struck)
            opened.append_add(1, 1, b"")
        assert handler.refused == len(_CALLS)
        opened.append_add(4, 1, b"")
    assert ids(reload(tmp_path)) == [1, 4]


def test_a_signal_handler_within_a_load_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Loading.loaded

    def struck(loading: Loading) -> object:
        signal_main_thread(signal.SIGUSR1)
        assert handler.ended.wait(20)
        return plain(loading)

    monkeypatch.setattr(Loading, "loaded", struck)
    with Journal(tmp_path) as opened:
        handler = _Handler(opened)
        signal.signal(signal.SIGUSR1, handler)
        opened.load()
        assert handler.refused == len(_CALLS)
        opened.append_add(1, 1, b"")


def test_a_signal_handler_during_a_wait_may_append(tmp_path: Path) -> None:
    """A thread that waits has left the guarded part of its call."""
    with journal(tmp_path) as (opened, _):
        signal.signal(signal.SIGUSR1, lambda *_: opened.append_add(2, 1, b""))
        future = opened.append_add(1, 1, b"", sync=Sync.FUTURE)
        signal.raise_signal(signal.SIGUSR1)
        future.result(timeout=20)
    assert ids(reload(tmp_path)) == [1, 2]


@pytest.mark.parametrize("sync", [True, False, "wait", None])
def test_an_invalid_sync_is_refused_and_nothing_is_appended(tmp_path: Path, sync: object) -> None:
    with journal(tmp_path) as (opened, _):
        with pytest.raises(TypeError, match="Sync"):
            opened.append_add(1, 1, b"", sync=sync)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="Sync"):
            opened.rollback(1, sync=sync)  # type: ignore[call-overload]
    assert reload(tmp_path).records == []
