"""Records as text: a line each, or a JSON object each."""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Callable, Iterable
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
