"""Monitor: one thread at a time holds it, others wait for a notice, and an exception never leaves it locked."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from binlog.errors import StateError
from binlog.storage.native import Monitor
from tests.support.signals import interrupting, signal_main_thread

_SECONDS = 0.05


def test_an_item_that_one_thread_passes_reaches_another() -> None:
    monitor, handed, taken = Monitor(), list[int](), list[int]()

    def take() -> None:
        for _ in range(1000):
            with monitor:
                while not handed:
                    monitor.wait()
                taken.append(handed.pop())

    takers = [threading.Thread(target=take) for _ in range(4)]
    for thread in takers:
        thread.start()
    for number in range(4000):
        with monitor:
            handed.append(number)
            monitor.notify(1)
    for thread in takers:
        thread.join()
    assert sorted(taken) == list(range(4000))


def test_a_wait_times_out_and_takes_the_mutex_again() -> None:
    monitor = Monitor()
    with monitor:
        began = time.monotonic()
        monitor.wait(_SECONDS)
        assert time.monotonic() - began >= _SECONDS
        assert monitor.held
    assert not monitor.held


def test_a_thread_that_holds_it_is_refused_instead_of_blocking() -> None:
    monitor = Monitor()
    with monitor:
        with pytest.raises(StateError, match="within a call"), monitor:
            pass
        assert monitor.held
    with pytest.raises(RuntimeError, match="only a thread that holds"):
        monitor.wait(0)


def test_an_interrupted_wait_takes_the_mutex_again_and_releases_it() -> None:
    monitor = Monitor()
    struck = threading.Timer(_SECONDS, lambda: signal_main_thread(signal.SIGUSR1))
    with interrupting(signal.SIGUSR1):
        struck.start()
        with pytest.raises(KeyboardInterrupt), monitor:  # noqa: PT012
            try:
                monitor.wait()
            finally:
                assert monitor.held
    struck.join()
    assert not monitor.held


def test_an_interrupted_entry_does_not_take_the_mutex() -> None:
    monitor, is_over, has_it = Monitor(), threading.Event(), threading.Event()

    def hold() -> None:
        with monitor:
            has_it.set()
            time.sleep(_SECONDS)  # by then the main thread waits for the mutex; there is no way to observe that
            signal_main_thread(signal.SIGUSR1)
            is_over.wait()

    holder = threading.Thread(target=hold)
    with interrupting(signal.SIGUSR1):
        holder.start()
        has_it.wait()
        with pytest.raises(KeyboardInterrupt), monitor:
            pytest.fail("another thread has it")
    assert monitor.held
    is_over.set()
    holder.join()
    with monitor:
        pass
