"""Writers with a time limit together with writers that wait forever: they get their share, and no record is doubled or
lost.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog import Mode, Writer, stat
from binlog.errors import BinlogError, BusyError
from binlog.format.log_header import LogHeader
from binlog.log.append.writable_file import WritableFile
from binlog.storage.staging_area import area_name
from tests.support.children import Child
from tests.support.logs import job, jobs_by_writer, read_all
from tests.support.waiting import until

# native/log/staging_area.h: offsets from the beginning of the staging area, in bytes.  The second ring is the child's.
_RING = 1856 + 192
_ENTRY = 32768 + 262144
_STAGED, _TAKEN = 1, 2

_PLAIN = 4
# Enough that each process gets processor time meanwhile.
_APPENDS = {Mode.SYNC: 300, Mode.FLUSH: 10_000}


class _Counts:
    """The number of records that each process has appended, in shared memory; a slot for each, and one that stops
    all."""

    def __init__(self, count: int) -> None:
        self._memory = memoryview(mmap.mmap(-1, 8 * (2 * count + 1))).cast("Q")
        self._count = count

    def add(self, number: int) -> int:
        self._memory[number] += 1
        return self._memory[number]

    def stop(self) -> None:
        self._memory[self._count] = 1

    @property
    def stopped(self) -> bool:
        return bool(self._memory[self._count])

    def ready(self, number: int) -> None:
        """Wait until every process has reached this point."""
        ready = self._memory[self._count + 1 :]
        ready[number] = 1
        until(lambda: all(ready))

    def all(self) -> list[int]:
        return list(self._memory[: self._count])


def _append_until_stopped(log: Path, counts: _Counts, number: int, lock_timeout: float | None, mode: Mode) -> None:
    with Writer(log, lock_timeout=lock_timeout, mode=mode) as writer:
        sequence = 0
        counts.ready(number)
        while not counts.stopped:
            writer.append(job(number, sequence))
            sequence = counts.add(number)
            if number < _PLAIN and sum(counts.all()[:_PLAIN]) >= _PLAIN * _APPENDS[mode]:
                counts.stop()


def _append_without_end(log: Path, counts: _Counts, number: int) -> None:
    with Writer(log) as writer:
        while not counts.stopped:
            writer.append(job(number, counts.add(number)))


@pytest.mark.parametrize("mode", [Mode.SYNC, Mode.FLUSH])
def test_a_writer_with_a_time_limit_has_its_share(log: Path, mode: Mode) -> None:
    Writer(log).close()
    counts = _Counts(_PLAIN + 1)
    timeouts = [None] * _PLAIN + [60.0]
    children = [
        Child(_append_until_stopped, log, counts, number, timeout, mode) for number, timeout in enumerate(timeouts)
    ]
    for child in children:
        child.join()
    *plain, limited = counts.all()
    assert limited >= sum(plain) / _PLAIN / 5, counts.all()
    assert jobs_by_writer(read_all(log)) == {number: list(range(count)) for number, count in enumerate(counts.all())}


def test_a_writer_with_a_time_limit_opens_syncs_and_cuts_over_despite_busy_ones(log: Path) -> None:
    """Each of these waits for the lock itself: polling would hardly ever find it free."""
    Writer(log).close()
    counts = _Counts(_PLAIN + 1)
    children = [Child(_append_without_end, log, counts, number) for number in range(2)]
    until(lambda: min(counts.all()[:2]) > 0)
    for number in range(1, 4):
        with Writer(log, lock_timeout=2) as writer:
            assert writer.append(bytes(100_000)).number == number  # too large to be staged
            writer.sync()
            assert writer.cutover() == number + 1
    counts.stop()
    for child in children:
        child.join()


def test_writers_that_all_have_time_limits_have_each_record_once(log: Path) -> None:
    Writer(log).close()

    def work(number: int) -> None:
        with Writer(log, lock_timeout=60) as writer:
            for sequence in range(_APPENDS[Mode.SYNC]):
                writer.append(job(number, sequence))

    children = [Child(work, number) for number in range(4)]
    for child in children:
        child.join()
    assert jobs_by_writer(read_all(log)) == {number: list(range(_APPENDS[Mode.SYNC])) for number in range(4)}


def _area(log: Path) -> mmap.mmap:
    uuid = bytes.fromhex(stat(log).files[0].uuid or "")
    with Path("/dev/shm" + area_name(log.stat(), uuid)).open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def _append_told(log: Path, ready: int, go: int, told: int, record: bytes, lock_timeout: float) -> None:
    with Writer(log, lock_timeout=lock_timeout) as writer:
        os.write(ready, b".")
        os.read(go, 1)
        try:
            os.write(told, b"%d %d" % writer.append(record))
        except BinlogError as error:
            os.write(told, type(error).__name__.encode())


@contextmanager
def _one_that_waits(log: Path, record: bytes, *, lock_timeout: float) -> Iterator[tuple[Writer, int, int]]:
    """Yield another writer, a pipe that lets a child append while the writer's lock is held, and one for the child's
    result.
    """
    ready, go, told = os.pipe(), os.pipe(), os.pipe()
    with Writer(log) as writer:
        child = Child(_append_told, log, ready[1], go[0], told[1], record, lock_timeout)
        os.read(ready[0], 1)
        yield writer, go[1], told[0]
        child.join()


def _until_staged(memory: mmap.mmap) -> None:
    until(lambda: struct.unpack_from("=Q", memory, _RING)[0] > 0)


def test_a_record_is_withdrawn_after_a_timeout(log: Path) -> None:
    with _one_that_waits(log, b"late", lock_timeout=0.2) as (writer, go, told):
        memory = _area(log)

        def hold(file: WritableFile, header: LogHeader) -> None:
            os.write(go, b".")
            _until_staged(memory)
            assert os.read(told, 100) == b"BusyError"

        writer._open_session().run(hold)
        writer.append(b"next")
    assert read_all(log) == [b"next"]


def test_a_writer_waits_for_a_record_that_a_leader_has_taken_despite_a_timeout(log: Path) -> None:
    with _one_that_waits(log, b"taken", lock_timeout=0.05) as (writer, go, told):
        memory = _area(log)

        def lead(file: WritableFile, header: LogHeader) -> None:
            os.write(go, b".")
            _until_staged(memory)
            memory[_ENTRY : _ENTRY + 4] = struct.pack("=I", _TAKEN)
            assert not select.select([told], [], [], 0.5)[0]
            memory[_ENTRY : _ENTRY + 4] = struct.pack("=I", _STAGED)
            file.drain(writer._open_session().area, confirm=True)

        writer._open_session().run(lead)
        assert os.read(told, 100) == b"1 256"
    assert read_all(log) == [b"taken"]


@pytest.mark.slow
def test_the_outcome_of_a_record_that_a_leader_has_taken_and_not_committed_is_unknown(log: Path) -> None:
    with _one_that_waits(log, b"taken", lock_timeout=0.05) as (writer, go, told):
        memory = _area(log)

        def lead(file: WritableFile, header: LogHeader) -> None:
            os.write(go, b".")
            _until_staged(memory)
            memory[_ENTRY : _ENTRY + 4] = struct.pack("=I", _TAKEN)
            assert os.read(told, 100) == b"UnknownOutcomeError"
            memory[_ENTRY : _ENTRY + 4] = struct.pack("=I", _STAGED)

        writer._open_session().run(lead)
    assert read_all(log) == [b"taken"]


def test_signals_do_not_make_the_wait_longer(log: Path) -> None:
    Writer(log).close()
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with Writer(log, lock_timeout=0.3) as writer, _locked(log / "00000001.dat"):
            for call in (lambda: writer.append(b"staged"), lambda: writer.append(bytes(100_000)), writer.sync):
                with pytest.raises(BusyError):
                    call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert read_all(log) == []


@contextmanager
def _locked(file: Path) -> Iterator[Callable[[], None]]:
    """Hold the file's lock as another program does, and yield a function that releases it."""
    fd = os.open(file, os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield lambda: fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, 0, 0, 0, 0)) and None
    finally:
        os.close(fd)


@pytest.mark.parametrize("size", [10, 100_000], ids=["staged", "too large to be staged"])
def test_a_writer_waits_until_another_program_releases_the_lock(log: Path, size: int) -> None:
    with Writer(log, lock_timeout=60) as writer, _locked(log / "00000001.dat") as free:
        thread = threading.Timer(0.05, free)
        thread.start()
        assert writer.append(b"x" * size) == (1, 256)
        thread.join()
    with Writer(log, lock_timeout=0.05) as writer, _locked(log / "00000001.dat"), pytest.raises(BusyError):
        writer.append(b"x" * size)
