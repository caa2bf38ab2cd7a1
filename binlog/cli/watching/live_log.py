"""LiveLog: the state of a log that `binlog monitor` shows, updated as the log grows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import binlog
from binlog.cli.amounts import Amount, RateMeter
from binlog.cli.looking.sources import LogSource
from binlog.errors import BinlogError
from binlog.watching import LogView, Trend, Trends, lags_of, view_log
from binlog.watching.trends import Key

# The most to read for the last records.  If they are larger, fewer are shown.
_TAIL_BYTES_MAX = 64 << 20
# The largest share of the time that is spent on the state of the log, which may have thousands of files.
_SHARE_MAX = 0.02
_SECONDS_MAX = 10.0
_RATE_SECONDS = 2.0
# How long a problem is shown after it has passed.
_PROBLEM_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A log at one moment.

    seen: the records since the watch began.  rate: per second, recently.  history: the record count of each of the last
    seconds.  last: the last records.  trends: of the lags.  problem: why the rest may be out of date.
    """

    view: LogView
    seen: Amount
    rate: Amount
    history: list[float]
    last: list[binlog.Entry]
    trends: Mapping[Key, Trend]
    problem: str | None


class LiveLog:
    """Reads the state of a log again and again, and counts from its headers the records that were appended.

    directory: of the log, which may have no files yet.  positions: more position files, outside of it.
    last_count: how many of the last records to read.
    Damage does not end the watch: the snapshot reports it.
    Raises, when it is made: NotFoundError, AccessError, CorruptError, VersionError.
    """

    def __init__(self, directory: str, positions: Iterable[str], *, last_count: int) -> None:
        self._directory = directory
        self._positions = tuple(positions)
        self._last_count = last_count
        self._problem: tuple[float, str] | None = None
        self._seen = Amount(0, 0)
        self._last: list[binlog.Entry] = []
        self._reader: binlog.Reader | None = None
        self._view = view_log(directory, self._positions)
        self._due = 0.0
        self._updated = time.monotonic()
        self._meter = RateMeter(self._updated)
        self._trends = Trends()
        self._read_last()

    def wait(self, seconds: float) -> bool:
        """Wait for a record, and return whether there is one."""
        try:
            if self._reader is None:
                # Not Start.END if the log has no files: a reader there would skip the first records of the first file.
                self._reader = binlog.Reader(self._directory, self._view.log.tail or binlog.Start.BEGINNING)
            return self._reader.wait(seconds)
        except BinlogError as error:
            self._note_problem(error)
            self._close_reader()
            time.sleep(seconds)
            return False

    def update(self, *, whole: bool = False) -> None:
        """Read the state of the log again, unless that takes too large a share of the time.

        whole: read it in any case.
        """
        began = time.monotonic()
        if not whole and began < self._due:
            return
        before = self._view.log
        try:
            self._view = view_log(self._directory, self._positions)
            self._trends.note(began, lags_of(self._view))
            if self._view.log.tail != before.tail:
                self._count(began, before)
                self._read_last()
                self._close_reader()
            self._updated = began
        except BinlogError as error:
            self._note_problem(error)
        self._due = began + min((time.monotonic() - began) / _SHARE_MAX, _SECONDS_MAX)

    def snapshot(self) -> Snapshot:
        """Return the current state."""
        now = time.monotonic()
        return Snapshot(
            view=self._view,
            seen=self._seen,
            rate=self._meter.per_second(self._updated, _RATE_SECONDS),
            history=self._meter.history(self._updated),
            last=self._last,
            trends=self._trends.present(),
            problem=self._problem[1] if self._problem and now - self._problem[0] < _PROBLEM_SECONDS else None,
        )

    def close(self) -> None:
        """Close all files."""
        self._close_reader()

    def _count(self, now: float, before: binlog.LogStat) -> None:
        """Count the bytes that were appended between two reads; records only if the headers have their number."""
        log = self._view.log
        start = before.tail or (log.files and binlog.Ref(log.files[0].number, log.files[0].first_offset))
        first = before.end_sequence if before.files else log.files[0].first_sequence if log.files else None
        end = log.end_sequence
        records = 0 if first is None or end is None else max(end - first, 0)
        amount = Amount(records, (log.bytes_after(start) or 0) if start else 0)
        self._meter.add(now, amount, since=self._updated)
        self._seen = Amount(self._seen.records + amount.records, self._seen.bytes + amount.bytes)

    def _read_last(self) -> None:
        if not self._last_count:
            return
        found = find_last(self._view.log, self._last_count, bytes_max=_TAIL_BYTES_MAX)
        self._last = found.entries
        if found.problem is not None:
            self._note_problem(found.problem)

    def _note_problem(self, error: BinlogError) -> None:
        self._problem = (time.monotonic(), str(error))

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


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
        refs = (binlog.Ref(found.number, found.offset + start) for start in found.starts)
        entries += map(binlog.Entry, refs, found.records)
    return LastRecords(entries, backwards.problem)
