"""A thread whose start a signal handler breaks into: it runs, or not at all, and what the handler raises comes out."""

from __future__ import annotations

import threading

from binlog.storage.step_thread import StepThread
from tests.support.interruptions import Interruption


def test_a_start_returns_once_the_thread_has_begun() -> None:
    go_on = threading.Event()
    thread = StepThread(lambda: go_on.wait(60), "binlog test", daemon=True)
    assert not thread.is_alive()
    thread.start()
    assert thread.is_alive()
    go_on.set()
    thread.join()


def test_wherever_a_handler_raises_the_thread_runs_to_its_end_or_not_at_all() -> None:
    """Within threading.py, which waits: nothing else comes out, and the thread waits for nobody."""
    counts = {True: 0, False: 0}
    for at in range(1000):
        ran = threading.Event()
        thread = StepThread(ran.set, "binlog test", daemon=True)
        was_interrupted = Interruption(at, "threading.py").run(thread.start)
        if thread.ident is not None or not was_interrupted:
            assert ran.wait(60)
        counts[ran.wait(0.05)] += 1
        if not was_interrupted:
            break
    assert counts[True] > 1
    assert counts[False] > 1
