"""Records as text: a line each, or a JSON object each."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

import binlog


def batch_bytes(batch: binlog.Batch, *, as_json: bool) -> bytes:
    """A batch as it is printed."""
    return json_lines(batch.entries()) if as_json else lines(batch)


def entries_bytes(entries: list[binlog.Entry], *, as_json: bool) -> bytes:
    """Entries as they are printed."""
    return json_lines(entries) if as_json else lines(entry.data for entry in entries)


def object_line(value: dict[str, object]) -> str:
    """An object on one line, in ASCII: file names in it may not be UTF-8."""
    return json.dumps(value, separators=(",", ":"))


def lines(records: Iterable[bytes]) -> bytes:
    """Each record as it is and a newline.  A newline within a record is not told apart: JSON does that."""
    return b"\n".join([*records, b""])


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
