"""Files that are removed, unmapped or cut while others read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import Pace
from binlog.commitlog.append.message import Message
from binlog.commitlog.files.mapped_file_queue import MappedFileQueue
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.errors import GoneError
from tests.support.waiting import until_dispatched

_FILE_BYTES = 1 << 14
_READERS = 2
# A run removes all files but the last one, and only when the test asks for it.
_RETENTION = Retention(
    hours=0, at_hour=None, expire_ratio=2, force_ratio=2, full_ratio=2, files_max=3, seconds=3600, pause_seconds=0
)  # fmt: skip
# files that are not flushed stay
_OPTIONS = StoreOptions(
    file_bytes=_FILE_BYTES,
    units_in_file=10,
    flush=Flush.ASYNC,
    flush_pace=Pace(0.002, 0, 0.002),
    key_index=KeyIndexSize(50, 40),
    retention=_RETENTION,
)


@contextmanager
def _readers(work: Callable[[], int]) -> Iterator[None]:
    """Run threads that read repeatedly until the body ends; none may fail, and each must have read something."""
    done = threading.Event()

    def read() -> int:
        count = 0
        while not done.is_set() or count == 0:
            count += work()
        return count

    with ThreadPoolExecutor(_READERS) as pool:
        reads = [pool.submit(read) for _ in range(_READERS)]
        try:
            yield
        finally:
            done.set()
        assert all(each.result() for each in reads)


@pytest.mark.slow
def test_readers_continue_while_files_are_removed(tmp_path: Path) -> None:
    """Each message is whole and in queue order; removed messages are skipped."""
    with MessageStore(tmp_path, _OPTIONS) as store:

        def append(number: int) -> None:
            store.append(Message.of("t", b"%d " % number + bytes(1000), keys=["same", f"k{number}"]))

        def read() -> int:
            found = store.pull("t", 0, 0, 100)
            assert [int(message.body.split()[0]) for message in found] == [message.queue_offset for message in found]
            assert sorted(message.offset for message in found) == [message.offset for message in found]
            assert all(message.topic == "t" for message in store.find("t", "same"))
            store.find_by_time("t", 0, 0)
            return len(found)

        append(0)
        with _readers(read):
            removed = 0
            for number in range(1, 200):
                append(number)
                if number % 20 == 0:
                    until_dispatched(store)
                    removed += store.remove_expired()
        assert removed > 5
        assert len(store.queue_range("t", 0)) < 200


@pytest.mark.slow
def test_a_found_file_is_read_or_raises_gone_error(tmp_path: Path) -> None:
    """The bytes of a file are those that were written, until the read raises GoneError."""
    queue = MappedFileQueue(str(tmp_path), _FILE_BYTES)

    def fill(number: int) -> None:
        assert queue.last_file().append(bytes((number % 251 + 1,)) * _FILE_BYTES)

    def read() -> int:
        count = 0
        for file in queue.files:
            try:
                data = file.read(_FILE_BYTES, 0)
            except GoneError:
                continue
            assert len(set(data)) <= 2  # zeros after the written bytes, during a write or a cut
            count += 1
        return count

    fill(0)
    with _readers(read):
        for number in range(1, 110):
            fill(number)
            if number % 3 == 0:
                assert queue.remove_first(lambda file: True, 2) <= 2
            if number % 50 == 0:
                queue.truncate(queue.max_offset - _FILE_BYTES // 2)
                assert queue.last_file().append(bytes((number % 251 + 1,)) * (_FILE_BYTES // 2))
    queue.close()
