"""CallGuard: one thread at a time is within a call, and the object is closed outside of all calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from binlog.errors import ClosedError
from binlog.storage.native import CallGuard
from tests.support.children import Child


class _Used:
    """Counts the calls of the guard.  is_failing: `wake` and `close` raise."""

    def __init__(self) -> None:
        self.woken = self.closed = 0
        self.is_failing = False

    def _fail(self) -> None:
        if self.is_failing:
            raise OSError("no")

    def wake(self) -> None:
        self.woken += 1
        self._fail()

    def close(self) -> None:
        self.closed += 1
        self._fail()


def _guard() -> tuple[_Used, CallGuard]:
    used = _Used()
    return used, CallGuard(used, ClosedError, "it is closed", threading.RLock)


@contextmanager
def _held_by_another_thread(guard: CallGuard) -> Iterator[None]:
    entered, is_over = threading.Event(), threading.Event()

    def stay() -> None:
        with guard:
            entered.set()
            is_over.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_close_within_calls_closes_at_the_end_of_the_outermost_one() -> None:
    used, guard = _guard()
    with guard:
        with guard:
            guard.close()
        with pytest.raises(ClosedError, match="it is closed"), guard:
            pytest.fail("the guard was entered")
        assert (used.closed, guard.held) == (0, True)
    assert (used.closed, used.woken, guard.held) == (1, 0, False)


def test_another_thread_wakes_a_call_and_waits_for_its_end() -> None:
    used, guard = _guard()
    with guard:
        closing = threading.Thread(target=guard.close)
        closing.start()
        while used.woken < 2:
            closing.join(0.01)
        assert (used.closed, guard.closed) == (0, True)
    closing.join()
    assert used.closed


def test_a_second_close_closes_again_because_the_first_may_have_been_interrupted() -> None:
    used, guard = _guard()
    used.is_failing = True
    with pytest.raises(OSError, match="no"):
        guard.close()
    assert not guard.held
    used.is_failing = False
    guard.close()
    assert used.closed == 2


def test_an_error_of_close_at_the_end_of_a_call_ends_the_call() -> None:
    used, guard = _guard()
    used.is_failing = True
    with pytest.raises(OSError, match="no"), guard:
        guard.close()
    assert not guard.held


def test_an_error_of_wake_leaves_the_call_of_the_other_thread() -> None:
    used, guard = _guard()
    used.is_failing = True
    errors = list[BaseException]()

    def close() -> None:
        try:
            guard.close()
        except OSError as error:
            errors.append(error)

    with guard:
        closing = threading.Thread(target=close)
        closing.start()
        closing.join()
        used.is_failing = False
    assert len(errors) == 1
    assert used.closed == 1


def test_a_child_that_was_forked_within_a_call_ends_it() -> None:
    _, guard = _guard()
    with guard:

        def end() -> None:
            with guard:
                pass
            guard.__exit__(None, None, None)
            assert not guard.held
            guard.close()

        Child(end).join()
        assert guard.held


def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    _, guard = _guard()

    def use() -> None:
        with guard:
            assert guard.held
        guard.close()

    with _held_by_another_thread(guard):
        Child(use).join()


def test_a_new_thread_of_a_child_is_not_taken_for_one_of_its_parent() -> None:
    """With glibc it gets the same pthread_t."""
    _, guard = _guard()

    def use() -> None:
        def enter() -> None:
            with guard:
                pass

        first = threading.Thread(target=enter)
        first.start()
        first.join()
        assert not guard.held
        guard.close()

    with _held_by_another_thread(guard):
        Child(use).join()


def test_a_guard_that_was_not_initialized_is_refused() -> None:
    guard = CallGuard.__new__(CallGuard)
    guard.close()
    with pytest.raises(ValueError, match="initialized"), guard:
        pass


def test_a_call_that_has_not_begun_cannot_be_ended() -> None:
    _, guard = _guard()
    with pytest.raises(RuntimeError, match="no call has begun"):
        guard.__exit__(None, None, None)
