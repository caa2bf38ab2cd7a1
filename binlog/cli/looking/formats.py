"""The output formats of records.

Records are bytes of anyone.  In every format but `raw`, and `lines` of a single log, a record cannot make a line or a
field of its own, or reach a terminal with a control character: csv quotes, JSON and templates escape.
"""

from __future__ import annotations

import csv
import enum
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from binlog.cli.looking.event_fields import ERROR, INFO, MISSING, WARNING, Event, json_text, severity_of, text_of
from binlog.cli.looking.templates import Template, field_text
from binlog.cli.looking.times import rfc3339, short_time
from binlog.cli.looking.views import RecordView
from binlog.cli.output import printable
from binlog.cli.records import content_json, quoted, ref_json


class Form(enum.Enum):
    """The names of the formats."""

    LINES = "lines"
    SHORT = "short"
    JSON = "json"
    JSON_SEQ = "json-seq"
    CSV = "csv"
    TEMPLATE = "template"
    RAW = "raw"


class Format(ABC):
    """An output format.

    is_plain: it needs nothing of a record but its bytes.  needs_event: it shows fields of events.
    is_printable: what it returns has no control character that came from a record, but may have colours.
    """

    is_plain = False
    needs_event = False
    is_printable = False

    def begin(self) -> bytes:
        """Return what comes before the first record."""
        return b""

    def of_data(self, records: Iterable[bytes]) -> bytes:
        """Format records of which nothing but their bytes is needed."""
        raise NotImplementedError

    @abstractmethod
    def of_views(self, views: Iterable[RecordView]) -> bytes:
        """Format records."""


class Raw(Format):
    """The bytes of records, with an end after each: a newline, NUL or nothing."""

    is_plain = True

    def __init__(self, end: bytes) -> None:
        self._end = end

    def of_data(self, records: Iterable[bytes]) -> bytes:
        return self._end.join([*records, b""])

    def of_views(self, views: Iterable[RecordView]) -> bytes:
        return self.of_data([view.data for view in views])


class Text(Format):
    """Lines of text, with the log's name before each if there are several, and coloured by level on a terminal."""

    needs_event = True
    is_printable = True

    def __init__(self, *, end: bytes, named: bool, coloured: bool, utc: bool) -> None:
        self._end = end.decode()
        self._named = named
        self._coloured = coloured
        self._utc = utc

    def of_views(self, views: Iterable[RecordView]) -> bytes:
        return "".join([self._line(view) for view in views]).encode("utf-8", "backslashreplace")

    @abstractmethod
    def text(self, view: RecordView) -> str:
        """Return the text of one record, with printable values."""

    def _line(self, view: RecordView) -> str:
        text = self.text(view)
        if self._named:
            text = f"{printable(view.log)}: {text}"
        if self._coloured and view.event is not None:
            text = coloured(text, severity_of(view.event))
        return text + self._end


class Named(Text):
    """`lines` of several logs: the log's name and the record, escaped so that it stays on its line."""

    needs_event = False

    def text(self, view: RecordView) -> str:
        return printable(view.text)


class Short(Text):
    """Time, sequence number, level, logger, body and attributes of an event; the text of another record."""

    def text(self, view: RecordView) -> str:
        sequence = "-" if view.sequence is None else view.sequence
        start = f"{short_time(view.time_ns, utc=self._utc)} {sequence} "
        return start + text_of_record(view.event, view.text)


class Templated(Text):
    """A line by a template."""

    def __init__(self, template: Template, *, end: bytes, named: bool, coloured: bool, utc: bool) -> None:
        super().__init__(end=end, named=named and "log" not in template.names, coloured=coloured, utc=utc)
        self._template = template

    def text(self, view: RecordView) -> str:
        return self._template.line(view)


class Json(Format):
    """A JSON object for each record, on a line; as RFC 7464 asks, with a record separator before it, if `sequences`.

    fields: names; without them, the record's place, sequence number and time, and "text" or "base64".
    """

    def __init__(self, fields: Sequence[str], *, start: bytes, end: bytes, named: bool) -> None:
        self.needs_event = bool(fields)
        self._fields = fields
        self._start, self._end = start.decode(), end.decode()
        self._named = named

    def of_views(self, views: Iterable[RecordView]) -> bytes:
        line = self._object if self._fields else self._record
        # A lone surrogate, which JSON can escape but UTF-8 cannot encode, is escaped again.
        return "".join([f"{self._start}{line(view)}{self._end}" for view in views]).encode("utf-8", "backslashreplace")

    def _record(self, view: RecordView) -> str:
        sequence = "null" if view.sequence is None else view.sequence
        log = f'"log":{quoted(view.log)},' if self._named else ""
        time = rfc3339(view.appended_ns, utc=True)
        place = ref_json(view.ref)
        return f'{place},"sequence":{sequence},"time":"{time}",{log}{content_json(view.data)}}}'

    def _object(self, view: RecordView) -> str:
        names = ["log", *self._fields] if self._named and "log" not in self._fields else self._fields
        return "{" + ",".join([f"{quoted(name)}:{json_text(_json_value(view, name))}" for name in names]) + "}"


class Csv(Format):
    """RFC 4180: a row of names, and a row for each record.

    end: of a row; a terminal shows the carriage return of RFC 4180 as an escape sequence.
    """

    needs_event = True

    def __init__(self, fields: Sequence[str], *, end: str, named: bool, utc: bool) -> None:
        names = list(fields or ("time", "sequence", "ref", "level", "logger", "body", "attributes"))
        self._names = ["log", *names] if named and "log" not in names else names
        self._end = end
        self._utc = utc

    def begin(self) -> bytes:
        return self._rows([self._names])

    def of_views(self, views: Iterable[RecordView]) -> bytes:
        return self._rows([[field_text(view, name, utc=self._utc) for name in self._names] for view in views])

    def _rows(self, rows: Sequence[Sequence[str]]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=self._end).writerows(rows)
        return text.getvalue().encode("utf-8", "backslashreplace")


def text_of_record(event: Event | None, text: str) -> str:
    """Return level, logger, body and attributes of an event, or the text of a record that has none of the first three.

    The result is printable, and on one line.
    """
    if event is None:
        return printable(text)
    level, logger, body = (event.get(key) for key in ("level", "logger", "body"))
    if level is None and logger is None and body is None:
        return printable(text)
    said = text_of(event.get("event", "-") if body is None else body)
    head = f"{text_of(level or '-'):<8} {text_of(logger or '-')}: {said}"
    attributes = event.get("attributes")
    return printable(head) + (_pairs(attributes) if isinstance(attributes, dict) else "")


def coloured(text: str, severity: int | None) -> str:
    """Return text in the colour of a severity, for a terminal."""
    for lowest, code in ((ERROR, "31"), (WARNING, "33"), (INFO, ""), (1, "2")):
        if severity is not None and severity >= lowest:
            return f"\x1b[{code}m{text}\x1b[0m" if code else text
    return text


def _pairs(attributes: dict[str, Any]) -> str:
    """Format attributes as ` order=7 customer="A B"`, without the trace of an exception, which takes many lines."""
    pairs = []
    for name, value in attributes.items():
        if name != "exception.stacktrace":
            text = text_of(value)
            pairs.append(f" {name}={text if text.isascii() and text.replace('_', '').isalnum() else quoted(text)}")
    return printable("".join(pairs))


def _json_value(view: RecordView, name: str) -> Any:
    value = view.field(name)
    if name in ("time", "appended"):
        return rfc3339(value, utc=True)
    return None if value is MISSING else value


def field_names(event_fields: Iterable[str]) -> list[str]:
    """Split and check names of fields that are given as `time,level,body`.  Raises: ValueError."""
    names = [name.strip() for each in event_fields for name in each.split(",")]
    if not all(names):
        raise ValueError("a name of a field is empty")
    return names
