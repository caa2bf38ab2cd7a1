from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from binlog._codec import pack_messages, stamp_messages
from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.append.message import Message
from binlog.errors import CorruptError, FullError, NotFoundError
from binlog.format.commitlog.message import (
    BLANK,
    COMMIT,
    PREPARED,
    ROLLBACK,
    crc_property,
    pack_message,
    parse_message,
)
from binlog.format.commitlog.message_parts import Host, message_id, pack_host
from binlog.storage.file_pool import FilePool

_FILE_BYTES = 1 << 14


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., CommitLog]]:
    made: list[CommitLog] = []

    def new(**options: object) -> CommitLog:
        made.append(CommitLog(FilePool.of(tmp_path), "", _FILE_BYTES, **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    for log in made:
        log.close()


_Make = Callable[..., CommitLog]


def test_a_message_is_read_as_it_was_appended(make: _Make) -> None:
    log = make(clock=lambda: 1_700_000_000.25)
    sent = Message.of(
        "orders", b"a body", queue_id=3, tag="paid", keys=["k1", "k2"], properties={"x": "y"}, flag=9, born_ms=5,
        born_host=Host.parse("[::1]:77"),
    )  # fmt: skip
    appended = log.append([sent])
    found = log.read(appended.offset)
    assert (found.topic, found.body, found.queue_id, found.flag, found.born_ms) == ("orders", b"a body", 3, 9, 5)
    assert found.properties == b"x\x01y\x02KEYS\x01k1 k2\x02TAGS\x01paid\x02"
    assert (str(found.born_host), str(found.store_host)) == ("[::1]:77", "127.0.0.1:10911")
    assert found.store_ms == appended.store_ms == 1_700_000_000_250
    assert (found.record_crc, found.message_bytes) == (True, appended.message_bytes)


def test_queue_offsets_rise_by_one_in_each_queue(make: _Make) -> None:
    log = make()
    queues = [("a", 0), ("a", 1), ("a", 0), ("b", 0), ("a", 0), ("a", 0), ("b", 0)]
    one = [log.append([Message(topic, b"", queue_id=queue)]).queue_offsets[0] for topic, queue in queues]
    assert one == [0, 0, 1, 0, 2, 3, 1]
    together = log.append([Message(topic, b"", queue_id=queue) for topic, queue in queues])
    assert together.queue_offsets == [4, 1, 5, 2, 6, 7, 3]
    assert [message.queue_offset for message in log.scan(0)] == one + together.queue_offsets


@pytest.mark.parametrize(("host", "digits"), [("127.0.0.1:10911", 32), ("[2001:db8::1]:10911", 56)])
def test_a_batch_is_contiguous_and_has_one_store_time(make: _Make, host: str, digits: int) -> None:
    times = iter([5.0, 6.0, 7.0])
    log = make(store_host=Host.parse(host), clock=lambda: next(times))
    log.append([Message("a", b"before")])
    batch = log.append([Message("a", bytes(number)) for number in range(10)])
    found = [log.read(offset) for offset in batch.offsets]
    assert [message.queue_offset for message in found] == list(range(1, 11))
    assert {message.store_ms for message in found} == {batch.store_ms} == {6000}
    ids = [message_id(message.store_host, message.offset) for message in found]
    assert len(set(ids)) == 10
    assert {len(each) for each in ids} == {digits}
    assert [message.offset + message.message_bytes for message in found] == [*batch.offsets[1:], batch.next_offset]


_V4, _V6 = Host.parse("10.1.2.3:50000"), Host.parse("[2001:db8::17]:50000")


@pytest.mark.parametrize("host", [_V4, _V6], ids=str)
@pytest.mark.parametrize("more", [0, 1])
def test_a_message_that_does_not_fit_goes_to_the_next_file(make: _Make, host: Host, more: int) -> None:
    """A message is written to a file if at least 8 bytes remain for a blank, which says how many bytes are left.

    With two IPv6 hosts it is 24 bytes longer.
    """
    log = make(record_crc=False, store_host=host)
    born = pack_host(host)
    empty = log.append([Message("t", b"", born_host=born)]).message_bytes
    assert empty == 91 + len("t") + (24 if host.v6 else 0)
    room = _FILE_BYTES - 4 * empty - BLANK.size
    log.append([Message("t", bytes(room + more - 500), born_host=born), Message("t", bytes(500), born_host=born)])
    last = log.append([Message("t", b"", born_host=born)])
    if more:
        # does not fit any more
        assert last.offset == _FILE_BYTES
        position = 3 * empty + room + more
        blank = BLANK.unpack(log.files.files[0].read(8, position))
        assert blank == {"rest_bytes": _FILE_BYTES - position, "magic": 0xCBD43194}
    else:
        assert last.next_offset == _FILE_BYTES - BLANK.size
    assert log.files.files[0].wrote == (_FILE_BYTES if more else _FILE_BYTES - 8)
    log.append([Message("t", b"next")])
    assert [len(message.body) for message in log.scan(0)] == [0, room + more - 500, 500, 0, 4]


def test_a_batch_that_does_not_fit_goes_to_the_next_file(make: _Make) -> None:
    log = make()
    log.append([Message("t", bytes(_FILE_BYTES - 1000))])
    batch = log.append([Message("t", bytes(300))] * 4)
    assert batch.offset == _FILE_BYTES
    assert [len(message.body) for message in log.scan(0)] == [_FILE_BYTES - 1000, 300, 300, 300, 300]


def test_each_message_of_a_batch_has_its_own_crc(make: _Make, tmp_path: Path) -> None:
    log = make()
    one = log.append([Message.of("t", b"body", tag="paid", keys=["k"])])
    batch = log.append([Message.of("t", b"body", tag="paid", keys=["k"])] * 10)
    assert all(message.record_crc for message in log.scan(0))
    (path,) = tmp_path.iterdir()
    for offset in (one.offset, *batch.offsets):
        data = bytearray(path.read_bytes())
        data[data.index(b"paid", offset)] ^= 1  # which the CRC of the body does not cover
        path.write_bytes(data)
        with pytest.raises(CorruptError) as caught:
            log.read(offset)
        assert caught.value.rule == "record_crc"


def test_a_batch_larger_than_a_file_is_refused(make: _Make) -> None:
    log = make()
    log.append([Message("t", b"first")])
    with pytest.raises(FullError) as caught:
        log.append([Message("t", bytes(_FILE_BYTES))])
    assert caught.value.limit == _FILE_BYTES - 8
    assert log.append([Message("t", b"second")]).queue_offsets == [1]
    assert [message.body for message in log.scan(0)] == [b"first", b"second"]


def test_properties_that_are_too_long_are_refused_and_take_no_queue_offset(make: _Make) -> None:
    log = make(record_crc=False)
    with pytest.raises(ValueError, match="properties of 32768"):
        log.append([Message("t", b"", bytes(32768))])
    assert log.append([Message("t", b"")]).queue_offsets == [0]
    with pytest.raises(ValueError, match="properties of 32768"):
        log.append([Message("t", b""), Message("t", b"", bytes(32768))])
    assert log.append([Message("t", b"")]).queue_offsets == [1]
    with pytest.raises(ValueError, match="no message"):
        log.append([])


def test_the_last_property_is_ended_before_the_crc(make: _Make) -> None:
    """As in RocketMQ (MessageExtEncoder); otherwise the CRC property would become part of the last value."""
    log = make()
    unended = log.append([Message("t", b"", b"KEYS\x01k")])
    ended = log.append([Message("t", b"", b"KEYS\x01k\x02")])
    assert unended.message_bytes == ended.message_bytes
    assert [message.properties for message in log.scan(0)] == [b"KEYS\x01k\x02"] * 2
    data = log.files.files[0].read(100_000, 0)
    assert data.count(b"KEYS\x01k\x02__CRC32#\x01") == 2
    room = 32767 - 20
    with pytest.raises(FullError):  # valid for a message, but too long for this file
        log.append([Message("t", b"", bytes(room - 1))])
    with pytest.raises(ValueError, match="properties of 32768"):
        log.append([Message("t", b"", bytes(room))])


def test_a_body_over_the_limit_is_refused_and_the_limit_can_change(make: _Make) -> None:
    log = make(body_bytes_max=100)
    log.append([Message("t", bytes(100))])
    for messages in ([Message("t", bytes(101))], [Message("t", b""), Message("t", bytes(101))]):
        with pytest.raises(ValueError, match="a body of 101"):
            log.append(messages)
    log.body_bytes_max = 101
    log.append([Message("t", bytes(101))])
    log.body_bytes_max = 50
    with pytest.raises(ValueError, match="a body of 51"):
        log.append([Message("t", bytes(51))])
    assert len(list(log.scan(0))) == 2


def test_reading_inside_of_a_message_is_an_error(make: _Make) -> None:
    log = make()
    with pytest.raises(NotFoundError):
        log.read(0)
    appended = log.append([Message("t", b"x" * 200)] * 2)
    assert [log.read(offset).queue_offset for offset in (0, *appended.offsets)] == [0, 0, 1]
    for offset in (1, appended.offsets[1] - 1, appended.offsets[1] + 4):
        with pytest.raises(CorruptError):
            log.read(offset)
    for offset in (-1, appended.next_offset, _FILE_BYTES, 10 * _FILE_BYTES):
        with pytest.raises(NotFoundError):
            log.read(offset)


def test_a_message_with_another_offset_is_invalid(make: _Make, tmp_path: Path) -> None:
    """A remnant of an earlier use of a file has valid CRCs (apache/rocketmq issue 10017)."""
    log = make()
    appended = log.append([Message("t", b"x" * 200)] * 3)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    size = appended.offsets[1]
    with path.open("r+b") as file:
        file.seek(size)
        file.write(data[2 * size : 3 * size])
    with pytest.raises(CorruptError, match="contains the offset") as caught:
        log.read(size)
    assert (caught.value.rule, caught.value.offset) == ("offset", size)
    assert len(list(log.scan(0))) == 1


def test_half_messages_are_in_no_queue(make: _Make) -> None:
    log = make()
    kinds = [0, PREPARED, COMMIT, ROLLBACK, 0]
    appended = log.append([Message("t", b"", system_flag=kind) for kind in kinds])
    assert appended.queue_offsets == [0, 0, 1, 0, 2]
    assert [message.queue_offset for message in log.scan(0)] == [0, 0, 1, 0, 2]


def test_store_times_never_decrease(make: _Make) -> None:
    times = iter([5.0, 3.0, 6.0])
    log = make(clock=lambda: next(times))
    assert [log.append([Message("t", b"")]).store_ms for _ in range(3)] == [5000, 5000, 6000]


_HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
_INT = st.integers(-(2**31), 2**31 - 1)
_MESSAGES = st.builds(
    Message,
    st.one_of(st.text(max_size=20), st.sampled_from(["t" * 127, "t" * 128, "é" * 64])),
    st.binary(max_size=200),
    st.binary(max_size=60).filter(lambda data: b"__CRC32#" not in data),
    _INT,
    _INT,
    _INT,
    st.integers(-(2**63), 2**63 - 1),
    _HOSTS,
    _INT,
    st.integers(-(2**63), 2**63 - 1),
)


@pytest.mark.parametrize(
    "end",
    [
        crc_property(0),
        crc_property(7)[:-1] + b"\0",
        bytes(20),
        bytes(9) + b"1234567890\x02",
        b"__CRC32#\x01" + b"x" * 11,
    ],
)
@pytest.mark.parametrize("before", [b"", b"a\x01b\x02"])
def test_without_crcs_properties_like_a_crc_are_refused(make: _Make, end: bytes, before: bytes) -> None:
    """A reader would compare it as a CRC and end there, so later messages would be lost."""
    log = make(record_crc=False)
    with pytest.raises(ValueError, match="must not end like the CRC"):
        log.append([Message("t", b"1", before + end)])
    log.append([Message("t", b"2", before + end[1:])])
    log.append([Message("t", b"3", before + end + b"c\x01d")])
    assert [message.body for message in log.scan(0)] == [b"2", b"3"]


@given(st.lists(_MESSAGES, min_size=1, max_size=4), _HOSTS, st.booleans())
@pytest.mark.slow
def test_the_compiled_codec_matches_the_reference(messages: list[Message], store_host: bytes, record_crc: bool) -> None:
    assume(record_crc or not any(0 in message.properties[-20:] for message in messages))
    data, places, _ = pack_messages(messages, store_host, record_crc, 1000)
    starts = memoryview(places).cast("I").tolist()
    stamp_messages(data, places, 0, len(messages), 7, 1000, 12345, record_crc)
    queue_offset = 7
    for message, start, stop in zip(messages, starts[:-1], starts[1:], strict=True):
        found = parse_message(bytes(data[start:stop]), "a file", start)
        assert pack_message(found) == data[start:stop]
        queued = message.system_flag & 12 in (0, 8)
        assert (found.offset, found.store_ms) == (1000 + start, 12345)
        assert found.queue_offset == (queue_offset if queued else 0)
        queue_offset += queued
        mask = ~(16 | 32)
        assert found.system_flag & mask == message.system_flag & mask
        assert pack_host(found.born_host) == message.born_host
        assert pack_host(found.store_host) == store_host
        unended = record_crc and message.properties and not message.properties.endswith(b"\x02")
        properties = message.properties + b"\x02" if unended else message.properties
        assert (found.topic, found.body, found.properties) == (message.topic, message.body, properties)
        assert (found.queue_id, found.flag, found.born_ms) == (message.queue_id, message.flag, message.born_ms)
        assert found.reconsume_count == message.reconsume_count
        assert found.prepared_offset == message.prepared_offset
        assert dataclasses.replace(found, message_bytes=0).record_crc is record_crc


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"", queue_id=2**31),
        Message("t", b"", born_ms=2**63),
        Message("t", "text"),  # type: ignore[arg-type]
        Message(b"t", b""),  # type: ignore[arg-type]
        Message("t", b"", born_host=b"123"),
        Message("\ud800", b""),
        Message("t" * 40000, b""),
        ("t", b""),
        None,
    ],
)
def test_an_invalid_message_is_refused(make: _Make, message: Message) -> None:
    log = make()
    with pytest.raises((TypeError, ValueError, OverflowError)):
        log.append([Message("t", b""), message])
    assert log.max_offset == 0
