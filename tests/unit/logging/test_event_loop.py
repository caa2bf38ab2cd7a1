"""Within an event loop no call waits for a disk, even if the disk does not answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Background
from binlog.logging import Handler
from stress.crash.preloaded.injector import Action, Injection, Kind, arm, disarm
from tests.support.events import bodies, logger_of
from tests.support.preloaded import run_preloaded

_SYNCS = (Kind.DATA_SYNC, Kind.SYNC)


async def _log_on_a_disk_that_hangs(logger: logging.Logger, handler: Handler, log: str) -> list[str]:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    arm(Injection(Action.HANG, kinds=_SYNCS, count=-1), log)
    begun = time.monotonic()
    for number in range(100):
        logger.critical("critical %d", number)
    logged = time.monotonic() - begun
    syncing = asyncio.create_task(handler.synced())
    while ticks < 50:
        await asyncio.sleep(0)
    order = ["not synced" if not syncing.done() else "synced too early"]
    disarm()
    await syncing
    order.append("synced")
    ticking.cancel()
    (file,) = binlog.stat(log).files
    assert file.durable_end == file.tail
    assert logged < 60  # each sync hangs until the calls have returned
    return order


def _hang(log: Path) -> tuple[list[str], list[str]]:
    # The background thread must not sync first: a record in the file would wait for it.
    handler = Handler(log, wait=60, background=Background(flush_seconds=600, sync_seconds=600))
    with logger_of(handler) as logger:
        logger.info("first")
        handler.flush()
        order = asyncio.run(_log_on_a_disk_that_hangs(logger, handler, str(log)))
    return order, bodies(log)


@pytest.mark.slow
def test_critical_does_not_wait_for_a_disk_that_hangs_and_synced_does(in_memory: Path) -> None:
    order, found = run_preloaded(_hang, in_memory / "log").result
    assert order == ["not synced", "synced"]
    assert found == ["first", *[f"critical {number}" for number in range(100)]]


@pytest.mark.slow
def test_ten_thousand_calls_delay_a_timer_by_their_processor_time(log: Path, figure: Callable[[str], None]) -> None:
    handler = Handler(log, in_loop="stage", wait=60)

    async def work(logger: logging.Logger) -> tuple[float, float]:
        latest = 0.0

        async def tick() -> None:
            nonlocal latest
            while True:
                begun = time.monotonic()
                await asyncio.sleep(0.005)
                latest = max(latest, time.monotonic() - begun - 0.005)

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        begun = time.thread_time()
        for number in range(10_000):
            logger.log((logging.INFO, logging.WARNING, logging.CRITICAL)[number % 3], "%d", number)
            if number % 1000 == 999:
                used = time.thread_time() - begun
                await asyncio.sleep(0)
        ticking.cancel()
        return latest, used

    with logger_of(handler) as logger:
        latest, used = asyncio.run(work(logger))
    figure(
        f"10,000 calls in an event loop: {used * 1e3:.0f} ms of processor time, "
        f"a timer at most {latest * 1e3:.0f} ms late"
    )
    assert bodies(log) == [str(number) for number in range(10_000)]
    assert latest < 60
