"""The stream reader of logs, for Structured Streaming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from binlog import FileStat, Reader, Ref, Start, limit_range
from binlog.errors import GoneError
from binlog.spark.log.options import ReadOptions
from binlog.spark.log.partitions import directories, divide, ranges_between
from binlog.spark.log.positions import earliest, latest, ref_from_json, ref_to_json, resolve
from binlog.spark.log.reading import RangesReader
from binlog.spark.log.snapshot import FileRange, take_snapshot
from binlog.spark.schema import Field
from binlog.spark.stream import LimitedReader, Offset, divide_limit
from binlog.spark.tasks import Task


class StreamReader(RangesReader, LimitedReader):
    """Reads published records, in the order of each log.

    An offset has, for each log's directory, `number` and `offset` of a ref, and `log`, the log's uuid if it has one.
    Records that another program adds to a closed file after the stream has passed its end are not read.
    """

    def __init__(self, options: ReadOptions, fields: Sequence[Field]) -> None:
        RangesReader.__init__(self, options, fields)
        LimitedReader.__init__(self, options)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the start of a new query.  Raises: ValueError, GoneError, AccessError, CorruptError, VersionError."""
        places: Offset = {}
        for path in directories(self._options):
            files = take_snapshot(path)
            if files:
                start = resolve(self._options.start, path, files, fail_on_data_loss=self._options.fail_on_data_loss)
                places[path] = _position(start, _identity(files))
        return places

    def partitions(self, start: Offset, end: Offset) -> list[Task[FileRange]]:
        """Return the tasks of one batch.  Raises: GoneError if its records were removed; CorruptError, AccessError."""
        return divide([part for path in end for part in self._ranges(path, start, end)], self._options)

    def _end_offset(self, start: Offset) -> Offset:
        """Return the published end of each log that has files.  start: has the uuids known so far."""
        ends: Offset = {}
        for path in directories(self._options):
            known = start.get(path, {}).get("log")
            if known is not None and self._options.include_open_file and self._options.fail_on_data_loss:
                # An idle query asks a hundred times per second, so read only the newest header.
                # `partitions` checks that it is still the same log.
                with Reader(path, Start.END) as reader:
                    ends[path] = _position(reader.next_ref, known)
                continue
            files = take_snapshot(path)
            if files:
                end = latest(files) if self._options.include_open_file else _closed_end(files)
                ends[path] = _position(end, _identity(files))
        return ends

    def _ranges(self, path: str, start: Offset, end: Offset) -> list[FileRange]:
        """Return the ranges between two offsets in one log."""
        files = take_snapshot(path)
        last = ref_from_json(end[path])
        first = ref_from_json(start[path]) if path in start else None
        lost = _loss_reason(files, first, last, end[path].get("log"))
        if lost is not None and self._options.fail_on_data_loss:
            raise GoneError(f"{path}: {lost}; use failOnDataLoss=false to continue with the remaining records")
        if not files:
            return []
        begin = earliest(files)
        if first is not None and start[path].get("log") in (None, end[path].get("log")):
            begin = max(begin, first)
        return list(ranges_between(path, files, begin, last))

    def _within_limits(self, start: Offset, ends: Offset) -> Offset:
        """Give each log a share of the limits in proportion to the size of its data."""
        ranges = {path: self._ranges(path, start, ends) for path in ends}
        lengths = {path: sum(part.end - part.start for part in ranges[path]) for path in ends}
        sizes = {path: length for path, length in lengths.items() if length}
        records = divide_limit(self._options.records_per_trigger, sizes)
        size = divide_limit(self._options.bytes_per_trigger, sizes)
        reached = {path: end for path, end in ends.items() if path not in sizes}
        for path in sizes:
            position = _batch_end(ranges[path], ends[path], records.get(path), size.get(path))
            if position is not None:
                reached[path] = position
        return reached


def _batch_end(
    ranges: Sequence[FileRange], end: dict[str, Any], records: int | None, size: int | None
) -> dict[str, Any] | None:
    """Return the end of a batch in one log, or None if the log's share is nothing."""
    if records == 0 or size == 0:
        return None
    for part in ranges:
        at, count = limit_range(part.path, part.number, part.start, part.end, records_max=records, bytes_max=size)
        records = None if records is None or count is None else records - count
        size = None if size is None else size - (at - part.start)
        over = (records is not None and records <= 0) or (size is not None and size <= 0)
        if at < part.end or (over and part is not ranges[-1]):
            return _position(Ref(part.number, at), end.get("log"))
    return end


def _loss_reason(files: Sequence[FileStat], first: Ref | None, last: Ref, log: str | None) -> str | None:
    """Return why a batch can no longer be read in full, or None if it can."""
    if not files:
        return f"the log has no files now; it was read up to {first or last}"
    if log is not None and any(file.uuid not in (None, log) for file in files):
        return "this is not the log that was read before"
    if first is not None and first < earliest(files):
        return f"the records from {first} up to {earliest(files)} were removed"
    if last > latest(files):
        return f"the log ended at {last} and now ends at {latest(files)}"
    return None


def _identity(files: Sequence[FileStat]) -> str | None:
    return next((file.uuid for file in reversed(files) if file.uuid is not None), None)


def _closed_end(files: Sequence[FileStat]) -> Ref:
    """Return the end of the closed files, which is the start of the open one."""
    following = [file for file in files if not file.closed]
    return Ref(following[0].number, following[0].first_offset) if following else latest(files)


def _position(ref: Ref, log: str | None) -> dict[str, Any]:
    return {**ref_to_json(ref), **({} if log is None else {"log": log})}
