"""Rows as text: JSON lines and CSV."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator

from binlog.moving.exporting.rows import EVENT_COLUMNS, Rows, time_text
from binlog.moving.exporting.unfinished_file import write_at

_CSV_COLUMNS = ("number", "offset", "sequence", "appended", *EVENT_COLUMNS, "text", "base64")
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json_lines(fd: int, path: str, found: Iterable[Rows]) -> None:
    """Write an object on each line: ref, number, offset, sequence, appended, the event's fields, and the record.

    The record is in "text", or in "base64" if it is not UTF-8.
    """
    _write(fd, map(_json_lines, found))


def _json_lines(rows: Rows) -> str:
    return "".join([f"{_compact(each)}\n" for each in _objects(rows)])


def _objects(rows: Rows) -> Iterator[dict[str, object]]:
    for offset, sequence, time_ns, event, record in _columns(rows):
        found: dict[str, object] = {"ref": f"{rows.number}:{offset}", "number": rows.number, "offset": offset}
        found |= {"sequence": sequence, "appended": time_text(time_ns)}
        found |= {name: value for name, value in zip(EVENT_COLUMNS, event, strict=True) if value is not None}
        text, encoded = _content(record)
        yield found | ({"base64": encoded} if text is None else {"text": text})


def write_csv(fd: int, path: str, found: Iterable[Rows]) -> None:
    """Write the same columns as CSV (RFC 4180), with their names in the first row; a missing value is empty."""
    _write(fd, _csv_texts(found))


def _csv_texts(found: Iterable[Rows]) -> Iterator[str]:
    written = io.StringIO()
    # With another line end, Python before 3.13 does not quote a carriage return, and a record could end its row.
    rows_of = csv.writer(written, lineterminator="\r\n")
    rows_of.writerow(_CSV_COLUMNS)
    for rows in found:
        for offset, sequence, time_ns, event, record in _columns(rows):
            rows_of.writerow((rows.number, offset, sequence, time_text(time_ns), *event, *_content(record)))
        yield written.getvalue()
        written.seek(0)
        written.truncate()
    yield written.getvalue()


def _columns(rows: Rows) -> Iterator[tuple[int, int | None, int, tuple[str | int | None, ...], bytes]]:
    sequences: list[int] | list[None] = rows.sequences or [None] * len(rows.records)
    for offset, sequence, time_ns, event, record in zip(
        rows.offsets, sequences, rows.times_ns, rows.events(), rows.records, strict=True
    ):
        yield offset, sequence, time_ns, tuple(event), record


def _content(record: bytes) -> tuple[str | None, str | None]:
    """Return a record as text, or as base64 if it is not UTF-8."""
    try:
        return record.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(record).decode("ascii")


def _write(fd: int, texts: Iterable[str]) -> None:
    at = 0
    for text in texts:
        data = text.encode()
        write_at(fd, data, at)
        at += len(data)


Writer = Callable[[int, str, Iterable[Rows]], None]
"""Writes rows to an empty file.  It gets a descriptor of the file, and its path."""
