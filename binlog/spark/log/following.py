"""Following logs with Structured Streaming: one batch after the other, each from where the last one ended."""

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
from binlog.spark.stream import LimitedReader, Offset, shares
from binlog.spark.tasks import Task


class StreamReader(RangesReader, LimitedReader):
    """Gives what is published, in the order of each log.

    An offset has, for each log's directory, `number` and `offset` of a ref, and `log`, the log's identity, where its
    files tell.
    What another program adds to a closed file after the stream went past its end is not seen.
    """

    def __init__(self, options: ReadOptions, fields: Sequence[Field]) -> None:
        RangesReader.__init__(self, options, fields)
        LimitedReader.__init__(self, options)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a new query begins.  Raises: ValueError, GoneError, AccessError, CorruptError, VersionError."""
        places: Offset = {}
        for path in directories(self._options):
            files = take_snapshot(path)
            if files:
                start = resolve(self._options.start, path, files, fail_on_data_loss=self._options.fail_on_data_loss)
                places[path] = _place(start, _identity(files))
        return places

    def partitions(self, start: Offset, end: Offset) -> list[Task[FileRange]]:
        """The tasks of one batch.  Raises: GoneError where it cannot be had any more; CorruptError, AccessError."""
        return divide([part for path in end for part in self._ranges(path, start, end)], self._options)

    def _ends(self, start: Offset) -> Offset:
        """The published end of each log that has one.  start: tells identities known already."""
        ends: Offset = {}
        for path in directories(self._options):
            known = start.get(path, {}).get("log")
            if known is not None and self._options.include_open_file and self._options.fail_on_data_loss:
                # What an idle query asks a hundred times a second, so no header is read but the newest one's.
                # That it is the same log still, `partitions` looks at.
                with Reader(path, Start.END) as reader:
                    ends[path] = _place(reader.next_ref, known)
                continue
            files = take_snapshot(path)
            if files:
                end = latest(files) if self._options.include_open_file else _closed_end(files)
                ends[path] = _place(end, _identity(files))
        return ends

    def _ranges(self, path: str, start: Offset, end: Offset) -> list[FileRange]:
        """What lies between two offsets in one log."""
        files = take_snapshot(path)
        last = ref_from_json(end[path])
        first = ref_from_json(start[path]) if path in start else None
        lost = _loss(files, first, last, end[path].get("log"))
        if lost is not None and self._options.fail_on_data_loss:
            raise GoneError(f"{path}: {lost}; failOnDataLoss=false goes on with what is there")
        if not files:
            return []
        begin = earliest(files)
        if first is not None and start[path].get("log") in (None, end[path].get("log")):
            begin = max(begin, first)
        return list(ranges_between(path, files, begin, last))

    def _within_limits(self, start: Offset, ends: Offset) -> Offset:
        """Each log gets a share of the limits that is as large as its share of what there is to read."""
        ranges = {path: self._ranges(path, start, ends) for path in ends}
        lengths = {path: sum(part.end - part.start for part in ranges[path]) for path in ends}
        sizes = {path: length for path, length in lengths.items() if length}
        records = shares(self._options.records_per_trigger, sizes)
        size = shares(self._options.bytes_per_trigger, sizes)
        reached = {path: end for path, end in ends.items() if path not in sizes}
        for path in sizes:
            place = _reach(ranges[path], ends[path], records.get(path), size.get(path))
            if place is not None:
                reached[path] = place
        return reached


def _reach(
    ranges: Sequence[FileRange], end: dict[str, Any], records: int | None, size: int | None
) -> dict[str, Any] | None:
    """How far a batch goes in one log; None for nowhere, where its share is nothing."""
    if records == 0 or size == 0:
        return None
    for part in ranges:
        at, count = limit_range(part.path, part.number, part.start, part.end, records_max=records, bytes_max=size)
        records = None if records is None or count is None else records - count
        size = None if size is None else size - (at - part.start)
        over = (records is not None and records <= 0) or (size is not None and size <= 0)
        if at < part.end or (over and part is not ranges[-1]):
            return _place(Ref(part.number, at), end.get("log"))
    return end


def _loss(files: Sequence[FileStat], first: Ref | None, last: Ref, log: str | None) -> str | None:
    """What of a batch cannot be had any more; None where all of it can."""
    if not files:
        return f"the log has no files any more, and was read up to {first or last}"
    if log is not None and any(file.uuid not in (None, log) for file in files):
        return "it is another log than the one that was read before"
    if first is not None and first < earliest(files):
        return f"the records from {first} on were removed, up to {earliest(files)}"
    if last > latest(files):
        return f"the log ended at {last}, and now ends at {latest(files)}"
    return None


def _identity(files: Sequence[FileStat]) -> str | None:
    return next((file.uuid for file in reversed(files) if file.uuid is not None), None)


def _closed_end(files: Sequence[FileStat]) -> Ref:
    """Where the closed files end: at the start of the open one."""
    following = [file for file in files if not file.closed]
    return Ref(following[0].number, following[0].first_offset) if following else latest(files)


def _place(ref: Ref, log: str | None) -> dict[str, Any]:
    return {**ref_to_json(ref), **({} if log is None else {"log": log})}
