"""Stores with a damaged end that RocketMQ cut off: readers ignore the remnants after the new end."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.read.column_reader import ColumnReader
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.store import MessageStore
from binlog.errors import CorruptError
from binlog.format.commitlog.indexes import UNIT_BYTES, KeyIndexSize, parse_units
from binlog.format.commitlog.message import StoredMessage
from tests.interop.rocketmq import golden
from tests.interop.rocketmq.exchange import OPTIONS
from tests.support.checked_stores import overwrite

_OPTIONS = dataclasses.replace(OPTIONS, units_in_file=100, key_index=KeyIndexSize(50, 500))
_KEPT, _ADDED, _CUT = 40, 7, 20


@pytest.fixture(params=golden.CUT)
def cut(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return golden.unpack_from(golden.CUT_ARCHIVE, request.param, tmp_path)


def _is_what_counts(messages: list[StoredMessage]) -> None:
    numbers = [int(message.body.split()[1]) for message in messages]
    assert numbers == [*range(_KEPT), *range(_ADDED)]
    assert [message.queue_offset for message in messages] == list(range(_KEPT + _ADDED))


def test_the_cut_stores_have_messages_after_the_end(cut: Path) -> None:
    (queue,) = (cut / "consumequeue" / "orders" / "0").iterdir()
    units = list(parse_units(queue.read_bytes()))
    assert sum(unit.message_bytes > 0 for unit in units) == _KEPT + _CUT
    assert queue.stat().st_size == 100 * UNIT_BYTES


def test_a_reader_returns_valid_messages_only(cut: Path) -> None:
    with StoreReader(cut, key_slots=50) as reader:
        assert reader.queue_range("orders", 0) == range(_KEPT + _ADDED)
        messages, following = reader.pull("orders", 0, 0, 1000)
        _is_what_counts(messages)
        assert following == _KEPT + _ADDED
        assert reader.pull("orders", 0, following, 10) == ([], following)
        assert list(reader.scan()) == messages
        assert list(reader.follow("orders", 0, 30, timeout=0)) == messages[30:]
        assert [len(reader.find("orders", f"later-{number}")) for number in range(60)] == [1] * _KEPT + [0] * _CUT


def test_a_column_reader_returns_valid_messages_only(cut: Path) -> None:
    with ColumnReader(cut) as reader:
        parts = reader.columns("orders", 0, reader.queue_range("orders", 0), ["offset"])
        assert sum(part.count for part in parts) == _KEPT + _ADDED


def test_an_owner_finds_valid_messages_only(cut: Path) -> None:
    with MessageStore(cut, _OPTIONS) as store:
        _is_what_counts(store.pull("orders", 0, 0, 1000))
        assert store.append(Message.of("orders", b"message 7 of ours", keys=["ours"])).queue_offsets == [47]
    assert check_store(cut) == []
    with MessageStore(cut, _OPTIONS) as store:
        found = [len(store.find("orders", f"later-{number}")) for number in range(60)]
        assert found == [2] * _ADDED + [1] * (_KEPT - _ADDED) + [0] * _CUT
        assert len(store.find("orders", "ours")) == 1


def test_check_reports_only_keys_that_rocketmq_left_out(cut: Path) -> None:
    problems = check_store(cut, key_slots=50)
    assert [problem.rule for problem in problems] == ["key"]
    assert problems[0].text.startswith(f"{_ADDED} keys ")


def test_damage_is_reported_although_no_end_is_published(cut: Path) -> None:
    with StoreReader(cut) as reader:
        (message,), _ = reader.pull("orders", 0, 20, 1)
    (file,) = (cut / "commitlog").glob("*0")
    overwrite(file, message.offset, b"\xff" * 60)  # its head too
    with StoreReader(cut) as reader:
        assert reader.queue_range("orders", 0) == range(_KEPT + _ADDED)
        assert len(reader.pull("orders", 0, 21, 1000)[0]) == _KEPT + _ADDED - 21
        with pytest.raises(CorruptError):
            reader.pull("orders", 0, 20, 1)
        with pytest.raises(CorruptError):
            list(reader.scan())


def test_a_reader_follows_appends_over_remnants(cut: Path, tmp_path: Path) -> None:
    with StoreReader(cut) as reader:
        before, following = reader.pull("orders", 0, 0, 1000)
        changed = tmp_path / "changed"
        shutil.copytree(cut, changed)
        with MessageStore(changed, _OPTIONS) as store:
            appended = store.append(Message.of("orders", b"message 7 after"))
        # Write a message and its unit as RocketMQ does, into the files that the reader has open.
        (log,) = (cut / "commitlog").glob("*0")
        (queue,) = (cut / "consumequeue" / "orders" / "0").iterdir()
        data = (changed / log.relative_to(cut)).read_bytes()
        overwrite(log, appended.offset, data[appended.offset : appended.next_offset])
        units = (changed / queue.relative_to(cut)).read_bytes()
        overwrite(queue, following * UNIT_BYTES, units[following * UNIT_BYTES : (following + 1) * UNIT_BYTES])
        after, _ = reader.pull("orders", 0, 0, 1000)
        assert [message.body for message in after[len(before) :]] == [b"message 7 after"]
