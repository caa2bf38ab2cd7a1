"""binlog's seal: appends beside a sealer, how soon it seals them, the rate of `verify`, and the memory of both.

A sealer is a process of its own, `binlog seal run`, which seals every second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path

import binlog
from stress.bench.contestant import IDLE_MS, RECORD_BYTES, Measure
from stress.bench.loops import append_loop, pass_loop
from stress.bench.measuring import Prepared, measuring
from stress.bench.processes import Loop, die_with_parent, run_processes
from stress.bench.sample import MeasureError, Sample, Waits

SIGNED_EVERY = "1s"
# In the log that is verified, or whose memory is measured, for each second of a measurement.
BYTES_A_SECOND = 100_000_000

_LOOK_SECONDS = 0.001
_SECONDS_MAX = 30


def appending(processes: int) -> Measure:
    """Measure durable appends of some processes, beside a sealer."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        with _sealer(directory) as log:

            @contextmanager
            def opener(index: int) -> Iterator[Loop]:
                with binlog.Writer(log) as writer:
                    yield append_loop(writer.append, os.urandom(RECORD_BYTES))

            yield Prepared(opener, lambda: stored(log) - 1)

    return measuring(prepare, processes=processes, keep_waits=True)


def until_sealed() -> Measure:
    """Measure the time from the return of a durable append until the checkpoint covers it, while no caller waits."""

    def measure(directory: Path, seconds: float) -> Sample:
        with _sealer(directory) as log, binlog.Writer(log) as writer:
            waits = _until_sealed(log, writer, seconds)
        return Sample(waits.p50_ns / 1e9, waits)

    return measure


def _until_sealed(log: Path, writer: binlog.Writer[binlog.Ref], seconds: float) -> Waits:
    record = os.urandom(RECORD_BYTES)
    waits: list[int] = []
    returned: deque[int] = deque()  # of the records that are not sealed
    sealed = _sealed(log)
    due = begun = time.monotonic()
    while True:
        now = time.monotonic()
        is_over = bool(waits) and now > begun + seconds
        if is_over and not returned:
            return Waits.of(waits)
        if now > begun + seconds + _SECONDS_MAX:
            raise MeasureError(f"{len(returned)} records are not sealed after {_SECONDS_MAX} s")
        if not is_over and now >= due:
            writer.append(record)
            returned.append(time.monotonic_ns())
            due = now + IDLE_MS / 1000
        before, sealed = sealed, _sealed(log)
        waits.extend(time.monotonic_ns() - returned.popleft() for _ in range(sealed - before))
        time.sleep(_LOOK_SECONDS)


def _sealed(log: Path) -> int:
    """Return how many records the checkpoint covers: its second line, or 0 before the first checkpoint."""
    try:
        return int((log / "seal" / "checkpoint").read_bytes().split(b"\n")[1])
    except FileNotFoundError:
        return 0


def waited_for(*, anchors: int) -> Measure:
    """Measure `seal.wait` after a durable append, for the checkpoint, or for this number of directories to have it."""

    def measure(directory: Path, seconds: float) -> Sample:
        from binlog import seal

        places = [directory / f"anchor{number}" for number in range(anchors)]
        for place in places:
            place.mkdir()
        record = os.urandom(RECORD_BYTES)
        waits: list[int] = []
        with _sealer(directory, *(f"dir:{place}" for place in places)) as log, binlog.Writer(log) as writer:
            end = time.monotonic() + seconds
            while not waits or time.monotonic() < end:
                time.sleep(IDLE_MS / 1000)  # the sealer must sleep: this is the work, and not a wait
                ref = writer.append(record)
                begun = time.monotonic_ns()
                seal.wait(log, ref, anchored=anchors, timeout=_SECONDS_MAX)
                waits.append(time.monotonic_ns() - begun)
        found = Waits.of(waits)
        return Sample(found.p50_ns / 1000, found)

    return measure


def verifying(record_bytes: int) -> Measure:
    """Measure `verify` of a log, in MB of its records a second of CPU time."""

    def loop(log: Path, vkey: str, count: int) -> Loop:
        from binlog import seal

        def verify() -> None:
            report = seal.verify(log, vkey)
            if report.findings or report.verified != count:
                raise MeasureError(f"{report.verified} of {count} records were verified; {report.findings}")

        return pass_loop(verify, count * record_bytes)

    return _reading(record_bytes, loop)


def hashing(record_bytes: int) -> Measure:
    """Measure SHA-256 of the records of such a log, which are in memory one after the other, as `verifying`."""

    def loop(log: Path, vkey: str, count: int) -> Loop:
        with binlog.Reader(log) as reader:
            data = b"".join(entry.data for entry in reader)
        return pass_loop(lambda: sha256(data).digest(), len(data))

    return _reading(record_bytes, loop)


def _reading(record_bytes: int, loop: Callable[[Path, str, int], Loop]) -> Measure:
    """Measure a loop, which gets a sealed log, its public key and its number of records, and counts bytes."""

    def measure(directory: Path, seconds: float) -> Sample:
        from stress.seal_memory import SealedLog

        log = SealedLog(directory)
        log.append(int(BYTES_A_SECOND * seconds), record_bytes)
        log.seal()

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            yield loop(log.path, log.vkey, stored(log.path))

        run = run_processes(opener, processes=1, seconds=seconds, keep_waits=False)
        return Sample(run.record_count / run.cpu_seconds / 1e6)

    return measure


def memory(*, verifying: bool) -> Measure:
    """Measure the most memory of a process that seals a log, or that verifies it, in MiB."""

    def measure(directory: Path, seconds: float) -> Sample:
        from stress.seal_memory import SealedLog

        log = SealedLog(directory)
        log.append(int(BYTES_A_SECOND * seconds), RECORD_BYTES)
        sealing = log.seal()
        return Sample((log.verify() if verifying else sealing) / (1 << 20))

    return measure


@contextmanager
def _sealer(directory: Path, *anchors: str) -> Iterator[Path]:
    """Make a log of one record, and run a sealer that has sealed it; yields the log's path.

    Afterwards all records must be sealed.
    """
    from binlog import seal
    from stress.seal_memory import SealedLog

    made = SealedLog(directory)
    log, key = made.path, made.key_path
    with binlog.Writer(log) as writer:
        ref = writer.append(bytes(RECORD_BYTES))
    options = [word for anchor in anchors for word in ("--anchor", anchor)]
    with subprocess.Popen(
        [sys.executable, "-m", "binlog", "seal", "run", log, "--key", key, "--every", SIGNED_EVERY, *options],
        stdin=subprocess.DEVNULL,
        preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - the measuring process has one thread
    ) as process:
        try:
            seal.wait(log, ref, timeout=_SECONDS_MAX)
            while not _sealed(log) and process.poll() is None:
                time.sleep(_LOOK_SECONDS)  # the sealer has signed the checkpoint, and writes the file
            yield log
            process.send_signal(signal.SIGTERM)
            status = process.wait(_SECONDS_MAX)
        finally:
            process.kill()
    if status or _sealed(log) != stored(log):
        raise MeasureError(f"the sealer ended with {status}; {_sealed(log)} of {stored(log)} records are sealed")


def stored(log: Path) -> int:
    """Return how many records a log has."""
    return sum(file.record_count or 0 for file in binlog.stat(log).files)
