"""A fork while a store is open: whatever the child does, the parent loses nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import Pace
from binlog.commitlog.append.message import Message
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.store import MessageStore
from binlog.errors import StateError
from binlog.storage.mapping import shared_names
from tests.support.children import Child
from tests.support.waiting import until

_INDEX = KeyIndexSize(100, 1000)


def _refused(act: Callable[[], object]) -> None:
    with pytest.raises(StateError):
        act()


@pytest.mark.parametrize("flush", list(Flush))
def test_a_forked_child_that_leaves_the_block_closes_nothing(tmp_path: Path, flush: Flush) -> None:
    options = StoreOptions(file_bytes=1 << 16, key_index=_INDEX, flush=flush, commit_pace=Pace(60.0, 1000, 60.0))
    with MessageStore(tmp_path, options) as store:
        store.append(Message("t", bytes(40_000)))
        until(lambda: len(list((tmp_path / "commitlog").iterdir())) == 2)  # the next file, allocated in advance
        status = tmp_path.stat()
        prefix = f"binlog-pool-{status.st_dev:x}-{status.st_ino:x}-"
        names = shared_names(prefix)
        assert len(names) == (2 if flush is Flush.POOLED else 0)
        files = sorted((tmp_path / "commitlog").iterdir())
        Child(store.close).join()
        assert sorted((tmp_path / "commitlog").iterdir()) == files
        assert shared_names(prefix) == names
        for _ in range(60):
            store.append(Message("t", bytes(1000)))
    with MessageStore(tmp_path, options) as store:
        assert store.queue_range("t", 0) == range(61)


@pytest.mark.slow
def test_a_forked_child_does_not_overwrite_its_parents_appends(tmp_path: Path) -> None:
    options = StoreOptions(file_bytes=32 << 20, key_index=_INDEX)
    with MessageStore(tmp_path, options) as store:
        store.append(Message("t", b"first"))
        begin, go = os.pipe()
        # More than the zeros that had been written ahead of the appends before the fork.
        child = Child(lambda: os.read(begin, 1) and _refused(lambda: store.append(Message("t", bytes(4 << 20)))))
        bodies = [bytes([number]) * (1 << 20) for number in range(20)]
        for body in bodies:
            store.append(Message("t", body))
        os.write(go, b"!")
        child.join()
        until(lambda: store.queue_range("t", 0) == range(21))
        assert [message.body for message in store.pull("t", 0, 1, 100)] == bodies


def test_a_forked_child_creates_and_removes_no_files(tmp_path: Path) -> None:
    with MessageStore(tmp_path, StoreOptions(file_bytes=1 << 16, key_index=_INDEX)) as store:
        for act in (lambda: store.append(Message("t", b"")), store.remove_expired):
            Child(_refused, act).join()
        assert list((tmp_path / "commitlog").iterdir()) == []
