"""The walk in C gives the same results as a loop over parse_message."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog._codec import pack_messages, stamp_messages
from binlog.commitlog.append.message import Message
from binlog.errors import CorruptError
from binlog.format.commitlog.compiled import WalkStop, walk
from binlog.format.commitlog.indexes import QueueUnit, key_hash, parse_unit
from binlog.format.commitlog.message import BLANK, PREPARED, ROLLBACK, TRANSACTION, parse_message
from binlog.format.commitlog.message_parts import Host, java_hash, pack_host, parse_properties

_HOST = pack_host(Host.parse("127.0.0.1:1"))
_OFFSET = 1 << 40


_TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=6)
_KEY = st.text(st.characters(exclude_characters="\x01\x02 ", exclude_categories=["Cs"]), min_size=1, max_size=6)


@st.composite
def _messages(draw: st.DrawFn) -> Message:
    message = Message.of(
        draw(st.sampled_from(["a", "b", "t" * 200, "é\U0001f600"])),
        draw(st.binary(max_size=50)),
        queue_id=draw(st.integers(0, 1)),
        tag=draw(_TEXT),
        keys=draw(st.lists(_KEY, max_size=3)),
        properties=draw(st.dictionaries(st.one_of(_TEXT, st.just("UNIQ_KEY")), _TEXT, max_size=2)),
        born_host=Host(bytes(draw(st.sampled_from([4, 16]))), 5),
    )
    return message._replace(system_flag=draw(st.sampled_from([0, 4, 8, 12])))


def _packed(messages: list[Message], *, record_crc: bool) -> tuple[bytes, list[int]]:
    data, places, _ = pack_messages(messages, _HOST, record_crc, 1000)
    for number in range(len(messages)):
        stamp_messages(data, places, number, 1, number, _OFFSET, 7000 + number, record_crc)
    return bytes(data), memoryview(places).cast("I").tolist()


_Units = list[tuple[str, int, int, QueueUnit]]
_Keys = list[tuple[int, ...]]


def _plainly(data: bytes, starts: list[int]) -> tuple[_Units, _Keys]:
    units: _Units = []
    keys: _Keys = []
    for start in starts:
        message = parse_message(data[start:], "", 0)
        kind = message.system_flag & TRANSACTION
        properties = parse_properties(message.properties)
        if kind != ROLLBACK:
            named = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
            keys += [(key_hash(message.topic, key), message.offset, message.store_ms) for key in named if key]
        if kind not in (PREPARED, ROLLBACK):
            tag = properties.get("TAGS")
            unit = QueueUnit(message.offset, message.message_bytes, 0 if tag is None else java_hash(tag))
            units.append((message.topic, message.queue_id, message.queue_offset, unit))
    return units, keys


def _walked(data: bytes, *, check: bool = True) -> tuple[int, WalkStop, _Units, _Keys, int]:
    found = walk(data, _OFFSET, check=check)
    units = [
        (run.topic.decode(), run.queue_id, run.first_queue_offset + number, parse_unit(run.units, 20 * number))
        for run in found.runs
        for number in range(len(run.units) // 20)
    ]
    keys: _Keys = list(zip(*[iter(found.keys)] * 3, strict=True))
    return found.consumed, found.stop, units, keys, found.store_ms


@pytest.mark.slow
@given(st.lists(_messages(), max_size=6), st.booleans(), st.booleans())
@example([Message.of("polygenelubricants", b"", tag="polygenelubricants", keys=["x"])], False, True)
def test_a_walk_returns_units_and_keys(messages: list[Message], record_crc: bool, check: bool) -> None:
    data, starts = _packed(messages, record_crc=record_crc)
    units, keys = _plainly(data, starts[:-1])
    store_ms = 6999 + len(messages) if messages else 0
    assert _walked(data, check=check) == (len(data), WalkStop.END, units, keys, store_ms)


def test_consecutive_messages_of_a_queue_are_one_run() -> None:
    data, _ = _packed([Message("a", b"")] * 5, record_crc=True)
    (run,) = walk(data, _OFFSET, check=False).runs
    assert (run.topic, run.first_queue_offset, len(run.units)) == (b"a", 0, 100)


@given(st.lists(_messages(), min_size=1, max_size=3), st.data())
@pytest.mark.slow
def test_a_walk_stops_before_an_incomplete_message(messages: list[Message], data: st.DataObject) -> None:
    packed, starts = _packed(messages, record_crc=True)
    cut = data.draw(st.integers(0, len(packed) - 1))
    whole = max(start for start in starts if start <= cut)
    consumed, stop, *_ = _walked(packed[:cut])
    assert (consumed, stop) == (whole, WalkStop.END if whole == cut else WalkStop.SHORT)


@given(st.lists(_messages(), min_size=1, max_size=3), st.data())
@pytest.mark.slow
def test_a_walk_with_check_stops_before_a_flipped_bit(messages: list[Message], data: st.DataObject) -> None:
    packed, starts = _packed(messages, record_crc=True)
    position = data.draw(st.integers(0, len(packed) - 1))
    damaged = bytearray(packed)
    damaged[position] ^= 1 << data.draw(st.integers(0, 7))
    start = max(start for start in starts if start <= position)
    try:
        parse_message(bytes(damaged[start:]), "", 0)
        good = True  # the flipped bit was in the name of the CRC property
    except CorruptError:
        good = False
    consumed, stop, *_ = _walked(bytes(damaged))
    assert (consumed > start) == good
    assert good or (consumed, stop in (WalkStop.INVALID, WalkStop.SHORT)) == (start, True)


@pytest.mark.parametrize("left", [slice(0, end) for end in range(20)] + [slice(start, 20) for start in range(1, 21)])
def test_a_message_with_a_torn_crc_is_invalid(left: slice) -> None:
    """It would count as a message without a CRC, whose properties are not validated."""
    data, _ = _packed([Message.of("a", b"body", tag="t"), Message.of("a", b"")], record_crc=True)
    end = int.from_bytes(data[:4], "big")
    crc = bytearray(20)
    crc[left] = data[end - 20 : end][left]
    torn = data[: end - 20] + crc + data[end:]
    assert _walked(torn)[:2] == (0, WalkStop.INVALID)
    assert _walked(torn, check=False)[0] == len(data)
    with pytest.raises(CorruptError, match="record_crc"):
        parse_message(torn, "", 0)


@pytest.mark.parametrize("end", [b"\0", b"__CRC32x\x010123456789\0", bytes(19) + b"x"])
def test_properties_with_zeros_are_not_a_torn_crc(end: bytes) -> None:
    data, _ = _packed([Message("a", b"body", b"TAGS\x01" + end)], record_crc=False)
    assert _walked(data)[:2] == (len(data), WalkStop.END)
    assert parse_message(data, "", 0).properties.endswith(end)


def test_a_walk_stops_at_a_blank_and_at_another_offset() -> None:
    data, starts = _packed([Message("a", b"")] * 2, record_crc=True)
    blank = BLANK.pack({"rest_bytes": 500})
    assert _walked(data + blank)[:2] == (len(data), WalkStop.BLANK)
    assert _walked(data[starts[1] :])[:2] == (0, WalkStop.INVALID)
    assert _walked(data + bytes(100))[:2] == (len(data), WalkStop.INVALID)
    assert _walked(b"")[:2] == (0, WalkStop.END)


@given(st.binary(max_size=300), st.integers(0, 2**64 - 1), st.booleans())
def test_a_walk_accepts_any_bytes(data: bytes, offset: int, check: bool) -> None:
    assert walk(data, offset, check=check).consumed == 0


@given(st.lists(_messages(), min_size=1, max_size=2), st.binary(max_size=8), st.data())
@pytest.mark.slow
def test_a_walk_accepts_any_change_of_a_message(messages: list[Message], patch: bytes, data: st.DataObject) -> None:
    """Under the address sanitizer this shows that no length leads out of the data."""
    packed, _ = _packed(messages, record_crc=False)
    at = data.draw(st.integers(0, len(packed)))
    walk(packed[:at] + patch + packed[at + len(patch) :], _OFFSET, check=False)


def test_arguments_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(TypeError):
        walk("text", 0, check=False)  # type: ignore[arg-type]
