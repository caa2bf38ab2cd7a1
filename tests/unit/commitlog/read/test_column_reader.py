"""Messages as columns equal the messages that a reader returns one by one."""

from __future__ import annotations

import dataclasses
import re
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from binlog.commitlog import ColumnReader, MessageColumns, unpack_host
from binlog.commitlog.append.message import Message
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import StoreOptions
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.errors import CorruptError, FullError, GoneError
from binlog.format.commitlog.compiled import COLUMNS
from binlog.format.commitlog.message import StoredMessage
from binlog.format.commitlog.message_parts import TAGS, Host, message_id, pack_host, parse_properties
from tests.support.examples import examples
from tests.support.waiting import until_dispatched

_OPTIONS = StoreOptions(file_bytes=1 << 15, units_in_file=50, key_index=KeyIndexSize(100, 150))

_Row = dict[str, Any]


def _packed(packed: tuple[bytes, bytes], count: int) -> list[bytes]:
    bounds = memoryview(packed[0]).cast("i")
    return [packed[1][bounds[i] : bounds[i + 1]] for i in range(count)]


def _rows(found: MessageColumns) -> list[_Row]:
    """Return the values of the columns, message by message."""
    columns: dict[str, list[Any]] = {}
    for name, column in found.columns.items():
        if name == "properties":
            bounds = memoryview(column[0]).cast("i")
            total = bounds[found.count]
            pairs = list(zip(_packed(column[1], total), _packed(column[2], total), strict=True))
            columns[name] = [dict(pairs[bounds[i] : bounds[i + 1]]) for i in range(found.count)]
        elif isinstance(column, tuple):
            columns[name] = _packed(column, found.count)
        else:
            columns[name] = memoryview(column).cast("q" if len(column) == 8 * found.count else "i").tolist()
    return [{name: values[i] for name, values in columns.items()} for i in range(found.count)]


def _row(message: StoredMessage) -> _Row:
    """Return the same values of one message."""
    properties = parse_properties(message.properties)
    return {
        "queue_offset": message.queue_offset,
        "offset": message.offset,
        "born_time": message.born_ms * 1000,
        "store_time": message.store_ms * 1000,
        "prepared_offset": message.prepared_offset,
        "flag": message.flag,
        "system_flag": message.system_flag,
        "reconsume_count": message.reconsume_count,
        "message_bytes": message.message_bytes,
        "body": message.body,
        "born_host": pack_host(message.born_host),
        "store_host": pack_host(message.store_host),
        "message_id": message_id(message.store_host, message.offset).encode(),
        "properties": {_bytes(name): _bytes(value) for name, value in properties.items()},
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _read(reader: ColumnReader, topic: str, queue_id: int, **options: Any) -> list[_Row]:
    indexes = reader.queue_range(topic, queue_id)
    return [row for found in reader.columns(topic, queue_id, indexes, COLUMNS, **options) for row in _rows(found)]


_TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=5)


@st.composite
def _messages(draw: st.DrawFn) -> Message:
    message = Message.of(
        draw(st.sampled_from(["a", "a", "b", "t" * 200])),
        draw(st.binary(max_size=30) | st.sampled_from([b"large" * 3000])),
        queue_id=draw(st.integers(0, 2)),
        tag=draw(st.sampled_from(["", "one", "two", "é"])),
        properties=draw(st.dictionaries(_TEXT, _TEXT, max_size=4)),
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        born_ms=draw(st.integers(-(2**50), 2**50)),
        born_host=Host(bytes(draw(st.sampled_from([4, 16]))), draw(st.integers(-1, 70000))),
    )
    more = draw(st.binary(max_size=12))  # with bytes 1 and 2 in a value, repeated names, and bytes that are not UTF-8
    counts = {"reconsume_count": draw(st.integers(0, 9)), "prepared_offset": draw(st.integers(0, 2**40))}
    flag = draw(st.sampled_from([0, 1, 4, 8]))
    return message._replace(properties=message.properties + more, system_flag=flag, **counts)


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(
    st.lists(_messages(), min_size=1, max_size=60),
    st.booleans(),
    st.sampled_from(["127.0.0.1:10911", "[::1]:1"]),
    st.sampled_from([None, "one", "é"]),
)
def test_columns_equal_messages_read_one_by_one(
    messages: list[Message], record_crc: bool, store_host: str, tag: str | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = StoreOptions(
            file_bytes=1 << 15,
            units_in_file=7,
            key_index=KeyIndexSize(100, 150),
            record_crc=record_crc,
            store_host=Host.parse(store_host),
        )
        with MessageStore(folder, options) as store:
            for message in messages:
                store.append(message)
        with ColumnReader(folder) as reader:
            queues = reader.queues()
            assert queues == sorted({(m.topic, m.queue_id) for m in messages if m.system_flag != 4})
            for queue in queues:
                one_by_one, _ = reader.pull(*queue, 0, 1000)
                while len(one_by_one) < len(reader.queue_range(*queue)):  # units of one file at a time
                    one_by_one += reader.pull(*queue, len(one_by_one), 1000)[0]
                expected = [m for m in one_by_one if tag is None or parse_properties(m.properties).get(TAGS) == tag]
                assert _read(reader, *queue, tag=tag) == [_row(message) for message in expected]


@pytest.fixture
def store_of_three(tmp_path: Path) -> Path:
    """Three queues in turn, with messages of a kibibyte in several files."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        for number in range(200):
            store.append([Message("t", b"%d" % number + bytes(1000), queue_id=queue) for queue in range(3)])
    return tmp_path


def test_only_requested_columns_are_built(store_of_three: Path) -> None:
    with ColumnReader(store_of_three) as reader:
        parts = list(reader.columns("t", 1, range(50, 120), {"offset", "body"}))
        assert {name for part in parts for name in part.columns} == {"offset", "body"}
        bodies = [body for part in parts for body in _packed(part.columns["body"], part.count)]
        assert bodies == [b"%d" % number + bytes(1000) for number in range(50, 120)]
        assert sum(part.count for part in reader.columns("t", 1, range(50, 120), ())) == 70


def test_messages_before_a_flipped_bit_are_read(store_of_three: Path) -> None:
    with ColumnReader(store_of_three) as reader:
        message = reader.pull("t", 1, 100, 1)[0][0]
        file = store_of_three / "commitlog" / f"{message.offset // (1 << 15) * (1 << 15):020d}"
        data = bytearray(file.read_bytes())
        data[message.offset % (1 << 15) + 500] ^= 1
        file.write_bytes(data)
        with pytest.raises(CorruptError) as caught:
            list(reader.columns("t", 1, range(90, 120), COLUMNS))
        assert (caught.value.path, caught.value.offset) == (str(file), message.offset % (1 << 15))
        assert sum(part.count for part in reader.columns("t", 1, range(100), COLUMNS)) == 100
        assert sum(part.count for part in reader.columns("t", 0, range(200), COLUMNS)) == 200


@pytest.mark.parametrize("change", ["another", "nowhere", "shorter"])
def test_a_unit_of_another_message_is_an_error(store_of_three: Path, change: str) -> None:
    """Although a valid message is at that place."""
    queue = store_of_three / "consumequeue" / "t" / "1"
    file = queue / f"{0:020d}"
    data = bytearray(file.read_bytes())
    if change == "another":
        data[20 * 7 : 20 * 8] = data[20 * 6 : 20 * 7]
    elif change == "nowhere":
        data[20 * 7 : 20 * 7 + 8] = (1 << 40).to_bytes(8, "big")
    else:
        data[20 * 7 + 8 : 20 * 7 + 12] = (100).to_bytes(4, "big")
    file.write_bytes(data)
    (store_of_three / "binlog.sidecar").unlink()  # with it, a unit after the readable end would be ignored
    with ColumnReader(store_of_three) as reader:
        assert sum(part.count for part in reader.columns("t", 1, range(7), COLUMNS)) == 7
        with pytest.raises(CorruptError, match=r"queue offset 7 leads to") as caught:
            list(reader.columns("t", 1, range(20), COLUMNS))
    assert (caught.value.path, caught.value.offset, caught.value.rule) == (str(queue), 140, "unit")


def test_a_multi_dispatch_message_is_accepted_in_another_queue(tmp_path: Path) -> None:
    """RocketMQ's light queues have units for messages of other topics."""
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%1", "INNER_MULTI_QUEUE_OFFSET": "0"}
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append([Message.of("t", b"first"), Message.of("t", b"light", properties=properties)])
    light = tmp_path / "consumequeue" / "%LMQ%1" / "0"
    light.mkdir(parents=True)
    units = (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").read_bytes()
    (light / f"{0:020d}").write_bytes(units[20:40] + bytes(len(units) - 20))
    with ColumnReader(tmp_path) as reader:
        [row] = _read(reader, "%LMQ%1", 0)
        assert (row["body"], row["queue_offset"]) == (b"light", 0)


def test_removed_messages_raise_gone_error(store_of_three: Path) -> None:
    with ColumnReader(store_of_three) as reader:
        planned = reader.queue_range("t", 0)
        for file in sorted((store_of_three / "commitlog").iterdir())[:3]:
            file.unlink()
        with pytest.raises(GoneError, match=r"the messages of t/0 from queue offset 0 on were removed"):
            list(reader.columns("t", 0, planned, COLUMNS))
        with pytest.raises(GoneError):
            list(reader.columns("t", 9, range(1), COLUMNS))


@pytest.mark.slow
def test_after_retention_a_queue_starts_with_the_log(tmp_path: Path) -> None:
    # all files have expired, but none is removed automatically
    never = {"expire_ratio": 2, "force_ratio": 2, "full_ratio": 2, "at_hour": (time.localtime().tm_hour + 12) % 24}
    retention = Retention(hours=-1, files_max=3, **never)
    with MessageStore(tmp_path, dataclasses.replace(_OPTIONS, retention=retention)) as store:
        for number in range(200):
            store.append(Message("t", b"%d" % number + bytes(1000)))
        until_dispatched(store)
        assert store.remove_expired() == 3
        with ColumnReader(tmp_path) as reader:
            indexes = reader.queue_range("t", 0)
            assert 0 < indexes.start < 200
            assert [int(row["body"].rstrip(b"\0")) for row in _read(reader, "t", 0)] == list(indexes)
            with pytest.raises(GoneError):
                list(reader.columns("t", 0, range(200), COLUMNS))


def test_a_message_over_the_limit_is_an_error(store_of_three: Path) -> None:
    with ColumnReader(store_of_three) as reader, pytest.raises(FullError) as caught:
        list(reader.columns("t", 0, range(1), COLUMNS, message_bytes_max=1000))
    assert caught.value.limit == 1000
    assert caught.value.size is not None
    assert caught.value.size > 1000


def test_a_range_is_limited_to_a_number_of_bytes(store_of_three: Path) -> None:
    with ColumnReader(store_of_three) as reader:
        size = reader.pull("t", 0, 0, 1)[0][0].message_bytes
        indexes = reader.queue_range("t", 0)
        assert size <= reader.message_bytes("t", 0, indexes) <= size + 2
        assert reader.limit_range("t", 0, indexes, 1) == 1
        assert reader.limit_range("t", 0, indexes, 5 * size) == 5
        assert reader.limit_range("t", 0, range(3, 9), 5 * size - 1) == 7
        assert reader.limit_range("t", 0, indexes, 1 << 40) == 200


def test_the_first_message_at_a_time_is_found(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        for _ in range(30):
            store.append(Message("t", b"data"))
    with ColumnReader(tmp_path) as reader:
        times = [row["store_time"] // 1000 for row in _read(reader, "t", 0)]
        for ms in {*times, times[0] - 5, times[-1] + 1}:
            expected = next((index for index, stored in enumerate(times) if stored >= ms), 30)
            assert reader.index_at("t", 0, ms) == expected
        assert reader.index_at("t", 7, times[0]) == 0


def test_rocketmqs_own_topics_are_found_by_name(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append(Message("a", b"data"))
        for topic in ("RMQ_SYS_TRACE_TOPIC", "%RETRY%group", "b"):
            store.append(Message(topic, b"data", queue_id=2))
    with ColumnReader(tmp_path) as reader:
        assert reader.queues_of(None) == [("%RETRY%group", 2), ("a", 0), ("b", 2)]
        assert reader.queues_of(["RMQ_SYS_TRACE_TOPIC", "a"]) == [("RMQ_SYS_TRACE_TOPIC", 2), ("a", 0)]


def test_hosts_round_trip() -> None:
    for text in ("127.0.0.1:10911", "[::1]:0"):
        assert str(unpack_host(pack_host(Host.parse(text)))) == text


class Sound(NamedTuple):
    """The files of a small store, and its rows by queue and queue offset."""

    files: dict[str, bytes]
    rows: dict[tuple[int, int], _Row]

    def __repr__(self) -> str:
        return "a store"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    folder = tmp_path_factory.mktemp("sound")
    with MessageStore(folder, dataclasses.replace(_OPTIONS, file_bytes=1 << 12)) as store:
        for number in range(40):
            message = Message.of("t", b"%d" % number * 10, queue_id=number % 2, tag="one", keys=["k"])
            store.append(message)
    with ColumnReader(folder) as reader:
        rows = {(queue, row["queue_offset"]): row for queue in range(2) for row in _read(reader, "t", queue)}
    assert len(rows) == 40
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return Sound({name: data for name, data in files.items() if not name.startswith("index")}, rows)


def _places(data: bytes) -> list[int]:
    return [found.start() for found in re.finditer(b"__CRC32#\x01", data)]


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(data=st.data())
def test_damaged_files_raise_our_errors_and_give_no_wrong_row(sound: Sound, data: st.DataObject) -> None:
    files, rows = sound
    with tempfile.TemporaryDirectory() as folder:
        changed = dict(files)
        for _ in range(data.draw(st.integers(1, 3))):
            name = data.draw(st.sampled_from(sorted(name for name, content in files.items() if content)))
            used = len(changed[name].rstrip(b"\0")) + 20
            at = data.draw(st.integers(0, used))
            put = data.draw(st.binary(min_size=1, max_size=12))
            changed[name] = (changed[name][:at] + put + changed[name][at + len(put) :])[: len(files[name])]
            # a message whose CRC property has lost its name counts as one without a CRC
            assume(_places(changed[name]) == _places(files[name]))
        if data.draw(st.booleans()):
            del changed["binlog.sidecar"]
        for name, content in changed.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        with ColumnReader(folder) as reader:
            for queue in range(2):
                try:
                    for found in reader.columns("t", queue, range(20), COLUMNS):
                        assert [rows[queue, row["queue_offset"]] for row in _rows(found)] == _rows(found)
                    reader.limit_range("t", queue, range(20), 1000)
                    assert reader.message_bytes("t", queue, reader.queue_range("t", queue)) > 0
                except (CorruptError, GoneError, FullError):
                    pass
