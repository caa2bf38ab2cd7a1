"""Formatting records."""

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
def test_json_preserves_every_byte_on_one_line(datas: list[bytes]) -> None:
    entries = [binlog.Entry(binlog.Ref(1, 256 + index), data) for index, data in enumerate(datas)]
    printed = json_lines(entries).split(b"\n")
    assert printed.pop() == b""
    for entry, line in zip(entries, printed, strict=True):
        out = json.loads(line)
        assert binlog.Ref.parse(out["ref"]) == (out["number"], out["offset"]) == entry.ref
        kept = out["text"].encode() if "text" in out else base64.b64decode(out["base64"])
        assert kept == entry.data


def test_lines_are_not_escaped() -> None:
    assert lines([]) == b""
    assert lines([b"", b"\xff"]) == b"\n\xff\n"
