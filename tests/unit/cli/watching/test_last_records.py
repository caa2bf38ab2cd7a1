"""Finding the last records of a log."""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlog
from binlog.cli.looking import window
from binlog.cli.watching.live_log import find_last
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


@pytest.mark.slow
def test_a_limit_is_used_up_although_the_newest_file_is_small(log: Path) -> None:
    """The file before it is larger than the limit."""
    with binlog.Writer(log, mode=binlog.Mode.FLUSH) as writer:
        writer.append_many([b"x" * 1000] * 40_000)
        writer.cutover()
        writer.append(b"last")
    found = find_last(binlog.stat(log), 1_000_000, bytes_max=8 << 20).entries
    assert 6 << 20 < sum(len(entry.data) for entry in found) <= 8 << 20
    assert found[-1].data == b"last"


@pytest.mark.slow
def test_a_large_file_is_split_from_its_end(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_PART_BYTES", 256 << 10)
    monkeypatch.setattr(window, "_LAST_BYTES", 64 << 10)
    records = [b"%07d" % number * 20 for number in range(15_000)]
    with binlog.Writer(log, mode=binlog.Mode.FLUSH) as writer:
        for first in range(0, len(records), 100):
            writer.append_many(records[first : first + 100])
    for count in (1, 500, 5_000, 14_999, 20_000):
        assert [entry.data for entry in find_last(binlog.stat(log), count).entries] == records[-count:]
