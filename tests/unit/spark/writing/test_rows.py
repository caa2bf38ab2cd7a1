"""Splitting the rows of a task into batches of records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.spark

PIECE_BYTES = 100

RECORDS = st.lists(st.binary(max_size=40) | st.binary(min_size=PIECE_BYTES, max_size=3 * PIECE_BYTES))


def pieces(values: Any) -> list[list[bytes]]:
    from binlog.spark.writing import writing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_PIECE_BYTES", PIECE_BYTES)
        return [list(batch) for batch in writing._batches(values, "data")]


@given(RECORDS, st.integers(0, 5), st.sampled_from(["binary", "large_binary"]))
def test_rows_are_split_into_batches(records: list[bytes], first: int, kind: str) -> None:
    import pyarrow as pa

    found = pieces(pa.array(records, getattr(pa, kind)()).slice(first))
    assert [record for piece in found for record in piece] == records[first:]
    assert all(sum(map(len, piece)) <= PIECE_BYTES or len(piece) == 1 for piece in found)
    for piece, after in pairwise(found):
        assert sum(map(len, [*piece, after[0]])) > PIECE_BYTES, "a piece that has room for more"


def test_strings_are_encoded() -> None:
    import pyarrow as pa

    assert pieces(pa.array(["ä" * 30, "", "b" * 60])) == [["ä".encode() * 30, b""], [b"b" * 60]]


def test_null_is_refused() -> None:
    import pyarrow as pa

    with pytest.raises(ValueError, match="'data' contains null"):
        pieces(pa.array([b"a", None], pa.binary()))
