"""A writer that follows the rules of the jPOS BinLog module, and shares no code with the package.

It is more careful than the module in one point: it syncs its record before the tail.  The module does one sync for
both, so a power cut may leave its tail without its record, which no other writer could detect.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from binlog import Ref
from stress.crash.marks import Recorder, Values, values_of
from stress.crash.records import record_bytes
from stress.crash.systems.log.actor import Mark, MarkKind

_FIRST_OFFSET = 248
_HEADER_BYTES = 256
_STATUS, _TAIL, _NEXT = 6, 8, 20
_CLOSED = 1


def peer_file(log: Path, writer: int, count: int) -> list[Values]:
    """Make file 1 of a log as the module does: zeros in 24..247, the first record at 248.  Return its marks."""
    body, marks = b"", []
    for index in range(count):
        record = record_bytes(writer, index)
        ref = Ref(1, _FIRST_OFFSET + len(body))
        marks += [Mark(MarkKind.TRIED, writer, index, 1), Mark(MarkKind.DURABLE, writer, index, 1, ref=ref)]
        body += struct.pack(">I", len(record)) + record
    header = struct.pack(">IHHQII", _HEADER_BYTES - 4, 1, 0, _FIRST_OFFSET + len(body), 1, 0)
    (log / "00000001.dat").write_bytes((header.ljust(_FIRST_OFFSET, b"\0") + body).ljust(_HEADER_BYTES, b"\0"))
    return [values_of(mark) for mark in marks]


class Peer:
    """Appends to the open file, which it finds as the module does."""

    def __init__(self, log: Path, writer: int) -> None:
        self._log = log
        self._writer = writer
        self._count = 0
        self._number = 1
        self._recorder = Recorder()

    def append(self) -> None:
        """Append the next record, durably."""
        record = record_bytes(self._writer, self._count)
        self._recorder.mark(Mark(MarkKind.TRIED, self._writer, self._count, 1))
        fd = self._lock_open_file()
        try:
            (tail,) = struct.unpack(">Q", os.pread(fd, 8, _TAIL))
            os.pwrite(fd, struct.pack(">I", len(record)) + record, tail)
            os.fdatasync(fd)
            os.pwrite(fd, struct.pack(">Q", tail + 4 + len(record)), _TAIL)
            os.fdatasync(fd)
        finally:
            os.close(fd)  # this releases the lock
        ref = Ref(self._number, tail)
        self._recorder.mark(Mark(MarkKind.DURABLE, self._writer, self._count, 1, ref=ref))
        self._count += 1

    def _lock_open_file(self) -> int:
        while True:
            fd = os.open(self._log / f"{self._number:08d}.dat", os.O_RDWR | os.O_CLOEXEC)
            fcntl.lockf(fd, fcntl.LOCK_EX)
            (status,) = struct.unpack(">H", os.pread(fd, 2, _STATUS))
            if status != _CLOSED:
                return fd
            (self._number,) = struct.unpack(">I", os.pread(fd, 4, _NEXT))
            os.close(fd)
