"""Records as text: a line each, or a JSON object each.

Cutting an input into lines, or records that end with NUL, as it comes, waiting for no more than there is.
"""

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
    """How records are printed."""

    LINES = b"\n"
    NULL = b"\0"
    JSON = b""


def form_of(*, as_json: bool, as_null: bool) -> Form:
    """What the options --json and --null come to.  Raises: click.UsageError."""
    if as_json and as_null:
        raise click.UsageError("--json and --null exclude each other")
    return Form.JSON if as_json else Form.NULL if as_null else Form.LINES


def null_option(text: str) -> Callable[[_Command], _Command]:
    """-0, --null, with a text that says what it does."""
    return click.option("-0", "--null", "as_null", is_flag=True, help=text)


def batch_bytes(batch: binlog.Batch, form: Form) -> bytes:
    """A batch as it is printed."""
    return json_lines(batch.entries()) if form is Form.JSON else lines(batch, form)


def entries_bytes(entries: list[binlog.Entry], form: Form) -> bytes:
    """Entries as they are printed."""
    return json_lines(entries) if form is Form.JSON else lines((entry.data for entry in entries), form)


def record_of(line: bytes) -> bytes:
    """The record of a line that `json_lines` wrote.  Raises: ValueError for any other."""
    try:
        found = json.loads(line)
        text, data = found.get("text"), found.get("base64")
        if isinstance(text, str) and data is None:
            return text.encode()
        if isinstance(data, str) and text is None:
            return base64.b64decode(data, validate=True)
    except (ValueError, AttributeError, RecursionError):
        pass
    raise ValueError('is not an object with a "text" or a "base64"')


def object_line(value: dict[str, object]) -> str:
    """An object on one line, in ASCII: file names in it may not be UTF-8."""
    return json.dumps(value, separators=(",", ":"))


def lines(records: Iterable[bytes], form: Form = Form.LINES) -> bytes:
    """Each record as it is and a newline, or a NUL.  One within a record is not told apart: JSON does that."""
    return form.value.join([*records, b""])


def json_lines(entries: list[binlog.Entry]) -> bytes:
    """Each as {"ref":"1:256","number":1,"offset":256,"text":"..."}, with "base64" where it is not UTF-8."""
    return "".join([f"{ref_json(entry.ref)},{content_json(entry.data)}}}\n" for entry in entries]).encode()


def ref_lines(refs: Iterable[binlog.Ref]) -> bytes:
    """The refs alone, an object each."""
    return "".join([f"{ref_json(ref)}}}\n" for ref in refs]).encode()


def ref_json(ref: binlog.Ref) -> str:
    """How the object of a record begins; the closing brace is still to come."""
    number, offset = ref
    return f'{{"ref":"{number}:{offset}","number":{number},"offset":{offset}'


# Not ASCII only: a person looks for words in this, too.
quoted = json.JSONEncoder(ensure_ascii=False).encode


def content_json(data: bytes) -> str:
    """Bytes as a member of an object: "text", or "base64" where they are not UTF-8."""
    try:
        return f'"text":{quoted(data.decode())}'
    except UnicodeDecodeError:
        return f'"base64":"{base64.b64encode(data).decode("ascii")}"'


READ_BYTES = 1 << 20


class LineTooLongError(Exception):
    """The next line is longer than the limit; those before it were given."""


def batches(fd: int, *, count_max: int, line_bytes_max: int, end: bytes = b"\n") -> Iterator[list[bytes]]:
    """The input's lines without their newlines, as they come, in lists of `count_max` at most.

    end: the byte that ends a line.

    A list is given as soon as its lines were read.  What follows the last newline is a line, too.
    Raises: LineTooLongError; OSError.
    """
    begun: list[bytes] = []  # the parts of a line that has not ended yet
    begun_bytes = 0
    # No more than a line may have, so that only one begun in an earlier read can be too long.
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
