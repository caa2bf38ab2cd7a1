"""When the records of a batch were appended, by the index of their file."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from contextlib import closing

from binlog.errors import GoneError, NotFoundError
from binlog.log.batch import Batch
from binlog.log.directory import LogDirectory
from binlog.log.read.file_reader import FileReader
from binlog.log.read.range_reader import TimedBatch


def timed_batch(path: str | os.PathLike[str], batch: Batch) -> TimedBatch:
    """Return a batch of a Reader with the time of each record: `Entry.time` of all of them, in one read of the index.

    path: the log's directory.
    The times cover the whole batch and never decrease in it, unless the index is damaged.  Times are of a commit, or of
    64 KiB of records together; records that the index does not cover yet have the time of the file's last write.
    Raises: GoneError if the file was removed; AccessError, CorruptError.
    """
    ends, times_ns = array("Q"), array("Q")
    if not len(batch):
        return TimedBatch(batch, ends, times_ns)
    with LogDirectory(path) as directory:
        try:
            file = FileReader(directory, batch.number, record_bytes_max=0)
        except NotFoundError as error:
            raise GoneError(f"{os.fspath(path)}: file {batch.number} was removed") from error
        with closing(file):
            start, end = batch.offset + batch.offsets[0], batch.offset + batch.offsets[-1]
            for range_end, time_ns in file.range_times(start, end):
                place = min(range_end - batch.offset, batch.offsets[-1])
                ends.append(bisect_left(batch.offsets, place))
                times_ns.append(time_ns)
            if not ends or ends[-1] < len(batch):
                ends.append(len(batch))
                times_ns.append(file.unindexed_time_ns)
    return TimedBatch(batch, ends, times_ns)
