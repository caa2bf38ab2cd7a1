"""A topic reader, which merges several queues, and scans of the commit log."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.read.topic_reader import TopicReader
from binlog.commitlog.store import MessageStore
from binlog.errors import CorruptError
from binlog.format.commitlog.message_parts import parse_message_id
from tests.support.checked_stores import OPTIONS, fill, make, stored


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make(tmp_path / "store", count=200)


def _rest(reader: TopicReader) -> list[int]:
    """Return the offsets of the remaining messages."""
    found: list[int] = []
    while batch := reader.read_batch():
        found += [message.offset for message in batch]
    return found


@pytest.mark.slow
def test_queues_are_merged_in_the_order_of_the_log(store: Path) -> None:
    wanted = [message for message in stored(store) if message.topic == "a"]
    with StoreReader(store) as reader:
        assert _rest(TopicReader(reader, "a")) == [message.offset for message in wanted]
        assert _rest(TopicReader(reader, "a", 1)) == [message.offset for message in wanted if message.queue_id == 1]
        assert _rest(TopicReader(reader, "none")) == []


@pytest.mark.slow
def test_a_topic_reader_can_start_anywhere(store: Path) -> None:
    messages = [message for message in stored(store) if message.topic == "b"]
    offsets = [message.offset for message in messages]
    with StoreReader(store) as reader:
        for number in (0, 1, 50, len(offsets) - 1):
            topic = TopicReader(reader, "b")
            topic.start_at_offset(offsets[number])
            assert _rest(topic) == offsets[number:]
            topic = TopicReader(reader, "b")
            topic.start_at_offset(offsets[number] + 1)
            assert _rest(topic) == offsets[number + 1 :]
            topic = TopicReader(reader, "b")
            topic.start_at_time(messages[number].store_ms)
            assert _rest(topic) == [each.offset for each in messages if each.store_ms >= messages[number].store_ms]
            topic = TopicReader(reader, "b")
            topic.start_at_last(number)
            assert _rest(topic) == offsets[len(offsets) - number :]
            topic = TopicReader(reader, "b", 1)
            topic.start_at_index(number)
            assert _rest(topic) == [each.offset for each in messages if each.queue_id == 1][number:]
        topic = TopicReader(reader, "b")
        topic.start_at_time(messages[-1].store_ms + 1)
        assert _rest(topic) == []


@pytest.mark.slow
def test_new_messages_and_new_queues_are_followed(store: Path) -> None:
    with MessageStore(store, OPTIONS) as owner, StoreReader(store) as reader:
        topic = TopicReader(reader, "a")
        before = _rest(topic)
        wanted: list[int] = []
        found: list[int] = []
        for number in range(30):
            wanted += owner.append([Message("a", b"x", queue_id=number % 5), Message("b", b"y")]).offsets[:1]
            while len(found) < len(wanted):
                topic.wait(30)
                found += _rest(topic)
        assert found == wanted
        assert sorted({*before, *found}) == before + found


@pytest.mark.slow
def test_a_scan_starts_at_the_start_of_a_message_only(store: Path) -> None:
    messages = stored(store)
    assert [message.offset for message in messages] == sorted(message.offset for message in messages)
    with StoreReader(store) as reader:
        for number in (0, 7, len(messages) - 1):
            assert list(reader.scan(messages[number].offset)) == messages[number:]
            assert reader.read(messages[number].offset) == messages[number]
        end = messages[-1].offset + messages[-1].message_bytes
        assert reader.log_range() == (0, end)
        assert list(reader.scan(end)) == []
        for wrong in (1, messages[7].offset - 1, messages[-1].offset + 10, end + 1):
            with pytest.raises(ValueError, match="is not the start of a message"):
                reader.scan(wrong)


def test_the_log_offset_of_a_time_is_found(store: Path) -> None:
    messages = stored(store)
    with StoreReader(store) as reader:
        for message in messages[:: len(messages) // 7]:
            first = next(each for each in messages if each.store_ms >= message.store_ms)
            assert reader.log_offset_by_time(message.store_ms) == first.offset
        assert reader.log_offset_by_time(0) == 0
        assert reader.log_offset_by_time(2**60) == reader.log_range()[1]


@pytest.mark.slow
def test_without_a_sidecar_a_scan_ends_at_zeros(store: Path) -> None:
    messages = stored(store)
    (store / "binlog.sidecar").unlink()
    assert stored(store) == messages
    with StoreReader(store) as reader:
        assert reader.log_range() == (0, None)
        assert _rest(TopicReader(reader, "a")) == [message.offset for message in messages if message.topic == "a"]


def test_a_missing_file_ends_the_scan_with_an_error(store: Path) -> None:
    messages = stored(store)
    second = store / "commitlog" / f"{OPTIONS.file_bytes:020d}"
    second.unlink()
    with StoreReader(store) as reader:
        scan = reader.scan()
        before = [message for message in messages if message.offset < OPTIONS.file_bytes]
        assert [next(scan) for _ in before] == before
        with pytest.raises(CorruptError, match="missing"):
            next(scan)


def test_an_append_returns_the_ids_of_its_messages(tmp_path: Path) -> None:
    with MessageStore(tmp_path, OPTIONS) as owner:
        fill(owner, 3)
        appended = owner.append([Message("a", b"%d" % number) for number in range(10)])
        assert len(set(appended.ids)) == 10
        for id_, offset in zip(appended.ids, appended.offsets, strict=True):
            assert parse_message_id(id_) == (OPTIONS.store_host, offset)
            assert owner.read(offset).id == id_
