from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from binlog.storage.once import Once


class _RaisedError(Exception):
    pass


def test_all_who_wait_return_once_it_has_happened_and_none_before() -> None:
    once = Once()
    returned: list[int] = []
    begun = threading.Barrier(9)

    def wait(number: int) -> None:
        begun.wait()
        once.wait()
        returned.append(number)

    with ThreadPoolExecutor(8) as pool:
        waits = [pool.submit(wait, number) for number in range(8)]
        begun.wait()
        assert (once.has_happened, returned) == (False, [])
        once.happen()
        for each in waits:
            each.result()
    assert once.has_happened
    once.wait()
    once.happen()
    assert sorted(returned) == list(range(8))


def test_a_signal_handler_that_raises_ends_the_wait() -> None:
    def handle(number: int, frame: object) -> None:
        raise _RaisedError

    once = Once()
    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(_RaisedError):
            once.wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not once.has_happened


def test_a_wait_that_a_signal_interrupts_goes_on() -> None:
    once, calls = Once(), []
    before = signal.signal(signal.SIGALRM, lambda number, frame: calls.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        waker = threading.Thread(target=_happen_once_called, args=(once, calls))
        waker.start()
        once.wait()
        waker.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(calls) >= 3


def _happen_once_called(once: Once, calls: list[int]) -> None:
    while len(calls) < 3:
        time.sleep(0.001)
    once.happen()
