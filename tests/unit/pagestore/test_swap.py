from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from binlog.errors import BusyError, ClosedError, CorruptError, NotFoundError
from binlog.format.pagestore.other_files import is_swap_name, swap_name
from binlog.pagestore import SwapAddress, SwapStore
from tests.support.threads import at_once


def _files(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if name.endswith(".swap"))


def test_a_swapped_message_has_swiftmq_layout(tmp_path: Path) -> None:
    with SwapStore(tmp_path) as store:
        assert store.add("orders", b"hello", delivery_count=2)[:3] == (1, 0, 5)
        address = store.add("orders", b"", delivery_count=0)
        assert address[:3] == (1, 13, 0)
        data = (tmp_path / "orders-1.swap").read_bytes()
        assert data == bytes.fromhex("00000005 00000002 68656c6c6f 00000000 00000000")


def test_a_swap_file_is_removed_with_its_last_message(tmp_path: Path) -> None:
    with SwapStore(tmp_path, roll_bytes=100) as store:
        addresses = [store.add("orders", b"%d" % number * 30) for number in range(10)]
        assert [address.file_number for address in addresses] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
        for number, address in enumerate(addresses):
            assert store.get(address) == (b"%d" % number * 30, 0)
        store.set_delivery_count(addresses[4], 7)
        assert store.get(addresses[4]) == (b"4" * 30, 7)
        for number in (3, 5, 4, 9):
            store.remove(addresses[number])
        assert _files(tmp_path) == ["orders-1.swap", "orders-3.swap"]
        for gone in (addresses[4], addresses[9], SwapAddress(1, 5, 0, 0)):
            for call in (store.get, store.remove):
                with pytest.raises(NotFoundError):
                    call(gone)
        assert store.get(store.add("orders", b"more")).body == b"more"
    assert _files(tmp_path) == []


def test_each_queue_has_its_own_files_for_any_name(tmp_path: Path) -> None:
    names = ["orders", "a/b", "../up", "ä", "x" * 1000, "x" * 1000 + "y", "-1", ".", "a-1.swap", "\n"]
    with SwapStore(tmp_path / "swap") as store:
        addresses = [store.add(name, name.encode()) for name in names]
        assert [store.get(address).body for address in addresses] == [name.encode() for name in names]
        assert len(_files(tmp_path / "swap")) == len(names)
        assert all(map(is_swap_name, _files(tmp_path / "swap")))
    assert os.listdir(tmp_path) == ["swap"]
    assert (swap_name("orders", 1000), swap_name("a/b", 1)) == ("orders-1000.swap", "a%2Fb-1.swap")


def test_swap_files_of_a_dead_process_are_removed(tmp_path: Path) -> None:
    for name in ("orders-1.swap", "orders.swap", "mine.txt"):
        (tmp_path / name).write_bytes(b"left")
    with SwapStore(tmp_path) as store:
        assert sorted(os.listdir(tmp_path)) == ["mine.txt", "orders.swap", "swap.lock"]
        with pytest.raises(BusyError):
            SwapStore(tmp_path)
        store.add("orders", b"")
    store.close()
    with pytest.raises(ClosedError):
        store.add("orders", b"")


def test_a_damaged_swapped_message_is_reported(tmp_path: Path) -> None:
    with SwapStore(tmp_path) as store:
        address = store.add("orders", b"hello")
        with (tmp_path / "orders-1.swap").open("r+b") as file:
            file.seek(10)
            file.write(b"X")
        with pytest.raises(CorruptError):
            store.get(address)
        (tmp_path / "orders-1.swap").write_bytes(b"")
        with pytest.raises(CorruptError):
            store.get(address)


def test_threads_share_a_swap_store(tmp_path: Path) -> None:
    with SwapStore(tmp_path, roll_bytes=500) as store:

        def work(part: int) -> None:
            for number in range(100):
                body = b"%d:%d" % (part, number)
                address = store.add(f"queue-{part % 2}", body)
                assert store.get(address).body == body
                store.remove(address)

        at_once(*(partial(work, part) for part in range(4)))
        assert len(_files(tmp_path)) <= 2
