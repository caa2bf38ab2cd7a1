"""Sequence numbers, times and lags, read from a log for a ref."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from binlog.errors import GoneError, NotFoundError
from binlog.format.record import Ref
from binlog.log.batch import Entry
from binlog.log.directory import LogDirectory
from binlog.log.read.file_reader import FileReader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOGS_MAX = 256


@dataclass(frozen=True, slots=True)
class Lag:
    """The records and bytes between a reader's ref and the tail.

    records: None if a file has no count, because another program made it.  bytes: with the records' lengths.
    """

    records: int | None
    bytes: int


class LogLookup:
    """Finds the sequence number and the time of a ref by the index.  Keeps no file open."""

    def __init__(self, path: str) -> None:
        self.path = path

    def sequence(self, ref: Ref) -> int | None:
        """Return the sequence number of the record at a ref, or of the next one at a tail; None if no file has it.

        Reads the index, and the lengths of up to 64 KiB of records.
        Raises: GoneError, NotFoundError, AccessError, CorruptError; ValueError if no record starts at the ref.
        """
        with self._file(ref) as file:
            return file.sequence_at(ref.offset)

    def time(self, ref: Ref) -> datetime:
        """Return when the record at a ref was in the file, by the index: a time of a commit, or of 64 KiB together.

        If the index does not cover the record yet, or does not exist, it is the time of the file's last write.
        Raises: as `sequence`.
        """
        with self._file(ref) as file:
            found = file.time_ns_at(ref.offset)
            return _EPOCH + timedelta(microseconds=(file.unindexed_time_ns if found is None else found) // 1000)

    @contextmanager
    def _file(self, ref: Ref) -> Iterator[FileReader]:
        with LogDirectory(self.path) as directory:
            try:
                file = FileReader(directory, ref.number, record_bytes_max=0)
            except NotFoundError as error:
                raise GoneError(f"{self.path}: the file of {ref} was removed") from error
            with closing(file):
                yield file


@lru_cache(_LOGS_MAX)
def _entry_type(path: str) -> type[Entry]:
    # A type per log, and not an attribute per entry, because making entries takes most of the time of iterating.
    return type("Entry", (Entry,), {"__slots__": (), "__module__": Entry.__module__, "_records": LogLookup(path)})


def entry_type(path: str) -> type[Entry]:
    """Return the type of the entries of the log in a directory, which have a lookup.  path: absolute."""
    return _entry_type(path)


def lag(path: str | os.PathLike[str], ref: Ref) -> Lag:
    """Return how much of the log in a directory is between a ref and the tail.

    Raises: GoneError if the ref's file was removed; ValueError if no record starts at the ref; as `stat`.
    """
    from binlog.log.maintain.stat import stat  # most programs ask for no lag

    log = stat(path)
    left = log.bytes_after(ref)
    if left is None:
        raise GoneError(f"{log.path}: the file of {ref} does not exist")
    end = log.end_sequence
    if not left:
        return Lag(0, 0)
    at = None if end is None else LogLookup(log.path).sequence(ref)
    return Lag(None if end is None or at is None else max(end - at, 0), left)
