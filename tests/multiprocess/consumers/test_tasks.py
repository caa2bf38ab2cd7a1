"""Tasks of asyncio in several processes, which are cancelled and killed at random."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Writer
from binlog.consumers import stat_group
from tests.support.checkout import ROOT
from tests.support.waiting import until

GROUP = "billing"

# Each line of the output is written at once, so the lines of several processes are in the order of events.
_PROGRAM = """
import asyncio, os, random, signal, sys
from binlog import ConsumerGroup, Retry

path, name, task_count = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random()

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

async def work(group):
    async for item in group.consume():
        async with item:
            say("got", item.sequence, item.delivery)
            await asyncio.sleep(chance.uniform(0, 0.01))
        say("acked", item.sequence)

async def watch(waits):
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        await asyncio.sleep(0.002)
        waits.append(loop.time() - began - 0.002)

async def main():
    stopped, waits = asyncio.Event(), []
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with ConsumerGroup(path, name, retry=Retry(deliveries_max=None, first=0.01)) as group:
        tasks = [asyncio.create_task(work(group)) for _ in range(task_count)]
        watching = asyncio.create_task(watch(waits))
        while not stopped.is_set():
            at = chance.randrange(task_count)
            tasks[at].cancel()
            await asyncio.gather(tasks[at], return_exceptions=True)
            tasks[at] = asyncio.create_task(work(group))
            await asyncio.sleep(0.005)
        for task in [*tasks, watching]:
            task.cancel()
        ended = await asyncio.gather(*tasks, watching, return_exceptions=True)
        errors = {repr(each) for each in ended if not isinstance(each, asyncio.CancelledError)}
    say("errors", len(errors), *errors)
    say("waits", int(max(waits[10:], default=0) * 1e6), int(sorted(waits)[len(waits) // 2] * 1e6))

asyncio.run(main())
"""


class _Processes:
    """Some processes with tasks, whose output is one file."""

    def __init__(self, log: Path, output: Path, tasks: int) -> None:
        self._command = [sys.executable, "-c", _PROGRAM, str(log), GROUP, str(tasks)]
        self._output = output
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        with open(self._output, "ab") as output:
            self.running.append(subprocess.Popen(self._command, cwd=ROOT, stdout=output))

    def kill_one(self) -> None:
        victim = self.running.pop(random.randrange(len(self.running)))
        victim.kill()
        victim.wait()

    def end(self, number: int) -> list[int]:
        """Send a signal to all, and return their statuses."""
        for process in self.running:
            process.send_signal(number)
        return [process.wait() for process in self.running]


@pytest.mark.parametrize(
    ("process_count", "task_count", "message_count"),
    [(3, 100, 1_500), pytest.param(8, 500, 20_000, marks=pytest.mark.install)],
)
def test_tasks_that_are_cancelled_and_killed_lose_no_item(
    tmp_path: Path, process_count: int, task_count: int, message_count: int, figure: Callable[[str], None]
) -> None:
    log, output = tmp_path / "log", tmp_path / "output"
    with Writer(log) as writer:
        writer.append_many([b"x"] * message_count)
    processes = _Processes(log, output, task_count)
    try:
        for _ in range(process_count):
            processes.start()
        until(lambda: b"got" in output.read_bytes())
        kill_at, kills = time.monotonic() + 1.0, 0

        def is_done() -> bool:
            nonlocal kill_at, kills
            if time.monotonic() >= kill_at and kills < 20:
                kill_at, kills = time.monotonic() + random.uniform(0.3, 1), kills + 1
                processes.kill_one()
                processes.start()
            return stat_group(log, GROUP).floor >= message_count

        until(is_done)
        # One that was started just now may not handle the signal yet.
        assert set(processes.end(signal.SIGTERM)) <= {0, -signal.SIGTERM}
    finally:
        processes.end(signal.SIGKILL)
    lines = [line.split() for line in output.read_text().splitlines()]
    assert {line[1] for line in lines if line[0] == "errors"} <= {"0"}, lines[-10:]
    acked: set[int] = set()
    for word, number, *_ in lines:
        if word == "got":
            assert int(number) not in acked
        elif word == "acked":
            assert int(number) not in acked
            acked.add(int(number))
    assert {int(line[1]) for line in lines if line[0] == "got"} == set(range(message_count))
    counters = stat_group(log, GROUP).counters
    assert (counters.done, counters.dead) == (message_count, 0)
    blocked = [(int(line[1]), int(line[2])) for line in lines if line[0] == "waits"] or [(0, 0)]
    figure(
        f"{process_count} event loops with {task_count} tasks each were late by "
        f"{statistics.median(each for _, each in blocked) / 1e3:.1f} ms (median), "
        f"{max(each for each, _ in blocked) / 1e3:.1f} ms at most"
    )
