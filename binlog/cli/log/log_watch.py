"""What `binlog monitor` knows of a log, kept up to date as the log grows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import binlog
from binlog.cli.amounts import Amount, RateMeter
from binlog.cli.log.followers import Followers, Lag
from binlog.cli.log.last_records import LastRecords, find_last
from binlog.errors import BinlogError

# What is read at the start to show some last records; with larger files only those that come are shown.
_TAIL_BYTES_MAX = 64 << 20
# Looking at all files, and at the followers, takes this part of the time at most: a log may have thousands.
_REFRESH_SHARE = 0.05
_COUNT_SECONDS = 0.05
_READ_SECONDS = 0.1
_RATE_SECONDS = 2.0
# How long damage that was met stays on show: the watch has moved past it by then.
_PROBLEM_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A log at one moment.

    seen: what came since the watch began.  rate: per second, of late.  history: records of each of the last seconds.
    idle_seconds: since the last record came, None where none did.  problem: what keeps the rest from being current.
    """

    time_ns: int
    log: binlog.LogStat
    seen: Amount
    rate: Amount
    history: list[float]
    lags: list[Lag]
    last: list[binlog.Entry]
    idle_seconds: float | None
    problem: str | None


class LogWatch:
    """A reader at the log's end that counts what comes, and a look at the files and followers now and then.

    directory: the log's; it may have no files yet.  positions: files of followers elsewhere.
    Damage does not end it: it is the snapshot's problem, and the watch goes on at the log's end.
    Raises: AccessError, CorruptError, VersionError when it is made.
    """

    def __init__(self, directory: str, positions: Iterable[str], *, last_count: int) -> None:
        self._directory = directory
        self._followers = Followers(directory, positions)
        self._last = LastRecords(last_count)
        self._seen = Amount(0, 0)
        self._came: float | None = None
        self._log = binlog.stat(directory)
        self._lags: list[Lag] = []
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
        """Wait until a record is there; whether one is."""
        if self._reader is None:
            time.sleep(seconds)
            return False
        try:
            return self._reader.wait(seconds)
        except BinlogError:
            return True  # the next update meets it again, and tells

    def update(self, *, whole: bool = False) -> None:
        """Read what came, and look at files and followers when it is time for that.

        whole: look in any case, and for as long as it takes.
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
        """What is known now."""
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
            last=(self._earlier[-missing:] if missing else []) + last,
            idle_seconds=None if self._came is None else now - self._came,
            problem=self._problem[1] if self._problem and now - self._problem[0] < _PROBLEM_SECONDS else None,
        )

    def close(self) -> None:
        """Give everything back."""
        self._drop_reader()
        self._followers.close()

    def _read(self, now: float) -> None:
        if self._reader is None:
            self._reader = binlog.Reader(self._directory, self._end())
        # A log that grows faster than it is read must not keep the screen from being drawn.
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
