from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import StoreOptions
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.errors import AccessError, FullError, NotFoundError
from tests.support.waiting import until, until_dispatched

_FILE_BYTES = 1 << 14
_HOUR = 12
# retention does not run automatically, and no disk is full enough
_NEVER = Retention(at_hour=(_HOUR + 12) % 24, expire_ratio=2, force_ratio=2, full_ratio=2, pause_seconds=0.001)
_OPTIONS = StoreOptions(
    file_bytes=_FILE_BYTES, units_in_file=20, key_index=KeyIndexSize(100, 50), retention=_NEVER
)  # fmt: skip


@pytest.fixture(autouse=True)
def _half_past_twelve(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Return a time zone with this hour, so that the hour does not end during a test."""
    now = time.gmtime()
    west = now.tm_hour * 60 + now.tm_min - (_HOUR * 60 + 30)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", f"BINLOG{'-' if west < 0 else '+'}{abs(west) // 60}:{abs(west) % 60:02d}")
        time.tzset()
        yield
    time.tzset()


def _options(**changes: object) -> StoreOptions:
    return dataclasses.replace(_OPTIONS, retention=dataclasses.replace(_NEVER, **changes))  # type: ignore[arg-type]


def _fill(store: MessageStore, files: int) -> int:
    """Append messages that fill these files and start the next; return their number."""
    count = 0
    while len(store._log.files.files) <= files:
        store.append(Message.of("t", bytes(2000), keys=[f"k{count}"]))
        count += 1
    until_dispatched(store)
    return count


def _numbers(path: Path) -> list[int]:
    return sorted(int(name) // _FILE_BYTES for name in os.listdir(path / "commitlog"))


def _age(path: Path, numbers: range, hours: float) -> None:
    then = time.time() - 3600 * hours
    for number in numbers:
        os.utime(path / "commitlog" / f"{number * _FILE_BYTES:020d}", (then, then))


def test_a_run_removes_ten_files_and_their_index_files(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        count = _fill(store, 15)
        _age(tmp_path, range(13), 73)
        assert store.remove_expired() == 10
        assert _numbers(tmp_path) == list(range(10, 16))
        there = store.queue_range("t", 0)
        assert there.stop == count
        assert store.pull("t", 0, there.start, 1)[0].offset == 10 * _FILE_BYTES
        assert store.pull("t", 0, 0, 1)[0].offset == 10 * _FILE_BYTES
        assert store.find("t", "k0") == []
        assert store.find("t", f"k{there.start}")[0].offset == 10 * _FILE_BYTES
        with pytest.raises(NotFoundError):
            store.read(0)
        with StoreReader(tmp_path) as reader:
            assert reader.queue_range("t", 0) == there
            found, after = reader.pull("t", 0, 0, 3)
            assert (found[0].offset, after) == (10 * _FILE_BYTES, there.start + 3)
        assert store.remove_expired() == 3
        assert store.remove_expired() == 0
        there = store.queue_range("t", 0)
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.queue_range("t", 0) == there
        assert store.pull("t", 0, 0, 1)[0].offset == 13 * _FILE_BYTES


def test_the_disk_usage_excludes_reserved_blocks(tmp_path: Path) -> None:
    """As in df(1) and RocketMQ: reserved blocks do not make a disk full."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        usage = shutil.disk_usage(tmp_path)
        assert store._cleaner._ratio() == pytest.approx(usage.used / (usage.used + usage.free), abs=0.01)


def test_files_that_were_not_dispatched_stay(tmp_path: Path) -> None:
    """Otherwise messages would be removed before a consumer could see them."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 3)
        dispatched = store._dispatcher.offset
        (tmp_path / "consumequeue" / "u").write_text("where a folder should be")
        store.append(Message("u", b"first"))
        until(lambda: store._dispatcher.service.failure is not None)
        for _ in range(30):
            store._log.append([Message("u", bytes(2000))])
        _age(tmp_path, range(6), 100)
        assert store.remove_expired() == 3
        assert store._log.files.min_offset <= dispatched < store._log.files.min_offset + _FILE_BYTES
        (tmp_path / "consumequeue" / "u").unlink()
        with pytest.raises(AccessError):
            store.close()
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.queue_range("u", 0) == range(31)


def test_recently_written_files_stay(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 5)
        assert store.remove_expired() == 0
        _age(tmp_path, range(2, 4), 100)  # not the first ones
        assert store.remove_expired() == 0
        assert _numbers(tmp_path) == list(range(6))


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"at_hour": _HOUR}, 3),
        ({"at_hour": None}, 3),
        ({"expire_ratio": 0.0}, 3),
        ({"force_ratio": 0.0}, 6),  # the force ratio alone starts no run before the hour
        ({"expire_ratio": 0.0, "force_ratio": 0.0}, 1),
        ({}, 6),
    ],
)
def test_automatic_removal_depends_on_the_hour_and_the_disk_usage(
    tmp_path: Path, changes: dict[str, object], left: int
) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 5)
        _age(tmp_path, range(3), 73)
    # opening a file for writing does not change its modification time
    with MessageStore(tmp_path, _options(seconds=0.01, **changes)) as store:
        until(lambda: len(_numbers(tmp_path)) == left)
        assert store._cleaner.run(manual=False) == 0
        assert len(_numbers(tmp_path)) == left


def test_a_nearly_full_disk_refuses_appends(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _options(full_ratio=0.0)) as store:
        store._cleaner.run(manual=False)
        with pytest.raises(FullError, match="% of the disk is in use"):
            store.append(Message("t", b""))
        store._cleaner._retention = _NEVER  # as if space had been freed
        store._cleaner.run(manual=False)
        store.append(Message("t", b""))
