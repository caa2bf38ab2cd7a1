from __future__ import annotations

import asyncio
import os
import struct
import threading
import time
from pathlib import Path

import pytest

from binlog.storage.waiting.bell_watcher import kernel_word, watch
from binlog.storage.waiting.doorbell import Doorbell


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(256))
    return path


def _ring(path: Path, value: int) -> None:
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, struct.pack(">I", value), 128)
    bell = Doorbell(fd, 128)
    bell.wake()
    bell.close()
    os.close(fd)


def _waiting(path: Path, results: list[int], seen: int = 0) -> threading.Thread:
    def wait() -> None:
        fd = os.open(path, os.O_RDONLY)
        bell = Doorbell(fd, 128)
        deadline = time.monotonic() + 30
        while bell.value() == seen and time.monotonic() < deadline:
            bell.wait(seen, 30)
        results.append(bell.value())
        bell.close()
        os.close(fd)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_waiter_with_a_read_only_descriptor_is_woken(path: Path) -> None:
    results: list[int] = []
    threads = [_waiting(path, results) for _ in range(5)]
    _ring(path, 0x01020304)
    for thread in threads:
        thread.join()
    assert results == [0x01020304] * 5


def test_a_wait_for_an_old_value_returns_at_once(path: Path) -> None:
    _ring(path, 7)
    fd = os.open(path, os.O_RDONLY)
    bell = Doorbell(fd, 128)
    before = time.monotonic()
    bell.wait(6, 30)
    assert time.monotonic() - before < 20
    bell.close()
    os.close(fd)


def test_a_truncated_file_ends_the_wait_and_not_the_process(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    bell = Doorbell(fd, 128)
    os.truncate(path, 0)
    bell.wait(0, 30)
    assert not bell.is_mapped
    assert bell.value() == 0
    bell.close()
    os.close(fd)


def test_without_a_futex_waiting_polls(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    bell = Doorbell(fd, 128)
    bell.is_mapped = False
    before = time.monotonic()
    for _ in range(3):
        bell.wait(0, 30)
    assert time.monotonic() - before < 20
    bell.close()
    os.close(fd)


def test_a_forked_child_waits_and_wakes_through_a_mapping_of_its_own(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    bell = Doorbell(fd, 128)
    child = os.fork()
    if child == 0:
        while bell.value() == 0:
            bell.wait(0, 30)
        os._exit(bell.value())
    _ring(path, 9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    bell.close()
    os.close(fd)


def test_the_kernel_compares_the_word_in_memory_order() -> None:
    assert struct.pack("=I", kernel_word(0x01020304)) == b"\1\2\3\4"


def test_one_thread_waits_for_many_coroutines_and_then_ends(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    bells = [Doorbell(fd, 128) for _ in range(200)]

    async def main() -> None:
        waits = [asyncio.create_task(watch(bell, 0, 30)) for bell in bells]
        await asyncio.sleep(0)
        assert [thread.name for thread in threading.enumerate()].count("binlog-bells") == 1
        _ring(path, 1)
        await asyncio.gather(*waits)

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name == "binlog-bells":
            thread.join(30)
            assert not thread.is_alive()
    for bell in bells:
        bell.close()
    os.close(fd)


def test_a_cancelled_wait_delays_no_other(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    bell = Doorbell(fd, 128)

    async def main() -> None:
        cancelled = asyncio.create_task(watch(bell, 0, 30))
        await asyncio.sleep(0)
        cancelled.cancel()
        await watch(bell, 0, 0.05)

    asyncio.run(main())
    bell.close()
    os.close(fd)
