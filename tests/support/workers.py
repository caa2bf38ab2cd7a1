"""The work of processes in multi-process tests; importable, so that they can be spawned as well as forked."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import binlog
from binlog import Ref
from tests.support.logs import job


def run_all(method: str, work: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
    """Run each function in a separate process, all at once, and return their results."""
    context = multiprocessing.get_context(method)
    started = []
    for function, arguments in work:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_report, args=(theirs, function, arguments))  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        started.append((process, ours))
    results = []
    for process, ours in started:
        try:
            results.append(ours.recv())
        except EOFError:
            results.append(None)
        process.join()
        assert process.exitcode == 0, f"{process.name} ended with {process.exitcode}"
    return results


def _report(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    pipe.send(function(*arguments))
    pipe.close()


def append_jobs(path: Path, writer: int, count: int) -> list[Ref]:
    """Append jobs one by one; return their refs."""
    with binlog.Writer(path) as log:
        return [log.append(job(writer, sequence)) for sequence in range(count)]


def append_and_cut_over(path: Path, writer: int, count: int, every: int) -> list[Ref]:
    """Append jobs, and cut over after every few."""
    refs = []
    with binlog.Writer(path) as log:
        for sequence in range(count):
            refs.append(log.append(job(writer, sequence)))
            if sequence % every == writer % every:
                log.cutover()
    return refs


def cut_over(path: Path, count: int, expected: bool) -> list[int]:
    """Cut over `count` times; return the numbers."""
    with binlog.Writer(path) as log:
        numbers = []
        for _ in range(count):
            number = binlog.stat(path).files[-1].number if expected else None
            numbers.append(log.cutover(expected=number))
        return numbers


def follow_until(path: Path, last: bytes) -> list[bytes]:
    """Return every record from the beginning to `last`."""
    found = []
    with binlog.Reader(path) as reader:
        for entry in reader.tail(timeout=120):
            found.append(entry.data)
            if entry.data == last:
                break
    return found


def append_named(path: Path, name: str, count: int, cutover_every: int) -> list[Ref]:
    """Append `name 0`, `name 1`, ..., with cutovers in between."""
    refs = []
    with binlog.Writer(path) as log:
        for index in range(count):
            refs.append(log.append(f"{name} {index}".encode()))
            if (index + 1) % cutover_every == 0:
                log.cutover()
    return refs


def follow_count(path: Path, count: int) -> list[bytes]:
    """Return the first `count` records."""
    with binlog.Reader(path) as reader:
        return [entry.data for entry in islice(reader.tail(timeout=120), count)]


def append_within(path: Path, writer: int, count: int, cutover_bytes: int) -> list[Ref]:
    """Append jobs one by one, with a limit on the open file."""
    with binlog.Writer(path, cutover_bytes=cutover_bytes) as log:
        return [log.append(job(writer, sequence)) for sequence in range(count)]


def prune_until(path: Path, number: int) -> list[int]:
    """Prune all closed files but the newest two, until the log begins with file `number`; return the removed ones."""
    removed: list[int] = []
    while binlog.stat(path).files[0].number < number:
        removed += [file.number for file in binlog.prune(path, keep_bytes=10_000)]
    return removed


def follow_or_start_again(path: Path, last: bytes) -> list[bytes]:
    """Return every record from the beginning to `last`; start again at the new beginning if the old one was pruned."""
    found = []
    while True:
        with binlog.Reader(path) as reader:
            try:
                for entry in reader.tail(timeout=120):
                    found.append(entry.data)
                    if entry.data == last:
                        return found
            except binlog.errors.GoneError:
                continue


class Together:
    """A directory through which processes start together, and stop when one of them asks for it."""

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count
        path.mkdir(exist_ok=True)

    def ready(self, name: str) -> None:
        """Report that this process is ready, and wait for the others."""
        (self._path / name).touch()
        deadline = time.monotonic() + 60
        while len(os.listdir(self._path)) < self._count:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def stop(self) -> None:
        """Stop all processes."""
        (self._path / "stop").touch()

    @property
    def stopped(self) -> bool:
        """Whether a process asked to stop."""
        return os.path.exists(self._path / "stop")


def append_until(path: Path, writer: int, mode: binlog.Mode, together: Together, threads: int = 1) -> list[int]:
    """Append as fast as possible until stopped; return how many records each thread appended after all were ready."""
    with binlog.Writer(path, mode=mode) as log, ThreadPoolExecutor(threads) as pool:

        def work(thread: int) -> int:
            name = writer * threads + thread
            log.append(job(name, 0))
            together.ready(str(name))
            for count in itertools.count(1):
                log.append(job(name, count))
                if together.stopped:
                    return count
            raise AssertionError

        return list(pool.map(work, range(threads)))


def run_peer(together: Together, command: list[str]) -> list[int]:
    """Run another program's writer after all are ready, then stop them; return the numbers that it printed."""
    try:
        together.ready("peer")
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
        return [int(line) for line in done.stdout.split()]
    finally:
        together.stop()
