"""The followers of a log that keep their position in a file, and how far each one lags.

A position file holds the ref of the next record that its follower reads, as a line of text.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable
from typing import NamedTuple

from binlog.errors import BinlogError
from binlog.format.record import Ref
from binlog.log.maintain.stat import LogStat

POSITION_SUFFIX = ".position"

_BYTES_MAX = 64


class FollowerStat(NamedTuple):
    """A follower of a log, and how far it lags.

    name: of its file, without the folder if that is the log's.  path: of its file.
    ref: of the next record that it reads.
    lag_records, lag_bytes: from there to the tail; bytes with the records' lengths.  lag_seconds: how long ago the
    next record was appended, 0 at the tail.  None if unknown: another program made the file, or no record starts there.
    updated_ns: when the file was written, nanoseconds since 1970 UTC.
    problem: why there is no lag; None if there is one.
    """

    name: str
    path: str
    ref: Ref | None = None
    lag_records: int | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    updated_ns: int | None = None
    problem: str | None = None


def stat_followers(log: LogStat, paths: Iterable[str] = ()) -> tuple[FollowerStat, ...]:
    """Return the followers of a log whose position files are in its directory as `*.position`, and those named.

    log: as `binlog.stat` returned it.  paths: of more position files; they come first.
    Reads the index of each follower's log file, and the lengths of up to 64 KiB of records.  Raises nothing: a file
    that cannot be read is a problem of its follower.
    """
    return tuple(_stat(log, path, name) for path, name in _position_files(log.path, paths).items())


def read_position(path: str) -> Ref | None:
    """Return the ref in a position file, or None if there is none.  Raises: OSError; ValueError for other contents."""
    try:
        # O_NONBLOCK, because anyone who may write to the directory could put a FIFO here and hang the reader.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        data = os.read(fd, _BYTES_MAX)
    finally:
        os.close(fd)
    return Ref.parse(data.decode("utf-8", "backslashreplace").strip())


def _position_files(directory: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the name to show for each path."""
    found = {path: path for path in paths}
    known = {os.path.abspath(path) for path in found}
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(POSITION_SUFFIX) and name[0] != ".")
    except OSError:
        names = []
    for name in names:
        path = os.path.join(directory, name)
        if os.path.abspath(path) not in known:
            found[path] = name
    return found


def _stat(log: LogStat, path: str, name: str) -> FollowerStat:
    try:
        ref = read_position(path)
        if ref is None:
            return FollowerStat(name=name, path=path, problem="no position file yet")
        updated_ns = os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return FollowerStat(name=name, path=path, problem="no position file yet")  # removed meanwhile
    except OSError as error:
        return FollowerStat(name=name, path=path, problem=error.strerror or "unreadable")
    except ValueError:
        return FollowerStat(name=name, path=path, problem="no ref in the file")
    left = log.bytes_after(ref)
    if left is None:
        return FollowerStat(name=name, path=path, ref=ref, updated_ns=updated_ns, problem="its log file was removed")
    records, seconds = distance(log, ref)
    return FollowerStat(
        name=name,
        path=path,
        ref=ref,
        lag_records=records,
        lag_bytes=left,
        lag_seconds=seconds,
        updated_ns=updated_ns,
    )


def distance(log: LogStat, ref: Ref) -> tuple[int | None, float | None]:
    """Return the records from a ref to the tail, and how many seconds ago the first of them was appended.

    None if unknown: another program made the file, no record starts there, or the file is damaged.
    """
    if log.tail is not None and ref >= log.tail:
        return 0, 0.0
    # Imported here, because most logs have no follower with a position file.
    from binlog.log.read.lag import LogLookup

    lookup = LogLookup(log.path)
    try:
        sequence = lookup.sequence(ref)
        seconds = max(time.time() - lookup.time(ref).timestamp(), 0.0)
    except (BinlogError, ValueError):
        return None, None
    end = log.end_sequence
    return (None if end is None or sequence is None else max(end - sequence, 0)), seconds
