"""The position files of a log's followers, and how far each follower lags.

A position file holds the ref of the next record that its follower reads, as a line of text.

Invariants
- The file always holds a whole ref; after a power cut, the old one or the new one.  It is written under another name,
  synced, and renamed.
- It never runs ahead of the records that were printed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

import binlog
from binlog.cli.amounts import size_text, things_text
from binlog.cli.exits import CommandError, ExitCode, system_text
from binlog.errors import BinlogError

_BYTES_MAX = 64


def read_position(path: str) -> binlog.Ref | None:
    """Return the ref in the file, or None if there is no file.  Raises: OSError; ValueError for other contents."""
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
    return binlog.Ref.parse(data.decode("utf-8", "backslashreplace").strip())


class Position:
    """A position file of this process: read once at the start, then updated."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stored = self._load()

    @property
    def start(self) -> binlog.Ref | None:
        """The position that an earlier run stored, or None."""
        return self._stored

    def store(self, ref: binlog.Ref) -> None:
        """Store the ref durably if it has changed.  Raises: CommandError."""
        if ref == self._stored:
            return
        try:
            _replace(self.path, f"{ref}\n".encode())
        except OSError as error:
            raise CommandError(f"{self.path}: cannot store the position: {error.strerror}", ExitCode.FAILED) from error
        self._stored = ref

    def _load(self) -> binlog.Ref | None:
        try:
            return read_position(self.path)
        except OSError as error:
            raise CommandError(system_text(error), ExitCode.CANNOT_OPEN) from error
        except ValueError as error:
            raise CommandError(f"{self.path}: {error}", ExitCode.USAGE) from error


def _replace(path: str, data: bytes) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.new")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            os.write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


SUFFIX = ".position"

_READ_BYTES = 1 << 20
_READ_RECORDS = 1 << 16


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a follower lags.

    records, bytes: still to read; None if unknown, or not counted yet.  updated: the time of its file, in seconds since
    1970.
    """

    name: str
    ref: binlog.Ref | None = None
    records: int | None = None
    bytes: int | None = None
    updated: float | None = None
    problem: str | None = None


def lag_text(lag: Lag) -> str:
    """Format a follower's lag, or its problem."""
    if lag.problem is not None:
        return lag.problem
    records = "" if lag.records is None else f"{things_text(lag.records, 'record')}, "
    return f"lag {records}{size_text(lag.bytes or 0)}"


def lag_object(lag: Lag) -> dict[str, object]:
    """Return a follower as --json prints it."""
    return {
        "name": PurePath(lag.name).name,
        "position": lag.name,
        "ref": None if lag.ref is None else str(lag.ref),
        "records_behind": lag.records,
        "bytes_behind": lag.bytes,
        "problem": lag.problem,
    }


class Followers:
    """The followers whose position files are in the log's directory as `*.position`, or named by the user."""

    def __init__(self, directory: str, paths: Iterable[str]) -> None:
        self._directory = directory
        self._paths = tuple(paths)
        self._counters: dict[str, _Counter] = {}

    def lags(self, log: binlog.LogStat, *, seconds_max: float | None = None) -> list[Lag]:
        """Return the lag of each follower.

        seconds_max: how long to count records in this call; the next call continues.
        """
        deadline = None if seconds_max is None else time.monotonic() + seconds_max
        names = self._position_files()
        for gone in self._counters.keys() - names.keys():
            self._counters.pop(gone).close()
        return [self._lag(path, name, log, deadline) for path, name in names.items()]

    def close(self) -> None:
        """Close all files."""
        for counter in self._counters.values():
            counter.close()
        self._counters.clear()

    def _position_files(self) -> dict[str, str]:
        """Return the name to show for each path."""
        found = {path: path for path in self._paths}
        known = {os.path.abspath(path) for path in self._paths}
        try:
            names = sorted(name for name in os.listdir(self._directory) if name.endswith(SUFFIX) and name[0] != ".")
        except OSError:
            names = []
        for name in names:
            path = os.path.join(self._directory, name)
            if os.path.abspath(path) not in known:
                found[path] = name
        return found

    def _lag(self, path: str, name: str, log: binlog.LogStat, deadline: float | None) -> Lag:
        try:
            ref = read_position(path)
            updated = os.stat(path).st_mtime
        except FileNotFoundError:
            ref = None
        except OSError as error:
            return Lag(name, problem=error.strerror or "unreadable")
        except ValueError:
            return Lag(name, problem="no ref in the file")
        if ref is None:
            return Lag(name, problem="no position file yet")
        left = log.bytes_after(ref)
        if left is None:
            return Lag(name, ref, updated=updated, problem="its log file was removed")
        records = None
        if left == 0:
            records = 0
        elif (end := log.end_sequence) is not None:
            counter = self._counters.setdefault(path, _Counter(self._directory))
            at = counter.sequence_of(ref, log, deadline)
            records = None if at is None else max(end - at, 0)
        return Lag(name, ref, records, left, updated)


class _Counter:
    """Counts a follower's sequence number by reading after it, so that no byte is read twice."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._reader: binlog.Reader | None = None
        self._at = binlog.Ref(0, 0)
        self._sequence = 0
        self._failed: binlog.Ref | None = None

    def sequence_of(self, ref: binlog.Ref, log: binlog.LogStat, deadline: float | None) -> int | None:
        """Return the sequence number at the ref, or None if it is not known yet or cannot be."""
        if ref == self._failed:
            return None
        try:
            if self._reader is None or ref.number != self._at.number or ref < self._at:
                self._start(ref.number, log)
            self._advance_to(ref, deadline)
        except (BinlogError, ValueError):
            self.close()
            self._failed = ref
        if self._at > ref:
            self._failed = ref  # no record starts there
        return self._sequence if self._at == ref else None

    def close(self) -> None:
        """Close the reader."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _start(self, number: int, log: binlog.LogStat) -> None:
        self.close()
        file = next(file for file in log.files if file.number == number)
        if file.first_sequence is None:
            raise ValueError("the file has no first sequence number")
        self._at, self._sequence = binlog.Ref(number, file.first_offset), file.first_sequence
        self._reader = binlog.Reader(self._directory, self._at, follow=False)

    def _advance_to(self, ref: binlog.Ref, deadline: float | None) -> None:
        assert self._reader is not None
        while self._at < ref and (deadline is None or time.monotonic() < deadline):
            batch = self._reader.read_batch(
                records_max=_READ_RECORDS, bytes_max=min(_READ_BYTES, ref.offset - self._at.offset)
            )
            if not batch:
                return
            self._at = batch.next_ref
            self._sequence += len(batch)
