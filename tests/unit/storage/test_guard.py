"""Guard: one thread at a time holds it, and an incomplete change poisons it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

import pytest

from binlog.errors import FullError, PoisonedError, StateError
from binlog.storage.handle import new_guard
from binlog.storage.native import Guard


@pytest.fixture
def guard() -> Guard:
    return new_guard("the thing")


def test_threads_exclude_each_other(guard: Guard) -> None:
    counts = {"in": 0, "done": 0}

    def work() -> None:
        for _ in range(2000):
            with guard:
                counts["in"] += 1
                assert counts["in"] == 1
                if counts["done"] % 100 == 0:
                    time.sleep(0)  # another thread runs meanwhile
                counts["in"] -= 1
                counts["done"] += 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {"in": 0, "done": 16_000}


@pytest.mark.parametrize("error", [KeyboardInterrupt, FullError("no space"), ValueError("wrong")])
def test_an_exception_in_the_middle_of_a_change_poisons_it(
    guard: Guard, error: type[BaseException] | BaseException
) -> None:
    with pytest.raises(BaseException) as raised, guard:  # noqa: PT011, PT012
        guard.changing = True
        raise error
    for _ in range(2):
        with pytest.raises(PoisonedError, match="the thing") as refused, guard:
            pass
        assert refused.value.__cause__ is raised.value
    assert not guard.held


def test_an_exception_outside_of_a_change_poisons_nothing(guard: Guard) -> None:
    with pytest.raises(KeyboardInterrupt), guard:
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), guard:  # noqa: PT012
        guard.changing = True
        guard.changing = False
        raise KeyboardInterrupt
    with guard:
        assert not guard.changing


@pytest.mark.parametrize(
    ("error", "poisons"), [(KeyboardInterrupt(), True), (FullError("x"), False), (TypeError(), False)]
)
def test_a_change_is_poisoned_by_errors_that_leave_it_incomplete(
    guard: Guard, error: BaseException, poisons: bool
) -> None:
    with pytest.raises(type(error)), guard.change():  # noqa: PT012
        assert not guard.held
        raise error
    assert (guard.failure is error) is poisons


def test_a_thread_that_holds_it_is_refused(guard: Guard) -> None:
    with guard:
        assert guard.held
        with pytest.raises(StateError, match="within a call of the thing"), guard:
            pass
        assert guard.held
    with guard:
        pass


def test_a_signal_handler_ends_a_wait_for_it(guard: Guard) -> None:
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with guard:
            taken.set()
            over.wait(60)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        taken.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt), guard:
            pass
    finally:
        signal.signal(signal.SIGALRM, before)
        over.set()
        thread.join()
    with guard:
        pass


@pytest.mark.slow
def test_a_signal_handler_may_take_it_while_its_thread_waits(guard: Guard) -> None:
    taken, released, calls = threading.Event(), threading.Event(), 0

    def hold() -> None:
        with guard:
            taken.set()
            time.sleep(0.1)
        with guard:  # the waiter was woken, and is too late
            time.sleep(0.3)
        released.set()

    def take(number: int, frame: FrameType | None) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise TimeoutError("the handler waits for its own thread")
        released.wait(60)
        with guard:
            pass

    before = signal.signal(signal.SIGALRM, take)
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        taken.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.2, 5)
        with guard:
            assert calls == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        thread.join()


def test_a_waiter_that_woke_too_late_is_next(guard: Guard) -> None:
    taken = threading.Event()
    attempts_max = 1000

    def take() -> None:
        with guard:
            taken.set()

    waiter = threading.Thread(target=take)
    attempts = 0
    while not taken.is_set() and attempts < attempts_max:
        with guard:
            if attempts == 0:
                waiter.start()
            attempts += 1
            time.sleep(0.01)  # the waiter may run, and finds the mutex taken
    waiter.join()
    assert attempts < attempts_max // 10


def test_a_bound_guard_refuses_other_processes_and_files(guard: Guard, tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    status = os.fstat(fd)
    assert guard.is_ours
    guard.bind(fd, status.st_dev, status.st_ino)
    with guard:
        assert guard.is_ours
    if (child := os.fork()) == 0:
        code = 1
        try:
            code = int(guard.is_ours or not _refuses(guard))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(fd)
    assert not guard.is_ours
    assert _refuses(guard)
    guard.bind(-1, 0, 0)
    with guard:
        assert guard.is_ours


def _refuses(guard: Guard) -> bool:
    try:
        with guard:
            return False
    except StateError as error:
        return "belongs to the parent process, or the program closed its descriptors" in str(error)
