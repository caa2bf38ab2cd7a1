"""The call that reads and finds records: it finds the same as a scan of the same bytes."""

from __future__ import annotations

import errno
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.record import scan
from binlog.log.index.record_reading import ReadOutcome, RecordReading
from binlog.storage.descriptors import Identity, identity_of
from binlog.storage.native import read_records
from tests.support.logs import frame_all

_RECORDS = st.lists(st.binary(max_size=40), max_size=30)


def _reading(fd: int, identity: Identity | None = None) -> RecordReading:
    return RecordReading(fd, identity or identity_of(fd), seed=0, record_bytes_max=30)


@given(
    st.one_of(st.binary(max_size=200), _RECORDS.map(frame_all)),
    st.integers(0, 40),
    st.integers(4, 300),
    st.one_of(st.none(), st.integers(0, 400)),
)
def test_a_read_finds_the_records_that_a_scan_finds(data: bytes, offset: int, size: int, room: int | None) -> None:
    """Also if the file ends before `size` bytes; then the data are shorter."""
    buffer = None if room is None else b"\xaa" * room
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        reading = _reading(file.fileno())
        answer = read_records(reading.address, offset, size, 400, 20, buffer, False)
    assert isinstance(answer, tuple)
    at, read, places, stop = answer
    there = data[offset : offset + size]
    found = scan(there, 400, 30, 20)
    assert (at, memoryview(places).cast("I").tolist(), stop) == (offset, found.offsets.tolist(), found.stop)
    if found.record_count:
        assert read[: found.consumed] == there[: found.consumed]
        assert len(read) == found.consumed or buffer is not None
    else:
        assert read == there


def test_a_descriptor_of_another_file_is_not_read() -> None:
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as other:
        other.write(frame_all([b"of the other"]))
        other.flush()
        reading = _reading(other.fileno(), identity_of(file.fileno()))
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            read_records(reading.address, 0, 100, 100, 10, None, False)
    assert caught.value.errno == errno.EBADF


def test_without_an_index_nothing_is_verified() -> None:
    with tempfile.TemporaryFile() as file:
        reading = _reading(file.fileno())
        assert read_records(reading.address, 0, 100, 100, 10, None, True) == ReadOutcome.NO_INDEX
