"""The compiled framing of the records of one call."""

from __future__ import annotations

import gc
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Ref
from binlog._codec import frame_records
from binlog.log.batch import Refs
from tests.support.logs import frame_all

_OFFSET_LAST = 2**62


class _Bytes(bytes):
    pass


@given(st.lists(st.binary(max_size=40)), st.integers(256, _OFFSET_LAST))
def test_records_follow_each_other(records: list[bytes], offset: int) -> None:
    data, starts = frame_records(records, 40) or (b"", b"")
    assert data == frame_all(records)
    refs = Refs(7, offset, starts)
    assert [type(ref) for ref in refs] == [Ref] * len(records)
    assert [
        data[ref.offset - offset + 4 :][: len(record)] for ref, record in zip(refs, records, strict=True)
    ] == records
    assert all(ref.number == 7 for ref in refs)


@pytest.mark.parametrize("odd", [bytearray(b"x"), memoryview(b"x"), _Bytes(b"x"), b"12345", None, "x"])
def test_other_types_and_large_records_are_left_to_python(odd: object) -> None:
    assert frame_records([b"x", odd], 4) is None
    assert frame_records([odd], 4) is None


@pytest.mark.parametrize("wrong", [(), ((b"x",), 4), ([b"x"],), ([b"x"], "4")])
def test_wrong_arguments_are_refused(wrong: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        frame_records(*wrong)  # type: ignore[arg-type]


def test_no_objects_leak() -> None:
    records = [b"record"] * 50

    def call() -> None:
        for _ in range(1000):
            frame_records(records, 10)
            frame_records(records, 5)

    call()
    gc.collect()
    before, blocks = sys.getrefcount(records[0]), sys.getallocatedblocks()
    call()
    gc.collect()
    blocks -= sys.getallocatedblocks()
    after = sys.getrefcount(records[0])
    assert after == before
    assert abs(blocks) < 500, "a leak would show 2,000 results with two objects each"
