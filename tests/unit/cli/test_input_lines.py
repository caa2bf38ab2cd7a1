"""Splitting input into lines as it arrives."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.cli.records import LineTooLongError, batches


@given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\x00", b"\n")), max_size=20), st.integers(1, 5))
def test_lines_do_not_depend_on_how_the_input_is_split(pieces: list[bytes], count_max: int) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb", buffering=0) as other:
        found: list[bytes] = []
        whole = b"".join(pieces)
        other.write(whole)
        other.close()
        for lines in batches(stream.fileno(), count_max=count_max, line_bytes_max=1000):
            assert 1 <= len(lines) <= count_max
            found += lines
    assert found == _model(whole)


def _model(whole: bytes) -> list[bytes]:
    lines = whole.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def test_a_line_is_returned_before_the_input_ends() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb", buffering=0) as other:
        lines = batches(stream.fileno(), count_max=10, line_bytes_max=1000)
        other.write(b"one\ntw")
        assert next(lines) == [b"one"]
        other.write(b"o\n\nthree")
        assert next(lines) == [b"two", b""]
        other.close()
        assert list(lines) == [[b"three"]]


@pytest.mark.parametrize("read_bytes", [3, 1 << 20])
def test_a_line_over_the_limit_raises_after_the_earlier_lines(read_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog.cli.records.READ_BYTES", read_bytes)
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb", buffering=0) as other:
        other.write(b"1234\n12345\n")
        lines = batches(stream.fileno(), count_max=10, line_bytes_max=4)
        assert next(lines) == [b"1234"]
        with pytest.raises(LineTooLongError):
            next(lines)
