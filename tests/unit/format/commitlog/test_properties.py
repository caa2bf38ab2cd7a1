from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog.format.commitlog.indexes import key_hash, key_index_bytes
from binlog.format.commitlog.message_parts import java_hash, pack_properties, parse_properties

_NAMES = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=12)
_VALUES = st.text(st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(_NAMES, _VALUES, max_size=5))
@pytest.mark.slow
def test_properties_round_trip(properties: dict[str, str]) -> None:
    data = pack_properties(properties)
    assert parse_properties(data) == properties
    assert parse_properties(data[:-1]) == properties  # older stores leave the last byte 2 off


@given(st.binary(max_size=60))
@example(b"\x01\x01")
@example(b"\x01\xff\x01\x02")
def test_any_bytes_parse_as_properties(data: bytes) -> None:
    found = parse_properties(data)
    assert parse_properties(pack_properties(found)) == found


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a": "b\x02"}, {"a\x02": "b"}, {"\x01": ""}])
def test_end_bytes_in_names_or_values_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must not contain the bytes that end"):
        pack_properties(properties)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("Hello", 69609650),
        ("polygenelubricants", -(2**31)),  # a well-known string whose hash has no absolute value
        ("é", 233),
        ("\U0001f600", 1772899),  # two UTF-16 units: 0xD83D * 31 + 0xDE00
    ],
)
def test_hashes_match_java(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_key_hashes_include_the_topic_and_have_no_sign() -> None:
    assert key_hash("orders", "k") == abs(java_hash("orders#k"))
    assert key_hash("", "") == java_hash("#") == 35


def test_a_key_index_has_rocketmqs_size() -> None:
    assert key_index_bytes(5_000_000, 20_000_000) == 420_000_040
