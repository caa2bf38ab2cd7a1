from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.pagestore.free_map import FREE_MAP, FreeMap, parse_free_map
from binlog.format.pagestore.index import (
    IndexHead,
    QueueEntry,
    RootEntry,
    entries_in,
    entry_at,
    pack_root_page,
    parse_queue_page,
    parse_root_page,
    queue_page_facts,
)
from binlog.format.pagestore.other_files import map_name
from binlog.format.pagestore.page import (
    FREE_CONTENT,
    NONE,
    MessagePage,
    PageAt,
    is_page_size,
    message_bytes,
    pack_page,
    page_content_bytes,
    parse_message_page,
    parse_page,
)

AT = PageAt("page.db", 5, 2048)
# Bytes in SwiftMQ's layout: five bytes of a message in the middle of a chain, two queue entries, the first one removed,
# and a root index with one queue.
MESSAGE = bytes.fromhex("00 00000004 00000006 00000012 68656c6c6f")
QUEUE = bytes.fromhex(
    "00 ffffffff 00000007 00000002 00000001"
    "00 00000004 00000000 0000000000000000 0000000000000001 00000009 00000000"
    "01 00000009 00000002 000001900000abcd 0000000000000002 0000000a 00000000"
)
ROOT = bytes.fromhex("00 ffffffff ffffffff 00000001 00000001 01 00000006 6f7264657273 00000003 00000000")

_I32 = st.integers(-(2**31), 2**31 - 1)
_I64 = st.integers(-(2**63), 2**63 - 1)
_PAGES = st.integers(1, 2**31 - 1)


def _content(data: bytes) -> bytes:
    return data.ljust(page_content_bytes(2048), b"\0")


def test_message_pages_match_swiftmq_bytes() -> None:
    page = MessagePage(4, 6, b"hello")
    assert page.pack() == MESSAGE
    assert parse_message_page(MESSAGE, 4, AT) == page
    assert parse_message_page(_content(MESSAGE), 4, AT) == page


def test_queue_pages_match_swiftmq_bytes() -> None:
    entries = [QueueEntry(0, 4, 0, 0, 1, 9), QueueEntry(1, 9, 2, 0x1900000ABCD, 2, 10)]
    head = IndexHead(next=7, entry_count=2, valid_count=1)
    assert head.pack() + b"".join(entry.pack() for entry in entries) == QUEUE
    assert parse_queue_page(_content(QUEUE), AT) == (head, entries)
    assert entry_at(1) == 17 + 33
    assert entries_in(page_content_bytes(2048)) == entries_in(2048) == 61


def test_root_index_pages_match_swiftmq_bytes() -> None:
    entries = [RootEntry("orders", 3)]
    assert pack_root_page(IndexHead(), entries) == ROOT
    assert parse_root_page(_content(ROOT), AT) == (IndexHead(entry_count=1, valid_count=1), entries)
    assert entries[0].size == len("orders") + 13


def test_a_removed_name_is_omitted() -> None:
    removed = bytearray(_content(ROOT))
    removed[17] = 0
    removed[16] = 0
    assert parse_root_page(removed, AT)[1] == []


def test_the_check_of_a_page_is_in_its_last_bytes() -> None:
    page = pack_page(5, MESSAGE, 2048, 7)
    assert page[:2044] == MESSAGE + bytes(2032 - len(MESSAGE)) + b"BPS1" + bytes.fromhex("00000800 00000007")
    assert page[2044:] == crc32c(page[:2044], crc32c(bytes([0, 0, 0, 0, 0, 0, 0, 5]))).to_bytes(4, "big")
    assert parse_page(page, AT) == _content(MESSAGE)
    assert message_bytes(2048) == 2019
    assert pack_page(5, FREE_CONTENT, 2048, 7)[:2] == b"\x01\x00"


@given(st.binary(max_size=2032), st.integers(0, 2**31 - 1), st.integers(0, 2**40), st.integers(0, 2048 * 8 - 1))
def test_every_flipped_bit_of_a_page_is_detected(content: bytes, number: int, generation: int, bit: int) -> None:
    page = pack_page(number, content, 2048, generation)
    at = AT._replace(number=number)
    assert parse_page(page, at) == _content(content)
    damaged = bytearray(page)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptError, match="page_crc"):
        parse_page(bytes(damaged), at)
    with pytest.raises(CorruptError, match="page_crc"):
        parse_page(page, at._replace(number=number + 1))


def test_a_page_of_another_size_is_refused() -> None:
    page = bytearray(pack_page(5, MESSAGE, 2048, 7))
    page[2036:2040] = (4096).to_bytes(4, "big")
    page[2044:] = crc32c(bytes(page[:2044]), crc32c((5).to_bytes(8, "big"))).to_bytes(4, "big")
    with pytest.raises(CorruptError, match="page_check"):
        parse_page(bytes(page), AT)
    with pytest.raises(CorruptError, match="short"):
        parse_page(b"", AT)
    assert [size for size in (512, 2048, 3000, 4096, 32768, 65536) if is_page_size(size)] == [2048, 4096, 32768]


@given(st.integers(-1, 2**31 - 1), st.one_of(st.just(NONE), _PAGES), st.binary(max_size=2019))
def test_message_pages_round_trip(previous: int, following: int, part: bytes) -> None:
    page = MessagePage(previous, following, part)
    assert parse_message_page(page.pack(), previous, AT) == page


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.one_of(st.integers(0, 9), _I32), _I32, _I64, _I64, _I32),
        max_size=61,
        unique_by=lambda e: e[4],
    )
)
def test_queue_pages_round_trip(values: list[tuple[int, ...]]) -> None:
    entries = sorted((QueueEntry(*each) for each in values), key=lambda entry: entry.key)
    head = IndexHead(0, 3, 4, len(entries), sum(entry.valid for entry in entries))
    content = _content(head.pack() + b"".join(entry.pack() for entry in entries))
    assert parse_queue_page(content, AT) == (head, entries)
    if entries and all(0 <= entry.priority < 256 for entry in entries):
        waiting = Counter(entry.priority for entry in entries if entry.valid)
        assert queue_page_facts(content, head, AT) == (entries[0].key, entries[-1].key, waiting)


@given(st.lists(st.tuples(st.text(max_size=20), _PAGES), max_size=20))
@pytest.mark.slow
def test_root_index_pages_round_trip(values: list[tuple[str, int]]) -> None:
    entries = [RootEntry(*each) for each in values]
    content = _content(pack_root_page(IndexHead(), entries))
    assert parse_root_page(content, AT)[1] == entries


@pytest.mark.parametrize("at", range(13))
def test_a_message_page_with_hostile_numbers_is_refused_or_read(at: int) -> None:
    damaged = bytearray(MESSAGE)
    damaged[at] ^= 0xFF
    if 5 < at < 9:  # any page may follow
        assert parse_message_page(damaged, 4, AT).next != 6
        return
    with pytest.raises(CorruptError) as raised:
        parse_message_page(damaged, 4, AT)
    assert (raised.value.path, raised.value.offset) == ("page.db", 5 * 2048)


@given(st.binary(min_size=17, max_size=2032))
def test_any_index_page_is_read_or_refused(content: bytes) -> None:
    for parse in (parse_queue_page, parse_root_page):
        for data in (_content(content), _content(b"\0" * 9 + content[9:])):
            try:
                head, entries = parse(data, AT)
            except CorruptError:
                continue
            assert head.valid_count <= len(data)
            assert len(entries) <= len(data)


@given(st.binary(max_size=300), st.integers(0, 2**60), st.binary(min_size=8, max_size=8), st.data())
def test_free_maps_round_trip(bits: bytes, generation: int, salt: bytes, data: st.DataObject) -> None:
    written = FreeMap(2048, generation, salt, bytes(b"01"[bit & 1] for bit in bits))
    packed = written.pack()
    assert parse_free_map(packed, "map") == written
    assert parse_free_map(packed + b"of a map that was longer", "map") == written
    damaged = bytearray(packed)
    damaged[data.draw(st.integers(0, len(packed) - 1))] ^= 1
    with pytest.raises(CorruptError):
        parse_free_map(bytes(damaged), "map")
    with pytest.raises(CorruptError):
        parse_free_map(packed[:-1], "map")


def test_free_map_layout_matches_its_table() -> None:
    packed = FreeMap(2048, 3, b"saltsalt", b"0110000001").pack()
    assert packed[:8] == b"BINLOGFM"
    assert packed[48:] == bytes([0b01100000, 0b01000000])
    other = bytearray(packed)
    other[8:12] = (2).to_bytes(4, "big")
    at = FREE_MAP.offset("crc")
    other[at : at + 4] = crc32c(bytes(other[:at])).to_bytes(4, "big")
    with pytest.raises(VersionError):
        parse_free_map(bytes(other), "map")
    assert [map_name(generation) for generation in (1, 2, 3)] == ["pages-1.free", "pages-0.free", "pages-1.free"]
