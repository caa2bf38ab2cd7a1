"""LogSource: the records of one log that match, forwards, backwards, or the last of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import binlog
from binlog.cli.looking.filters import Filters, Matches
from binlog.cli.looking.views import RecordView, views_of
from binlog.cli.looking.window import Window, backward_parts, ranges_of, read_range
from binlog.errors import BinlogError, GoneError, NotFoundError


@dataclass(frozen=True)
class LogSource:
    """A log to print.

    directory: of the log.  name: shown if there are several logs.  window: the part to print.
    verify: as of a Reader.  bytes_max: backwards, read no more than this.
    """

    directory: str
    name: str
    window: Window = field(default_factory=Window)
    filters: Filters = field(default_factory=Filters)
    verify: bool = True
    bytes_max: int | None = None

    @cached_property
    def times(self) -> binlog.RecordTimes:
        """When the records were appended."""
        return binlog.RecordTimes(self.directory)

    def matches(self, batch: binlog.Batch) -> Iterator[Matches]:
        """Yield the records of a batch that are in the window in time, and match."""
        for span in self.window.spans(self.times, batch):
            found = self.filters.matches(batch, span)
            if len(found):
                yield found

    def forwards(self) -> Iterator[Matches]:
        """Yield all records that match, in order, up to the end of the log.

        Raises: as binlog.Reader, after the records before the damage.
        """
        for batch in self._batches():
            yield from self.matches(batch)

    def backwards(self, log: binlog.LogStat | None = None) -> BackwardMatches:
        """Return all records that match, the last ones first.

        log: the state of the log up to which it is read; the present one by default.
        Raises: as binlog.stat.
        """
        return BackwardMatches(self, log)

    def views(self, found: Iterable[Matches], *, parse: bool, reverse: bool = False) -> Iterator[RecordView]:
        """Yield a view of each record.  parse: whether events are needed.  reverse: within each of `found`."""
        for matches in found:
            views = views_of(self.name, self.times, matches, parse=parse)
            yield from reversed(list(views)) if reverse else views

    def start(self) -> binlog.Ref | binlog.Start:
        """Return the place of the first record that may be in the window, or the end of the log.

        Raises: as binlog.stat.
        """
        if self.window.first is not None:
            return self.window.first
        if self.window.since_ns is None:
            return binlog.Start.BEGINNING
        log = binlog.stat(self.directory)
        ranges = ranges_of(self.directory, self.window, log)
        # Not Start.END if the log has no files: a reader there would skip the first records of the first file.
        return binlog.Ref(ranges[0].number, ranges[0].start) if ranges else log.tail or binlog.Start.BEGINNING

    def check(self) -> None:
        """Open the log at the window's start, so that an error of the options comes before any output.

        Raises: as binlog.Reader.
        """
        self._reader().close()

    def _batches(self) -> Iterator[binlog.Batch]:
        if self.window.until_ns is not None:
            for part in ranges_of(self.directory, self.window):
                yield from read_range(self.directory, part, verify=self.verify)
            return
        with self._reader() as reader:
            while batch := reader.read_batch():
                yield batch

    def _reader(self) -> binlog.Reader:
        return binlog.Reader(self.directory, self.start(), follow=self.window.number is None, verify=self.verify)


class BackwardMatches:
    """The records of a log that match, the last ones first; in each of these, they are in order.

    The iteration ends at damage, after the records before it in its part of the log, and `problem` is the error.  It
    also ends if retention removed a file.  Holds those of 32 MiB of records that match.
    """

    def __init__(self, source: LogSource, log: binlog.LogStat | None) -> None:
        self.problem: BinlogError | None = None
        self._source = source
        self._ranges = ranges_of(source.directory, source.window, log)

    def __iter__(self) -> Iterator[Matches]:
        source = self._source
        for part in backward_parts(source.directory, self._ranges, bytes_max=source.bytes_max):
            found: list[Matches] = []
            try:
                for batch in read_range(source.directory, part, verify=source.verify):
                    found += source.matches(batch)
            except (GoneError, NotFoundError):
                return
            except BinlogError as error:
                self.problem = error
            yield from reversed(found)
            if self.problem is not None:
                return

    def last(self, count_max: int) -> list[Matches]:
        """Return the last `count_max` records that match, in order."""
        found: list[Matches] = []
        left = count_max
        if left > 0:
            for matches in self:
                found.append(matches.last(left).without_events())
                left -= len(found[-1])
                if left <= 0:
                    break
        return found[::-1]

    def check(self) -> None:
        """Raise the error that ended the iteration, if any."""
        if self.problem is not None:
            raise self.problem
