from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlog.commitlog.indexes.consume_queue import ConsumeQueue
from binlog.errors import CorruptError
from binlog.format.commitlog.indexes import BLANK_UNIT, QueueUnit, parse_units
from binlog.storage.file_pool import FilePool

_UNITS_IN_FILE = 300
_BYTES = 100  # size of each message in the commit log


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], ConsumeQueue]]:
    made: list[ConsumeQueue] = []

    def new() -> ConsumeQueue:
        made.append(ConsumeQueue(FilePool.of(tmp_path), "", _UNITS_IN_FILE))
        return made[-1]

    yield new
    for queue in made:
        queue.close()


_Make = Callable[[], ConsumeQueue]


def _unit(index: int) -> QueueUnit:
    return QueueUnit(index * _BYTES, _BYTES, index)


def _put(queue: ConsumeQueue, start: int, stop: int) -> None:
    queue.put(start, b"".join(_unit(index).pack() for index in range(start, stop)))


def _again(queue: ConsumeQueue, make: _Make) -> ConsumeQueue:
    queue.close()
    again = make()
    again.load()
    assert again.recover() == (queue.max_index * _BYTES if queue.max_index else 0)
    again.correct_min_index(0)
    return again


def test_units_are_read_as_they_were_put_across_files(make: _Make) -> None:
    queue = make()
    for index in range(0, 700, 70):
        _put(queue, index, index + 70)
    assert (queue.min_index, queue.max_index, len(queue.files.files)) == (0, 700, 3)
    assert list(parse_units(queue.read(290, 20))) == [_unit(index) for index in range(290, 310)]
    assert list(parse_units(queue.read(0, 10_000))) == [_unit(index) for index in range(700)]
    assert queue.unit(699) == _unit(699)
    for index in (-1, 700, 10**9):
        assert queue.unit(index) is None
        assert queue.read(index, 5) == b""


def test_an_empty_queue_has_no_units(make: _Make) -> None:
    queue = make()
    queue.load()
    assert (queue.recover(), queue.min_index, queue.max_index, queue.unit(0)) == (0, 0, 0, None)
    assert queue.find_by_time(5, lambda unit: 0) == 0
    queue.correct_min_index(100)
    queue.truncate(0)
    assert queue.remove_files(100) == 0


def test_units_put_twice_stay_unchanged(make: _Make) -> None:
    queue = make()
    _put(queue, 0, 10)
    queue.put(3, b"".join(QueueUnit(7, 7, 7).pack() for _ in range(5)))
    queue.put(8, b"".join(unit.pack() for unit in (QueueUnit(7, 7, 7), QueueUnit(7, 7, 7), _unit(10))))
    assert list(parse_units(queue.read(0, 100))) == [_unit(index) for index in range(11)]


def test_a_gap_is_refused(make: _Make) -> None:
    queue = make()
    _put(queue, 0, 10)
    with pytest.raises(CorruptError, match="the next unit must be 10, not 11"):
        _put(queue, 11, 12)
    assert queue.max_index == 10


@pytest.mark.parametrize("first", [100, 299, 300, 5000])
def test_a_queue_that_starts_later_has_blank_units_first(make: _Make, first: int) -> None:
    queue = make()
    _put(queue, first, first + 5)
    start = first - first % _UNITS_IN_FILE
    assert queue.files.min_offset == start * 20
    assert list(parse_units(queue.read(start, first - start))) == [BLANK_UNIT] * (first - start)
    assert (queue.min_index, queue.max_index) == (first, first + 5)
    again = _again(queue, make)
    assert (again.min_index, again.max_index) == (first, first + 5)
    assert again.unit(first) == _unit(first)


def test_recovery_ends_a_queue_after_its_last_unit(make: _Make) -> None:
    queue = make()
    _put(queue, 0, 1250)
    again = _again(queue, make)
    assert (again.max_index, again.min_index) == (1250, 0)
    _put(again, 1250, 1260)
    assert again.max_index == 1260


@pytest.mark.parametrize("unit", [QueueUnit(-1, 5, 0), QueueUnit(5, 0, 0), QueueUnit(5, -5, 0)])
def test_recovery_stops_at_an_invalid_unit(make: _Make, tmp_path: Path, unit: QueueUnit) -> None:
    queue = make()
    _put(queue, 0, 400)
    queue.close()
    with (tmp_path / f"{_UNITS_IN_FILE * 20:020d}").open("r+b") as file:
        file.seek(50 * 20)
        file.write(unit.pack())
    again = make()
    again.load()
    assert again.recover() == 350 * _BYTES
    assert again.max_index == 350


@pytest.mark.parametrize("log_end", [0, 1, _BYTES, 349 * _BYTES + 1, 350 * _BYTES, 400 * _BYTES, 10**9])
def test_a_queue_is_truncated_to_the_end_of_the_log(make: _Make, log_end: int) -> None:
    queue = make()
    _put(queue, 0, 400)
    queue.truncate(log_end)
    assert queue.max_index == min(log_end // _BYTES, 400)
    _put(queue, queue.max_index, 450)
    assert list(parse_units(queue.read(0, 1000))) == [_unit(index) for index in range(450)]


@pytest.mark.parametrize("first", [0, 100])
def test_a_queue_starts_with_the_first_message_in_the_log(make: _Make, first: int) -> None:
    queue = make()
    _put(queue, first, 1000)
    for log_start in (0, first * _BYTES, 250 * _BYTES - 1, 250 * _BYTES, 999 * _BYTES, 1000 * _BYTES):
        queue.correct_min_index(log_start)
        assert queue.min_index == max(first, -(-log_start // _BYTES))


def test_files_without_messages_are_removed(make: _Make) -> None:
    queue = make()
    _put(queue, 0, 1000)
    assert queue.remove_files(650 * _BYTES) == 0  # flushing has not finished with them
    while queue.files.flush():
        pass
    assert queue.remove_files(299 * _BYTES) == 0
    assert queue.remove_files(650 * _BYTES) == 2
    assert (queue.min_index, queue.unit(599), queue.unit(650)) == (650, None, _unit(650))
    assert queue.remove_files(10**9) == 1  # the last file stays
    assert (queue.min_index, queue.max_index) == (1000, 1000)


def test_a_message_is_found_by_store_time(make: _Make) -> None:
    """Around the time of each message; and long before and after all of them, where the first and the last are
    found."""
    queue = make()
    _put(queue, 0, 500)

    def stored(unit: QueueUnit) -> int:
        return 1_000_000 + 10 * unit.tag_code

    for index in (0, 1, 299, 300, 499):
        when = 1_000_000 + 10 * index
        found = [queue.find_by_time(when + skew, stored) for skew in (-2, 0, 2)]
        assert found == [index, index, min(index + 1, 499)]
    assert queue.find_by_time(1_000_000 - 20_000, stored) == 0
    assert queue.find_by_time(1_005_000 + 20_000, stored) == 499
