"""What a task wrote, until the driver appends it: files of records as they lie in a log, and nothing else.

They are not synced, so bytes may be missing where a disk or a machine has failed since, and nobody is told: hence their
CRCs.  On a file system that machines share, a close sends what was written, and an open asks for it anew (nfs(5), on
close-to-open cache consistency).

A file is small, and goes once it was read: so what the driver appends takes the memory that the file had.  Two copies
of all that a job writes may be more than there is at hand, and memory that a machine has to find first takes longer
than the copying (docs/decisions/0029-where-sparks-time-goes.md).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain

from binlog import Batch
from binlog.errors import AccessError, CorruptError, FullError

_PIECE_BYTES = 1 << 20
_FILE_BYTES = 16 << 20
_LENGTH_BYTES = 4
_FILE_MODE = 0o640  # as a log's files
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Aside:
    """A file, and what is in it: records, bytes, and their CRC-32C."""

    path: str
    count: int
    size: int
    crc: int


def write_aside(path: str, batches: Iterable[Batch], *, record_bytes_max: int) -> tuple[Aside, ...]:
    """Write records into new files, with names that begin with `path`; none where there are no records.

    Raises: FullError for a record that is larger, or where there is no space; AccessError.
    """
    files: list[Aside] = []
    left = iter(batches)
    for first in left:
        files.append(_write_file(f"{path}.{len(files)}", chain((first,), left), record_bytes_max))
    return tuple(files)


def _write_file(path: str, batches: Iterator[Batch], record_bytes_max: int) -> Aside:
    """Write as many as are to be in one file, and one of them at least."""
    count = size = crc = 0
    with own_errors(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    try:
        for batch in batches:
            data = batch.framed(record_bytes_max=record_bytes_max)
            count += len(batch)
            size += len(data)
            crc = batch.crc32c(crc)
            with own_errors(path):
                while data:
                    data = data[os.write(fd, data) :]
            if size >= _FILE_BYTES:
                break
    except BaseException:
        os.close(fd)
        raise
    with own_errors(path):
        os.close(fd)  # which tells, on NFS, what could not be written
    return Aside(path, count, size, crc)


def take_aside(files: Iterable[Aside]) -> Iterator[Batch]:
    """The records of files, each of which is removed once whoever asks goes on behind it.  Raises: as `read_aside`."""
    for file in files:
        yield from read_aside(file)
        with suppress(OSError):  # it goes with its folder
            os.unlink(file.path)


def read_aside(known: Aside) -> Iterator[Batch]:
    """The records of a file; each batch is good until the next one is asked for, which takes its memory.

    Raises: AccessError; CorruptError where these are not the bytes that were written, at the end at the latest.
    """
    path, size, count, crc = known.path, known.size, 0, 0
    memory = memoryview(bytearray(_PIECE_BYTES))
    with own_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        at, wanted = 0, _PIECE_BYTES
        while at < size:
            wanted = min(wanted, size - at)
            if wanted > len(memory):
                memory = memoryview(bytearray(wanted))
            with own_errors(path):
                data = _read(fd, memory[:wanted], at)
            batch = _whole_records(data, path, at)
            if len(batch):
                yield batch
                count += len(batch)
                crc = batch.crc32c(crc)
                at, wanted = at + batch.offsets[-1], _PIECE_BYTES
                continue
            record_bytes = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
            if len(data) < wanted or not wanted < record_bytes <= size - at:
                raise CorruptError(path, at, "range", f"the {size} bytes that a task wrote are not there any more")
            wanted = record_bytes
        if (count, crc) != (known.count, known.crc):
            raise CorruptError(path, 0, "range", f"the {size} bytes that a task wrote have others in their place")
    finally:
        os.close(fd)


def _read(fd: int, memory: memoryview, at: int) -> memoryview:
    """As much of the memory as the file has bytes for, filled: one call gives 2 GiB at most (read(2))."""
    done = 0
    while done < len(memory) and (more := os.preadv(fd, [memory[done:]], at + done)):
        done += more
    return memory[:done]


def _whole_records(data: memoryview, path: str, at: int) -> Batch:
    try:
        return Batch.from_framed(data)
    except ValueError as error:
        raise CorruptError(path, at, "range", f"these are not the records that a task wrote: {error}") from error


@contextmanager
def own_errors(path: str) -> Iterator[None]:
    """What the system refuses within, as errors of ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise FullError(f"{path}: there is no space for what a task writes: {error.strerror}") from error
        raise AccessError(f"{path}: {error.strerror}", errno=error.errno, path=path) from error
