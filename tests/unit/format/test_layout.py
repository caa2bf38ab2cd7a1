from __future__ import annotations

import pytest

from binlog.format.layout import Field, Layout
from binlog.format.log_header import COMMIT_SLOT, LOG_HEADER, MAGIC
from binlog.format.tables import LAYOUTS


def test_a_layout_that_its_fields_do_not_fill_is_refused() -> None:
    with pytest.raises(ValueError, match="fill 4 bytes, not 8"):
        Layout("gap", "", size=8, fields=(Field("one", "u32", ""),))


def test_a_field_across_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="crosses a 8-byte line"):
        Layout("crossing", "", size=12, line=8, fields=(Field("one", "u32", ""), Field("two", "u64", "")))


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two fields"):
        Layout("twice", "", size=8, fields=(Field("one", "u32", ""), Field("one", "u32", "")))


def test_the_header_has_the_offsets_of_the_jpos_header() -> None:
    places = {name: LOG_HEADER.offset(name) for name in ("header_length", "version", "status", "tail", "number")}
    assert places == {"header_length": 0, "version": 4, "status": 6, "tail": 8, "number": 16}
    assert LOG_HEADER.offset("next_number") == 20
    assert LOG_HEADER.offset("magic") == 24
    assert LOG_HEADER.offset("zero") == 248
    assert LOG_HEADER.size == 256


def test_a_slot_fills_its_field_within_a_line() -> None:
    for name in ("slot_0", "slot_1"):
        start = LOG_HEADER.offset(name)
        assert start // 64 == (start + COMMIT_SLOT.size - 1) // 64


def test_every_layout_packs_and_unpacks_itself() -> None:
    for layout in LAYOUTS:
        values = {
            item.name: item.const if item.const is not None else (bytes(item.size) if "bytes" in item.kind else 7)
            for item in layout.fields
        }
        assert layout.unpack(layout.pack(values), 0) == values


def test_the_magic_names_the_layout_and_its_version() -> None:
    assert MAGIC == b"BINLOG\0\1"
