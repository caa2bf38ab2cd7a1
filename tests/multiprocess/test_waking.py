"""A woken reader gets its records from the call that waits."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from binlog import Entry, Reader, Ref, Start, Writer
from binlog.errors import ClosedError, FullError
from binlog.format.record import Stop
from binlog.log.directory import LogDirectory
from binlog.log.read import cursor
from binlog.log.read.file_reader import FileReader
from stress.crash.preloaded.injector import Kind
from tests.support.children import Child
from tests.support.preloaded import calls_so_far, run_preloaded


def _asleep(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def _appended_while_waiting(log: Path, monkeypatch: pytest.MonkeyPatch, records: list[bytes], **options: int) -> Reader:
    """A reader that was woken by an append of `records`; it has read one record before them."""
    monkeypatch.setattr(cursor, "_WAIT_SECONDS_MAX", 600.0)  # one that is not woken fails by its deadline
    with Writer(log) as writer:
        writer.append(b"first")
    reader = Reader(log, **options)
    assert next(reader).data == b"first"
    waiting = os.getpid()

    def append() -> None:
        deadline = time.monotonic() + 60
        while not _asleep(waiting):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        with Writer(log) as writer:
            writer.append_many(records)

    child = Child(append)
    assert reader.wait(60) is True
    child.join()
    return reader


def _until_set(flag: mmap.mmap) -> None:
    """Without sleeping, because the other process takes a sleep for a wait on the doorbell."""
    deadline = time.monotonic() + 60
    while not flag[0]:
        assert time.monotonic() < deadline


AFTER_FIRST = Ref(1, 265)


def test_after_a_wait_every_way_of_reading_returns_the_record(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _appended_while_waiting(log, monkeypatch, [b"a", b"b", b"c"]) as reader:
        assert reader.next_ref == AFTER_FIRST
        assert reader.wait(0) is True
        assert next(reader) == Entry(AFTER_FIRST, b"a")
        assert reader.next_ref == Ref(1, 270)
        batch = reader.read_batch()
        assert (list(batch), batch.first_sequence, batch.data) == ([b"b", b"c"], 2, b"\0\0\0\1b\0\0\0\1c")
        assert (list(reader), reader.wait(0)) == ([], False)


def test_a_batch_right_after_a_wait_has_every_new_record(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [b"%d" % index * 100 for index in range(400)]  # more than a waking reader takes at once
    with _appended_while_waiting(log, monkeypatch, records) as reader:
        batch = reader.read_batch()
        assert (list(batch), batch.first_sequence) == (records, 1)


@pytest.mark.parametrize("size", [0, 1, 16379, 16380, 16381, 20_000, 1 << 20])
def test_a_record_of_any_size_wakes_a_reader(log: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    records = [os.urandom(size), b"after"]
    with _appended_while_waiting(log, monkeypatch, records) as reader:
        assert [entry.data for entry in reader] == records


def test_a_record_over_the_limit_wakes_a_reader_and_is_refused_after_those_before_it(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _appended_while_waiting(log, monkeypatch, [b"good", bytes(100), b"2"], record_bytes_max=99) as reader:
        assert next(reader).data == b"good"
        for _ in range(2):
            with pytest.raises(FullError):
                next(reader)
    with _appended_while_waiting(log.with_name("other"), monkeypatch, [bytes(100)], record_bytes_max=99) as reader:
        with pytest.raises(FullError):
            next(reader)
        assert reader.next_ref == AFTER_FIRST


def test_a_reader_closed_after_a_wait_returns_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _appended_while_waiting(log, monkeypatch, [b"1"])
    reader.close()
    with pytest.raises(ClosedError):
        next(reader)


@pytest.mark.parametrize("waits", [False, True], ids=["rung before", "rung meanwhile"])
def test_the_wait_itself_returns_the_appended_records(log: Path, waits: bool) -> None:
    with Writer(log) as writer:
        writer.append(b"first")
    file = FileReader(LogDirectory(log), 1, record_bytes_max=100)
    assert file.header_cache.refresh() == 265
    waiting, opened = os.getpid(), mmap.mmap(-1, 1)

    def append() -> None:
        with Writer(log) as writer:  # its opening wakes as well, and is over before the wait begins
            opened[0] = 1
            while waits and not _asleep(waiting):
                time.sleep(0.001)
            writer.append_many([b"second", b""])

    child = Child(append)
    _until_set(opened)
    if not waits:
        child.join()
    places = struct.pack("=3I", 0, 10, 14)
    assert file.prepare_wait(60, 265)() == (265, b"\0\0\0\6second\0\0\0\0", places, Stop.END)
    assert (file.header_cache.tail, file.header.record_count) == (279, 3)
    if waits:
        child.join()
    # The doorbell may only be waited on with its value from before the tail was read, so the header is read once more.
    seen = file.header_cache.doorbell_at_previous_read
    assert file.header_cache.refresh() == 279
    assert file.header_cache.doorbell_at_previous_read == seen + 1
    assert file.prepare_wait(0.001, 279)() == -errno.ETIMEDOUT


def test_a_woken_reader_gets_its_record_after_two_reads(log: Path) -> None:
    """It reads the header and the record, and nothing else."""
    with Writer(log) as writer:
        writer.append(b"first")
    run = run_preloaded(_follow, log)
    assert run.calls[: run.result][-3:] == [Kind.FUTEX, Kind.READ, Kind.READ]


def _follow(log: Path) -> int:
    """Return how many calls it has made when it has the record that it waits for."""
    waiting, opened = os.getpid(), mmap.mmap(-1, 1)

    def append() -> None:
        with Writer(log) as writer:
            opened[0] = 1
            while not _asleep(waiting):
                time.sleep(0.001)
            writer.append(b"second")

    with Reader(log, Start.END) as reader:
        child = Child(append)
        _until_set(opened)
        assert reader.wait(60)
        assert next(reader).data == b"second"
        calls = calls_so_far()
        child.join()
        return calls


_INTERRUPTED = """
import signal, sys
import binlog

class Interrupt(Exception):
    pass

def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise Interrupt

# A function: Python 3.14 leaves the jump back of a loop that ends in an `if` out of the `try` around it.
def follow(way):
    if way == "wait":
        assert reader.wait(60)
        for entry in reader:
            found.append(int(entry.data))
    else:
        for entry in reader.tail(60):
            found.append(int(entry.data))
            if found[-1] >= int(sys.argv[2]) - 1:
                break

armed = False
found, interrupts = [], 0
signal.signal(signal.SIGALRM, interrupt)
reader = binlog.Reader(sys.argv[1], binlog.Start.END)
print("ready", flush=True)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0007)
while not found or found[-1] < int(sys.argv[2]) - 1:
    try:
        armed = True
        follow(sys.argv[3])
        armed = False
    except Interrupt:
        interrupts += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert found == sorted(set(found)), "a record came twice, or out of order"
print(interrupts, len(found))
"""


@pytest.mark.parametrize("way", ["wait", "tail"])
def test_an_interrupt_of_a_waiting_reader_loses_no_record(log: Path, way: str, figure: Callable[[str], None]) -> None:
    count = 1500
    with Writer(log) as writer:
        command = [sys.executable, "-c", _INTERRUPTED, log, str(count), way]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for index in range(count):
                writer.append(b"%d" % index)
            appended = count
            while process.poll() is None:  # it may lose the last one as well, and would wait forever
                writer.append(b"%d" % appended)
                appended += 1
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
            interrupts, found = map(int, process.stdout.read().split())
        assert process.returncode == 0
    figure(f"records that reached a reader that was interrupted {interrupts} times, by {way}: {found} of {count}")
    assert interrupts > 20
    # The loop may lose one record that was being returned when the signal came, and no more.
    assert count - interrupts <= found <= appended
