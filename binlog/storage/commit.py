"""One commit to a file: data, sync, what publishes it, sync, the bell.  The caller holds the file's lock."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from binlog.errors import BinlogError
from binlog.storage.failures import NO_SPACE, failure, poisoned
from binlog.storage.native import ffi, lib


@dataclass(frozen=True, slots=True)
class Publication:
    """What makes a commit visible: bytes to write over the header, and the bell to ring.

    bell: the bell's new value, or None for a file that has no bell.
    """

    data: bytes
    offset: int
    bell: int | None = None
    bell_offset: int = -1


def commit_strict(fd: int, data: bytes, offset: int, publication: Publication, path: str) -> None:
    """Write `data` at `offset` and publish it, in the strict classic order; durable on return.

    Nothing is visible, and nothing is wrong, when it raises FullError or AccessError.
    Raises: FullError; AccessError; PoisonedError where what the disk holds is not known any more.
    """
    step = ffi.new("int *")
    result = lib.binlog_commit_strict(
        fd,
        ffi.from_buffer("uint8_t[]", data),
        len(data),
        offset,
        ffi.from_buffer("uint8_t[]", publication.data),
        len(publication.data),
        publication.offset,
        publication.bell or 0,
        -1 if publication.bell is None else publication.bell_offset,
        step,
    )
    if result != 0:
        raise _commit_failure(-result, step[0], path)


def _commit_failure(number: int, step: int, path: str) -> BinlogError:
    if step == lib.BINLOG_STEP_DATA and number != errno.EIO:
        return failure(number, path, "appending")  # nothing was published, and what is beyond the tail means nothing
    if step == lib.BINLOG_STEP_PUBLISH and number in NO_SPACE:
        return failure(number, path, "appending")
    synced = step in (lib.BINLOG_STEP_DATA_SYNC, lib.BINLOG_STEP_PUBLISH_SYNC)
    return poisoned(number, path, "a sync" if synced else "a write")
