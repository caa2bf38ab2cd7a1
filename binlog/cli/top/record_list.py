"""RecordList: the records of a feed as lines, which follows new records while its cursor is on the last one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from binlog.cli.amounts import things_text
from binlog.cli.looking.event_fields import body_of, parse_event, severity_of, time_ns_of
from binlog.cli.looking.formats import Json, text_of_record
from binlog.cli.looking.times import short_time
from binlog.cli.looking.views import RecordView
from binlog.cli.top.line_list import LineList, Shown
from binlog.cli.top.record_feed import RecordFeed
from binlog.cli.watching.monitor_view import severity_style

# Of a record that is no event, as much is made text as a wide line shows.
_BYTES_SHOWN = 2000
_CHARACTERS_SHOWN = 2000
_TIME_START = len("2025-01-31 ")


class RecordList(LineList):
    """The records that a feed shows.  named: whether a line begins with the name of its log."""

    def __init__(self, feed: RecordFeed, *, named: bool, utc: bool, ascii_only: bool) -> None:
        super().__init__(name="records", ascii_only=ascii_only)
        self._feed = feed
        self._named = named
        self._utc = utc
        self._trimmed = 0
        self.is_following = True

    def line_count(self) -> int:
        return len(self._feed.shown.views)

    def line(self, index: int) -> Shown:
        view = self._feed.shown.views[index]
        data = body_of(view.data)
        event = parse_event(data)
        own_ns = None if event is None else time_ns_of(event)
        time = short_time(view.appended_ns if own_ns is None else own_ns, utc=self._utc)[_TIME_START:]
        text = data[:_BYTES_SHOWN].decode("utf-8", "backslashreplace") if event is None else view.text
        name = f"{view.log} " if self._named else ""
        shown = text_of_record(event, text)[:_CHARACTERS_SHOWN]
        return Shown(f"{time} {name}{shown}", severity_style(None if event is None else severity_of(event)))

    def has_cursor(self) -> bool:
        # While it follows, a marked last line would flicker.
        return self.has_focus and (self._feed.is_paused or not self.is_following)

    def view_at(self, index: int) -> RecordView:
        """Return the record of a line."""
        return self._feed.shown.views[index]

    def renew(self) -> None:
        """Draw the records that the feed shows now: the last ones, or those that were in view."""
        removed = self._feed.shown.trimmed - self._trimmed
        self._trimmed = self._feed.shown.trimmed
        if self.is_following:
            self.cursor = self.line_count()
        elif removed:
            self.cursor -= removed
            self._top -= removed
        self.changed()

    def restart(self) -> None:
        """Draw other records, after the filter has changed, and follow."""
        self._trimmed = self._feed.shown.trimmed
        self.is_following = True
        self.renew()

    def action_move(self, count: int) -> None:
        super().action_move(count)
        self.is_following = count > 0 and self.cursor >= self.line_count() - 1
        self.refresh()


def save(path: str, views: Sequence[RecordView], *, named: bool) -> str:
    """Write records to a new file, as `binlog tail --json` prints them, and return the outcome.

    named: whether each object names its log.  Raises: OSError, FileExistsError if the file exists.
    """
    lines = Json((), start=b"", end=b"\n", named=named).of_views(views)
    with open(path, "xb") as file:
        try:
            file.write(lines)
            file.flush()
        except OSError:
            os.unlink(path)  # part of a file would refuse the next attempt
            raise
    return f"wrote {things_text(len(views), 'record')} to {path}"
