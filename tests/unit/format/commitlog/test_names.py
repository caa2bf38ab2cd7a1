from __future__ import annotations

import datetime as dt

from binlog.format.commitlog.names import index_name, is_index_name, mapped_file_name, mapped_file_offset

_MADE = dt.datetime(2026, 1, 31, 23, 59, 59, 123_999, tzinfo=dt.UTC)


def test_a_mapped_file_is_named_by_its_start_offset() -> None:
    assert mapped_file_name(1 << 30) == "00000000001073741824"
    assert mapped_file_offset("00000000001073741824") == 1 << 30
    for name in ("1073741824", "000000000010737418240", "00000000001073741824.x", "٠٠٠٠٠٠٠٠٠٠١٠٧٣٧٤١٨٢٤"):
        assert mapped_file_offset(name) is None


def test_an_index_is_named_by_its_creation_time() -> None:
    assert index_name(_MADE, after="") == "20260131235959123"
    assert is_index_name("20260131235959123")
    assert not is_index_name("2026013123595912")


def test_a_new_index_name_sorts_after_the_previous_one() -> None:
    """The local time goes back once a year, but RocketMQ opens the files in the order of their names."""
    assert index_name(_MADE, after="20260131235959122") == "20260131235959123"
    assert index_name(_MADE, after="20260131235959123") == "20260131235959124"
    assert index_name(_MADE, after="20260201003000000") == "20260201003000001"
