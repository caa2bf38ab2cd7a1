"""Units that their owner is writing while another process reads the queue."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.options import StoreOptions
from binlog.commitlog.read.queue_reader import QueueReader
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.store import MessageStore
from binlog.format.commitlog.indexes import UNIT_BYTES, QueueUnit
from binlog.format.commitlog.names import QUEUES_FOLDER, mapped_file_name
from binlog.format.commitlog.store_files import SIDECAR_FILE

_OPTIONS = StoreOptions(file_bytes=1 << 16, units_in_file=50)
_COUNT = 20
_SIZE = 200


def _write_unit(store: Path, index: int, unit: QueueUnit) -> None:
    path = store / QUEUES_FOLDER / "t" / "0" / mapped_file_name(0)
    fd = os.open(path, os.O_WRONLY)
    os.pwrite(fd, unit.pack(), index * UNIT_BYTES)
    os.close(fd)


@pytest.mark.parametrize("published", [True, False])
def test_a_unit_that_is_half_written_is_not_read(tmp_path: Path, published: bool) -> None:
    """Of the next unit, the size is written and the offset is still zero, so it leads to the first message.

    published: the owner publishes the end of the log, as RocketMQ does not.
    """
    with MessageStore(tmp_path, _OPTIONS) as store:
        store._dispatcher.service.stop()  # two threads that dispatch would get in each other's way
        for number in range(_COUNT):
            store.append(Message("t", b"%d" % number))
        store._dispatcher.run()
        if not published:
            (tmp_path / SIDECAR_FILE).unlink()
        with StoreReader(tmp_path) as reader:
            assert len(reader.pull("t", 0, 0, 2 * _COUNT)[0]) == _COUNT
            first = reader._queue("t", 0).unit(0)
            _write_unit(tmp_path, _COUNT, first)
            for _ in range(2):
                assert reader.queue_range("t", 0) == range(_COUNT)
                assert reader.pull("t", 0, _COUNT, 5) == ([], _COUNT)
                assert len(reader.pull("t", 0, 0, 2 * _COUNT)[0]) == _COUNT
            store.append(Message("t", b"next"))
            store._dispatcher.run()
            # Also where this unit was the last one that the reader knew as half written.
            assert reader.queue_range("t", 0) == range(_COUNT + 1)
            assert [message.body for message in reader.pull("t", 0, _COUNT, 5)[0]] == [b"next"]


def test_a_half_written_unit_that_leads_to_a_removed_message_is_not_read(tmp_path: Path) -> None:
    units = [QueueUnit(_SIZE * (index + 10), _SIZE, 0) for index in range(_COUNT)]
    log_start = units[5].offset
    half_written = QueueUnit(0, _SIZE, 0)
    (tmp_path / mapped_file_name(0)).write_bytes(b"".join(unit.pack() for unit in [*units, half_written]))
    reader = QueueReader(str(tmp_path), lambda unit: unit.message_bytes > 0, lambda index, unit: True)
    assert reader.indexes(log_start) == range(5, _COUNT)
    assert reader.indexes(units[-1].offset + 1) == range(_COUNT, _COUNT)
    assert reader.units(_COUNT, 5) == []
    assert reader.units(0, 2 * _COUNT) == units
    reader.close()


def test_units_that_take_the_place_of_old_ones_are_read_at_once(tmp_path: Path) -> None:
    """RocketMQ cuts a damaged end off its log, and leaves the units of these messages until it needs their places."""
    units = [QueueUnit(_SIZE * index, _SIZE, 0) for index in range(_COUNT)]
    path = tmp_path / mapped_file_name(0)
    path.write_bytes(b"".join(unit.pack() for unit in units))
    whole = set(units[:10])
    reader = QueueReader(str(tmp_path), lambda unit: unit.message_bytes > 0, lambda index, unit: unit in whole)
    assert reader.indexes(0) == range(10)
    new = QueueUnit(units[10].offset, _SIZE + 1, 0)
    whole.add(new)
    data = bytearray(path.read_bytes())
    data[10 * UNIT_BYTES : 11 * UNIT_BYTES] = new.pack()
    path.write_bytes(data)
    assert reader.indexes(0) == range(11)
    assert reader.units(10, 5) == [new]
    reader.close()
