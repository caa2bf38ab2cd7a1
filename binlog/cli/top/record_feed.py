"""RecordFeed: the last records of logs that match a filter, and those that are appended."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import binlog
from binlog.cli.amounts import Amount, RateMeter
from binlog.cli.looking.event_fields import ERROR, SEVERITY_MAX, WARNING, parse_event, severity_of
from binlog.cli.looking.filters import Filters
from binlog.cli.looking.merging import by_time
from binlog.cli.looking.sources import LogSource
from binlog.cli.looking.views import RecordView
from binlog.errors import BinlogError, GoneError

KEPT_MAX = 5000
_KEPT_BYTES_MAX = 64 << 20
# The most that is searched for earlier records that match.
HISTORY_BYTES_MAX = 16 << 20
# The most that is read at a time; if more than some of this was appended, the rest is skipped.
_TURN_BYTES_MAX = 4 << 20
_BEHIND_BYTES_MAX = 32 << 20
_RATE_SECONDS = 2.0
_SEVERE = (
    binlog.JsonMember(b'"severity"', tuple(str(number).encode() for number in range(WARNING, SEVERITY_MAX + 1))),
)


@dataclass(frozen=True, slots=True)
class LevelRate:
    """The events of a level: per second, recently, and in each of the last 60 seconds."""

    per_second: float
    history: list[float]


class RecentRecords:
    """The last records: at most KEPT_MAX, of _KEPT_BYTES_MAX together.  trimmed: how many were removed before them."""

    def __init__(self) -> None:
        self.views: deque[RecordView] = deque()
        self.trimmed = self._bytes = 0

    def add(self, views: Iterable[RecordView]) -> None:
        """Add records, and remove the first ones if they are too many."""
        for view in views:
            self.views.append(view)
            self._bytes += len(view.data)
            while len(self.views) > KEPT_MAX or (self._bytes > _KEPT_BYTES_MAX and len(self.views) > 1):
                self._bytes -= len(self.views.popleft().data)
                self.trimmed += 1


class RecordFeed:
    """The records of logs that match a filter: the last ones, in the order of time.

    directories: of the logs, each with the name to show.
    While it is paused, new records are counted, and shown afterwards.  skipped: records that were not read, because
    they came too fast.  problem: of the last read.
    """

    def __init__(self, directories: Sequence[tuple[str, str]], filters: Filters) -> None:
        self._directories = directories
        self._logs: list[_Log] = []
        self._meters = {level: RateMeter(time.monotonic()) for level in ("warnings", "errors")}
        self._new, self.shown = RecentRecords(), RecentRecords()
        self.is_paused = False
        self.new_count = self.skipped = 0
        self.problem: str | None = None
        self.filter(filters)

    def filter(self, filters: Filters) -> None:
        """Show the last records that match other filters.

        Searches at most HISTORY_BYTES_MAX of each log.
        """
        self.close()
        self._logs = [_Log(directory, name, filters) for directory, name in self._directories]
        self._new, self.shown = RecentRecords(), RecentRecords()
        self.new_count = 0
        try:
            self.shown.add(by_time([iter(log.load()) for log in self._logs]))
        except BinlogError as error:
            self.problem = str(error)

    def update(self) -> int:
        """Read the new records, and return how many more are shown now."""
        found = []
        self.problem = None
        for log in self._logs:
            try:
                found.append(self._read(log))
            except BinlogError as error:
                self.problem = str(error)
        new = list(by_time([iter(each) for each in found])) if len(found) > 1 else found[0] if found else []
        if self.is_paused:
            self._new.add(new)
            self.new_count += len(new)
            return 0
        self.shown.add(new)
        return len(new)

    def pause(self, *, is_paused: bool) -> None:
        """Pause or continue."""
        self.is_paused = is_paused
        if is_paused:
            return
        if self._new.trimmed:
            # Some records in between are not kept, and a list must not have gaps.
            self.skipped += self._new.trimmed
            self.shown, trimmed = RecentRecords(), self.shown.trimmed + len(self.shown.views)
            self.shown.trimmed = trimmed
        self.shown.add(self._new.views)
        self._new, self.new_count = RecentRecords(), 0

    def level_rates(self) -> dict[str, LevelRate]:
        """Return the rate of warnings and of errors, whatever the filter is."""
        now = time.monotonic()
        return {
            level: LevelRate(meter.per_second(now, _RATE_SECONDS).records, meter.history(now))
            for level, meter in self._meters.items()
        }

    def close(self) -> None:
        """Close the files."""
        for log in self._logs:
            log.close()

    def _read(self, log: _Log) -> list[RecordView]:
        skipped, views = log.skip_to_end()
        self.skipped += skipped
        for batch in log.batches():
            self._count_levels(batch)
            views += log.views(batch)
        return views

    def _count_levels(self, batch: binlog.Batch) -> None:
        warnings = errors = 0
        candidates = batch.json_candidates(_SEVERE)
        if len(candidates):
            data, offsets = bytes(batch.data), batch.offsets
            for index in candidates:
                event = parse_event(data[offsets[index] + 4 : offsets[index + 1]])
                severity = (None if event is None else severity_of(event)) or 0
                errors += severity >= ERROR
                warnings += WARNING <= severity < ERROR
        now = time.monotonic()
        self._meters["warnings"].add(now, Amount(warnings, 0))
        self._meters["errors"].add(now, Amount(errors, 0))


class _Log:
    """One log of a feed."""

    def __init__(self, directory: str, name: str, filters: Filters) -> None:
        self._source = LogSource(directory, name, filters=filters, bytes_max=HISTORY_BYTES_MAX)
        self._reader: binlog.Reader | None = None

    def load(self) -> list[RecordView]:
        """Open the log at its end, and return the last records that match.  Raises: as binlog.Reader."""
        log = binlog.stat(self._source.directory)
        found = self._source.backwards(log).last(KEPT_MAX)
        # Not Start.END if the log has no files: a reader there would skip the first records of the first file.
        self._open(log.tail or binlog.Start.BEGINNING)
        return list(self._source.views(found, parse=False))

    def skip_to_end(self) -> tuple[int, list[RecordView]]:
        """Skip records if they come faster than they are read; return how many, and the last ones, which are shown."""
        reader = self._opened()
        if not reader.wait(0):
            return 0, []
        log = binlog.stat(self._source.directory)
        behind = log.bytes_after(reader.next_ref)
        if log.tail is None or behind is None or behind <= _BEHIND_BYTES_MAX:
            return 0, []
        place = reader.next_ref
        before = binlog.lag(self._source.directory, place).records or 0
        last = [view for view in self.load() if view.ref >= place]
        return max(before - len(last), 0), last

    def batches(self) -> list[binlog.Batch]:
        """Return the new records, but not much more than _TURN_BYTES_MAX."""
        reader = self._opened()
        found, size = [], 0
        try:
            while size < _TURN_BYTES_MAX and (batch := reader.read_batch()):
                found.append(batch)
                size += len(batch.data)
        except GoneError:
            self._open(binlog.Start.BEGINNING)
        return found

    def views(self, batch: binlog.Batch) -> list[RecordView]:
        """Return the records of a batch that match."""
        try:
            return list(self._source.views(self._source.matches(batch), parse=False))
        except GoneError:
            return []  # retention removed the file after the batch was read

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _opened(self) -> binlog.Reader:
        if self._reader is None:
            self._open(binlog.stat(self._source.directory).tail or binlog.Start.BEGINNING)
        assert self._reader is not None
        return self._reader

    def _open(self, start: binlog.Ref | binlog.Start) -> None:
        self.close()
        self._reader = binlog.Reader(self._source.directory, start)
