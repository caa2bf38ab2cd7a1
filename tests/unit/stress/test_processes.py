"""Measured processes: they begin together, count, and are never left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stress.bench.measuring import Prepared, measuring
from stress.bench.processes import Loop, Opener, Work, run_processes
from stress.bench.sample import MeasureError
from tests.support.checkout import ROOT


def opener(loop: Loop) -> Opener:
    @contextmanager
    def opened(index: int) -> Iterator[Loop]:
        yield loop

    return opened


def wait_for_stop(work: Work) -> int:
    while not work.stop[0]:
        os.sched_yield()
    return 1


@pytest.mark.slow
def test_the_records_of_all_processes_are_added_up() -> None:
    def loop(work: Work) -> int:
        wait_for_stop(work)
        assert work.waits is not None
        work.waits[0] = 1000 * (work.index + 1)
        return 1

    run = run_processes(opener(loop), processes=3, seconds=0.02, keep_waits=True)
    assert run.record_count == 3
    assert run.seconds > 0
    assert run.waits is not None
    assert (run.waits.p50_ns, run.waits.longest_ns) == (2000, 3000)


@pytest.mark.slow
def test_no_process_begins_before_all_are_ready(tmp_path: Path) -> None:
    @contextmanager
    def slow_last(index: int) -> Iterator[Loop]:
        if index == 1:
            deadline = time.monotonic() + 0.1
            while time.monotonic() < deadline:
                os.sched_yield()
            (tmp_path / "ready").touch()

        def loop(work: Work) -> int:
            assert (tmp_path / "ready").exists()
            return wait_for_stop(work)

        yield loop

    run_processes(slow_last, processes=2, seconds=0.01, keep_waits=False)


@pytest.mark.slow
def test_the_error_of_a_process_is_reported() -> None:
    def loop(work: Work) -> int:
        if work.index == 1:
            raise ValueError("on purpose")
        return wait_for_stop(work)

    with pytest.raises(MeasureError, match="ValueError: on purpose"):
        run_processes(opener(loop), processes=3, seconds=0.01, keep_waits=False)


def test_a_process_that_cannot_be_prepared_is_reported() -> None:
    @contextmanager
    def broken(index: int) -> Iterator[Loop]:
        raise OSError("no room")
        yield wait_for_stop

    with pytest.raises(MeasureError, match="OSError: no room"):
        run_processes(broken, processes=2, seconds=0.01, keep_waits=False)


def test_a_process_that_is_killed_is_reported() -> None:
    def loop(work: Work) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    with pytest.raises(MeasureError, match="ended with -9"):
        run_processes(opener(loop), processes=1, seconds=0.01, keep_waits=False)


@pytest.mark.slow
def test_no_record_at_all_is_no_figure() -> None:
    def loop(work: Work) -> int:
        return 0

    with pytest.raises(MeasureError, match="no record was written"):
        run_processes(opener(loop), processes=2, seconds=0.01, keep_waits=False)


@pytest.mark.slow
def test_a_peer_that_holds_less_than_it_was_given_is_found(tmp_path: Path) -> None:
    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        yield Prepared(opener(wait_for_stop), lambda: processes - 1)

    with pytest.raises(MeasureError, match="2 records were written, but 1 are stored"):
        measuring(prepare, processes=2)(tmp_path, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_measuring_process(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "stress.bench", "--only", "durable-2", "--seconds", "120"]
    with subprocess.Popen(
        [*command, "--directory", str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stderr is not None
        try:
            assert b"round 1" in process.stderr.readline()
            deadline = time.monotonic() + 60
            while not list(tmp_path.glob("*/log/*.dat")):
                assert time.monotonic() < deadline
                os.sched_yield()
        finally:
            process.send_signal(number)
        # The pipe ends after every process that has it open has ended.
        rest = process.communicate(timeout=60)[1]
    if number is signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 130
        assert b"all of its processes have ended" in rest
        assert list(tmp_path.iterdir()) == []


# The signal comes while Python runs the hooks of a fork, during which it ignores exceptions of a handler.
_INTERRUPTED = """
import contextlib, os, signal
from stress.bench.processes import run_processes

os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
opener = lambda index: contextlib.nullcontext(lambda work: 1)
try:
    run_processes(opener, processes=2, seconds=600, keep_waits=False)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
def test_an_interrupt_in_the_middle_of_a_fork_counts() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED], check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout, ran.stderr) == ("interrupted\n", "")
