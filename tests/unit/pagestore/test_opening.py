"""Opening a page store: ownership, and refused stores."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from binlog.errors import AccessError, BusyError, ClosedError, CorruptError, NotFoundError, StateError
from binlog.pagestore import PageStore, check_page_store, stat_page_store
from tests.support.children import Child, run_script
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.pagestores import QUEUE, SMALL, drain, page_store, peek, put


@pytest.mark.slow
def test_a_store_has_one_owner(tmp_path: Path) -> None:
    script = "import sys; from binlog.pagestore import PageStore; PageStore(sys.argv[1])"
    with page_store(tmp_path) as store:
        with pytest.raises(BusyError, match="this process"):
            PageStore(tmp_path)
        assert f"belongs to process {os.getpid()}" in run_script(script, tmp_path).stderr
        put(store, b"one")
    with PageStore(tmp_path, SMALL) as store:
        assert drain(store) == [b"one"]


def test_a_closed_store_refuses_every_call(tmp_path: Path) -> None:
    store = PageStore(tmp_path, SMALL)
    store.create_queue(QUEUE)
    transaction = store.transaction()
    store.close()
    store.close()
    for call in (
        lambda: store.create_queue("another"),
        lambda: store.delete_queue(QUEUE),
        lambda: store.waiting_count(QUEUE),
        store.transaction,
        store.checkpoint,
        lambda: transaction.put(QUEUE, b""),
        lambda: transaction.get(QUEUE),
        transaction.commit,
        transaction.rollback,
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_forked_child_cannot_use_its_parents_store(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:

        def use_it() -> None:
            with pytest.raises(StateError):
                store.transaction()
            store.close()

        Child(use_it).join()
        put(store, b"one")
        assert peek(store) == [b"one"]


def test_no_descriptor_or_thread_is_left(tmp_path: Path) -> None:
    import threading

    with page_store(tmp_path):
        pass
    before = descriptors_before()
    for _ in range(3):
        with page_store(tmp_path):
            pass
        with pytest.raises(ValueError, match="pages"):
            PageStore(tmp_path, type(SMALL)(page_bytes=4096))
    assert count_descriptors() == before
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("binlog page store")]


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        check_page_store(tmp_path)
    with pytest.raises(AccessError):
        PageStore(tmp_path / "not" / "there")


@pytest.mark.slow
def test_a_full_disk_refuses_one_transaction_only(tmp_path: Path) -> None:
    """A limit on file sizes, by setrlimit(2), fails like a full disk."""
    script = """
import resource, sys
from binlog.errors import FullError
from binlog.pagestore import PageStore, PageStoreOptions
store = PageStore(sys.argv[1], PageStoreOptions(cache_pages=8, log_bytes=16384))
store.create_queue("orders")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
count = 0
while True:
    transaction = store.transaction()
    transaction.put("orders", b"%d" % count)
    try:
        transaction.commit()
    except FullError:
        transaction.rollback()
        break
    count += 1
for number in range(10):
    with store.transaction() as transaction:
        assert transaction.get("orders").body == b"%d" % number
with store.transaction() as transaction:
    transaction.put("orders", b"behind")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
store.close()
print(count)
"""
    done = run_script(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert check_page_store(tmp_path) == []
    with PageStore(tmp_path, SMALL) as store:
        assert peek(store) == [b"%d" % number for number in range(10, int(done.stdout))] + [b"behind"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_store_written_by_swiftmq_is_refused_and_unchanged(tmp_path: Path) -> None:
    """SwiftMQ's log begins with START and a generation number."""
    (tmp_path / "page.db").write_bytes(bytes(4 * 2048))
    (tmp_path / "transaction.log").write_bytes((1).to_bytes(4) + (7).to_bytes(8) + bytes(4096))
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    for call in (lambda: PageStore(tmp_path), lambda: stat_page_store(tmp_path)):
        with pytest.raises(CorruptError, match="written by SwiftMQ"):
            call()
    assert [problem.rule for problem in check_page_store(tmp_path)] == ["swiftmq"]
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.suffix != ".lock"} == before
