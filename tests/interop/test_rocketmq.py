"""Stores that the real RocketMQ wrote: see rocketmq/README.md."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.append.message import Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.store import MessageStore
from binlog.format.commitlog.indexes import KEY_INDEX_ENTRY, KEY_INDEX_HEADER, tag_hash
from binlog.format.commitlog.message import StoredMessage, pack_message
from binlog.format.commitlog.message_parts import pack_host
from binlog.format.commitlog.store_files import parse_checkpoint
from binlog.storage.file_pool import FilePool
from tests.interop.rocketmq import golden
from tests.interop.rocketmq.exchange import OPTIONS
from tests.interop.rocketmq.expected import as_reported, without_crc


class _Golden(NamedTuple):
    """Return a copy of a store, and the real store's report about it."""

    path: Path
    report: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [without_crc(message) for message in self.report["messages"]]

    @property
    def calls(self) -> list[list[dict[str, Any]]]:
        """The messages of each append."""
        left = iter(self.messages)
        return [[next(left) for _ in ids.split(",")] for ids in self.report["calls"]]


_ALL = [(version, store) for version in golden.versions() for store in golden.STORES]


@pytest.fixture(params=_ALL, ids="-".join)
def real(request: pytest.FixtureRequest, tmp_path: Path) -> _Golden:
    version, store = request.param
    return _Golden(*golden.unpack(version, store, tmp_path))


def _log_bytes(path: Path, size: int) -> bytes:
    """Return the bytes of all files of a commit log, up to the end of its messages."""
    return b"".join(file.read_bytes() for file in sorted((path / "commitlog").iterdir()))[:size]


def _stored(real: _Golden) -> list[StoredMessage]:
    with closing(CommitLog(FilePool.of(real.path), "commitlog", OPTIONS.file_bytes)) as log:
        log.files.load()
        return list(log.scan(0))


def test_the_golden_stores_cover_every_feature(real: _Golden) -> None:
    """They have files with a blank at the end, several files of each kind, both kinds of hosts and both message
    versions."""
    assert len(real.messages) > 150
    assert real.report["max_offset"] > 4 * OPTIONS.file_bytes
    assert max(len(os.listdir(folder)) for folder in (real.path / "consumequeue").glob("*/*")) > 1
    assert len(os.listdir(real.path / "index")) > 2
    assert any(len(call) > 10 for call in real.calls)
    assert {message["system_flag"] & 12 for message in real.messages} == {0, 4, 8, 12}
    assert {len(message["born_host"].split()[0]) for message in real.messages} == {8, 32}
    assert (real.path / "abort").exists() == (real.report["settings"].get("how") == "killed")


def test_every_field_of_every_message_is_read(real: _Golden) -> None:
    with StoreReader(real.path) as reader:
        assert [as_reported(reader.read(message["offset"])) for message in real.messages] == real.messages


def test_a_reader_finds_every_message_in_its_queue(real: _Golden) -> None:
    """A reader writes nothing: folders and files are read-only."""
    for folder, _, names in os.walk(real.path):
        for name in names:
            (Path(folder) / name).chmod(0o444)
        Path(folder).chmod(0o555)
    with StoreReader(real.path) as reader:
        for name, offsets in real.report["queues"].items():
            topic, queue_id = name.split()
            assert reader.queue_range(topic, int(queue_id)) == range(len(offsets))
            found, after = reader.pull(topic, int(queue_id), 0, 1000)
            while after < len(offsets):
                more, after = reader.pull(topic, int(queue_id), after, 1000)
                found += more
            assert [message.offset for message in found] == offsets


def test_every_message_packs_to_its_bytes(real: _Golden) -> None:
    data = _log_bytes(real.path, real.report["max_offset"])
    for message in _stored(real):
        assert pack_message(message) == data[message.offset : message.offset + message.message_bytes]


def test_check_finds_no_problem_in_a_golden_store(real: _Golden) -> None:
    for _ in range(2):
        assert check_store(real.path, key_slots=OPTIONS.key_index.slots) == []
        with MessageStore(real.path, OPTIONS) as store:
            store.append(Message.of("orders", b"ours", tag="paid", keys=["k1"]))


def test_an_owner_reads_a_golden_store_and_appends(real: _Golden) -> None:
    for _ in range(2):
        with MessageStore(real.path, OPTIONS) as store:
            assert store.max_offset == real.report["max_offset"]
            for name, offsets in real.report["queues"].items():
                topic, queue_id = name.split()
                found = store.pull(topic, int(queue_id), 0, 1000)
                assert [message.offset for message in found] == offsets
            for name, offsets in real.report["keys"].items():
                found = store.find(*name.split(" ", 1))
                assert sorted(message.offset for message in found) == offsets
    with MessageStore(real.path, OPTIONS) as store:
        added = store.append(Message.of("orders", b"ours", keys=["k1"]))
        assert added.queue_offsets == [len(real.report["queues"]["orders 0"])]
    with StoreReader(real.path) as reader:
        assert reader.pull("orders", 0, added.queue_offsets[0], 5)[0][0].body == b"ours"


def test_rebuilt_queues_and_index_equal_rocketmqs(real: _Golden, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for folder in ("consumequeue", "index"):
        os.rename(real.path / folder, theirs / folder)
        (real.path / folder).mkdir()
    golden.remove_queues_and_index(real.path)
    with MessageStore(real.path, OPTIONS):
        pass
    assert _files(real.path / "consumequeue") == _files(theirs / "consumequeue")
    made, indexes = (sorted((path / "index").iterdir()) for path in (real.path, theirs))
    tags = {(_tag_hash(message), message["offset"]) for message in real.messages}
    entries = [entry for path in indexes for entry in _entries(path)]
    if any(entry in tags for entry in entries):  # a version that also puts tags as keys
        assert [entry for path in made for entry in _entries(path)] == [each for each in entries if each not in tags]
    else:
        assert [path.read_bytes() for path in made] == list(map(_plain_index, indexes))


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _tag_hash(message: dict[str, Any]) -> int:
    """Return the hash of the tag as a key, which version 5.5 adds."""
    return tag_hash(message["topic"], message["properties"].get("TAGS", ""))


def _entries(path: Path) -> list[tuple[int, int]]:
    """Return hash and offset of each entry of a key index."""
    data = path.read_bytes()
    base = KEY_INDEX_HEADER.size + 4 * OPTIONS.key_index.slots
    count = KEY_INDEX_HEADER.unpack(data, 0)["entry_count"]
    entries = [KEY_INDEX_ENTRY.unpack(data, base + number * KEY_INDEX_ENTRY.size) for number in range(1, count)]
    return [(entry["key_hash"], entry["offset"]) for entry in entries]


def _plain_index(path: Path) -> bytes:
    """Return the bytes of a key index, without the time of its first entry.

    The real store counts that time from the end of the previous file, and sets the start time of the file only
    afterwards (IndexFile.putKey); so the time is wrong by the difference.
    """
    data = bytearray(path.read_bytes())
    first = KEY_INDEX_HEADER.size + 4 * OPTIONS.key_index.slots + KEY_INDEX_ENTRY.size
    at = first + KEY_INDEX_ENTRY.offset("seconds")
    data[at : at + 4] = bytes(4)
    return bytes(data)


def test_appends_write_the_same_bytes_as_rocketmq(real: _Golden, tmp_path: Path) -> None:
    """The same calls at the same times write the same files, including the blanks at their ends."""
    record_crc = real.report["settings"]["record_crc"] == "1"
    stored = {message.offset: message for message in _stored(real)}
    now = 0

    def clock() -> float:
        return (now + 0.5) / 1000

    folder = tmp_path / "ours" / "commitlog"
    folder.mkdir(parents=True)
    (host,) = {message.store_host for message in stored.values()}
    made = CommitLog(FilePool.of(folder), "", OPTIONS.file_bytes, store_host=host, record_crc=record_crc, clock=clock)
    with closing(made) as log:
        for call in real.calls:
            now = call[0]["store_ms"]
            appended = log.append([_given(stored[message["offset"]]) for message in call])
            assert appended.offsets == [message["offset"] for message in call]
    size = real.report["max_offset"]
    assert _log_bytes(tmp_path / "ours", size) == _log_bytes(real.path, size)


def _given(message: StoredMessage) -> Message:
    """Return the message to append for a stored one."""
    return Message(
        message.topic, message.body, message.properties.rstrip(b"\x02") if message.record_crc else message.properties,
        message.queue_id, message.flag, message.system_flag, message.born_ms, pack_host(message.born_host),
        message.reconsume_count, message.prepared_offset,
    )  # fmt: skip


def test_a_store_has_the_same_files_as_rocketmqs(real: _Golden, tmp_path: Path) -> None:
    """Only our sidecar, which RocketMQ ignores, and the files that a broker adds, differ."""
    with MessageStore(tmp_path / "ours", OPTIONS) as store:
        store.append(Message("orders", b"data"))
    ours = {*os.listdir(tmp_path / "ours"), "abort"}
    theirs = {*os.listdir(real.path), "abort"}
    assert ours - theirs == {"binlog.sidecar"}
    assert theirs - ours <= {"abort.bak", "compaction", "rocksdbstore"}  # files that our store does not have


def test_the_checkpoint_is_read(real: _Golden) -> None:
    found = parse_checkpoint((real.path / "checkpoint").read_bytes())
    times = [message["store_ms"] for message in real.messages]
    if real.report["settings"]["flush"] == "sync":
        assert found.log_ms in times
    if "how" not in real.report["settings"]:
        assert found.queues_ms in times
        assert found.recovery_ms == max(min(found.log_ms, found.queues_ms) - 3000, 0)
