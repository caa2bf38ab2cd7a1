"""Lookups by key in a reader, in any state of the index files."""

from __future__ import annotations

import os
import random
import struct
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.store import MessageStore
from binlog.errors import BinlogError, CorruptError, NotFoundError
from binlog.format.commitlog.indexes import KEY_INDEX_ENTRY, KEY_INDEX_HEADER, key_hash
from tests.support.checked_stores import KEY_INDEX, OPTIONS, body, fill, make, overwrite
from tests.support.stores import has_unflushed, without_flushes
from tests.support.waiting import until


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make(tmp_path / "store")


def _bodies(path: Path, topic: str, key: str, **options: int) -> list[bytes]:
    with StoreReader(path) as reader:
        return [message.body for message in reader.find(topic, key, **options)]


def test_a_reader_finds_the_same_keys_as_the_owner(store: Path) -> None:
    with MessageStore(store, OPTIONS) as owner, StoreReader(store) as reader:
        for topic, key in [("a", "same"), ("b", "same"), ("a", "key-4"), ("b", "key-4"), ("c", "same"), ("a", "none")]:
            assert reader.find(topic, key) == owner.find(topic, key)
        assert [message.body for message in reader.find("a", "same", count=3)] == [body(62), body(60), body(58)]
        times = [message.store_ms for message in reader.find("a", "same")]
        some = reader.find("a", "same", begin_ms=times[20], end_ms=times[10])
        assert some == owner.find("a", "same", begin_ms=times[20], end_ms=times[10])
        assert [message.store_ms for message in some] == [ms for ms in times if times[20] <= ms <= times[10]]


@pytest.mark.slow
def test_a_reader_finds_new_keys_and_new_files(tmp_path: Path) -> None:
    with MessageStore(tmp_path, OPTIONS) as owner, StoreReader(tmp_path) as reader:
        assert reader.find("a", "key-0") == []
        for number in range(0, 60, 2):
            fill(owner, 1, first=number)
            while not (found := reader.find("a", f"key-{number}")):
                reader.wait(1)
            assert [message.body for message in found] == [body(number)]
            assert len(reader.find("a", "same")) == number // 2 + 1


def test_with_sync_flush_a_key_is_found_once_its_message_is_flushed(tmp_path: Path) -> None:
    with MessageStore(tmp_path, OPTIONS) as owner, StoreReader(tmp_path) as reader:
        first = owner.append(Message.of("t", b"first", keys=["k"]))
        assert next(reader.follow("t", 0, 0, timeout=30)).body == b"first"
        with ThreadPoolExecutor(1) as pool:
            with without_flushes(owner):
                wait = pool.submit(owner.append, Message.of("t", b"second", keys=["k"]))
                until(lambda: has_unflushed(owner))
                # dispatched too early, as our owner never does
                owner._index.put(memoryview(array("q", [key_hash("t", "k"), first.next_offset, first.store_ms])))
                assert len(owner._index.find("t", "k")) == 2
                assert [message.body for message in reader.find("t", "k")] == [b"first"]
                with pytest.raises(NotFoundError, match="no readable message"):
                    reader.read(first.next_offset)
            wait.result()
        assert next(reader.follow("t", 0, 1, timeout=30)).body == b"second"
        assert [message.body for message in reader.find("t", "k")] == [b"second", b"first"]


def test_unfinished_and_removed_files_are_skipped(store: Path) -> None:
    with StoreReader(store) as reader:
        whole = [message.body for message in reader.find("a", "same")]
        (store / "index" / "29990101000000000").touch()
        assert [message.body for message in reader.find("a", "same")] == whole
        (store / "index" / "29990101000000000").write_bytes(bytes(KEY_INDEX.file_bytes))
        assert [message.body for message in reader.find("a", "same")] == whole
        min((store / "index").iterdir()).unlink()
        less = [message.body for message in reader.find("a", "same")]
        assert less == whole[: len(less)]
        assert 0 < len(less) < len(whole)
        assert reader.find("a", "key-0") == []


def test_a_store_without_a_key_index_has_no_keys(store: Path) -> None:
    for path in (store / "index").iterdir():
        path.unlink()
    assert _bodies(store, "a", "same") == []
    (store / "index").rmdir()
    assert _bodies(store, "a", "same") == []


def test_uncounted_entries_hide_no_counted_ones(store: Path) -> None:
    """Entry and slot are written, but the count is not, so the slot leads beyond it."""
    path = max((store / "index").iterdir())
    whole = _bodies(store, "b", "same")
    header = KEY_INDEX_HEADER.unpack(path.read_bytes()[: KEY_INDEX_HEADER.size])
    count, slot_at = header["entry_count"], KEY_INDEX.slot_at(key_hash("b", "same"))
    previous = int.from_bytes(path.read_bytes()[slot_at : slot_at + 4], "big")
    entry = {"key_hash": key_hash("b", "same"), "offset": 0, "seconds": 0, "previous": previous}
    overwrite(path, KEY_INDEX.entry_at(count), KEY_INDEX_ENTRY.pack(entry))
    overwrite(path, slot_at, struct.pack(">i", count))
    assert _bodies(store, "b", "same") == whole
    with MessageStore(store, OPTIONS) as owner:
        assert [message.body for message in owner.find("b", "same")] == whole


def test_a_key_of_removed_messages_is_not_found(store: Path) -> None:
    whole = _bodies(store, "a", "same")
    with MessageStore(store, OPTIONS) as owner:
        min((store / "commitlog").iterdir()).unlink()
        owner._log.files._files = owner._log.files._files[1:]
        owner._publish()
        less = [message.body for message in owner.find("a", "same")]
        assert less == whole[: len(less)]
        assert 0 < len(less) < len(whole)
        assert _bodies(store, "a", "same") == less


def test_an_index_of_another_size_raises_an_error(store: Path) -> None:
    os.truncate(max((store / "index").iterdir()), 100)
    with pytest.raises(CorruptError, match="100 bytes is not the size of a key index with 7 slots"):
        _bodies(store, "a", "same")
    with (
        StoreReader(store, key_slots=8) as reader,
        pytest.raises(CorruptError, match="not the size of a key index with 8 slots"),
    ):
        reader.find("a", "same")


@pytest.mark.slow
def test_random_bytes_raise_our_errors_or_find_matching_messages(store: Path) -> None:
    chance = random.Random(5)
    paths = sorted((store / "index").iterdir())
    whole = {path: path.read_bytes() for path in paths}
    for _ in range(200):
        path = chance.choice(paths)
        data = bytearray(whole[path])
        start = chance.randrange(len(data))
        data[start : start + chance.randrange(1, 60)] = chance.randbytes(chance.randrange(1, 60))
        path.write_bytes(data)
        try:
            assert set(_bodies(store, "a", "key-4")) <= {body(4)}
            assert len(_bodies(store, "a", "same")) <= 64
        except BinlogError:
            pass
        path.write_bytes(whole[path])
