"""Which records a job is about: of which logs, from where to where."""

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

# Later than any record: a reader that asks for it begins where the index ends.
_NEVER = Since(datetime(2200, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a user asks for.

    paths: directories of logs, or globs of them.  number: of one closed file in each.
    since, until: times with a zone; the first that is in, and the first that is not any more.  A record's time is the
    one that the index tells, of a commit or of 64 KiB together, so that of two selections that meet at a time in the
    past each record is in one.  The records of a file that has no index count as of the time of its last write.
    """

    paths: tuple[str, ...]
    since: datetime | None = None
    until: datetime | None = None
    number: int | None = None

    def options(self) -> ReadOptions:
        """The same as the data source takes it.  Raises: ValueError."""
        return parse_options({"paths": json.dumps(self.paths)})


@dataclass(frozen=True, kw_only=True)
class LogRange:
    """Records of one log from `start` up to `end`, not with it; both None for a log without files.

    log_bytes: what they take in the log's files.
    """

    path: str
    start: Ref | None
    end: Ref | None
    log_bytes: int


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Records that are there, and which later reads find again.  several: whether rows are to say of which log."""

    ranges: tuple[LogRange, ...]
    several: bool

    @property
    def log_bytes(self) -> int:
        """What they take in the logs' files."""
        return sum(each.log_bytes for each in self.ranges)

    def load(self, reader: Any) -> Any:
        """A frame of them.  reader: a DataFrameReader with what else it is told."""
        for option, bounds in (("startingPosition", "start"), ("endingPosition", "end")):
            places = {each.path: getattr(each, bounds) for each in self.ranges}
            refs = {path: ref_to_json(ref or Ref(1, 256)) for path, ref in places.items()}
            reader = reader.option(option, json.dumps(refs))
        return reader.load([each.path for each in self.ranges])


def choose(selection: Selection) -> Chosen:
    """What there is of a selection now.  Reads headers and indexes only.

    Where `until` has passed, and the last records of a log that others write to are not in its index yet, it is opened
    as a writer for a moment, which brings the index up to date.
    Raises: ValueError; StateError where that is not allowed, and for a file that is open still; NotFoundError for one
    that is not there; AccessError, CorruptError, VersionError, GoneError.
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
        # Whatever is there now is older than a time to come.
        until = selection.until if selection.until is None or selection.until <= datetime.now(UTC) else None
        if until is not None:
            _complete_index(path, files, until)
        start = earliest(files) if selection.since is None else _at(selection.since, path, files)
        end = max(start, latest(files) if until is None else _at(until, path, files))
    size = sum(part.end - part.start for part in ranges_between(path, files, start, end))
    return LogRange(path=path, start=start, end=end, log_bytes=size)


def _complete_index(path: str, files: Sequence[FileStat], until: datetime) -> None:
    """Have the index say of each record whether it is older than that.

    A writer keeps some entries back, and a quiet log's may be hours old before they are written, with the times of
    their commits: the records would be too new for an index that does not have them, and too old for it the next day.
    A writer that is opened dates them, once and for all, with the time of the file's last write.
    """
    last = next((file for file in reversed(files) if file.tail > file.first_offset), None)
    known = resolve(_NEVER, path, files, fail_on_data_loss=True)
    # Not in a file that another program made: that has no index, and all of it counts as of its last write.
    if last is None or last.uuid is None or known >= latest(files) or known != _at(until, path, files):
        return
    try:
        with Writer(path):
            pass
    except BinlogError as error:
        text = f"{path}: when the records from {known} on were appended is not in the index yet"
        raise StateError(f"{text}, and it cannot be brought up to date: {error}") from error


def _bounds_of_file(path: str, files: Sequence[FileStat], number: int) -> tuple[Ref, Ref]:
    for file in files:
        if file.number == number:
            if not file.closed:
                raise StateError(f"{path}: file {number} is open still; 'binlog cutover' closes it")
            return Ref(number, file.first_offset), Ref(number, file.tail)
    raise NotFoundError(f"{path}: there is no file {number}")


def _at(moment: datetime, path: str, files: Sequence[FileStat]) -> Ref:
    return resolve(Since(moment.astimezone(UTC)), path, files, fail_on_data_loss=True)
