"""Convert records to lines or JSON objects, and split input into records."""

from __future__ import annotations

import base64
import enum
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click

import binlog

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Form(enum.Enum):
    """The output format of records."""

    LINES = b"\n"
    NULL = b"\0"
    JSON = b""


def form_of(*, as_json: bool, as_null: bool) -> Form:
    """Return the format that --json and --null select.  Raises: click.UsageError."""
    if as_json and as_null:
        raise click.UsageError("--json and --null cannot be used together")
    return Form.JSON if as_json else Form.NULL if as_null else Form.LINES


def null_option(text: str) -> Callable[[_Command], _Command]:
    """Add -0/--null, with this help text."""
    return click.option("-0", "--null", "as_null", is_flag=True, help=text)


def batch_bytes(batch: binlog.Batch, form: Form) -> bytes:
    """Format a batch."""
    return json_lines(batch.entries()) if form is Form.JSON else lines(batch, form)


def entries_bytes(entries: list[binlog.Entry], form: Form) -> bytes:
    """Format entries."""
    return json_lines(entries) if form is Form.JSON else lines((entry.data for entry in entries), form)


def record_of(line: bytes) -> bytes:
    """Return the record in a line that `json_lines` wrote.  Raises: ValueError for any other line."""
    try:
        found = json.loads(line)
        text, data = found.get("text"), found.get("base64")
        if isinstance(text, str) and data is None:
            return text.encode()
        if isinstance(data, str) and text is None:
            return base64.b64decode(data, validate=True)
    except (ValueError, AttributeError, RecursionError):
        pass
    raise ValueError('is not an object with "text" or "base64"')


def object_line(value: dict[str, object]) -> str:
    """Format an object on one line, in ASCII because file names in it may not be UTF-8."""
    return json.dumps(value, separators=(",", ":"))


def lines(records: Iterable[bytes], form: Form = Form.LINES) -> bytes:
    """Join records, each followed by a newline or NUL, which is not escaped if it is in a record."""
    return form.value.join([*records, b""])


def json_lines(entries: list[binlog.Entry]) -> bytes:
    """Format each entry as {"ref":"1:256","number":1,"offset":256,"text":"..."}; "base64" if it is not UTF-8."""
    return "".join([f"{ref_json(entry.ref)},{content_json(entry.data)}}}\n" for entry in entries]).encode()


def ref_lines(refs: Iterable[binlog.Ref]) -> bytes:
    """Format refs, one object on each line."""
    return "".join([f"{ref_json(ref)}}}\n" for ref in refs]).encode()


def ref_json(ref: binlog.Ref) -> str:
    """Return the beginning of a record's object; the caller adds the rest and the closing brace."""
    number, offset = ref
    return f'{{"ref":"{number}:{offset}","number":{number},"offset":{offset}'


# Not limited to ASCII: people search this output for words.
quoted = json.JSONEncoder(ensure_ascii=False).encode


def content_json(data: bytes) -> str:
    """Format bytes as a member of an object: "text", or "base64" if they are not UTF-8."""
    try:
        return f'"text":{quoted(data.decode())}'
    except UnicodeDecodeError:
        return f'"base64":"{base64.b64encode(data).decode("ascii")}"'


READ_BYTES = 1 << 20


class LineTooLongError(Exception):
    """The next line is longer than the limit.  The lines before it were returned."""


def batches(fd: int, *, count_max: int, line_bytes_max: int, end: bytes = b"\n") -> Iterator[list[bytes]]:
    """Yield the lines of the input, without their ends, in lists of at most `count_max`.

    end: the byte that ends a line.  The input's last line may lack it.
    Yields a list as soon as its lines have been read, and does not wait for more.
    Raises: LineTooLongError; OSError.
    """
    begun: list[bytes] = []  # the parts of an incomplete line
    begun_bytes = 0
    # Reads at most the length of a line, so that only a line begun in an earlier read can be too long.
    while data := os.read(fd, min(READ_BYTES, line_bytes_max)):
        first = data.find(end)
        begun_bytes += len(data) if first < 0 else first
        if begun_bytes > line_bytes_max:
            raise LineTooLongError
        begun.append(data)
        if first < 0:
            continue
        *lines, rest = b"".join(begun).split(end)
        begun, begun_bytes = [rest], len(rest)
        for start in range(0, len(lines), count_max):
            yield lines[start : start + count_max]
    if begun_bytes:
        yield [b"".join(begun)]
