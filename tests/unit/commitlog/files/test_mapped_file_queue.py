from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.commitlog.files.mapped_file import PAGE_BYTES
from binlog.commitlog.files.mapped_file_queue import MappedFileQueue
from binlog.errors import CorruptError
from binlog.format.commitlog.names import mapped_file_name
from tests.support.threads import at_once

_FILE_BYTES = 4 * PAGE_BYTES


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[MappedFileQueue]:
    made = MappedFileQueue(str(tmp_path), _FILE_BYTES)
    yield made
    made.close()


def _fill(queue: MappedFileQueue, count: int, *, offset: int = 0) -> None:
    """Create full files."""
    for number in range(count):
        assert queue.last_file(offset).append(bytes((number + 1,)) * _FILE_BYTES)


def _names(path: Path) -> list[int]:
    return sorted(int(name) // _FILE_BYTES for name in os.listdir(path))


def test_a_queue_without_files_is_empty(queue: MappedFileQueue) -> None:
    queue.load()
    assert (queue.files, queue.min_offset, queue.max_offset, queue.wrote_where) == ((), 0, 0, 0)
    assert queue.find(0) is None
    assert queue.find(0, first_if_below=True) is None
    assert queue.find_by_time(0) is None
    assert not queue.flush()
    assert not queue.commit()


def test_find_returns_the_file_that_holds_an_offset(queue: MappedFileQueue) -> None:
    """Scenario: look up the first, the last, and invalid offsets."""
    _fill(queue, 5, offset=2 * _FILE_BYTES + 17)
    first, last = queue.files[0], queue.files[-1]
    assert first.offset == 2 * _FILE_BYTES
    for offset in range(first.offset, last.end, PAGE_BYTES // 2):
        found = queue.find(offset)
        assert found is not None
        assert found.offset <= offset < found.end
    assert queue.find(last.end) is None
    assert queue.find(last.end, first_if_below=True) is None
    assert queue.find(first.offset - 1) is None
    assert queue.find(first.offset - 1, first_if_below=True) is first


def test_find_is_correct_if_a_file_is_missing(tmp_path: Path) -> None:
    """The computed index is verified; if it is wrong, all files are searched."""
    before = MappedFileQueue(str(tmp_path), _FILE_BYTES)
    _fill(before, 5)
    before.close()
    (tmp_path / f"{_FILE_BYTES:020d}").unlink()
    queue = MappedFileQueue(str(tmp_path), _FILE_BYTES)
    queue.load()
    assert [file.offset // _FILE_BYTES for file in queue] == [0, 2, 3, 4]
    assert queue.find(_FILE_BYTES) is None
    for number in (0, 2, 3, 4):
        found = queue.find(number * _FILE_BYTES + 5)
        assert found is not None
        assert found.read(1, 0) == bytes((number + 1,))
    queue.close()


def test_find_is_correct_if_offsets_are_irregular(queue: MappedFileQueue) -> None:
    _fill(queue, 6)
    first, second, third, fourth, fifth, last = queue.files
    queue._files = (first, fourth, third, fifth, second, last)
    for number in range(6):
        for offset in (0, 1, _FILE_BYTES - 1):
            found = queue.find(number * _FILE_BYTES + offset)
            assert found is not None
            assert found.read(1, 0) == bytes((number + 1,))


def test_files_are_loaded_in_the_order_of_their_offsets(tmp_path: Path, queue: MappedFileQueue) -> None:
    """A folder lists them in any order."""
    for number in (3, 0, 5, 1, 4, 2):
        (tmp_path / f"{number * _FILE_BYTES:020d}").write_bytes(bytes(_FILE_BYTES))
    queue.load()
    assert [file.offset // _FILE_BYTES for file in queue] == [0, 1, 2, 3, 4, 5]


def test_a_flush_handles_one_file_a_call(queue: MappedFileQueue) -> None:
    _fill(queue, 3)
    queue.last_file().append(b"x")
    moved = []
    while queue.flush(0):
        moved.append(queue.flushed_where)
    assert moved == [_FILE_BYTES, 2 * _FILE_BYTES, 3 * _FILE_BYTES, 3 * _FILE_BYTES + 1]
    assert not queue.flush(0)


def test_a_queue_that_starts_later_is_flushed_from_its_start(queue: MappedFileQueue) -> None:
    _fill(queue, 1, offset=7 * _FILE_BYTES)
    assert queue.flushed_where == 7 * _FILE_BYTES
    assert queue.flush()
    assert queue.flushed_where == 8 * _FILE_BYTES


def test_loaded_files_count_as_full(tmp_path: Path, queue: MappedFileQueue) -> None:
    _fill(queue, 2)
    queue.last_file().append(b"x")
    (tmp_path / "README").write_text("not ours")
    again = MappedFileQueue(str(tmp_path), _FILE_BYTES)
    again.load()
    assert (len(again.files), again.max_offset, again.flushed_where) == (3, 3 * _FILE_BYTES, 3 * _FILE_BYTES)
    again.close()


@pytest.mark.parametrize(
    ("sizes", "fails"), [((0,), False), ((_FILE_BYTES, 0), False), ((0, _FILE_BYTES), True), ((5,), True)]
)
def test_an_empty_last_file_is_removed_and_another_size_is_refused(
    sizes: tuple[int, ...], fails: bool, tmp_path: Path, queue: MappedFileQueue
) -> None:
    for number, size in enumerate(sizes):
        (tmp_path / f"{number * _FILE_BYTES:020d}").write_bytes(bytes(size))
    if fails:
        with pytest.raises(CorruptError, match=f"not {_FILE_BYTES}"):
            queue.load()
        assert len(os.listdir(tmp_path)) == len(sizes)
    else:
        queue.load()
        assert [file.offset for file in queue] == [0][: len(sizes) - 1]
        assert len(os.listdir(tmp_path)) == len(sizes) - 1


def test_truncating_erases_and_removes_everything_after(tmp_path: Path, queue: MappedFileQueue) -> None:
    _fill(queue, 4)
    queue.truncate(_FILE_BYTES + 100)
    assert _names(tmp_path) == [0, 1]
    assert (queue.max_offset, queue.flushed_where, queue.committed_where) == (_FILE_BYTES + 100,) * 3
    assert (tmp_path / f"{_FILE_BYTES:020d}").read_bytes() == b"\2" * 100 + bytes(_FILE_BYTES - 100)
    queue.last_file().append(b"new")
    assert queue.max_offset == _FILE_BYTES + 103
    queue.truncate(0)
    assert _names(tmp_path) == [0]
    assert (tmp_path / f"{0:020d}").read_bytes() == bytes(_FILE_BYTES)


def test_only_leading_old_files_are_removed(tmp_path: Path, queue: MappedFileQueue) -> None:
    """Five of fifty files are old.  Later old files stay, because a newer file is before them."""
    _fill(queue, 50)
    old = {0, 1, 2, 3, 4, 10, 20}
    now = time.time()
    for number in old:
        os.utime(tmp_path / f"{number * _FILE_BYTES:020d}", (now - 1000, now - 1000))
    assert queue.remove_first(lambda file: file.modified < now - 500, 10) == 5
    assert _names(tmp_path) == list(range(5, 50))
    assert queue.min_offset == 5 * _FILE_BYTES


def test_a_run_removes_a_limited_number_of_files_and_never_the_last(tmp_path: Path, queue: MappedFileQueue) -> None:
    _fill(queue, 6)
    assert queue.remove_first(lambda file: True, 2) == 2
    assert _names(tmp_path) == [2, 3, 4, 5]
    assert queue.remove_first(lambda file: True, 10) == 3
    assert _names(tmp_path) == [5]


def test_a_file_is_found_by_modification_time(tmp_path: Path, queue: MappedFileQueue) -> None:
    _fill(queue, 3)
    for number in range(3):
        os.utime(tmp_path / f"{number * _FILE_BYTES:020d}", (1000 * number, 1000 * number))
    found = [queue.find_by_time(seconds) for seconds in (0, 1, 1000, 1001, 9999)]
    assert [queue.files.index(file) for file in found if file] == [0, 1, 1, 2, 2]


def test_the_next_file_is_allocated_once_the_last_one_is_half_full(tmp_path: Path) -> None:
    queue = MappedFileQueue(str(tmp_path), _FILE_BYTES)
    queue.allocate_next()
    assert list(tmp_path.iterdir()) == []
    file = queue.last_file()
    file.append(bytes(_FILE_BYTES // 2 - 1))
    queue.allocate_next()
    assert len(list(tmp_path.iterdir())) == 1
    file.append(b"1")
    for _ in range(2):
        queue.allocate_next()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [mapped_file_name(0), mapped_file_name(_FILE_BYTES)]
    # it is not visible until the one before it is full
    assert [each.offset for each in queue] == [0]
    assert queue.last_file() is file
    file.append(bytes(_FILE_BYTES // 2))
    assert queue.last_file().offset == _FILE_BYTES
    assert [each.offset for each in queue] == [0, _FILE_BYTES]
    queue.last_file().append(bytes(_FILE_BYTES - 1))
    queue.allocate_next()
    queue.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_an_append_waits_while_the_next_file_is_allocated(tmp_path: Path) -> None:
    queue = MappedFileQueue(str(tmp_path), _FILE_BYTES)
    for _ in range(50):
        queue.last_file().append(bytes(_FILE_BYTES))
        at_once(*[queue.allocate_next] * 3, queue.last_file)
    assert [file.offset for file in queue] == [number * _FILE_BYTES for number in range(51)]
    queue.close()
    assert len(list(tmp_path.iterdir())) == 51
