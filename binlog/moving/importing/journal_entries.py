"""Entries of systemd's journal, as `journalctl -o export` and `-o json` print them.

Facts relied on:
- The export format (systemd's JOURNAL_EXPORT_FORMATS): an entry is a run of fields, and ends with an empty line.  A
  field is a line `NAME=value`; if the value is not printable text, it is a line `NAME`, 8 bytes with the size in little
  endian, the value, and a newline.
- Each entry has a field __CURSOR.  In it `s` names the counter of a journal, and `i` is the entry's number, in
  hexadecimal, which rises from entry to entry of that counter (sd_journal_get_cursor(3), and systemd's source).
- `-o json` prints an object on each line: a value that is not UTF-8 is an array of its bytes, and a field that occurs
  several times is an array of its values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from binlog.moving.importing.input_reader import LINE_BYTES_MAX, InputError, InputReader

_CURSOR = "__CURSOR"
_COUNTER = re.compile(r"(?:^|;)s=([0-9a-f]{32})(?:;|$)", re.ASCII)
_NUMBER = re.compile(r"(?:^|;)i=([0-9a-f]{1,15})(?:;|$)", re.ASCII)


class JournalEntry(NamedTuple):
    """An entry as a JSON object.  counter, number: from its cursor."""

    counter: str
    number: int
    record: bytes


def journal_entries(source: InputReader) -> Iterator[JournalEntry]:
    """Yield the entries, in either format, up to one that is not complete.  Raises: InputError, OSError."""
    line = source.line()
    while line == b"\n":
        line = source.line()
    yield from _from_json(line, source) if line.startswith(b"{") else _from_export(line, source)


def _from_json(line: bytes, source: InputReader) -> Iterator[JournalEntry]:
    while line:
        record = line.rstrip(b"\r\n")
        try:
            fields = json.loads(record)
            cursor = fields.get(_CURSOR)
        except (ValueError, AttributeError, RecursionError) as error:
            if not line.endswith(b"\n"):
                return
            raise InputError(source.line_number, "it is not a JSON object, as `journalctl -o json` prints") from error
        yield _entry(cursor, record, source)
        line = source.line()


def _from_export(line: bytes, source: InputReader) -> Iterator[JournalEntry]:
    fields: dict[str, object] = {}
    while line:
        if line == b"\n":
            if fields:
                yield _entry(fields.get(_CURSOR), _object(fields), source)
                fields = {}
        else:
            name, is_text, value = line.partition(b"=")
            if not line.endswith(b"\n"):
                return
            if not is_text:
                found = _binary_value(source)
                if found is None:
                    return
                name, value = line, found
            else:
                value = value[:-1]
            _add(fields, name, value, source.line_number)
        line = source.line()


def _binary_value(source: InputReader) -> bytes | None:
    """Return a value that its size precedes; None if the input ends before it does."""
    size = int.from_bytes(source.read(8), "little")
    if size > LINE_BYTES_MAX:
        raise InputError(source.line_number, f"a field of {size} bytes; the limit is {LINE_BYTES_MAX}")
    value = source.read(size + 1)
    if len(value) <= size:
        return None
    if value[-1:] != b"\n":
        raise InputError(source.line_number, "it is not output of `journalctl -o export`")
    return value[:-1]


def _add(fields: dict[str, object], name: bytes, value: bytes, line_number: int) -> None:
    try:
        key = name.rstrip(b"\n").decode("ascii")
    except UnicodeDecodeError as error:
        raise InputError(line_number, "it is not output of `journalctl -o export`") from error
    try:
        shown: object = value.decode()
    except UnicodeDecodeError:
        shown = list(value)
    if key not in fields:
        fields[key] = shown
        return
    earlier = fields[key]
    if isinstance(earlier, _Several):
        earlier.append(shown)
    else:
        fields[key] = _Several([earlier, shown])


class _Several(list[object]):
    """The values of a field that occurs several times; a plain list is the bytes of one value."""


def _object(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _entry(cursor: object, record: bytes, source: InputReader) -> JournalEntry:
    text = cursor if isinstance(cursor, str) else ""
    counter, number = _COUNTER.search(text), _NUMBER.search(text)
    if counter is None or number is None:
        raise InputError(source.line_number, f"the entry has no {_CURSOR} that says where it is in the journal")
    source.accept(record)
    return JournalEntry(counter[1], int(number[1], 16), record)
