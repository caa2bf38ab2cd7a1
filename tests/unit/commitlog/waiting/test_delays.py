from __future__ import annotations

import dataclasses
import json
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from binlog.errors import AccessError, CorruptError
from binlog.format.commitlog.message_parts import DELAY, UNIQUE_KEY, pack_properties, parse_properties
from binlog.format.commitlog.names import DELAY_SECONDS, DELAY_TOPIC, due_ms
from tests.support.children import lines_until_killed
from tests.support.stores import SMALL
from tests.support.turns import in_turn
from tests.support.waiting import until


def _count(store: MessageStore, topic: str, queue_id: int = 0) -> int:
    return len(store.queue_range(topic, queue_id))


@pytest.mark.slow
@pytest.mark.parametrize("flush", list(Flush))
def test_a_delayed_message_is_delivered_when_it_is_due(tmp_path: Path, flush: Flush) -> None:
    with MessageStore(tmp_path, dataclasses.replace(SMALL, flush=flush)) as store:
        given = Message.of("t", b"body", queue_id=2, tag="tag", keys=["k"], delay_level=1, born_ms=5, flag=7)
        appended = store.append(given)
        (waiting,) = [store.read(appended.offset)] if flush is not Flush.POOLED else [None]
        assert _count(store, "t", 2) == 0
        until(lambda: _count(store, "t", 2) == 1)
        (message,) = store.pull("t", 2, 0, 10)
        assert message.store_ms >= due_ms(appended.store_ms, 1) == appended.store_ms + 1000
        assert (message.topic, message.queue_id, message.body, message.born_ms, message.flag) == ("t", 2, b"body", 5, 7)
        properties = parse_properties(message.properties)
        unique = properties.pop(UNIQUE_KEY)
        assert properties == {"KEYS": "k", "TAGS": "tag", "WAITED_AT": str(appended.offset)}
        if waiting is not None:
            assert (waiting.topic, waiting.queue_id) == (DELAY_TOPIC, 0)
            assert parse_properties(waiting.properties)[UNIQUE_KEY] == unique
        until(lambda: [found.offset for found in store.find("t", "k")] == [message.offset])  # dispatched after its unit


@pytest.mark.parametrize(("level", "seconds"), [(1, 1), (5, 60), (18, 7200), (19, 7200), (10**12, 7200)])
def test_the_units_of_a_level_have_due_times(tmp_path: Path, level: int, seconds: int) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        appended = store.append(Message.of("t", b"", delay_level=level))
        queue_id = min(level, 18) - 1
        until(lambda: _count(store, DELAY_TOPIC, queue_id) == 1)
        queue = store._queues.get(DELAY_TOPIC, queue_id)
        assert queue is not None
        unit = queue.unit(0)
        assert unit is not None
        assert unit.tag_code == appended.store_ms + 1000 * seconds == due_ms(appended.store_ms, level)
        assert DELAY_SECONDS[queue_id] == seconds


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
def test_messages_are_delivered_once_without_the_offsets_file(tmp_path: Path, clean: bool) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        for number in range(300):
            store.append(Message.of("t", b"%d" % number, delay_level=1))
        late = store.append(Message.of("t", b"late", delay_level=2))
        until(lambda: _count(store, "t") == 300)
    path = tmp_path / "config" / "delayOffset.json"
    assert json.loads(path.read_text()) == {"offsetTable": {"1": 300, "2": 0}}
    if not clean:
        path.unlink()
        (tmp_path / "abort").touch()
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", b"more", delay_level=1))
        until(lambda: _count(store, "t") == 302)
        found = store.pull("t", 0, 0, 1000)
        assert [message.body for message in found] == [*(b"%d" % number for number in range(300)), b"more", b"late"]
        assert found[-1].store_ms >= late.store_ms + 5_000


@pytest.mark.slow
def test_rocketmqs_offsets_file_is_read(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        for number in range(10):
            store.append(Message.of("t", b"%d" % number, delay_level=1))
    (tmp_path / "config" / "delayOffset.json").write_text(
        '{\n\t"dataVersion":{"counter":3},"offsetTable":{1:4,2:17}\n}'
    )
    with MessageStore(tmp_path, SMALL) as store:
        until(lambda: _count(store, "t") == 6)
        assert [message.body for message in store.pull("t", 0, 0, 100)] == [b"%d" % number for number in range(4, 10)]


def test_a_parked_message_without_a_destination_stops_deliveries(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store._deliver([Message(DELAY_TOPIC, b"", b"DELAY\x011\x02")])
        store.append(Message.of("t", b"", delay_level=2))
        until(lambda: store._delays.service.failure is not None)
        with pytest.raises(CorruptError, match="does not name its destination"):
            store.append(Message.of("t", b"", delay_level=1))
        store.append(Message("t", b"at once"))
        with pytest.raises(CorruptError):
            store.close()


@pytest.mark.parametrize("level", ["x", "-1", "١"])
def test_an_invalid_level_is_refused(tmp_path: Path, level: str) -> None:
    with MessageStore(tmp_path, SMALL) as store, pytest.raises(ValueError, match="not a delay level"):
        store.append(Message.of("t", b"", properties={DELAY: level}))


@pytest.mark.slow
def test_a_message_sent_back_is_redelivered_and_counted(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", b"body", tag="tag", flag=7))
        until(lambda: _count(store, "t") == 1)
        (message,) = store.pull("t", 0, 0, 1)
        first = message
        for count in range(1, 4):
            store.send_back(message, "group", delay_level=1)
            until(lambda count=count: _count(store, "%RETRY%group") == count)  # type: ignore[misc]
            (message,) = store.pull("%RETRY%group", 0, count - 1, 1)
            assert (message.body, message.flag, message.reconsume_count) == (b"body", 7, count)
            properties = parse_properties(message.properties)
            assert properties["RETRY_TOPIC"] == "t"
            assert properties["ORIGIN_MESSAGE_ID"] == f"7F00000100002A9F{first.offset:016X}"
            assert properties["TAGS"] == "tag"
        store.send_back(message, "group", count_max=3)
        until(lambda: _count(store, "%DLQ%group") == 1)
        (dead,) = store.pull("%DLQ%group", 0, 0, 1)
        assert (dead.body, dead.reconsume_count) == (b"body", 4)


def test_each_redelivery_waits_longer(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        appended = store.append(Message("t", b"body"))
        message = store.read(appended.offset)
        for count, queue_id in ((0, 2), (1, 3), (15, 17)):
            store.send_back(dataclasses.replace(message, reconsume_count=count), "g")
            until(lambda queue_id=queue_id: _count(store, DELAY_TOPIC, queue_id) == 1)  # type: ignore[misc]
        store.send_back(dataclasses.replace(message, reconsume_count=16), "g")
        store.send_back(message, "g", delay_level=-1)
        until(lambda: _count(store, "%DLQ%g") == 2)


_APPENDING = """
import dataclasses, sys
from binlog.commitlog.append.message import Message
from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from tests.support.stores import SMALL

store = MessageStore(sys.argv[1], dataclasses.replace(SMALL, flush=Flush(sys.argv[2])))
number = int(sys.argv[3])
while True:
    store.append(Message.of("t", b"%d" % number, delay_level=1))
    print(number, flush=True)
    number += 1
"""


def _is_behind(moment: float, _: list[str]) -> bool:
    return time.monotonic() > moment


@pytest.mark.slow
@pytest.mark.parametrize("flush", in_turn(flush.value for flush in Flush))
def test_each_message_is_delivered_once_through_kills(tmp_path: Path, flush: str) -> None:
    dispatched: list[
        int
    ] = []  # a process may die before it reports its last delivery, and the next one repeats that number
    for _ in range(2):
        # long enough for some deliveries, but not for all
        is_enough = partial(_is_behind, time.monotonic() + 1.6)
        dispatched += map(int, lines_until_killed(_APPENDING, tmp_path, flush, len(dispatched), enough=is_enough))
    with MessageStore(tmp_path, SMALL) as store:
        waited = sum(_count(store, DELAY_TOPIC, level) for level in range(18))
        until(lambda: _count(store, "t") >= waited)
        found = [int(message.body) for message in store.pull("t", 0, 0, 1 << 20)]
        assert len(found) == waited
        assert set(dispatched) <= set(found)


@pytest.mark.slow
def test_offsets_beyond_the_queue_skip_no_message(tmp_path: Path) -> None:
    """As if the log lost its end or was removed, but the file with the offsets is the old one."""
    MessageStore(tmp_path, SMALL).close()
    path = tmp_path / "config" / "delayOffset.json"
    path.write_text('{"offsetTable":{"1":17,"99":3}}')
    with MessageStore(tmp_path, SMALL) as store:
        assert json.loads(path.read_text()) == {"offsetTable": {"1": 0, "99": 0}}
        for number in range(3):
            store.append(Message.of("t", b"%d" % number, delay_level=1))
        until(lambda: _count(store, "t") == 3)


@pytest.mark.slow
def test_a_level_that_was_not_read_keeps_its_offset(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", b"", delay_level=1))
        until(lambda: _count(store, "t") == 1)
    with MessageStore(tmp_path, SMALL) as store:
        store._delays._next = {}  # as if the store were closed before the first round of the thread
        store._delays.stop()
        store._delays._next = {}
        store._delays.save()
    assert json.loads((tmp_path / "config" / "delayOffset.json").read_text()) == {"offsetTable": {"1": 1}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ['{"offsetTable":{"1":1e400}}', "[" * 100_000, '{"offsetTable":{"1":%s}}' % ("9" * 5000), '{"offsetTable":[1]}'],
    ids=["infinite", "deep", "digits", "list"],
)
def test_an_invalid_offsets_file_counts_as_empty(tmp_path: Path, text: str) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", b"", delay_level=1))
    (tmp_path / "config" / "delayOffset.json").write_text(text)
    with MessageStore(tmp_path, SMALL) as store:
        until(lambda: _count(store, "t") == 1)


@pytest.mark.slow
def test_a_message_that_cannot_be_delivered_is_not_parked(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        with pytest.raises(ValueError, match="not a valid queue: 2147483648"):
            store.append(Message.of("t", b"", queue_id=2**31, delay_level=1))
        store.append(Message.of("t", b"", queue_id=2**31 - 1, delay_level=1))
        until(lambda: _count(store, "t", 2**31 - 1) == 1)


@pytest.mark.slow
def test_more_messages_than_fit_in_a_file_take_several_appends(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store._delays.stop()
        for number in range(40):
            store.append([Message.of("t", b"%d" % number + bytes(4000), delay_level=1)])
        until(lambda: _count(store, DELAY_TOPIC) == 40)
    time.sleep(1.1)  # all are due at the same time
    with MessageStore(tmp_path, SMALL) as store:
        until(lambda: _count(store, "t") == 40)


@pytest.mark.slow
def test_a_parked_message_over_a_new_body_limit_is_delivered(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", bytes(3000), delay_level=1))
    with MessageStore(tmp_path, dataclasses.replace(SMALL, body_bytes_max=2000)) as store:
        until(lambda: _count(store, "t") == 1)


@pytest.mark.parametrize(
    ("topic", "queue_id"),
    [("a/b", "0"), ("t", str(2**31)), ("t", "9" * 5000), (DELAY_TOPIC, "0")],
    ids=["folder", "queue", "digits", "waiting"],
)
def test_a_send_back_without_a_destination_is_refused(tmp_path: Path, topic: str, queue_id: str) -> None:
    """A message with an invalid topic in the log would prevent the store from ever being opened again."""
    properties = {DELAY: "1", "REAL_TOPIC": topic, "REAL_QID": queue_id}
    for round_ in range(2):
        store = MessageStore(tmp_path, SMALL)
        if round_ == 0:
            store._deliver([Message(DELAY_TOPIC, b"", pack_properties(properties))])
            store._delays.service.wake()
        until(lambda store=store: store._delays.service.failure is not None)  # type: ignore[misc]
        with pytest.raises(CorruptError, match="does not name its destination"):
            store.close()


@pytest.mark.slow
def test_deliveries_keep_the_queue_order_whatever_the_times(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        for number in range(3):
            store.append(Message.of("t", b"%d" % number, delay_level=5))
    (path,) = (tmp_path / "consumequeue" / DELAY_TOPIC / "4").iterdir()
    now = int(time.time() * 1000)
    with path.open("r+b") as file:
        for number, due in enumerate((now + 3000, 0, now + 3000)):
            file.seek(20 * number + 12)
            file.write(due.to_bytes(8, "big"))
    with MessageStore(tmp_path, SMALL) as store:
        until(lambda: _count(store, "t") == 3)
        assert [message.body for message in store.pull("t", 0, 0, 10)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("ahead_ms", [3_600_000, 2**62])
def test_a_clock_set_back_does_not_hold_messages(tmp_path: Path, ahead_ms: int) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", b"", delay_level=5))
    (path,) = (tmp_path / "consumequeue" / DELAY_TOPIC / "4").iterdir()
    with path.open("r+b") as file:
        file.seek(12)
        file.write((int(time.time() * 1000) + ahead_ms).to_bytes(8, "big"))
    with MessageStore(tmp_path, SMALL) as store:
        until(lambda: _count(store, "t") == 1)


@pytest.mark.slow
def test_an_empty_unique_key_counts_as_missing(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", b"", delay_level=1, properties={UNIQUE_KEY: ""}))
        until(lambda: _count(store, "t") == 1)
        (message,) = store.pull("t", 0, 0, 1)
        assert len(parse_properties(message.properties)[UNIQUE_KEY]) == 32


@pytest.mark.slow
def test_a_store_closes_while_many_messages_are_due(tmp_path: Path) -> None:
    options = dataclasses.replace(SMALL, file_bytes=1 << 24, key_index=KeyIndexSize(1000, 100_000), flush=Flush.ASYNC)
    with MessageStore(tmp_path, options) as store:
        store._delays.stop()
        for _ in range(100):
            store.append([Message.of("t", b"", delay_level=1)] * 200)
    time.sleep(1.1)
    with MessageStore(tmp_path, options) as store:
        store.append(Message.of("u", b"", delay_level=2))
    with MessageStore(tmp_path, options) as store:
        assert _count(store, "t") < 20_000
        until(lambda: _count(store, "u") == 1)
        until(lambda: _count(store, "t") == 20_000)


def test_close_ends_the_threads_if_the_offsets_cannot_be_saved(tmp_path: Path) -> None:
    MessageStore(tmp_path, SMALL).close()
    (tmp_path / "config" / "delayOffset.json").write_text('{"offsetTable":{"1":17}}')
    (tmp_path / "config" / "delayOffset.json.tmp").mkdir()
    before = threading.enumerate()
    with pytest.raises(AccessError):
        MessageStore(tmp_path, SMALL)
    assert threading.enumerate() == before
    (tmp_path / "config" / "delayOffset.json.tmp").rmdir()
    MessageStore(tmp_path, SMALL).close()
