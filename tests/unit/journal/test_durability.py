"""Durability of records if processes exit, are killed, or their writes fail."""

from __future__ import annotations

import re
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.journal.options import Sync
from tests.support.children import run_script
from tests.support.interruptions import slow_after
from tests.support.journals import SMALL, files, ids, journal, records_in, reload
from tests.support.waiting import until

_HEAD = """
import os, signal, sys, time
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync
journal = Journal(sys.argv[1], JournalOptions(file_bytes=2048, compact_files_min=0))
journal.start()
loaded = journal.load()
"""


@pytest.mark.slow
def test_committed_records_survive_an_immediate_kill(tmp_path: Path) -> None:
    script = """
start = len(loaded.records)
for number in range(start, int(sys.argv[2])):
    journal.append_add_tx(10_000 + number, number, 1, b"%d" % number)
    journal.commit(10_000 + number)
os.kill(os.getpid(), signal.SIGKILL)
"""
    for count in (4, 8, 100, 400):
        done = run_script(_HEAD + script, tmp_path, count)
        assert done.returncode == -signal.SIGKILL, done.stderr
    loaded = reload(tmp_path)
    assert [(record.record_id, record.body) for record in loaded.records] == [
        (number, b"%d" % number) for number in range(400)
    ]
    assert not loaded.problems


@pytest.mark.slow
def test_records_without_a_waiter_survive_a_kill_soon_after(tmp_path: Path) -> None:
    script = """
for number in range(20):
    journal.append_add(number, 1, b"later", sync=Sync.LATER)
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_script(_HEAD + script, tmp_path).returncode == -signal.SIGKILL
    assert ids(reload(tmp_path)) == list(range(20))


@pytest.mark.slow
def test_records_without_a_waiter_are_written_soon_after_a_late_write(tmp_path: Path) -> None:
    """The worker writes the first record before the appending thread has noted that it woke the worker."""
    with journal(tmp_path) as (opened, _):
        with slow_after("put", 0.2):
            opened.append_add(1, 1, b"", sync=Sync.LATER)
        until(lambda: not opened._appender._group.pending)
        opened.append_add(2, 1, b"", sync=Sync.LATER)
        until(lambda: not opened._appender._group.pending)


@pytest.mark.slow
def test_records_of_completed_futures_survive_an_immediate_kill(tmp_path: Path) -> None:
    script = """
for number in range(5):
    journal.append_add(number, 1, b"before", sync=Sync.LATER)
future = journal.append_add(5, 1, b"told", sync=Sync.FUTURE)
future.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGKILL))
time.sleep(60)  # it is killed long before
"""
    assert run_script(_HEAD + script, tmp_path).returncode == -signal.SIGKILL
    assert ids(reload(tmp_path)) == list(range(6))


def test_futures_complete_in_the_order_of_their_calls(tmp_path: Path) -> None:
    done: list[int] = []
    with journal(tmp_path) as (opened, _):
        futures: list[Future[None]] = []
        for number in range(300):
            future = opened.append_add(number, 1, b"", sync=Sync.FUTURE)
            future.add_done_callback(lambda _, number=number: done.append(number))  # type: ignore[misc]
            futures.append(future)
        assert not futures[-1].cancel()
        for future in futures:
            assert future.result(timeout=30) is None
        assert sum(len(records_in(file)) for file in files(tmp_path)) == 300
    assert done == list(range(300))


def _writes() -> int:
    """Return how many write calls this process has made (proc(5)): a commit makes one, and then syncs."""
    found = re.search(r"^syscw: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_threads_share_syncs(tmp_path: Path) -> None:
    options = replace(SMALL, file_bytes=1 << 20)
    with journal(tmp_path, options) as (opened, _), ThreadPoolExecutor(16) as pool:
        group = opened._appender._group
        before, appended = _writes(), group.appended
        with group.lead_or_wait(1 << 62):  # as if another thread synced
            waits = [pool.submit(opened.append_add, number, 1, b"") for number in range(16)]
            until(lambda: group.appended == appended + 16)
        for wait in waits:
            wait.result(timeout=60)
        assert _writes() - before < 16
    assert len(reload(tmp_path, options).records) == 16


@pytest.mark.slow
def test_a_failed_write_fails_all_callers_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """setrlimit(2) limits the size of files, so that later writes fail as on a full disk."""
    script = """
import resource
from binlog.errors import PoisonedError
for number in range(5):
    journal.append_add(number, 1, bytes(100))
journal.append_add_tx(77, 100, 1, b"")
resource.setrlimit(resource.RLIMIT_FSIZE, (900, resource.RLIM_INFINITY))
future = journal.append_add(5, 1, b"x" * 400, sync=Sync.FUTURE)
print(type(future.exception(30)).__name__)
for call in (
    lambda: journal.append_add(6, 1, b""),
    lambda: journal.append_add(6, 1, b"", sync=Sync.LATER),
    lambda: journal.append_update_tx(77, 100, 1, b""),
    lambda: journal.commit(77),
    lambda: journal.rollback(77),
    lambda: journal.reclaim(),
    lambda: journal.close(),
):
    try:
        call()
    except PoisonedError as error:
        print(type(error).__name__)
journal.close()
"""
    done = run_script(_HEAD + script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["PoisonedError"] * 8
    loaded = reload(tmp_path)
    assert ids(loaded) == list(range(5))
    assert [each.tx_id for each in loaded.failed] == [77]


def test_close_makes_all_records_durable(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        for number in range(100):
            opened.append_add(number, 1, b"", sync=Sync.LATER)
    assert ids(reload(tmp_path)) == list(range(100))


@pytest.mark.slow
def test_close_waits_for_a_running_append(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _), ThreadPoolExecutor(2) as pool:
        opened.append_add(1, 1, bytes(1500))
        with opened._files_guard:
            appended = pool.submit(opened.append_add, 2, 1, bytes(1500))  # cuts over to the next file
            time.sleep(0.1)
            closed = pool.submit(opened.close)
            time.sleep(0.1)
        appended.result(timeout=20)
        closed.result(timeout=20)
    assert ids(reload(tmp_path)) == [1, 2]
