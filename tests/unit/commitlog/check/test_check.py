"""Canaries of the checker: each kind of damage is reported at its place, and a valid store has no problem."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import struct
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.options import StoreOptions
from binlog.commitlog.store import MessageStore
from binlog.errors import NotFoundError
from binlog.format.commitlog.indexes import KEY_INDEX_HEADER, UNIT_BYTES, QueueUnit
from binlog.format.commitlog.message import MESSAGE
from binlog.format.commitlog.message_parts import Host
from binlog.format.commitlog.store_files import STORE_CHECKPOINT, ReaderState, pack_sidecar
from tests.support.checked_stores import (
    ASYNC,
    KEY_INDEX,
    MANUAL_RETENTION,
    OPTIONS,
    POOLED,
    fill,
    flip,
    log_file,
    make,
    overwrite,
    stored,
)

_PLAIN = dataclasses.replace(OPTIONS, record_crc=False)

_Place = tuple[Path, int]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make(tmp_path / "store")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A store without CRCs of whole messages, which is RocketMQ's default."""
    return make(tmp_path / "store", _PLAIN)


def _dispatched(path: Path) -> list[tuple[Path, int, str]]:
    return [(Path(problem.path), problem.offset, problem.rule) for problem in check_store(path)]


def _in_log(path: Path, number: int, field: str = "message_bytes") -> _Place:
    """Return the position of a field in a message without IPv6 hosts."""
    found, at = log_file(path, stored(path)[number].offset)
    return found, at + MESSAGE.offset(field)


@pytest.mark.parametrize(
    "options",
    [OPTIONS, ASYNC, POOLED, _PLAIN, dataclasses.replace(OPTIONS, store_host=Host.parse("[::1]:5"))],
    ids=["sync", "async", "pooled", "without CRC", "IPv6"],
)
def test_a_valid_store_has_no_problems(tmp_path: Path, options: StoreOptions) -> None:
    with MessageStore(tmp_path, options):
        assert check_store(tmp_path) == []
    assert check_store(tmp_path) == []
    make(tmp_path, options)
    assert len(list((tmp_path / "commitlog").iterdir())) > 2
    assert len(list((tmp_path / "index").iterdir())) > 2
    assert check_store(tmp_path) == []
    with MessageStore(tmp_path, options) as store:
        fill(store, 30, first=100)
        assert check_store(tmp_path) == []
    assert check_store(tmp_path) == []


@pytest.mark.slow
def test_a_store_after_retention_has_no_problems(tmp_path: Path) -> None:
    options = dataclasses.replace(OPTIONS, retention=MANUAL_RETENTION)
    make(tmp_path, options, 200)
    for _ in range(3):
        with MessageStore(tmp_path, options) as store:
            assert store.remove_expired() == 2
            fill(store, 7, first=500)
            assert check_store(tmp_path) == []
        assert check_store(tmp_path) == []


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is not a store"):
        check_store(tmp_path)
    with pytest.raises(NotFoundError, match="no such directory"):
        check_store(tmp_path / "missing")


_MESSAGE_DAMAGE: dict[str, tuple[str, int]] = {
    "message_bytes": ("length", 7),
    "magic": ("magic", 0),
    "body_crc": ("body_crc", 0),
    "queue_id": ("record_crc", 0),
    "queue_offset": ("record_crc", 0),
    "offset": ("record_crc", 0),
    "store_ms": ("record_crc", 0),
    "reconsume_count": ("record_crc", 0),
    "body_bytes": ("length", 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("field", _MESSAGE_DAMAGE)
@pytest.mark.parametrize("number", [1, 33, -2])
def test_a_flipped_bit_in_a_message_is_the_only_problem(store: Path, field: str, number: int) -> None:
    messages = stored(store)
    path, at = log_file(store, messages[number].offset)
    rule, bit = _MESSAGE_DAMAGE[field]
    flip(path, at + MESSAGE.offset(field), bit)
    (problem,) = check_store(store)
    assert (Path(problem.path), problem.offset, problem.rule) == (path, at, rule)
    assert problem.end == at + messages[number].message_bytes


def test_flipped_bits_in_several_messages_are_all_reported(store: Path) -> None:
    places = [log_file(store, stored(store)[number].offset) for number in (0, 1, 10, 40)]
    for path, at in places:
        flip(path, at + 60)
    assert [(path, at) for path, at, _ in _dispatched(store)] == places


def test_a_flipped_bit_in_the_last_message_is_reported(store: Path) -> None:
    last = stored(store)[-1]
    path, at = log_file(store, last.offset)
    flip(path, at + last.message_bytes - 30)
    dispatched = check_store(store)
    assert (Path(dispatched[0].path), dispatched[0].offset, dispatched[0].rule, dispatched[0].end) == (
        path,
        at,
        "record_crc",
        None,
    )
    # the queue, the key index and the sidecar refer to a message that the log lacks
    assert {problem.rule for problem in dispatched[1:]} - {"checkpoint"} == {"unit", "entry", "sidecar"}


@pytest.mark.slow
def test_without_a_crc_wrong_fields_are_reported(plain: Path) -> None:
    """Each damage is in a store of its own, so that one does not hide the other."""

    def damaged(name: str, number: int, field: str, data: bytes) -> list[tuple[Path, int, str]]:
        copy = plain.with_name(name)
        shutil.copytree(plain, copy)
        path, at = _in_log(copy, number, field)
        overwrite(path, at, data)
        return [(path.relative_to(copy), at - log_file(copy, messages[number].offset)[1], rule)
                for path, at, rule in _dispatched(copy)]  # fmt: skip

    messages = stored(plain)
    name = Path("commitlog") / f"{0:020d}"
    assert damaged("offset", 3, "offset", struct.pack(">q", 5)) == [(name, 0, "offset")]
    assert damaged("queue", 11, "queue_offset", struct.pack(">q", 9)) == [(name, 0, "queue_offset")]
    late = damaged("time", 3, "store_ms", struct.pack(">q", messages[3].store_ms + 5000))
    assert (name, messages[4].offset - messages[3].offset, "store_ms") in late
    assert damaged("queue_id", 3, "queue_id", struct.pack(">i", -1))[0] == (name, 0, "topic")


def test_zeros_in_place_of_messages_are_reported(store: Path) -> None:
    first, last = stored(store)[10], stored(store)[12]
    path, at = log_file(store, first.offset)
    size = last.offset - first.offset
    overwrite(path, at, bytes(size))
    (problem,) = check_store(store)
    assert (Path(problem.path), problem.offset, problem.rule, problem.end) == (path, at, "zeros", at + size)


def test_bytes_after_the_end_are_reported(store: Path) -> None:
    end = stored(store)[-1].offset + stored(store)[-1].message_bytes
    path, at = log_file(store, end)
    overwrite(path, at + 200, b"\1")
    assert _dispatched(store) == [(path, at + 200, "end")]


def test_an_older_message_after_the_end_is_reported(store: Path) -> None:
    """As in a file that was used before: the message contains another offset."""
    end = stored(store)[-1].offset + stored(store)[-1].message_bytes
    path, at = log_file(store, end)
    first, _ = log_file(store, 0)
    overwrite(path, at, first.read_bytes()[: stored(store)[0].message_bytes])
    assert _dispatched(store) == [(path, at, "offset")]


def test_a_damaged_end_of_a_file_is_reported(store: Path) -> None:
    last = [message for message in stored(store) if message.offset < OPTIONS.file_bytes][-1]
    path, at = log_file(store, last.offset + last.message_bytes)
    for byte in (3, 4):
        flip(path, at + byte)
        ((found, place, _),) = _dispatched(store)
        assert (found, place) == (path, at)
        flip(path, at + byte)
    assert check_store(store) == []


def test_wrong_sizes_names_and_gaps_are_reported(store: Path) -> None:
    second = store / "commitlog" / f"{OPTIONS.file_bytes:020d}"
    third = store / "commitlog" / f"{2 * OPTIONS.file_bytes:020d}"
    (store / "commitlog" / "notes").write_text("mine")
    assert _dispatched(store) == [(store / "commitlog" / "notes", 0, "name")]
    (store / "commitlog" / "notes").unlink()
    data = second.read_bytes()
    os.truncate(second, 2000)
    assert (second, 0, "file_bytes") in _dispatched(store)
    second.unlink()
    assert _dispatched(store) == [(third, 0, "gap")]
    second.write_bytes(data)
    assert check_store(store) == []
    (store / "commitlog" / f"{10 * OPTIONS.file_bytes:020d}").touch()
    assert {rule for _, _, rule in _dispatched(store)} == {"file_bytes", "gap"}


def _unit(path: Path, topic: str, queue_id: int, index: int) -> _Place:
    size = OPTIONS.units_in_file * UNIT_BYTES
    at = index * UNIT_BYTES
    return path / "consumequeue" / topic / str(queue_id) / f"{at - at % size:020d}", at % size


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 7, 12])
@pytest.mark.parametrize("byte", range(UNIT_BYTES))
def test_a_flipped_bit_in_a_unit_is_reported(store: Path, index: int, byte: int) -> None:
    path, at = _unit(store, "b", 1, index)
    flip(path, at + byte)
    assert _dispatched(store) == [(path, at, "unit")]


def test_missing_and_extra_units_are_reported(store: Path) -> None:
    path, at = _unit(store, "a", 1, 4)
    data = path.read_bytes()
    overwrite(path, at, bytes(3 * UNIT_BYTES))
    (problem,) = check_store(store)
    assert (Path(problem.path), problem.offset, problem.rule) == (path, at, "unit")
    assert "3 units of messages in the log are missing" in problem.text
    path.write_bytes(data)
    count = sum((message.topic, message.queue_id) == ("a", 1) for message in stored(store))
    path, at = _unit(store, "a", 1, count)
    overwrite(path, at, QueueUnit(0, 100, 0).pack())
    assert _dispatched(store) == [(path, at, "unit")]


def test_missing_and_extra_queues_are_reported(store: Path) -> None:
    shutil.copytree(store / "consumequeue" / "a" / "1", store / "consumequeue" / "c" / "0")
    shutil.rmtree(store / "consumequeue" / "b" / "1")
    (store / "consumequeue" / "a" / "x").mkdir()
    (store / "consumequeue" / "file").touch()
    dispatched = _dispatched(store)
    assert (store / "consumequeue" / "b" / "1", 0, "unit") in dispatched
    assert (store / "consumequeue" / "a" / "x", 0, "name") in dispatched
    assert (store / "consumequeue" / "file", 0, "name") in dispatched
    assert (store / "consumequeue" / "c" / "0" / f"{0:020d}", 3 * UNIT_BYTES, "unit") in dispatched


def test_wrong_sizes_and_gaps_of_queue_files_are_reported(store: Path) -> None:
    path, _ = _unit(store, "a", 0, 0)
    os.truncate(path, 7 * UNIT_BYTES)
    assert (path, 0, "file_bytes") in _dispatched(store)
    path.unlink()
    # messages before those of the second file are still in the log
    assert _dispatched(store) == [(path.parent, 0, "unit")]


def _index(path: Path, number: int = 1) -> Path:
    return sorted((path / "index").iterdir())[number]


@pytest.mark.parametrize("field", ["begin_ms", "end_ms", "begin_offset", "end_offset", "slot_count"])
def test_a_wrong_header_of_the_key_index_is_reported(store: Path, field: str) -> None:
    at = KEY_INDEX_HEADER.offset(field)
    size = 4 if field == "slot_count" else 8
    flip(_index(store), at + size - 1)
    assert (_index(store), at, "index_header") in _dispatched(store)


@pytest.mark.parametrize("count", [0, -5, 19, 21, 2**31 - 1])
def test_a_wrong_count_of_entries_is_reported(store: Path, count: int) -> None:
    overwrite(_index(store), KEY_INDEX_HEADER.offset("entry_count"), struct.pack(">i", count))
    assert {path for path, _, _ in _dispatched(store)} >= {_index(store)}


@pytest.mark.parametrize(
    ("byte", "rule"), [(0, "entry"), (3, "entry"), (5, "entry"), (11, "entry"), (15, "entry"), (19, "chain")]
)
@pytest.mark.parametrize("number", [1, 9, 19])
def test_a_flipped_bit_in_an_entry_is_reported(store: Path, number: int, byte: int, rule: str) -> None:
    at = KEY_INDEX.entry_at(number)
    flip(_index(store), at + byte)
    dispatched = _dispatched(store)
    assert (_index(store), at + (16 if rule == "chain" else 0), rule) in dispatched
    assert {path for path, _, _ in dispatched} == {_index(store)}


@pytest.mark.parametrize("slot", range(KEY_INDEX.slots))
def test_a_wrong_slot_is_reported(store: Path, slot: int) -> None:
    """Lookups would miss keys."""
    flip(_index(store), KEY_INDEX.slot_at(slot) + 3, bit=2)
    assert _dispatched(store) == [(_index(store), KEY_INDEX.slot_at(slot), "slot")]


def test_missing_entries_and_invalid_names_are_reported(store: Path) -> None:
    (store / "index" / "notes").touch()
    assert _dispatched(store) == [(store / "index" / "notes", 0, "name")]
    (store / "index" / "notes").unlink()
    before, after = _index(store), _index(store, 2)
    before.unlink()
    (problem,) = check_store(store)
    assert (Path(problem.path), problem.offset, problem.rule) == (after, KEY_INDEX.entry_at(1), "key")
    assert problem.text.startswith("19 keys ")
    shutil.rmtree(store / "index")
    assert _dispatched(store) == [(store / "index", 0, "key")]


def test_a_wrong_size_of_the_key_index_is_reported(store: Path) -> None:
    os.truncate(_index(store), 100)
    dispatched = _dispatched(store)
    assert (_index(store), 0, "file_bytes") in dispatched
    assert (_index(store, 2), KEY_INDEX.entry_at(1), "key") in dispatched


def test_a_checkpoint_after_the_end_of_the_log_is_reported(store: Path) -> None:
    path = store / "checkpoint"
    data = path.read_bytes()
    for field in ("log_ms", "queues_ms", "index_ms"):
        at = STORE_CHECKPOINT.offset(field)
        overwrite(path, at, struct.pack(">q", 2**50))
        assert _dispatched(store) == [(path, at, "checkpoint")]
        path.write_bytes(data)
    overwrite(path, STORE_CHECKPOINT.offset("confirmed_offset"), b"\xff")
    overwrite(path, 1000, b"\1")
    assert [at for _, at, _ in _dispatched(store)] == [STORE_CHECKPOINT.offset("confirmed_offset"), 1000]
    os.truncate(path, 100)
    assert (path, 0, "checkpoint") in _dispatched(store)
    path.unlink()
    assert _dispatched(store) == [(path, 0, "checkpoint")]


def test_a_damaged_or_stale_sidecar_is_reported(store: Path) -> None:
    path = store / "binlog.sidecar"
    flip(path, 30)
    assert (path, 0, "sidecar") in _dispatched(store)
    path.write_bytes(pack_sidecar(ReaderState(0, 100, KEY_INDEX.slots), doorbell=1))
    assert _dispatched(store) == [(path, 24, "sidecar")]
    path.unlink()
    assert {rule for _, _, rule in _dispatched(store)} == {"file_bytes", "key"}  # now the number of slots is unknown
    assert check_store(store, key_slots=KEY_INDEX.slots) == []


def test_an_invalid_abort_marker_is_reported(store: Path) -> None:
    (store / "abort").write_text("12345")
    assert check_store(store) == []
    (store / "abort").write_text("rm -rf /")
    assert _dispatched(store) == [(store / "abort", 0, "abort")]


def test_after_a_crash_only_synced_messages_are_checked(store: Path) -> None:
    messages = stored(store)
    (store / "abort").touch()
    last, at = log_file(store, messages[-1].offset)
    flip(last, at + 60)
    flip(_unit(store, "a", 0, 5)[0], 12)
    # no message is three seconds old
    assert check_store(store) == []
    path = store / "checkpoint"
    ahead_ms = messages[-1].store_ms + 3000
    overwrite(path, 0, struct.pack(">3q", ahead_ms, ahead_ms, ahead_ms))
    assert (_unit(store, "a", 0, 5)[0], 0, "unit") in _dispatched(store)
    assert last not in {path for path, _, _ in _dispatched(store)}
    first, at = log_file(store, messages[1].offset)
    flip(first, at + 60)
    assert _dispatched(store)[0] == (first, at, "record_crc")


def test_damage_of_readable_messages_is_reported_while_the_owner_writes(tmp_path: Path) -> None:
    with MessageStore(tmp_path, OPTIONS) as store:
        fill(store, 40)
        appended = store.append(Message("a", b"the last one"))
        _wait_for_readers(tmp_path, appended.next_offset)
        path, at = log_file(tmp_path, stored(tmp_path)[20].offset)
        flip(path, at + 60)
        assert _dispatched(tmp_path) == [(path, at, "record_crc")]
        flip(path, at + 60)
        path, at = _unit(tmp_path, "b", 0, 3)
        flip(path, at + 7)
        assert _dispatched(tmp_path) == [(path, at, "unit")]
        flip(path, at + 7)
        assert check_store(tmp_path) == []


def _wait_for_readers(path: Path, end: int) -> None:
    from binlog.commitlog.read.store_reader import StoreReader

    with StoreReader(path) as reader:
        while (reader.log_range()[1] or 0) < end:
            reader.wait(1)


@pytest.mark.slow
def test_every_flipped_bit_is_reported(store: Path) -> None:
    """Ignored bytes are excluded: those after the blank that ends a file, and after the last entry.

    The name of the CRC property is excluded too: without it a message counts as one without a CRC.
    """
    chance = random.Random(7)
    messages = stored(store)
    ends = [message.offset + message.message_bytes for message in messages]
    blanks = {
        file: [message for message in messages if log_file(store, message.offset)[0] == file][-1]
        for file in sorted((store / "commitlog").iterdir())
    }
    for path in sorted(path for path in store.rglob("*") if path.name.isdigit() and path.is_file()):
        size = path.stat().st_size
        meaning = size
        if path in blanks and path != max(blanks):
            last = blanks[path]
            meaning = log_file(store, last.offset)[1] + last.message_bytes + 8
        if path.parent.name == "index":
            meaning = KEY_INDEX.entry_at(int.from_bytes(path.read_bytes()[36:40], "big"))
        for at in sorted(chance.sample(range(meaning), min(meaning, 60))):
            if path.parent.name == "index" and KEY_INDEX.entry_at(0) <= at < KEY_INDEX.entry_at(1):
                continue  # there is no entry 0
            if path in blanks and any(end - 20 <= int(path.name) + at < end - 11 for end in ends):
                continue
            bit = chance.randrange(8)
            flip(path, at, bit)
            dispatched = check_store(store)
            assert str(path) in {problem.path for problem in dispatched}, (path, at, bit, dispatched)
            flip(path, at, bit)
    assert check_store(store) == []


@pytest.mark.slow
def test_random_files_lead_to_problems_only(store: Path) -> None:
    chance = random.Random(11)
    paths = sorted(path for path in store.rglob("*") if path.is_file() and path.name != "lock")
    whole = {path: path.read_bytes() for path in paths}
    for _ in range(150):
        path = chance.choice(paths)
        data = bytearray(whole[path])
        kind = chance.randrange(4)
        if kind == 0:
            path.write_bytes(chance.randbytes(len(data)))
        elif kind == 1:
            path.write_bytes(data[: chance.randrange(len(data) + 1)])
        elif kind == 2:
            start, stop = sorted(chance.randrange(len(data) + 1) for _ in range(2))
            path.write_bytes(data[:start] + chance.randbytes(stop - start) + data[stop:])
        else:
            start, stop = sorted(chance.randrange(len(data) + 1) for _ in range(2))
            path.write_bytes(data[:start] + data[stop:] + data[start:stop])
        for problem in check_store(store):
            assert problem.offset >= 0
            assert os.path.lexists(problem.path)
        path.write_bytes(whole[path])


@pytest.mark.parametrize("more", [0, 1, 100])
def test_slot_counts_of_old_rocketmq_versions_are_accepted(tmp_path: Path, more: int) -> None:
    """Before version 4.7 they counted a slot once for each of its entries."""
    path = make(tmp_path)
    file = min((path / "index").iterdir())
    count = KEY_INDEX_HEADER.unpack(file.read_bytes()[: KEY_INDEX_HEADER.size])["entry_count"]
    overwrite(file, KEY_INDEX_HEADER.offset("slot_count"), (count - 1 + more).to_bytes(4, "big"))
    assert [problem.rule for problem in check_store(path)] == ["index_header"] * (more > 0)
