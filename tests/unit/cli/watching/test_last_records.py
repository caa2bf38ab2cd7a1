"""Finding the last records of a log."""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import binlog
from binlog.cli.watching.last_records import find_last
from tests.support.examples import examples
from tests.unit.cli.run_command import fill

_RECORDS = st.lists(st.sampled_from([b"a", b"b", b"ab", b""]), max_size=8)


@settings(max_examples=examples(25))
@given(st.lists(_RECORDS, min_size=1, max_size=4), st.integers(0, 12))
def test_the_last_records_equal_a_slice_of_all(files: list[list[bytes]], count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        refs = fill(Path(folder), *files)
        found = find_last(binlog.stat(folder), count)
        everything = [binlog.Entry(ref, data) for ref, data in zip(refs, chain(*files), strict=True)]
        assert found.entries == (everything[-count:] if count else [])
        assert found.problem is None


def test_no_more_bytes_are_read_than_allowed(log: Path) -> None:
    fill(log, [b"x" * 1000], [b"y"], [b"z"])
    assert [entry.data for entry in find_last(binlog.stat(log), 10, bytes_max=700).entries] == [b"y", b"z"]
    assert find_last(binlog.stat(log), 10, bytes_max=4).entries == []
