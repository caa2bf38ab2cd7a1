"""The last records of a log, without holding the others in memory."""

from __future__ import annotations

from dataclasses import dataclass

import binlog
from binlog.cli.looking.sources import LogSource
from binlog.errors import BinlogError


@dataclass(frozen=True, slots=True)
class LastRecords:
    """The last records, in order.  problem: the error that ended the search."""

    entries: list[binlog.Entry]
    problem: BinlogError | None


def find_last(log: binlog.LogStat, count_max: int, *, bytes_max: int | None = None) -> LastRecords:
    """Find the last records of a log.

    log: as `binlog.stat` returned it.  bytes_max: read no more than this.
    Blocks while it reads.  Holds a few MiB and the records found.
    """
    backwards = LogSource(log.path, log.path, bytes_max=bytes_max).backwards(log)
    entries: list[binlog.Entry] = []
    for found in backwards.last(count_max):
        entries += found.batch.entries()[found.indexes[0] :]
    return LastRecords(entries, backwards.problem)
