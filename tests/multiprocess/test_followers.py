"""Followers in other processes: fast, quiet, woken by the doorbell alone, and without permission to write."""

from __future__ import annotations

import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import binlog
from binlog import Reader, Start, Writer
from binlog.log.read import cursor
from tests.support.children import Child
from tests.support.preloaded import calls_so_far, run_preloaded

NOBODY = 65534


@contextmanager
def _child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """Fork a child with the writing end of a pipe; return its id, and the reading end."""
    read, write = os.pipe()
    child = Child(work, write)
    os.close(write)
    try:
        yield child.pid, read
    finally:
        os.close(read)
        child.join()


def _read_all(fd: int) -> bytes:
    return b"".join(iter(lambda: os.read(fd, 65536), b""))


def _asleep(child: int) -> bool:
    """Return whether the process sleeps, as it does in its futex."""
    return Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.slow
def test_an_idle_follower_gets_a_record_soon_after_its_append(log: Path, figure: Callable[[str], None]) -> None:
    rounds = 200
    with Writer(log) as writer:

        def follow(pipe: int) -> None:
            reader = Reader(log, Start.END)
            os.write(pipe, b"r")
            times = []
            while len(times) < rounds:
                assert reader.wait(60)
                now = time.perf_counter_ns()
                times += [now for _ in reader]
            os.write(pipe, json.dumps(times).encode())

        with _child(follow) as (_, pipe):
            os.read(pipe, 1)
            returned = []
            for _ in range(rounds):
                time.sleep(0.02)  # the follower must be idle: this is the load, not a wait for something
                writer.append(bytes(100))
                returned.append(time.perf_counter_ns())
            seen = json.loads(_read_all(pipe))
    waits_ms = sorted((b - a) / 1e6 for a, b in zip(returned, seen, strict=True))
    figure(
        f"append returned to idle follower has the record: median {statistics.median(waits_ms):.3f} ms, "
        f"p90 {waits_ms[rounds * 9 // 10]:.3f} ms, most {waits_ms[-1]:.3f} ms (target: median 0.5 ms)"
    )


@pytest.mark.slow
def test_an_idle_follower_makes_at_most_one_system_call_a_second(log: Path, figure: Callable[[str], None]) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        writer.cutover()
    seconds = 8
    run = run_preloaded(_follow_nobody, log, seconds)
    before, after, sleeps = run.result
    calls = [call.name for call in run.calls[before:after]]
    figure(f"calls of an idle follower in {seconds} s: {len(calls)} ({', '.join(calls)}), and {sleeps} sleeps")
    assert 2 <= len(calls) <= seconds, calls
    assert sleeps <= seconds


def _follow_nobody(log: Path, seconds: float) -> tuple[int, int, int]:
    """Return how many calls it made before it waited and after that, and how often it slept meanwhile, in any call."""
    with Reader(log) as reader:
        assert [entry.data for entry in reader] == [b"1"]
        assert not reader.wait(0.01)
        before, slept = calls_so_far(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        assert not reader.wait(seconds)
        return before, calls_so_far(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - slept


def test_the_doorbell_alone_wakes_followers_even_across_a_cutover(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "_WAIT_SECONDS_MAX", 600.0)  # a follower that is not woken fails by its deadline
    with Writer(log) as writer:

        def follow(pipe: int) -> None:
            reader = Reader(log, Start.END)
            os.write(pipe, b"r")
            for expected in (b"1", b"2", b"3"):
                assert reader.wait(60)
                assert next(reader).data == expected
                os.write(pipe, expected)

        with _child(follow) as (child, pipe):
            os.read(pipe, 1)
            for record in (b"1", b"2", b"3"):
                _until(lambda: _asleep(child))
                writer.cutover()
                _until(lambda: _asleep(child))
                writer.append(record)
                assert os.read(pipe, 1) == record


@pytest.mark.slow
def test_two_hundred_followers_wake(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "_WAIT_SECONDS_MAX", 600.0)
    count = 200
    with Writer(log) as writer:
        read, write = os.pipe()

        def follow() -> None:
            reader = Reader(log, Start.END)
            os.write(write, b"r")
            assert reader.wait(60)
            assert next(reader).data == b"wake up"

        children = [Child(follow) for _ in range(count)]
        ready = b""
        while len(ready) < count:
            ready += os.read(read, count)
        _until(lambda: all(_asleep(child.pid) for child in children))
        writer.append(b"wake up")
        for child in children:
            child.join()
        os.close(read)
        os.close(write)


def test_a_follower_needs_only_permission_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "_WAIT_SECONDS_MAX", 600.0)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with Writer(log, permissions=0o644) as writer:
            log.chmod(0o555)
            Path(folder).chmod(0o755)

            def follow(pipe: int) -> None:
                if os.geteuid() == 0:
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                assert not os.access(log, os.W_OK)
                reader = Reader(log)
                os.write(pipe, b"r")
                assert reader.wait(60)
                assert next(reader).data == b"1"
                assert binlog.check(log) == []

            with _child(follow) as (child, pipe):
                os.read(pipe, 1)
                _until(lambda: _asleep(child))
                writer.append(b"1")
        log.chmod(0o755)
