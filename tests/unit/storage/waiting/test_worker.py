"""Worker: its thread starts with its owner or not at all, and a stop needs no wait for one that never started."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog.errors import BusyError, StateError
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from binlog.pagestore import PageStore
from binlog.storage.waiting.worker import Worker
from tests.support.checkout import ROOT
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.interruptions import Interruption, at_each_place
from tests.support.journals import SMALL, ids, reload
from tests.support.pagestores import QUEUE, peek, put
from tests.support.waiting import until


@contextmanager
def _no_thread_can_be_made() -> Iterator[None]:
    """No address space has room for such a stack."""
    before = threading.stack_size(1 << 50)
    try:
        yield
    finally:
        threading.stack_size(before)


def _count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_page_store_that_can_make_no_thread_is_not_opened(tmp_path: Path) -> None:
    before = descriptors_before()
    with _no_thread_can_be_made(), pytest.raises(StateError, match="thread"):
        PageStore(tmp_path)
    assert count_descriptors() == before
    PageStore(tmp_path).close()


def test_a_journal_that_can_make_no_thread_is_not_loaded(tmp_path: Path) -> None:
    with Journal(tmp_path, SMALL) as journal:
        with _no_thread_can_be_made(), pytest.raises(StateError, match="thread"):
            journal.load()
        journal.load()
        journal.append_add(1, 1, b"")
    assert ids(reload(tmp_path)) == [1]


def test_open_engines_need_no_further_threads(tmp_path: Path) -> None:
    for name in ("store", "journal"):
        (tmp_path / name).mkdir()
    with PageStore(tmp_path / "store") as store, Journal(tmp_path / "journal", SMALL) as journal:
        journal.load()
        with _no_thread_can_be_made():
            store.create_queue(QUEUE)
            put(store, b"one")
            journal.append_add(1, 1, b"", sync=Sync.FUTURE).result(timeout=60)
            assert (journal.reclaim(), journal.compact()) == (0, 0)
        assert peek(store) == [b"one"]


def test_a_freed_store_frees_its_thread(tmp_path: Path) -> None:
    before, thread_count = descriptors_before(), _count_threads()
    store = PageStore(tmp_path)
    store.create_queue(QUEUE)
    put(store, b"one")
    del store

    def is_gone() -> bool:
        gc.collect()
        return count_descriptors() == before and _count_threads() <= thread_count

    until(is_gone)
    with PageStore(tmp_path) as store:
        assert peek(store) == [b"one"]


def test_a_freed_journal_resolves_its_futures(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SMALL)
    journal.start()
    journal.load()
    future = journal.append_add(1, 1, b"", sync=Sync.FUTURE)
    del journal
    future.result(timeout=60)

    def is_loaded() -> bool:
        gc.collect()
        try:
            return ids(reload(tmp_path)) == [1]
        except BusyError:
            return False

    until(is_loaded)


def test_stopping_a_worker_that_never_began_does_not_wait() -> None:
    worker = Worker(lambda: None)
    worker.notify()
    for _ in range(2):
        worker.stop()


def test_a_worker_whose_stop_was_interrupted_anywhere_is_stopped_without_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("binlog.storage.waiting.worker._BEGIN_SECONDS", 3600)

    def interrupt(at: int) -> bool | None:
        worker = Worker(lambda: None)
        worker.start()
        was_interrupted = Interruption(at).run(worker.stop)
        again = threading.Thread(target=worker.stop, daemon=True)
        again.start()
        again.join(60)
        assert not again.is_alive()
        return was_interrupted or None

    assert at_each_place(interrupt)[0] > 5


def test_each_notice_runs_the_work_and_none_after_the_end() -> None:
    done: list[int] = []
    worked = threading.Semaphore(0)

    def work() -> None:
        done.append(threading.get_ident())
        worked.release()

    worker = Worker(work)
    worker.notify()
    assert done == []
    worker.start()
    for _ in range(3):
        assert worked.acquire(timeout=60)
        worker.notify()
    assert worked.acquire(timeout=60)
    worker.stop()
    worker.notify()
    worker.stop()
    assert len(done) == 4
    assert set(done) == {worker.ident}


_STARTS = """
import os, sys
from binlog.paging.pool import Pool
from binlog.storage.waiting.worker import Worker
# On one processor, new threads run only when this thread sleeps.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
for _ in range(20):
    worker, pool = Worker(lambda: None), Pool(2)
    worker.start()
    pool.submit(lambda: None)
    worker.stop()
import ctypes
library = ctypes.CDLL(None)
library.on_exit(library.usleep, None)  # sleeps for as many microseconds as the exit code says, after the interpreter
sys.exit(200)
"""


@pytest.mark.root
@pytest.mark.slow
def test_a_thread_has_begun_before_the_interpreter_can_end() -> None:
    """Otherwise Python 3.11.2 gets a segmentation fault."""
    for _ in range(5):
        assert subprocess.run([sys.executable, "-c", _STARTS], cwd=ROOT, check=False).returncode == 200
