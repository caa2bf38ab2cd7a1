"""The pool: work with one key never runs concurrently, and no request is lost."""

from __future__ import annotations

import threading

from binlog.paging.pool import Pool

_SECONDS = 20


def test_work_requested_during_a_run_is_run_again() -> None:
    pool = Pool(2)
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
    done = []

    def work() -> None:
        begun.release()
        go_on.acquire()
        done.append(threading.get_ident())

    pool.submit_once("key", work)
    assert begun.acquire(timeout=_SECONDS)
    for _ in range(3):
        pool.submit_once("key", work)
    assert not begun.acquire(blocking=False)
    go_on.release()
    assert begun.acquire(timeout=_SECONDS)
    assert len(done) == 1, "only one runs at a time"
    go_on.release()
    pool.drain()
    assert len(done) == 2
    pool.stop()


def test_queued_work_is_not_queued_twice() -> None:
    pool = Pool(1)
    go_on = threading.Event()
    done = []
    pool.submit(go_on.wait)  # type: ignore[arg-type]
    for number in range(3):
        pool.submit_once("key", lambda number=number: done.append(number))  # type: ignore[misc]
    go_on.set()
    pool.stop()
    assert done == [0]
