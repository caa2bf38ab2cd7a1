"""Select the records of a job: of which logs, from which position to which."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from binlog import FileStat, Ref, Since, Writer
from binlog.errors import BinlogError, NotFoundError, StateError
from binlog.spark.log.options import ReadOptions, parse_options
from binlog.spark.log.partitions import directories, ranges_between
from binlog.spark.log.positions import earliest, latest, ref_to_json, resolve
from binlog.spark.log.snapshot import take_snapshot

# Later than any record, so that a reader with this start begins at the end of the index.
_NEVER = Since(datetime(2200, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A user's selection of records.

    paths: directories of logs, or globs of them.  number: of one closed file in each.
    since, until: times with a zone; the first to include and the first to exclude.  A record's time is that of its
    entry in the index, which covers a commit or 64 KiB.  So if two selections meet at a time in the past, each record
    is in exactly one.  If a file has no index, all its records have the time of its last write.
    """

    paths: tuple[str, ...]
    since: datetime | None = None
    until: datetime | None = None
    number: int | None = None

    def options(self) -> ReadOptions:
        """Return the options of the data source.  Raises: ValueError."""
        return parse_options({"paths": json.dumps(self.paths)})


@dataclass(frozen=True, kw_only=True)
class LogRange:
    """The records of one log from `start` up to, but not including, `end`; both None for a log without files.

    log_bytes: their size in the log's files.
    """

    path: str
    start: Ref | None
    end: Ref | None
    log_bytes: int


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The records to read, which stay the same for later reads.  several: whether rows must name their log."""

    ranges: tuple[LogRange, ...]
    several: bool

    @property
    def log_bytes(self) -> int:
        """Their size in the logs' files."""
        return sum(each.log_bytes for each in self.ranges)

    def load(self, reader: Any) -> Any:
        """Return a frame of them.  reader: a DataFrameReader with its other options set."""
        for option, bounds in (("startingPosition", "start"), ("endingPosition", "end")):
            places = {each.path: getattr(each, bounds) for each in self.ranges}
            refs = {path: ref_to_json(ref or Ref(1, 256)) for path, ref in places.items()}
            reader = reader.option(option, json.dumps(refs))
        return reader.load([each.path for each in self.ranges])


def choose(selection: Selection) -> Chosen:
    """Return the records that a selection has now.  Reads only headers and indexes.

    If `until` is in the past and the last records of a log in use are not in its index yet, opens a writer for a
    moment, which completes the index.
    Raises: ValueError; StateError if that is not permitted, or if the file of `number` is still open; NotFoundError if
    it does not exist; AccessError, CorruptError, VersionError, GoneError.
    """
    options = selection.options()
    ranges = tuple(_range(path, selection) for path in directories(options))
    return Chosen(ranges=ranges, several=options.several)


def _range(path: str, selection: Selection) -> LogRange:
    files = take_snapshot(path)
    if selection.number is not None:
        start, end = _bounds_of_file(path, files, selection.number)
    elif not files:
        return LogRange(path=path, start=None, end=None, log_bytes=0)
    else:
        # If `until` is in the future, all current records are older.
        until = selection.until if selection.until is None or selection.until <= datetime.now(UTC) else None
        if until is not None:
            _complete_index(path, files, until)
        start = earliest(files) if selection.since is None else _at(selection.since, path, files)
        end = max(start, latest(files) if until is None else _at(until, path, files))
    size = sum(part.end - part.start for part in ranges_between(path, files, start, end))
    return LogRange(path=path, start=start, end=end, log_bytes=size)


def _complete_index(path: str, files: Sequence[FileStat], until: datetime) -> None:
    """Make the index decide for each record whether it is older than `until`.

    A writer holds some entries back, perhaps for hours in a quiet log, and later writes them with the times of their
    commits.  Until then the records would count as too new, and on the next day as too old.  Opening a writer dates
    them for good, with the time of the file's last write.
    """
    last = next((file for file in reversed(files) if file.tail > file.first_offset), None)
    known = resolve(_NEVER, path, files, fail_on_data_loss=True)
    # A file of another program has no index: all its records have the time of its last write.
    if last is None or last.uuid is None or known >= latest(files) or known != _at(until, path, files):
        return
    try:
        with Writer(path):
            pass
    except BinlogError as error:
        text = f"{path}: the index does not have the times of the records from {known} on yet"
        raise StateError(f"{text}, and it cannot be completed: {error}") from error


def _bounds_of_file(path: str, files: Sequence[FileStat], number: int) -> tuple[Ref, Ref]:
    for file in files:
        if file.number == number:
            if not file.closed:
                raise StateError(f"{path}: file {number} is still open; close it with 'binlog cutover'")
            return Ref(number, file.first_offset), Ref(number, file.tail)
    raise NotFoundError(f"{path}: no file {number}")


def _at(moment: datetime, path: str, files: Sequence[FileStat]) -> Ref:
    return resolve(Since(moment.astimezone(UTC)), path, files, fail_on_data_loss=True)
