from __future__ import annotations

import contextlib
import os
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlog.commitlog.indexes.key_index import KeyIndex, KeyIndexSize
from binlog.errors import FullError
from binlog.format.commitlog.indexes import KEY_INDEX_HEADER, key_hash
from binlog.storage.directory import Directory
from tests.support.checked_stores import overwrite
from tests.support.descriptors import count_descriptors, descriptors_before

_SIZE = KeyIndexSize(slots=7, entries=20)
_BEGIN_MS = 1_700_000_000_000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], KeyIndex]]:
    made: list[KeyIndex] = []

    def new() -> KeyIndex:
        made.append(KeyIndex(Directory(str(tmp_path)), "", _SIZE))
        return made[-1]

    yield new
    for index in made:
        index.close()


_Make = Callable[[], KeyIndex]


def _keys(*numbers: int, topic: str = "t", apart_ms: int = 1000) -> memoryview:
    words = array("q")
    for number in numbers:
        words.extend((key_hash(topic, f"key {number}"), 100 * number, _BEGIN_MS + apart_ms * number))
    return memoryview(words)


def test_each_key_is_found_once_and_an_unknown_key_is_not(make: _Make) -> None:
    index = make()
    index.put(_keys(*range(19)))
    assert [index.find("t", f"key {number}") for number in range(19)] == [[100 * number] for number in range(19)]
    assert index.find("t", "key 19") == index.find("u", "key 1") == []


def test_a_file_holds_one_key_fewer_than_entries(make: _Make, tmp_path: Path) -> None:
    """As in RocketMQ there is no entry 0; the next key starts a new file."""
    index = make()
    index.put(_keys(*range(19)))
    assert len(os.listdir(tmp_path)) == 1
    (file,) = index._files
    assert file.full
    assert file.put(_keys(19)) == 0
    index.put(_keys(*range(19, 50)))
    assert len(os.listdir(tmp_path)) == 3
    assert [index.find("t", f"key {number}") for number in range(50)] == [[100 * number] for number in range(50)]


def test_messages_with_one_key_are_found_newest_first(make: _Make) -> None:
    index = make()
    same = [(key_hash("t", "same"), 100 * number, _BEGIN_MS + 1000 * number) for number in range(40)]
    index.put(memoryview(array("q", [word for key in same for word in key])))
    assert index.find("t", "same") == [100 * number for number in reversed(range(40))]
    assert index.find("t", "same", count=3) == [3900, 3800, 3700]
    within = index.find("t", "same", begin_ms=_BEGIN_MS + 10_000, end_ms=_BEGIN_MS + 12_000)
    assert within == [1200, 1100, 1000]
    assert index.find("t", "same", begin_ms=_BEGIN_MS + 50_000) == index.find("t", "same", end_ms=_BEGIN_MS - 1) == []


def test_times_within_a_second_are_found(make: _Make) -> None:
    """Entries have seconds, rounded down, so a lookup by milliseconds finds all candidates."""
    index = make()
    index.put(_keys(*range(10), apart_ms=300))
    assert index.find("t", "key 5", begin_ms=_BEGIN_MS + 1500, end_ms=_BEGIN_MS + 1500) == [500]


def test_keys_survive_reopening(make: _Make) -> None:
    index = make()
    index.put(_keys(*range(30)))
    index.flush()
    index.close()
    again = make()
    assert again.load(trusted_ms=None) is None
    assert again.end_offset == 2900
    again.put(_keys(*range(25, 40)))  # some of them again
    assert [again.find("t", f"key {number}") for number in range(40)] == [[100 * number] for number in range(40)]


def test_partly_put_keys_of_a_message_are_completed(make: _Make) -> None:
    """The file becomes full after some of the keys, and then the process dies."""
    keys = _keys(*range(17), *[17] * 4)
    for known in range(22):
        index = make()
        index.put(keys[: 3 * known])
        index.put(keys)
        assert index.find("t", "key 17") == [1700] * 4
        assert [index.find("t", f"key {number}") for number in range(17)] == [[100 * number] for number in range(17)]
        while index._files:
            index._files[-1].remove()
            index._files = index._files[:-1]


def test_after_a_crash_files_with_later_messages_are_rebuilt(make: _Make, tmp_path: Path) -> None:
    index = make()
    index.put(_keys(*range(50)))
    index.close()
    again = make()
    assert again.load(trusted_ms=_BEGIN_MS + 18_000) == _BEGIN_MS + 19_000
    assert len(os.listdir(tmp_path)) == 1
    assert again.end_offset == 1800
    again.put(_keys(*range(19, 50)))
    assert [again.find("t", f"key {number}") for number in range(50)] == [[100 * number] for number in range(50)]


def test_a_failed_load_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = descriptors_before()
    directory = Directory(str(tmp_path))
    with contextlib.closing(KeyIndex(directory, "", _SIZE)) as index:
        index.put(_keys(*range(50)))

    def fails() -> None:
        raise FullError("there is no room to say so")

    with contextlib.closing(KeyIndex(directory, "", _SIZE)) as index, pytest.raises(FullError):
        index.load(trusted_ms=0, removing=fails)
    directory.close()
    assert count_descriptors() == before


def test_a_count_lost_in_a_crash_loses_no_older_key(make: _Make, tmp_path: Path) -> None:
    """Slots lead beyond the count; keys that are put later must not hide the older part of such a chain."""
    index = make()
    index.put(_keys(*range(8)))
    (path,) = tmp_path.iterdir()
    header = path.read_bytes()[:40]
    index.put(_keys(*range(8, 19)))
    index.close()
    with path.open("r+b") as file:
        file.write(header)
    again = make()
    assert again.load(trusted_ms=_BEGIN_MS + 10**6) is None
    assert again.end_offset == 700
    again.put(_keys(*range(8, 12), 100, 101))
    wanted = [*range(12), 100, 101]
    assert [again.find("t", f"key {number}") for number in wanted] == [[100 * number] for number in wanted]


def test_files_without_messages_are_removed(make: _Make, tmp_path: Path) -> None:
    index = make()
    index.put(_keys(*range(50)))
    index.remove_before(1800)
    assert len(os.listdir(tmp_path)) == 3
    index.remove_before(1801)
    assert len(os.listdir(tmp_path)) == 2
    index.remove_before(10**9)
    assert len(os.listdir(tmp_path)) == 1
    assert index.find("t", "key 49") == [4900]


def test_a_file_has_the_same_bytes_as_rocketmqs(make: _Make, tmp_path: Path) -> None:
    index = make()
    index.put(_keys(3, 4))
    index._files[0].put(_keys(3))
    index.flush()
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    hashes = [key_hash("t", f"key {number}") for number in (3, 4, 3)]
    slots = [hash_ % 7 for hash_ in hashes]
    begin = _BEGIN_MS + 3000

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "big", signed=True)

    assert len(data) == 40 + 7 * 4 + 20 * 20
    assert [number(at, 8) for at in (0, 8, 16, 24)] == [begin, begin, 300, 300]
    assert [number(at, 4) for at in (32, 36)] == [len(set(slots)), 4]
    newest = {slot: entry for entry, slot in enumerate(slots, 1)}
    assert [number(40 + 4 * slot, 4) for slot in range(7)] == [newest.get(slot, 0) for slot in range(7)]
    base = 40 + 7 * 4
    assert data[base : base + 20] == bytes(20)
    last = base + 3 * 20
    previous = 2 if slots[1] == slots[0] else 1
    assert [number(last, 4), number(last + 4, 8), number(last + 12, 4), number(last + 16, 4)] == [
        hashes[2], 300, 0, previous,
    ]  # fmt: skip


def test_a_chain_that_leads_to_a_newer_entry_ends(make: _Make, tmp_path: Path) -> None:
    """No damaged bytes may make a search run forever."""
    index = make()
    index.put(_keys(3))
    (path,) = tmp_path.iterdir()
    with path.open("r+b") as file:
        file.seek(40 + 7 * 4 + 20 + 16)
        file.write((1).to_bytes(4, "big"))
    assert index.find("t", "key 3") == [300]


def test_other_files_are_left_alone(make: _Make, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("not ours")
    index = make()
    index.load(trusted_ms=0)
    index.put(_keys(1))
    assert sorted(len(name) for name in os.listdir(tmp_path)) == [6, 17]


def test_the_first_key_takes_little_disk_space(tmp_path: Path) -> None:
    """RocketMQ's files have 420 MB; unused parts are holes."""
    with contextlib.closing(KeyIndex(Directory(str(tmp_path)), "", KeyIndexSize())) as index:
        index.put(_keys(1))
        (path,) = tmp_path.iterdir()
        assert path.stat().st_size > 400_000_000
        assert path.stat().st_blocks * 512 < 1 << 20
        index.put(_keys(*range(2, 5000)))
        assert [index.find("t", f"key {number}") for number in range(1, 5000, 99)] == [
            [100 * number] for number in range(1, 5000, 99)
        ]


@pytest.mark.parametrize("field", ["entry_count", "begin_offset", "end_offset"])
@pytest.mark.parametrize("value", [-1, 0, 1, 3, 12_345, 19_999_999, 2**31 - 1])
def test_a_header_that_contradicts_the_entries_is_unsound(tmp_path: Path, field: str, value: int) -> None:
    """A count beyond the end of the file would cost seconds and hundreds of megabytes."""
    with contextlib.closing(KeyIndex(Directory(str(tmp_path)), "", KeyIndexSize())) as index:
        index.put(_keys(*range(1, 9)))
        (file,) = index._files
        header = file.header | {field: value}
    (path,) = tmp_path.iterdir()
    overwrite(path, 0, KEY_INDEX_HEADER.pack(header))
    tracemalloc.start()
    try:
        with contextlib.closing(KeyIndex(Directory(str(tmp_path)), "", KeyIndexSize())) as index:
            assert index.load(trusted_ms=2**62) == 0  # its keys must be put again
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("newest", [9, 100, 2**31 - 1])
def test_repairing_slots_without_entries_is_bounded(tmp_path: Path, newest: int) -> None:
    with contextlib.closing(KeyIndex(Directory(str(tmp_path)), "", KeyIndexSize(slots=200_000, entries=1000))) as index:
        index.put(_keys(*range(1, 9)))
    (path,) = tmp_path.iterdir()
    overwrite(path, KEY_INDEX_HEADER.size, newest.to_bytes(4, "big") * 200_000)
    with contextlib.closing(KeyIndex(Directory(str(tmp_path)), "", KeyIndexSize(slots=200_000, entries=1000))) as index:
        assert index.load(trusted_ms=2**62) == _BEGIN_MS + 1000
    assert list(tmp_path.iterdir()) == []
