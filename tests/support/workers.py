"""What the processes of the multi-process tests do.  Importable, so that they may be spawned as well as forked."""

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
    """Run each function in a process of its own, all at once, and return what they return."""
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
    """Append jobs one by one; where each was acknowledged."""
    with binlog.Writer(path) as log:
        return [log.append(job(writer, sequence)) for sequence in range(count)]


def append_and_cut_over(path: Path, writer: int, count: int, every: int) -> list[Ref]:
    """Append jobs, and cut over again and again."""
    refs = []
    with binlog.Writer(path) as log:
        for sequence in range(count):
            refs.append(log.append(job(writer, sequence)))
            if sequence % every == writer % every:
                log.cutover()
    return refs


def cut_over(path: Path, count: int, expected: bool) -> list[int]:
    """Cut over `count` times; the numbers that it gave."""
    with binlog.Writer(path) as log:
        numbers = []
        for _ in range(count):
            number = binlog.stat(path).files[-1].number if expected else None
            numbers.append(log.cutover(expected=number))
        return numbers


def follow_until(path: Path, last: bytes) -> list[bytes]:
    """Every record from the beginning until `last` has come."""
    found = []
    with binlog.Reader(path) as reader:
        for entry in reader.tail(timeout=120):
            found.append(entry.data)
            if entry.data == last:
                break
    return found


def append_named(path: Path, name: str, count: int, cutover_every: int) -> list[Ref]:
    """Append `name 0`, `name 1`, ..., and cut over now and then."""
    refs = []
    with binlog.Writer(path) as log:
        for index in range(count):
            refs.append(log.append(f"{name} {index}".encode()))
            if (index + 1) % cutover_every == 0:
                log.cutover()
    return refs


def follow_count(path: Path, count: int) -> list[bytes]:
    """The first `count` records, as they come."""
    with binlog.Reader(path) as reader:
        return [entry.data for entry in islice(reader.tail(timeout=120), count)]


def append_within(path: Path, writer: int, count: int, cutover_bytes: int) -> list[Ref]:
    """Append jobs one by one, with a limit on the open file."""
    with binlog.Writer(path, cutover_bytes=cutover_bytes) as log:
        return [log.append(job(writer, sequence)) for sequence in range(count)]


def prune_until(path: Path, number: int) -> list[int]:
    """Keep removing all closed files but the newest two, until the log begins with file `number`; which ones went."""
    removed: list[int] = []
    while binlog.stat(path).files[0].number < number:
        removed += [file.number for file in binlog.prune(path, keep_bytes=10_000)]
    return removed


def follow_or_start_again(path: Path, last: bytes) -> list[bytes]:
    """Every record from the beginning until `last` has come; from the new beginning where the old one was removed."""
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
    """A directory by which processes start together, and stop when one of them says so."""

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count
        path.mkdir(exist_ok=True)

    def ready(self, name: str) -> None:
        """Say that this one is ready, and wait for the others."""
        (self._path / name).touch()
        deadline = time.monotonic() + 60
        while len(os.listdir(self._path)) < self._count:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def stop(self) -> None:
        """Tell all to stop."""
        (self._path / "stop").touch()

    @property
    def stopped(self) -> bool:
        """Whether one did."""
        return os.path.exists(self._path / "stop")


def append_until(path: Path, writer: int, mode: binlog.Mode, together: Together, threads: int = 1) -> list[int]:
    """Append as fast as may be until told to stop; how many records each thread appended once all were ready."""
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
    """Run another program's writer once all are ready, and have them stop then; the numbers that it printed."""
    try:
        together.ready("peer")
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
        return [int(line) for line in done.stdout.split()]
    finally:
        together.stop()
