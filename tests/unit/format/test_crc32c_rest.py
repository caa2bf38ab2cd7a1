from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from binlog.format.checksums import crc32c
from binlog.storage.native import lib


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 200))
def test_the_crc_of_the_rest_follows_from_those_of_the_whole_and_the_first_part(
    first: bytes, rest: bytes, repeated: int
) -> None:
    rest = rest * repeated
    assert lib.binlog_crc32c_rest(crc32c(first + rest), crc32c(first), len(rest)) == crc32c(rest)
