"""Rows: records with their places and times, and the fields of those that are events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from binlog import FileStat, RangeReader, Reader, Ref, Since, Start, TimedBatch, stat
from binlog.errors import CorruptError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEVERITY_MAX = 2**31 - 1

EVENT_COLUMNS = ("time", "severity", "level", "logger", "body", "event", "attributes", "trace_id", "span_id")
"""The columns of an event: fields of a record that is a JSON object, under the same names."""

_TEXT_KEYS = ("time", None, "level", "logger", "body", "event", None, "trace_id", "span_id")
_NO_EVENT: tuple[None, ...] = (None,) * len(EVENT_COLUMNS)
_JSON_SPACE = b" \n\r\t"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_parse = json.JSONDecoder(parse_constant=_refuse).decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

Event = Sequence[str | int | None]
"""The values of EVENT_COLUMNS.  severity: an integer.  attributes: JSON text.  The others: text; JSON text if the field
is not text."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of consecutive records of one file, as columns.

    sequences: None if the file does not say.  times_ns: nanoseconds since 1970 UTC.
    """

    number: int
    offsets: list[int]
    sequences: list[int] | None
    times_ns: list[int]
    records: list[bytes]

    def events(self) -> list[Event]:
        """Return the event of each record; None in all columns if it is none."""
        return [event_of(record) for record in self.records]


def event_of(record: bytes) -> Event:
    """Return the fields of a record that is a JSON object."""
    if record[:1] not in b"{" + _JSON_SPACE:
        return _NO_EVENT
    try:
        fields = _parse(record.decode())
    except (ValueError, RecursionError):
        return _NO_EVENT
    if not isinstance(fields, dict):
        return _NO_EVENT
    values: list[str | int | None] = [None if key is None else _text(fields.get(key)) for key in _TEXT_KEYS]
    severity, attributes = fields.get("severity"), fields.get("attributes")
    if type(severity) is int and abs(severity) <= _SEVERITY_MAX:
        values[1] = severity
    values[6] = None if attributes is None else _json_text(attributes)
    return values


def _text(value: object) -> str | None:
    return None if value is None else _encodable(value) if isinstance(value, str) else _json_text(value)


def _json_text(value: object) -> str | None:
    """Return a value as JSON; None if it cannot be written: 1e999, or lists nested to the limit."""
    try:
        return _encodable(_encode(value))
    except (ValueError, RecursionError):
        return None


def _encodable(text: str) -> str:
    """Return the text with its lone surrogates, which JSON can have and UTF-8 cannot, as escape sequences."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def time_of(time_ns: int) -> datetime:
    """Return a time in UTC, to microseconds."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def time_text(time_ns: int) -> str:
    """Format a time in UTC: `2025-01-31T12:00:00.123456Z`."""
    return f"{time_of(time_ns).isoformat(timespec='microseconds').removesuffix('+00:00')}Z"


def read_rows(
    path: str | os.PathLike[str], *, start: Ref | None, since: Since | None, until: Since | None
) -> Iterator[Rows]:
    """Yield the records of a log that it has now, from a ref or a time on and up to a time, as an export has them.

    Raises: as a Reader; CorruptError for damaged records.
    """
    files = stat(path).files
    begin = start
    if since is not None or start is not None:
        with Reader(path, since or start or Start.BEGINNING) as reader:
            begin = reader.next_ref
    for file in files:
        if begin is not None and file.number < begin.number:
            continue
        first = begin.offset if begin is not None and file.number == begin.number else file.first_offset
        for rows in _file_rows(path, file, first):
            kept = _between(rows, since, until)
            if kept.records:
                yield kept
            if len(kept.records) < len(rows.records) and until is not None and rows.times_ns[-1] >= until.time_ns:
                return


def _file_rows(path: str | os.PathLike[str], file: FileStat, first: int) -> Iterator[Rows]:
    with RangeReader(path, file.number, first, max(file.tail, first)) as reader:
        modified_ns = os.stat(file.path).st_mtime_ns if os.path.exists(file.path) else 0
        for found in reader:
            if not isinstance(found, TimedBatch):
                text = f"the bytes up to {found.end} are not those that were written; `binlog repair` replaces them"
                raise CorruptError(reader.file_path, found.start, "index-crc", text)
            yield _rows(found, modified_ns)


def _rows(found: TimedBatch, modified_ns: int) -> Rows:
    """Return the rows of a batch.  modified_ns: the time of records that the index does not cover."""
    batch = found.batch
    count = len(batch)
    times_ns: list[int] = []
    for end, time_ns in zip(found.ends, found.times_ns, strict=True):
        times_ns += [time_ns] * (end - len(times_ns))
    times_ns += [modified_ns] * (count - len(times_ns))
    first = batch.first_sequence
    sequences = None if first is None else list(range(first, first + count))
    offsets = [batch.offset + at for at in batch.offsets[:-1]]
    return Rows(batch.number, offsets, sequences, times_ns, list(batch))


def _between(rows: Rows, since: Since | None, until: Since | None) -> Rows:
    if since is None and until is None:
        return rows
    earliest = -1 if since is None else since.time_ns
    latest = None if until is None else until.time_ns
    kept = [
        at for at, time_ns in enumerate(rows.times_ns) if time_ns >= earliest and (latest is None or time_ns < latest)
    ]
    if len(kept) == len(rows.records):
        return rows
    return Rows(
        rows.number,
        [rows.offsets[at] for at in kept],
        None if rows.sequences is None else [rows.sequences[at] for at in kept],
        [rows.times_ns[at] for at in kept],
        [rows.records[at] for at in kept],
    )
