"""Batch.json_candidates: every record with the members is found, and few others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Batch, JsonMember
from binlog._codec import find_json_members

_LEVEL = JsonMember(b'"level"', (b'"W', b'"E'))
_RECORDS = [
    b'{"level":"WARN"}',
    b'{"level":"INFO","x":{"level":"WARN"}}',
    b'{"x":{"level":"INFO"},"level":"ERROR"}',
    b'{"level" : \n "ERROR"}',
    b'{"lev\\u0065l":"ERROR"}',
    b'{"level":"IN\\\\u00464F"}',
    b'{"level"',
    b'{"level":',
    b'"level":"WARN"',
    b"",
    b'{"other-level":"WARN"}',
]


def test_the_records_that_may_have_a_member_are_found() -> None:
    batch = Batch.from_records(_RECORDS)
    assert list(batch.json_candidates([_LEVEL])) == [0, 2, 3, 4, 8]
    assert list(batch.json_candidates([_LEVEL], 2, 4)) == [2, 3]
    assert list(batch.json_candidates([_LEVEL._replace(top_level=False)])) == [0, 1, 2, 3, 4, 8]
    assert list(batch.json_candidates([JsonMember(b'level"', (b'"W',), top_level=False)])) == [0, 1, 4, 8, 10]
    assert list(batch.json_candidates([JsonMember(b'"level"'), JsonMember(b'"x"')])) == [1, 2, 4]
    assert list(batch.json_candidates([])) == list(range(len(_RECORDS)))


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "level"]), st.sampled_from([1, 12, "1", {"level": 1}, ["level"]]))
    )
)
def test_no_record_with_the_member_is_left_out(objects: list[dict[str, object]]) -> None:
    batch = Batch.from_records([json.dumps(each).encode() for each in objects])
    found = set(batch.json_candidates([JsonMember(b'"level"', (b"1",))]))
    assert found >= {index for index, each in enumerate(objects) if each.get("level") in (1, 12)}


def test_an_escape_is_found_in_the_record_that_has_it_and_in_no_other() -> None:
    """Most records have the same length, 92 bytes, whose last byte is a backslash."""
    plain, escaped = b'{"a":"%084d"}', b'{"level":"\\u0057ARN"}'
    records = [plain % number for number in range(50)] + [b'{"a":"\\\\"}', b"\\"]
    for place in range(0, len(records), 7):
        mixed = [*records[:place], escaped, *records[place:], escaped, escaped]
        batch = Batch.from_records(mixed)
        assert list(batch.json_candidates([_LEVEL])) == [place, len(mixed) - 2, len(mixed) - 1]
        assert list(batch.json_candidates([_LEVEL], place + 1)) == [len(mixed) - 2, len(mixed) - 1]


def test_a_string_that_ends_as_the_key_does_is_not_taken_for_it() -> None:
    records = [
        b'{"x\\"level":"q","level":"WARN"}',
        b'{"a":"\\"level":1","level":"WARN"}',
        b'{"\\"level":1,"\\u006cevel":"WARN"}',
    ]
    assert list(Batch.from_records(records).json_candidates([_LEVEL])) == [0, 1, 2]


def test_a_key_is_found_wherever_it_is_in_each_record() -> None:
    """The search for a key begins where the record before had it."""
    level = b'"level":"WARN"'
    records = [b"{%s}" % b",".join([b'"a":1'] * before + [level] + [b'"b":2'] * 3) for before in (0, 5, 5, 2, 40, 0)]
    records += [b'{"level":', b"{}", b'{"x":"12345","level":"INFO"}', b'{"level":"INFO","x":1}', records[0]]
    assert list(Batch.from_records(records).json_candidates([_LEVEL])) == [0, 1, 2, 3, 4, 5, 10]


def test_offsets_and_indexes_that_are_not_of_the_data_are_refused() -> None:
    offsets = memoryview(bytes([0, 0, 0, 0, 200, 0, 0, 0])).cast("I")
    with pytest.raises(ValueError, match="offsets"):
        find_json_members(b"x" * 10, offsets, 0, 1, None, b"k", (), True)
    for first, last in ((-1, 1), (1, 0), (0, 2)):
        with pytest.raises(ValueError, match="within 1 records"):
            find_json_members(b"x" * 200, offsets, first, last, None, b"k", (), True)
    with pytest.raises(ValueError, match="index 1"):
        find_json_members(b"x" * 200, offsets, 0, 1, b"\1\0\0\0", b"k", (), True)
    with pytest.raises(ValueError, match="empty key"):
        find_json_members(b"x" * 200, offsets, 0, 1, None, b"", (), True)
    with pytest.raises(TypeError):
        find_json_members(b"x" * 200, offsets, 0, 1, None, b"k", ("x",), True)  # type: ignore[arg-type]
