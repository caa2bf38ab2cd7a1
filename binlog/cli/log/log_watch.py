"""The state of a log that `binlog monitor` shows, updated as the log grows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import binlog
from binlog.cli.amounts import Amount, RateMeter
from binlog.cli.groups import NamedGroup, groups_of
from binlog.cli.log.followers import Followers, Lag
from binlog.cli.log.last_records import LastRecords, find_last
from binlog.errors import BinlogError

# The most to read at the start for the last records.  If the files are larger, only new records are shown.
_TAIL_BYTES_MAX = 64 << 20
# The largest share of the time spent on the files and followers; a log may have thousands of them.
_REFRESH_SHARE = 0.05
_COUNT_SECONDS = 0.05
_READ_SECONDS = 0.1
_RATE_SECONDS = 2.0
# How long a problem is shown; the watch continues after the damage.
_PROBLEM_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A log at one moment.

    seen: the records since the watch began.  rate: per second, recently.  history: the record count of each of the last
    seconds.  idle_seconds: since the last record; None if there was none.  problem: why the rest may be out of date.
    """

    time_ns: int
    log: binlog.LogStat
    seen: Amount
    rate: Amount
    history: list[float]
    lags: list[Lag]
    groups: list[NamedGroup]
    last: list[binlog.Entry]
    idle_seconds: float | None
    problem: str | None


class LogWatch:
    """Counts the records that are appended, and refreshes the files and followers now and then.

    directory: of the log, which may have no files yet.  positions: more position files, outside of it.
    Damage does not end the watch: the snapshot reports it, and the watch continues at the end of the log.
    Raises, when it is made: AccessError, CorruptError, VersionError.
    """

    def __init__(self, directory: str, positions: Iterable[str], *, last_count: int) -> None:
        self._directory = directory
        self._followers = Followers(directory, positions)
        self._last = LastRecords(last_count)
        self._seen = Amount(0, 0)
        self._came: float | None = None
        self._log = binlog.stat(directory)
        self._lags: list[Lag] = []
        self._groups: list[NamedGroup] = []
        self._refresh_due = 0.0
        self._problem: tuple[float, str] | None = None
        found = find_last(directory, last_count, bytes_max=_TAIL_BYTES_MAX)
        if found.problem is not None:
            self._note_problem(found.problem)
        self._earlier = found.entries
        self._reader: binlog.Reader | None = binlog.Reader(directory, found.after)
        self._last_count = last_count
        self._meter = RateMeter(time.monotonic())

    def wait(self, seconds: float) -> bool:
        """Wait for a record, and return whether there is one."""
        if self._reader is None:
            time.sleep(seconds)
            return False
        try:
            return self._reader.wait(seconds)
        except BinlogError:
            return True  # the next update meets the error again and reports it

    def update(self, *, whole: bool = False) -> None:
        """Read new records, and refresh the files and followers if that is due.

        whole: refresh them in any case, however long it takes.
        """
        try:
            self._read(time.monotonic())
        except BinlogError as error:
            self._note_problem(error)
            self._drop_reader()
        began = time.monotonic()
        if whole or began >= self._refresh_due:
            self._refresh_log(None if whole else _COUNT_SECONDS)
            self._refresh_due = began + min((time.monotonic() - began) / _REFRESH_SHARE, 1.0)

    def snapshot(self) -> Snapshot:
        """Return the current state."""
        now = time.monotonic()
        last = self._last.entries()
        missing = self._last_count - len(last)
        return Snapshot(
            time_ns=time.time_ns(),
            log=self._log,
            seen=self._seen,
            rate=self._meter.per_second(now, _RATE_SECONDS),
            history=self._meter.history(now),
            lags=self._lags,
            groups=self._groups,
            last=(self._earlier[-missing:] if missing else []) + last,
            idle_seconds=None if self._came is None else now - self._came,
            problem=self._problem[1] if self._problem and now - self._problem[0] < _PROBLEM_SECONDS else None,
        )

    def close(self) -> None:
        """Close all files."""
        self._drop_reader()
        self._followers.close()

    def _read(self, now: float) -> None:
        if self._reader is None:
            self._reader = binlog.Reader(self._directory, self._end())
        # Stop in time to draw the screen, even if the log grows faster than it is read.
        while (batch := self._reader.read_batch()) and time.monotonic() < now + _READ_SECONDS:
            self._count(batch)
        if batch:
            self._count(batch)

    def _count(self, batch: binlog.Batch) -> None:
        amount = Amount(len(batch), len(batch.data))
        self._came = time.monotonic()
        self._meter.add(self._came, amount)
        self._seen = Amount(self._seen.records + amount.records, self._seen.bytes + amount.bytes)
        self._last.add(batch)

    def _refresh_log(self, count_seconds: float | None) -> None:
        try:
            self._log = binlog.stat(self._directory)
            self._groups = groups_of(self._directory)
        except BinlogError as error:
            self._note_problem(error)
        self._lags = self._followers.lags(self._log, seconds_max=count_seconds)

    def _note_problem(self, error: BinlogError) -> None:
        self._problem = (time.monotonic(), str(error))

    def _end(self) -> binlog.Ref | binlog.Start:
        return binlog.stat(self._directory).tail or binlog.Start.BEGINNING

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
