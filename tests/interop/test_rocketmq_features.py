"""Stores with RocketMQ features that this engine does not know: it refuses them by name, and leaves them unchanged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.read.column_reader import ColumnReader
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.store import MessageStore
from binlog.errors import CorruptError, VersionError
from binlog.format.commitlog.indexes import QUEUE_UNIT, parse_units
from binlog.format.commitlog.names import DELAY_TOPIC
from tests.interop.rocketmq import golden
from tests.interop.rocketmq.exchange import OPTIONS
from tests.support.checked_stores import make, overwrite
from tests.support.waiting import until

_UNKNOWN = [name for name in golden.FEATURES if name != "extended-queues"]
_HIDES_MESSAGES = ["batch-queues", "rocksdb-queues"]


def _content(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return inode and content of everything in a folder."""
    found = sorted(folder.rglob("*"))
    return {str(each): (each.lstat().st_ino, each.read_bytes() if each.is_file() else None) for each in found}


def _is_refused(path: Path, error: type[Exception], text: str) -> None:
    before = _content(path)
    with pytest.raises(error, match=text):
        MessageStore(path, OPTIONS)
    assert _content(path) == before


@pytest.mark.parametrize("feature", _UNKNOWN)
def test_a_store_with_an_unknown_feature_is_refused_unchanged(feature: str, tmp_path: Path) -> None:
    path = golden.unpack_from(golden.FEATURES_ARCHIVE, feature, tmp_path)
    _is_refused(path, VersionError, "and changed nothing")


@pytest.mark.parametrize("feature", _UNKNOWN)
def test_check_names_an_unknown_feature(feature: str, tmp_path: Path) -> None:
    path = golden.unpack_from(golden.FEATURES_ARCHIVE, feature, tmp_path)
    assert {problem.rule for problem in check_store(path, key_slots=50)} == {"feature"}


@pytest.mark.parametrize("feature", _UNKNOWN)
def test_a_reader_refuses_a_store_whose_queues_it_cannot_read(feature: str, tmp_path: Path) -> None:
    path = golden.unpack_from(golden.FEATURES_ARCHIVE, feature, tmp_path)
    if feature in _HIDES_MESSAGES:
        with pytest.raises(VersionError):
            StoreReader(path)
    else:
        with StoreReader(path) as reader:
            assert len(reader.pull("special", 0, 0, 10)[0]) == 5


@pytest.mark.parametrize("attribute", ["queue.type=BatchCQ", "cleanup.policy=COMPACTION", "new.one=true"])
@pytest.mark.parametrize("file", ["topics.json", "topics.json.bak"])
def test_a_topic_with_an_unknown_attribute_is_refused_before_it_has_messages(
    attribute: str, file: str, tmp_path: Path
) -> None:
    name, value = attribute.split("=")
    path = make(tmp_path / "store", OPTIONS)
    (path / "config" / file).write_text(json.dumps({"topicConfigTable": {"later": {"attributes": {name: value}}}}))
    if file.endswith(".bak"):
        (path / "config" / "topics.json").write_text("{")
    _is_refused(path, VersionError, f"topic later has the attribute {attribute}")


def test_usual_topic_attributes_are_not_a_feature(tmp_path: Path) -> None:
    path = make(tmp_path / "store", OPTIONS)
    attributes = {"message.type": "FIFO", "queue.type": "SimpleCQ", "cleanup.policy": "DELETE", "reserve.time": "7"}
    table = {"a": {"attributes": attributes, "order": False}, "b": {"attributes": {}}, "c": {}}
    (path / "config" / "topics.json").write_text(json.dumps({"dataVersion": {}, "topicConfigTable": table}))
    with MessageStore(path, OPTIONS) as store:
        store.append(Message("a", b"more"))
    assert check_store(path, key_slots=OPTIONS.key_index.slots) == []


@pytest.mark.parametrize("text", ["{", '{"topicConfigTable": []}', '{"topicConfigTable": {"a": {"attributes": 7}}}'])
def test_topics_that_cannot_be_read_are_refused(text: str, tmp_path: Path) -> None:
    path = make(tmp_path / "store", OPTIONS)
    (path / "config" / "topics.json").write_text(text)
    _is_refused(path, VersionError, "topic settings that cannot be read")


@pytest.mark.parametrize(
    "name",
    [
        "dledger-n0/data",
        "compaction/compactionLog/a",
        "tiered_index_file/1",
        "config/rdb",
        "config/topics",
        "something new",
        "consumequeue/%LMQ%a",
    ],
)
def test_a_folder_of_an_unknown_feature_is_refused(name: str, tmp_path: Path) -> None:
    path = make(tmp_path / "store", OPTIONS)
    (path / name).mkdir(parents=True)
    _is_refused(path, VersionError, "does not support it")


@pytest.mark.parametrize("name", ["epochFileCheckpoint", "config/tieredStoreMetadata.json"])
def test_a_file_of_an_unknown_feature_is_refused(name: str, tmp_path: Path) -> None:
    path = make(tmp_path / "store", OPTIONS)
    (path / name).touch()
    _is_refused(path, VersionError, "does not support it")


def test_other_files_of_brokers_are_left_alone(tmp_path: Path) -> None:
    path = make(tmp_path / "store", OPTIONS)
    for folder in ("timerlog", "kvStore", "compaction", "batchconsumequeue", ".hidden", "lost+found"):
        (path / folder).mkdir()
    for file in ("timerwheel", "abort.bak", "compaction/position-checkpoint", "config/timercheck", "notes.txt"):
        (path / file).write_bytes(b"theirs")
    with MessageStore(path, OPTIONS) as store:
        store.append(Message("a", b"more"))
    assert (path / "timerwheel").read_bytes() == (path / "config" / "timercheck").read_bytes() == b"theirs"


def test_a_commit_log_in_several_folders_is_refused(tmp_path: Path) -> None:
    """As with `storePathCommitLog=one;two`: each folder has every second file."""
    path = make(tmp_path / "store", OPTIONS, count=600)
    files = sorted((path / "commitlog").iterdir())
    assert len(files) > 4
    (tmp_path / "two").mkdir()
    for file in files[1::2]:
        file.rename(tmp_path / "two" / file.name)
    _is_refused(path, CorruptError, "missing or in another folder")


def test_a_commit_log_in_another_folder_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "store", OPTIONS)
    (path / "commitlog").rename(tmp_path / "commitlog")
    _is_refused(path, CorruptError, "missing or in another folder")


def test_a_log_of_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "store", OPTIONS)
    with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(4)
        file.write(bytes.fromhex("daa320af"))  # as a third version might have
    _is_refused(path, CorruptError, "does not start with a message")


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/orders/0", "index"])
def test_files_of_another_size_are_refused_unchanged(folder: str, tmp_path: Path) -> None:
    path, _ = golden.unpack(golden.versions()[-1], "crc", tmp_path)
    name = min(os.listdir(path / folder))
    with (path / folder / name).open("ab") as file:
        file.write(bytes(20))
    _is_refused(path, CorruptError, "nothing was changed")


def test_queues_with_extensions_are_read_written_and_checked(tmp_path: Path) -> None:
    """Their units refer to the position of the tag's hash in `consumequeue_ext` instead of containing the hash."""
    path = golden.unpack_from(golden.FEATURES_ARCHIVE, "extended-queues", tmp_path)
    assert check_store(path, key_slots=OPTIONS.key_index.slots) == []
    for count in (5, 6):
        with ColumnReader(path) as reader:
            assert len(reader.pull("special", 0, 0, 10, tag="paid")[0]) == count
            assert reader.pull("special", 0, 0, 10, tag="other")[0] == []
            indexes = reader.queue_range("special", 0)
            parts = list(reader.columns("special", 0, indexes, ["offset"], tag="paid"))
            assert sum(part.count for part in parts) == count
        with MessageStore(path, OPTIONS) as store:
            store.append(Message.of("special", b"ours", tag="paid"))
    assert check_store(path) == []


def test_a_delayed_message_with_an_extended_unit_is_parked(tmp_path: Path) -> None:
    with MessageStore(tmp_path, OPTIONS) as store:
        store.append(Message.of("t", b"later", delay_level=5))
    (queue,) = (tmp_path / "consumequeue" / DELAY_TOPIC / "4").iterdir()
    overwrite(queue, QUEUE_UNIT.offset("tag_code"), (-(2**63)).to_bytes(8, "big", signed=True))
    with MessageStore(tmp_path, OPTIONS) as store:
        until(lambda: store._delays._next.get(5) is not None)
        (unit,) = parse_units(store._queues.get_or_create(DELAY_TOPIC, 4).read(0, 1))
        assert unit.is_extended
        assert store._delays._due_ms(unit, 5) == store.pull(DELAY_TOPIC, 4, 0, 1)[0].store_ms + 60_000
        assert store.queue_range("t", 0) == range(0)
