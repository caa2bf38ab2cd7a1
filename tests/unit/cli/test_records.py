"""Records as text."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlog
from binlog.cli.records import json_lines, lines


@pytest.mark.slow
@given(st.lists(st.one_of(st.binary(), st.text().map(str.encode))))
def test_json_keeps_every_byte_on_one_line(datas: list[bytes]) -> None:
    entries = [binlog.Entry(binlog.Ref(1, 256 + index), data) for index, data in enumerate(datas)]
    printed = json_lines(entries).split(b"\n")
    assert printed.pop() == b""
    for entry, line in zip(entries, printed, strict=True):
        told = json.loads(line)
        assert binlog.Ref.parse(told["ref"]) == (told["number"], told["offset"]) == entry.ref
        kept = told["text"].encode() if "text" in told else base64.b64decode(told["base64"])
        assert kept == entry.data


def test_lines_are_the_bytes_as_they_are() -> None:
    assert lines([]) == b""
    assert lines([b"", b"\xff"]) == b"\n\xff\n"
