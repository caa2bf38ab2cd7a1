from __future__ import annotations

import dataclasses
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.errors import CorruptError
from binlog.format.commitlog.message import (
    BORN_HOST_V6,
    CRC_PROPERTY_BYTES,
    HEAD_BYTES,
    PROPERTIES_BYTES_MAX,
    STORE_HOST_V6,
    TOPIC_BYTES_MAX,
    StoredMessage,
    crc_property,
    pack_message,
    parse_message,
    parse_store_ms,
)
from binlog.format.commitlog.message_parts import Host

_BORN = Host.parse("10.1.2.3:50000")
_STORE = Host.parse("127.0.0.1:10911")
_PROPERTIES = b"KEYS\x01order-1\x02TAGS\x01paid\x02"


def _message(**changes: object) -> StoredMessage:
    message = StoredMessage(
        "orders", b"a body", _PROPERTIES, 3, -7, 41, 4096, 0,
        1_600_000_000_123, _BORN, 1_600_000_000_456, _STORE, 2, 0, 0, record_crc=False,
    )  # fmt: skip
    message = dataclasses.replace(message, **changes)
    return dataclasses.replace(message, message_bytes=len(pack_message(message)))


def _by_hand(*, record_crc: bool) -> bytes:
    """Return the message above, built by hand from the table in RocketMQ's storage notes."""
    properties_bytes = len(_PROPERTIES) + (20 if record_crc else 0)
    size = 4 + 4 + 4 + 4 + 4 + 8 + 8 + 4 + 8 + 8 + 8 + 8 + 4 + 8 + (4 + 6) + (1 + 6) + (2 + properties_bytes)
    data = b"".join(
        (
            struct.pack(">i", size),
            struct.pack(">i", -626843481),
            struct.pack(">i", zlib.crc32(b"a body") & 0x7FFFFFFF),
            struct.pack(">i", 3),
            struct.pack(">i", -7),
            struct.pack(">q", 41),
            struct.pack(">q", 4096),
            struct.pack(">i", 0),
            struct.pack(">q", 1_600_000_000_123),
            bytes((10, 1, 2, 3)) + struct.pack(">i", 50000),
            struct.pack(">q", 1_600_000_000_456),
            bytes((127, 0, 0, 1)) + struct.pack(">i", 10911),
            struct.pack(">i", 2),
            struct.pack(">q", 0),
            struct.pack(">i", 6) + b"a body",
            bytes((6,)) + b"orders",
            struct.pack(">h", properties_bytes) + _PROPERTIES,
        )
    )
    if record_crc:
        digits = str(zlib.crc32(data) & 0x7FFFFFFF).rjust(10, "0")
        data += b"__CRC32#\x01" + digits[::-1].encode() + b"\x02"
    return data


@pytest.mark.parametrize("record_crc", [False, True])
def test_hand_made_bytes_match_the_message(record_crc: bool) -> None:
    data = _by_hand(record_crc=record_crc)
    message = _message(record_crc=record_crc)
    assert parse_message(data, "a file", 7) == message
    assert pack_message(message) == data


_HOSTS = st.builds(
    Host,
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)),
    st.integers(-(2**31), 2**31 - 1),
)
_INT = st.integers(-(2**31), 2**31 - 1)
_LONG = st.integers(-(2**63), 2**63 - 1)


@st.composite
def _messages(draw: st.DrawFn) -> StoredMessage:
    born, store = draw(_HOSTS), draw(_HOSTS)
    flag = draw(_INT) & ~BORN_HOST_V6 & ~STORE_HOST_V6
    return _message(
        topic=draw(st.one_of(st.text(max_size=20), st.sampled_from(["t" * 127, "t" * 128, "é" * 64, "t" * 300]))),
        body=draw(st.binary(max_size=100)),
        properties=draw(st.binary(max_size=60).filter(lambda data: b"__CRC32#" not in data)),
        queue_id=draw(_INT),
        flag=draw(_INT),
        queue_offset=draw(_LONG),
        offset=draw(_LONG),
        system_flag=flag | (BORN_HOST_V6 if born.v6 else 0) | (STORE_HOST_V6 if store.v6 else 0),
        born_ms=draw(_LONG),
        born_host=born,
        store_ms=draw(_LONG),
        store_host=store,
        reconsume_count=draw(_INT),
        prepared_offset=draw(_LONG),
        record_crc=draw(st.booleans()),
    )


@given(_messages(), st.binary(max_size=10))
@pytest.mark.slow
def test_a_message_round_trips_whatever_follows(message: StoredMessage, after: bytes) -> None:
    assert parse_message(pack_message(message) + after, "a file", 7) == message


@given(_messages(), st.data())
@pytest.mark.slow
def test_a_crc_detects_every_flipped_bit(message: StoredMessage, data: st.DataObject) -> None:
    message = dataclasses.replace(message, record_crc=True)
    packed = bytearray(pack_message(message))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    # a flipped bit in the name of the CRC property makes it an ordinary property of a message without a CRC
    try:
        found = parse_message(bytes(packed), "a file", 7)
    except CorruptError:
        return
    assert not found.record_crc
    assert found.properties != message.properties


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_raise_our_error(data: bytes) -> None:
    with pytest.raises(CorruptError) as caught:
        parse_message(data, "a file", 7)
    assert (caught.value.path, caught.value.offset) == ("a file", 7)


@given(_messages(), st.data())
def test_an_incomplete_message_is_invalid(message: StoredMessage, data: st.DataObject) -> None:
    packed = pack_message(message)
    with pytest.raises(CorruptError):
        parse_message(packed[: data.draw(st.integers(0, len(packed) - 1))], "a file", 7)


def test_a_crc_of_zero_is_valid() -> None:
    """RocketMQ once took 0 for a missing CRC, and cut off valid messages (apache/rocketmq issue 9121)."""
    assert zlib.crc32(b"") == 0
    message = _message(body=b"")
    assert parse_message(pack_message(message), "a file", 7) == message
    assert crc_property(0) == b"__CRC32#\x010000000000\x02"
    assert len(crc_property(2**31 - 1)) == CRC_PROPERTY_BYTES == 20


def test_parts_that_are_too_long_are_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        pack_message(_message_of(topic="t" * (TOPIC_BYTES_MAX + 1)))
    with pytest.raises(ValueError, match="too long"):
        pack_message(_message_of(properties=bytes(PROPERTIES_BYTES_MAX + 1)))
    with pytest.raises(ValueError, match="too long"):
        pack_message(_message_of(properties=bytes(PROPERTIES_BYTES_MAX - 10), record_crc=True))


def _message_of(**changes: object) -> StoredMessage:
    return dataclasses.replace(_message(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["127.0.0.1:10911", "[::1]:0", "[2001:db8::7]:65535"])
def test_a_host_round_trips(text: str) -> None:
    assert str(Host.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "::1:5", "[127.0.0.1]:5", "a.b:1", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1"]
)
def test_an_invalid_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a host|does not appear to be"):
        Host.parse(text)


@pytest.mark.parametrize("born", [_BORN, Host.parse("[::1]:77")])
@pytest.mark.parametrize("store", [_STORE, Host.parse("[::2]:78")])
def test_the_head_of_a_message_has_its_store_time(born: Host, store: Host) -> None:
    flag = BORN_HOST_V6 * (len(born.address) > 4) | STORE_HOST_V6 * (len(store.address) > 4)
    message = _message(born_host=born, store_host=store, system_flag=flag, body=bytes(100))
    head = pack_message(message)[:HEAD_BYTES]
    assert parse_store_ms(head, 4096, "a file", 0) == message.store_ms
    with pytest.raises(CorruptError):
        parse_store_ms(head, 4097, "a file", 0)
    for size in (0, 7, 39, 87):
        with pytest.raises(CorruptError):
            parse_store_ms(head[:size], 4096, "a file", 0)
    with pytest.raises(CorruptError):
        parse_store_ms(bytes(HEAD_BYTES), 0, "a file", 0)
