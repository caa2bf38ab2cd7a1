"""Steps that no signal handler breaks into: done once, whatever raises where, and to their end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.storage.undisturbed import Undisturbed, uninterrupted
from tests.support.checkout import ROOT
from tests.support.interruptions import Interruption
from tests.support.signals import interrupting, strike
from tests.support.step_threads import join_step_threads


@pytest.fixture(autouse=True)
def _raises() -> Iterator[None]:
    with interrupting(signal.SIGUSR1):
        yield


class _Work:
    """Counts how often it is done, after it is let go on."""

    def __init__(self) -> None:
        self.count = 0
        self.entered, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> int:
        self.count += 1
        self.entered.set()
        assert self.go_on.wait(60)
        self.ended.set()
        return self.count


def test_a_step_gives_what_it_gives_and_raises_what_it_raises() -> None:
    assert uninterrupted(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 // 0)


def test_where_a_handler_raises_the_step_goes_on_to_its_end() -> None:
    work = _Work()

    def strike_then() -> int:
        strike(signal.SIGUSR1)
        return work()

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(strike_then)
    assert work.entered.wait(60)
    work.go_on.set()
    assert work.ended.wait(60)
    assert work.count == 1


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), RuntimeError("a handler's own")])
def test_a_handler_that_makes_the_start_of_a_thread_fail_has_no_step_done_twice(
    monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    """It may be a RuntimeError, as where there are no more threads; this one runs all the same."""
    work = _Work()
    plain = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        plain(thread)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError) as raised:
            uninterrupted(work)
    assert raised.value is error
    work.go_on.set()
    assert work.ended.wait(60)
    assert work.count == 1


def test_without_another_thread_the_step_is_done_by_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert uninterrupted(threading.current_thread) is threading.main_thread()


def test_wherever_a_handler_raises_it_is_done_once_or_not_at_all() -> None:
    counts = {0: 0, 1: 0}
    for at in range(1000):
        work = _Work()
        work.go_on.set()
        interruption = Interruption(at)
        if not interruption.run(lambda work=work: uninterrupted(work)):  # type: ignore[misc]
            break
        join_step_threads()
        counts[work.count] += 1
    assert counts[0] > 1
    assert counts[1] > 1


_INTERRUPTED = """
import os, pathlib, signal, sys, threading, time
from binlog.storage.undisturbed import uninterrupted

def where():
    frame = sys._current_frames()[threading.main_thread().ident]
    return frame.f_code.co_name, frame.f_lasti

def work():
    before = None
    while before != where() or before[0] == "start":  # until the main thread waits
        before = where()
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)  # the main thread ends
    pathlib.Path(sys.argv[1]).write_text("done")

uninterrupted(work, outlives_main=True)
"""


def test_the_interpreter_ends_behind_a_step_that_was_interrupted(tmp_path: Path) -> None:
    """Ctrl-C while it waits: what outlives the main thread is waited for all the same."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, tmp_path / "file"], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert b"KeyboardInterrupt" in done.stderr
    assert (tmp_path / "file").read_text() == "done"


def test_a_step_that_the_thread_has_begun_is_not_done_again_where_the_thread_seems_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it does once what a handler raised came out of `join`, or of `is_alive`."""
    steps, work = Undisturbed("binlog test"), _Work()
    monkeypatch.setattr("binlog.storage.undisturbed._LOOK_SECONDS", 0.01)
    asked = threading.Event()

    def is_alive(_: threading.Thread) -> bool:
        asked.set()
        return False

    def go_on() -> None:
        assert work.entered.wait(60)
        assert asked.wait(60)
        work.go_on.set()

    other = threading.Thread(target=go_on)
    other.start()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "is_alive", is_alive)
        assert steps.do(work) == 1
    other.join()
    assert work.count == 1
    steps.stop()
