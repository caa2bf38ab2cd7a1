"""Shared memory: /dev/shm, in which writers stage records, and the doorbell, by which a writer wakes readers.

As a program, `python -m binlog.doctor.shared_memory FILE OFFSET`, this module is the process that is woken.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress

import binlog
from binlog.doctor.findings import Finding, Verdict
from binlog.errors import BinlogError
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER
from binlog.storage.directory import Directory
from binlog.storage.waiting.doorbell import Doorbell

_AREA = "shared memory"
_SHARED_MEMORY = "/dev/shm"
_AREA_BYTES = 32 << 10
_RING_BYTES = 256 << 10
_RINGS_MAX = 64
_WAKE_SECONDS = 0.005
_WAIT_SECONDS_MAX = 5.0


def examine_shared_memory() -> Iterator[Finding]:
    """Yield the findings about the size of /dev/shm, and whether memory can be allocated there."""
    reason = "without it, each append syncs alone, and Mode.STAGE is as slow as Mode.FLUSH"
    remedy = "mount a tmpfs at /dev/shm; for a container, --shm-size"
    try:
        status = os.statvfs(_SHARED_MEMORY)
    except OSError as error:
        text = f"{_SHARED_MEMORY}: {error.strerror}"
        yield Finding(_AREA, _SHARED_MEMORY, Verdict.SLOW, text, reason, remedy)
        return
    free = status.f_bavail * status.f_frsize
    writers = min(max(free - _AREA_BYTES, 0) // _RING_BYTES, _RINGS_MAX)
    size = status.f_blocks * status.f_frsize
    value = f"{size >> 20} MiB, {free >> 20} MiB free: room for {writers} writers of a log"
    try:
        with tempfile.TemporaryFile(prefix="binlog-doctor-", dir=_SHARED_MEMORY) as file:
            os.posix_fallocate(file.fileno(), 0, _AREA_BYTES + _RING_BYTES)
    except OSError as error:
        text = f"{value}, but: {error.strerror}"
        yield Finding(_AREA, _SHARED_MEMORY, Verdict.SLOW, text, reason, remedy)
        return
    if writers < _RINGS_MAX:
        reason = "a log with more writers than that has some that append alone"
        yield Finding(_AREA, _SHARED_MEMORY, Verdict.SLOW, value, reason, remedy)
    else:
        yield Finding(_AREA, _SHARED_MEMORY, Verdict.OK, value)


def examine_waking(directory: Directory) -> Finding:
    """Return the finding whether this process can wake another one through the header of a log file."""
    offset = LOG_HEADER.offset("doorbell")
    subject = "waking a process"
    # SIGTERM may raise an exception at any place: see `try_file_system`.
    trial = directory.file_path(f".binlog-doctor-{os.urandom(8).hex()}")
    try:
        try:
            with open(trial, "xb") as file:
                file.write(bytes(HEADER_BYTES))
            return _woken(trial, offset, subject)
        finally:
            os.unlink(trial)
    except OSError:
        path = _newest_file(directory)
    finally:
        with suppress(OSError):  # it is gone, or was never made
            os.unlink(trial)
    if path is None:
        reason = "nothing can be written to the directory, and it has no log"
        return Finding(_AREA, subject, Verdict.DOUBTFUL, "not tried", reason)
    return _woken(path, offset, subject)


def _newest_file(directory: Directory) -> str | None:
    """Return the path of the newest log file that has a doorbell."""
    with suppress(BinlogError):
        files = [file for file in binlog.stat(directory.path).files if file.uuid is not None and not file.archived]
        return files[-1].path if files else None
    return None


def _woken(path: str, offset: int, subject: str) -> Finding:
    try:
        result = _wake_another(path, offset)
    except OSError as error:
        reason = f"another process could not be started: {error}"
        return Finding(_AREA, subject, Verdict.DOUBTFUL, "not tried", reason)
    if result == "woken":
        return Finding(_AREA, subject, Verdict.OK, "works, by a futex in the header of a file")
    reason = "readers poll every 50 ms instead"
    return Finding(_AREA, subject, Verdict.SLOW, f"does not work ({result})", reason, "use a local file system")


def _wake_another(path: str, offset: int) -> str:
    """Let another process wait for the doorbell, wake it, and return its answer."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(binlog.__file__)))
    search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "binlog.doctor.shared_memory", path, str(offset)]
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        bell = Doorbell(fd, offset)
        with subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": search}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                out, error = _answer(process, bell)
            except BaseException:
                process.kill()  # otherwise the end of the block waits for its answer
                raise
        bell.close()
    finally:
        os.close(fd)
    return out.strip() or (error.strip().splitlines() or ["no answer"])[-1]


def _answer(process: subprocess.Popen[str], bell: Doorbell) -> tuple[str, str]:
    """Wake the other process once it waits, and return its output and its errors."""
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdout.readline() == "ready\n":
        while process.poll() is None:
            bell.wake()  # the other process may not wait yet
            with suppress(subprocess.TimeoutExpired):
                process.wait(_WAKE_SECONDS)
    return process.stdout.read(), process.stderr.read()


def main(path: str, offset: int) -> None:
    """Wait until the doorbell at an offset of a file is rung.

    Prints "ready" before it waits, and then "woken", "timeout" or "polled".
    """
    bell = Doorbell(os.open(path, os.O_RDONLY | os.O_CLOEXEC), offset)
    print("ready", flush=True)
    start = time.monotonic()
    bell.wait(bell.value(), _WAIT_SECONDS_MAX)
    if not bell.is_mapped:
        print("polled")
    else:
        print("woken" if time.monotonic() - start < _WAIT_SECONDS_MAX else "timeout")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
