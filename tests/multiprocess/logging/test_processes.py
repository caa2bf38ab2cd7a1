"""Processes share a handler, by fork, by spawn and in pools: each record is in the log once, in its process's order."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

import binlog
from binlog.logging import Handler
from tests.support.children import Child
from tests.support.events import bodies, logger_of
from tests.support.logging_workers import log_in_pool, log_numbers, numbers_by_writer, start_pool_worker
from tests.support.workers import run_all

_PROCESSES, _COUNT = 8, 5000


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_eight_processes_log_through_cutovers(log: Path, method: str) -> None:
    handler = Handler(log, cutover_bytes="100K", wait=60)
    done = run_all(method, [(log_numbers, (handler, writer, _COUNT)) for writer in range(_PROCESSES)])
    assert done == [_COUNT] * _PROCESSES
    handler.close()
    assert numbers_by_writer(bodies(log)) == {writer: list(range(_COUNT)) for writer in range(_PROCESSES)}
    assert len(list(log.glob("*.dat"))) > 20


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.turn(3))])
def test_forks_while_another_thread_logs_hang_nothing_and_lose_nothing(log: Path, count: int) -> None:
    handler = Handler(log, wait=60)
    stopped = threading.Event()
    logged = [0]
    with logger_of(handler) as logger:

        def log_all() -> None:
            while not stopped.is_set():
                level = (logging.INFO, logging.INFO, logging.WARNING, logging.CRITICAL)[logged[0] % 4]
                logger.log(level, "0 %d", logged[0])
                logged[0] += 1

        def work(number: int) -> None:
            for index, level in enumerate((logging.INFO, logging.WARNING, logging.CRITICAL, logging.INFO)):
                logger.log(level, "%d %d", number, index)

        thread = threading.Thread(target=log_all)
        thread.start()
        for first in range(1, count + 1, 10):
            children = [Child(work, number) for number in range(first, first + 10)]
            for child in children:
                child.join()
        stopped.set()
        thread.join()
    found = numbers_by_writer(bodies(log))
    assert found.pop(0) == list(range(logged[0]))
    assert found == {number: list(range(4)) for number in range(1, count + 1)}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_logs(log: Path, method: str) -> None:
    handler = Handler(log, wait=60)
    context = multiprocessing.get_context(method)
    with context.Pool(4, start_pool_worker, (handler,), maxtasksperchild=10) as pool:
        processes = set(pool.map(log_in_pool, range(1000), chunksize=10))
        pool.close()
        pool.join()
    assert len(processes) >= 10
    assert os.getpid() not in processes
    handler.close()
    assert sorted(map(int, bodies(log))) == list(range(1000))


def test_processes_that_end_without_exit_handlers_lose_nothing(log: Path) -> None:
    """`os._exit` runs no exit handlers, so the records are in shared memory when the process ends."""

    def work() -> None:
        with logger_of() as logger:
            logger.addHandler(Handler(log, background=binlog.Background(flush_seconds=600, sync_seconds=600)))
            for number in range(100):
                logger.info("0 %d", number)
            os._exit(0)

    Child(work).join()
    assert len(bodies(log)) < 100
    binlog.Writer(log).close()
    assert numbers_by_writer(bodies(log)) == {0: list(range(100))}
