from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog._codec import pack_transaction
from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.pagestore.log import (
    LOG_START,
    RECORDS_AT,
    Action,
    ActionKind,
    LogRecord,
    LogStart,
    PageAction,
    crc_seed,
    pack_actions,
    pack_record,
    parse_log_start,
    parse_record,
)

SALT = b"saltsalt"
START = LogStart(2048, 3, SALT, 5)
# A transaction that puts a message: one new page, a change in the queue's index, and page 9 freed.
_BODY = bytes.fromhex(
    "01 00 0000 0003 0000 00000007 616263  04 00 0011 0002 0000 00000003 7879  03 00 0000 0000 0000 00000009"
)
_HEAD = b"salt" + bytes.fromhex("02 000000 00000003 00000029 000000000000002a 0000000000000200")
RECORD = _HEAD + crc32c(_BODY, crc32c(_HEAD, crc32c(SALT + (512).to_bytes(8, "big")))).to_bytes(4, "big") + _BODY
ACTIONS = (
    Action(ActionKind.INSERT, 7, 0, b"abc"),
    Action(ActionKind.PORTION, 3, 17, b"xy"),
    Action(ActionKind.DELETE, 9),
)

_ACTIONS = st.lists(
    st.builds(
        Action, st.sampled_from(ActionKind), st.integers(0, 2**31 - 1), st.integers(0, 1000), st.binary(max_size=1000)
    ),
    max_size=5,
)


def _pack_record(record: LogRecord, at: int) -> bytes:
    actions = pack_actions([(int(each.kind), each.page, each.offset, each.data) for each in record.actions])
    return pack_record(record.tx_id, record.synced, len(record.actions), actions, SALT, at)


def _parse_records(data: bytes) -> list[LogRecord]:
    records, at = [], RECORDS_AT
    while True:
        try:
            record, at = parse_record(data, at, START, "log", RECORDS_AT)
        except CorruptError:
            return records
        records.append(record)


def test_record_layout_matches_its_table() -> None:
    record = LogRecord(42, 512, ACTIONS)
    assert _pack_record(record, 512) == RECORD
    assert parse_record(RECORD, 512, START, "log", 512) == (record, 512 + len(RECORD))
    assert crc_seed(SALT, 512) == crc32c(SALT + (512).to_bytes(8, "big"))


_PAGE_ACTIONS = st.lists(
    st.builds(
        lambda kind, page, offset, size, content: (int(kind), page, offset, size, content.ljust(offset + size, b"\0")),
        st.sampled_from(ActionKind), st.integers(0, 2**32 - 1), st.integers(0, 300), st.integers(0, 300),
        st.one_of(st.binary(max_size=700), st.binary(max_size=700).map(bytearray)),
    ),
    max_size=5,
)  # fmt: skip


@given(_PAGE_ACTIONS, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_compiled_and_python_records_are_equal(actions: list[PageAction], tx_id: int, synced: int, at: int) -> None:
    plain = []
    for kind, page, offset, size, content in actions:
        part = bytes(content[offset : offset + size])
        is_whole = kind in (ActionKind.INSERT, ActionKind.UPDATE)
        plain.append((kind, page, offset, part.rstrip(b"\0") if is_whole else part))
    expected = pack_record(tx_id, synced, len(plain), pack_actions(plain), SALT, at)
    assert pack_transaction(tx_id, synced, SALT, at, actions) == expected


@pytest.mark.parametrize(
    "action",
    [(4, 7, 0, 3, b"ab"), (4, 7, -1, 1, b"ab"), (4, 7, 1, -1, b"ab"), (4, -1, 0, 1, b"ab"), (4, 1 << 32, 0, 1, b"ab"),
     (4, 7, 0, 1 << 16, bytes(1 << 16)), (256, 7, 0, 1, b"ab"), (4, 7, 2**63 - 1, 2**63 - 1, b"ab")],
    ids=str,
)  # fmt: skip
def test_an_action_beyond_its_page_is_rejected(action: PageAction) -> None:
    with pytest.raises(ValueError, match="beyond the end of its page"):
        pack_transaction(1, 512, SALT, 512, [action])


def test_invalid_actions_are_rejected() -> None:
    wrong: tuple[object, ...] = (None, (), (4, 7, 0, 1, "ab"), (4, 7, 0, "1", b"ab"))
    for each in wrong:
        with pytest.raises(TypeError):
            pack_transaction(1, 512, SALT, 512, [each])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="salt"):
        pack_transaction(1, 512, SALT[:7], 512, [])


def test_a_record_of_another_offset_or_generation_is_invalid() -> None:
    for at, start in ((513, START), (512, START._replace(salt=b"saltSALT")), (512, START._replace(salt=b"SALTsalt"))):
        with pytest.raises(CorruptError):
            parse_record(RECORD, at, start, "log", at)


@given(st.lists(_ACTIONS, max_size=4), st.data())
def test_records_round_trip_up_to_damage(actions: list[list[Action]], data: st.DataObject) -> None:
    records = [LogRecord(number, 512, tuple(each)) for number, each in enumerate(actions)]
    log, ends = b"", []
    for record in records:
        log += _pack_record(record, RECORDS_AT + len(log))
        ends.append(len(log))
    assert _parse_records(log) == records
    if log:
        bit = data.draw(st.integers(0, 8 * len(log) - 1))
        damaged = bytearray(log)
        damaged[bit // 8] ^= 1 << bit % 8
        assert _parse_records(bytes(damaged)) == records[: sum(end <= bit // 8 for end in ends)]
        assert _parse_records(log[: bit // 8]) == records[: sum(end <= bit // 8 for end in ends)]


@pytest.mark.parametrize(
    "action", [(1, 7, 2030, b"abc"), (5, 7, 0, b""), (4, 1 << 31, 0, b"x"), (0, 7, 0, b"")], ids=str
)
def test_an_invalid_action_is_damage(action: tuple[int, int, int, bytes]) -> None:
    record = pack_record(1, 512, 1, pack_actions([action]), SALT, 512)
    with pytest.raises(CorruptError, match=r"\[action\]"):
        parse_record(record, 512, START, "log", 512)
    for count in (0, 2):
        record = pack_record(1, 512, count, pack_actions([(4, 7, 0, b"x")]), SALT, 512)
        with pytest.raises(CorruptError, match=r"\[action\]"):
            parse_record(record, 512, START, "log", 512)


def test_header_layout_matches_its_table() -> None:
    head = b"BINLOGTL" + bytes.fromhex("00000001 00000800 0000000000000003") + SALT + (5).to_bytes(8, "big") + bytes(20)
    assert START.pack() == head + crc32c(head).to_bytes(4, "big")
    assert parse_log_start(START.pack(), "log") == START
    assert parse_log_start(START.pack() + bytes(448), "log") == START
    for at in range(LOG_START.size):
        damaged = bytearray(START.pack())
        damaged[at] ^= 1
        with pytest.raises(CorruptError):
            parse_log_start(bytes(damaged), "log")
    with pytest.raises(CorruptError):
        parse_log_start(START.pack()[:-1], "log")
    with pytest.raises(CorruptError, match="page_bytes"):
        parse_log_start(START._replace(page_bytes=1000).pack(), "log")
    other = head[:8] + bytes.fromhex("00000002") + head[12:]
    with pytest.raises(VersionError):
        parse_log_start(other + crc32c(other).to_bytes(4, "big"), "log")
