"""Steps that are undone where who waits is broken off: once, by whatever thread, and whenever that is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from binlog.errors import StateError
from binlog.storage.kept_or_undone import KeptOrUndone, Waiter
from tests.support.interruptions import Interruption
from tests.support.signals import interrupting, strike
from tests.support.step_threads import join_step_threads


@pytest.fixture(autouse=True)
def _raises() -> Iterator[None]:
    with interrupting(signal.SIGUSR1):
        yield


class _Stage:
    """What is done, and undone, in turn; and the call that waits for it."""

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self.waiter = Waiter()
        self.seen: list[str] = []
        self._during = during

    def __call__(self) -> int:
        step = KeptOrUndone(self._work, lambda: self.seen.append("undone"), self.waiter)
        try:
            result = step.result_of()
        except BaseException:
            self.waiter.is_left = True
            step.wait_until_undone()
            raise
        self.waiter.is_kept = True
        return result

    def _work(self) -> int:
        self._during()
        self.seen.append("done")
        return len(self.seen)


def test_what_is_waited_for_is_kept() -> None:
    stage = _Stage()
    assert stage() == 1
    join_step_threads()
    assert stage.seen == ["done"]


def test_what_a_handler_breaks_into_is_undone_before_that_comes_out() -> None:
    stage = _Stage(lambda: strike(signal.SIGUSR1))
    with pytest.raises(KeyboardInterrupt):
        stage()
    assert stage.seen == ["done", "undone"]
    with pytest.raises(StateError):
        stage.waiter.check()


def test_what_fails_is_not_undone() -> None:
    stage = _Stage(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        stage()
    join_step_threads()
    assert stage.seen == []


def test_in_another_thread_it_is_done_by_that_one() -> None:
    seen: list[threading.Thread] = []
    stage = _Stage(lambda: seen.append(threading.current_thread()))
    thread = threading.Thread(target=stage)
    thread.start()
    thread.join()
    assert seen == [thread]
    assert stage.seen == ["done"]


def test_without_another_thread_it_is_done_and_undone_by_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    kept = _Stage()
    assert kept() == 1
    left = _Stage()
    monkeypatch.setattr(KeptOrUndone, "_do", _then_raise(KeptOrUndone._do))
    with pytest.raises(KeyboardInterrupt):
        left()
    assert (kept.seen, left.seen) == (["done"], ["done", "undone"])


def _then_raise(plain: Callable[[KeptOrUndone[int]], None]) -> Callable[[KeptOrUndone[int]], None]:
    def do(step: KeptOrUndone[int]) -> None:
        plain(step)
        raise KeyboardInterrupt

    return do


def test_wherever_a_handler_raises_it_is_undone_or_not_done() -> None:
    seen: dict[tuple[str, ...], int] = {}
    for at in range(1000):
        stage = _Stage()
        if not Interruption(at).run(stage):
            join_step_threads()
            assert stage.seen == ["done"]
            break
        join_step_threads()
        seen[tuple(stage.seen)] = seen.get(tuple(stage.seen), 0) + 1
    assert set(seen) == {(), ("done", "undone")}
