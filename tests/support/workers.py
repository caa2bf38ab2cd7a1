"""What the processes of the multi-process tests do.  Importable, so that they may be spawned as well as forked."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
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
