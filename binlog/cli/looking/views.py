"""RecordView: a record with everything that an output can show of it, and its fields by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import binlog
from binlog.cli.looking.event_fields import MISSING, Event, body_of, field_of, parse_event, time_ns_of
from binlog.cli.looking.filters import Matches

# Fields that the log knows of a record.  No key of an event takes their place.
LOG_FIELDS = ("log", "ref", "number", "offset", "sequence", "appended", "text")

# Of a character.
_UTF8_BYTES_MAX = 4


@dataclass(slots=True)
class RecordView:
    """A record.

    log: the name of its log, as the user gave it.  sequence: None if another program made the file.
    appended_ns: when it was in the file, nanoseconds since 1970 UTC.
    event: None if the record, or the body of a message, is not a JSON object.
    """

    log: str
    ref: binlog.Ref
    sequence: int | None
    appended_ns: int
    data: bytes
    event: Event | None

    @property
    def time_ns(self) -> int:
        """The event's own time; for a record without one, the time at which it was in the file."""
        own = None if self.event is None else time_ns_of(self.event)
        return self.appended_ns if own is None else own

    @property
    def text(self) -> str:
        """The record, or the body of a message, as text; bytes that are not UTF-8 are escaped."""
        return body_of(self.data).decode("utf-8", "backslashreplace")

    def start_of_text(self, length_max: int) -> str:
        """Return the first characters of the text.

        Escaping the bytes of a record of 64 MiB would take many seconds, in which no other thread runs.
        """
        return body_of(self.data)[: _UTF8_BYTES_MAX * length_max].decode("utf-8", "backslashreplace")[:length_max]

    def field(self, name: str) -> Any:
        """Return a field by its name, or MISSING; times as nanoseconds, under the names `time` and `appended`."""
        if name == "time":
            return self.time_ns
        if name in LOG_FIELDS:
            return self._log_field(name)
        if self.event is None:
            return self.text if name == "body" else MISSING
        return field_of(self.event, name)

    def _log_field(self, name: str) -> Any:
        match name:
            case "log":
                return self.log
            case "ref":
                return str(self.ref)
            case "number":
                return self.ref.number
            case "offset":
                return self.ref.offset
            case "sequence":
                return self.sequence
            case "appended":
                return self.appended_ns
        return self.text


def views_of(log: str, times: binlog.RecordTimes, matches: Matches, *, parse: bool) -> Iterator[RecordView]:
    """Yield a view of each record.  times: of the log.  parse: whether events are needed.

    Raises: as binlog.RecordTimes.
    """
    if not len(matches):
        return
    base = matches.offset
    ranges = times.ranges(matches.number, base + matches.starts[0], base + matches.starts[-1] + 1)
    sequences, events = matches.sequences or repeat(None), matches.events or repeat(None)
    place = 0
    for start, record, sequence, event in zip(matches.starts, matches.records, sequences, events, strict=False):
        ref = binlog.Ref(matches.number, base + start)
        while ref.offset >= ranges[place].end:
            place += 1
        known = event or (parse_event(body_of(record)) if parse else None)
        yield RecordView(log, ref, sequence, ranges[place].time_ns, record, known)
