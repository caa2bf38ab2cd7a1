"""Failed calls: refused calls, reported errors, and the contents after opening again."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from binlog.errors import AccessError, CorruptError, FullError, PoisonedError
from binlog.format.pagestore.index import QueueEntry
from binlog.pagestore import PageStore, Xid, check_page_store
from binlog.pagestore import recovery as recovery_module
from binlog.pagestore import transaction_log as log_module
from binlog.pagestore.pages.cache import PageFile
from binlog.storage.directory import Directory
from binlog.storage.failures import failure, write_failure
from binlog.storage.files import sync, write_at
from binlog.storage.native import CommitGroup
from tests.support.pagestores import QUEUE, SMALL, copy_after_kill, drain, page_store, peek, put
from tests.support.threads import at_once

_LOG, _PAGES, _MAP = "transaction.log", "page.db", ".free"


@contextmanager
def calls_that_fail(
    monkeypatch: pytest.MonkeyPatch, call: str, end: str, number: int = errno.EIO
) -> Iterator[list[str]]:
    """Make the calls of `os` on these files, and syncs of a leader, fail; yield the calls that were made."""
    real = getattr(os, call)
    failed: list[str] = []

    def fails(fd: int, *arguments: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(end):
            failed.append(path)
            raise OSError(number, os.strerror(number))
        real(fd, *arguments)

    def in_two_calls(group: CommitGroup, fd: int, data: bytes, offset: int, path: str) -> None:
        write_at(fd, data, offset, path)
        sync(fd, path)
        group.finish()

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        patched.setattr(log_module, "commit_at", in_two_calls)
        yield failed


def _calls(store: PageStore, path: Path) -> list[Callable[[], object]]:
    return [
        lambda: put(store, b"never"),
        lambda: store.transaction().get(QUEUE),
        lambda: store.transaction().remove(QUEUE, 1),
        lambda: store.transaction().prepare(Xid(1, b"never")),
        lambda: store.create_queue("never"),
        lambda: store.delete_queue(QUEUE),
        lambda: store.waiting_count(QUEUE),
        lambda: store.prepared,
        lambda: store.rollback_prepared(Xid(1, b"x")),
        store.checkpoint,
        store.shrink,
        lambda: store.backup(path / "never"),
    ]


@pytest.mark.parametrize(("end", "has_checkpoint"), [(_LOG, False), (_LOG, True), (_PAGES, True), (_MAP, True)])
def test_a_failed_sync_poisons_the_store_until_it_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, has_checkpoint: bool
) -> None:
    path = tmp_path / "store"
    store = PageStore(path, SMALL)
    store.create_queue(QUEUE)
    put(store, b"one", b"two")
    with calls_that_fail(monkeypatch, "fdatasync", end):
        store._log._group.by_caller = True
        with pytest.raises(PoisonedError) as raised:
            put(store, b"three") if not has_checkpoint else store.checkpoint()
        cause: BaseException | None = raised.value
        while isinstance(cause, PoisonedError):
            cause = cause.__cause__
        assert isinstance(cause, OSError)
    for use in _calls(store, tmp_path):
        with pytest.raises(PoisonedError):
            use()
    assert not (tmp_path / "never").exists()
    with pytest.raises(PoisonedError):
        store.close()
    assert check_page_store(path) == []
    with PageStore(path, SMALL) as store:
        assert store.queues == [QUEUE]
        assert peek(store) in ([b"one", b"two"], [b"one", b"two", b"three"][: 2 if has_checkpoint else 3])
        put(store, b"four")
    with PageStore(path, SMALL) as store:
        assert drain(store)[-1] == b"four"


def test_every_waiting_thread_gets_the_error_of_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PageStore(tmp_path / "store", SMALL)
    store.create_queue(QUEUE)
    may_fail = threading.Event()

    def fails(group: CommitGroup, fd: int, data: bytes, offset: int, path: str) -> None:
        may_fail.wait()
        raise write_failure(errno.EIO, path)

    errors: list[BaseException] = []

    def work() -> None:
        try:
            put(store, b"never")
        except PoisonedError as error:
            errors.append(error)

    monkeypatch.setattr(log_module, "commit_at", fails)
    store._log._group.by_caller = True
    at_once(*[work] * 4, may_fail.set)
    assert len(errors) == 4
    monkeypatch.undo()
    with suppress(PoisonedError):
        store.close()
    with PageStore(tmp_path / "store", SMALL) as store:
        assert drain(store) == []


def test_a_checkpoint_without_space_or_descriptor_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, b"one")
        for number, error in ((errno.ENOSPC, FullError), (errno.EMFILE, AccessError)):

            def fails(directory: Directory, name: str, *, number: int = number, **flags: bool) -> int:
                raise failure(number, directory.file_path(name), "opening the file")

            with monkeypatch.context() as patched:
                patched.setattr(Directory, "open", fails)
                with pytest.raises(error):
                    store.checkpoint()
                put(store, *(b"%d" % number * 500 for number in range(30)))  # enough to make a checkpoint due
            with PageStore(copy_after_kill(store), SMALL) as copy:
                assert peek(copy) == peek(store)
            store.checkpoint()
        wanted = peek(store)
    with PageStore(tmp_path / "store", SMALL) as store:
        assert drain(store) == wanted


def test_recovery_syncs_the_log_before_it_writes_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that wrote the log may have died before its sync, or its sync may have failed."""
    with page_store(tmp_path / "store") as store:
        put(store, b"one", b"two")
        copy = copy_after_kill(store)
    before = (copy / _PAGES).read_bytes()
    sync, events = os.fdatasync, []

    def notes(fd: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        events.append((name, (copy / _PAGES).read_bytes() == before, 0))
        sync(fd)

    def writes(fd: int, data: bytes, offset: int, path: str) -> None:
        events.append((os.path.basename(path), (copy / _PAGES).read_bytes() == before, len(data)))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", notes)
        patched.setattr(recovery_module, "write_at", writes)
        PageStore(copy, SMALL).close()
    (first, first_unchanged, size), (second, second_unchanged, _), *_ = events
    assert (first, second, first_unchanged, second_unchanged) == (_LOG, _LOG, True, True)
    assert size > 512
    assert before != (copy / _PAGES).read_bytes()


def test_a_failed_truncation_is_reported_to_its_caller_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, *(bytes(3000) for _ in range(40)))
        drain(store)
        with calls_that_fail(monkeypatch, "ftruncate", _PAGES) as failed, pytest.raises(AccessError):
            store.shrink()
        assert len(failed) == 1
        put(store, b"one")
        assert store.shrink() < 10
        assert drain(store) == [b"one"]


@pytest.mark.parametrize(("call", "end"), [("fdatasync", "page.db.backup"), ("fdatasync", ".new"), ("fsync", "backup")])
def test_a_failed_sync_of_a_backup_does_not_poison_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, end: str
) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, b"one")
        with calls_that_fail(monkeypatch, call, end), pytest.raises(AccessError, match="the store is not affected"):
            store.backup(tmp_path / "backup")
        with pytest.raises(CorruptError, match="not finished"):
            PageStore(tmp_path / "backup", SMALL)
        put(store, b"two")
        store.backup(tmp_path / "another")
        assert peek(store) == [b"one", b"two"]
    with PageStore(tmp_path / "another", SMALL) as store:
        assert drain(store) == [b"one", b"two"]


def test_the_name_of_an_unfinished_backup_is_durable_before_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut could leave a folder without that name, which would be opened as a new store."""
    sync, names = os.fsync, []

    def notes(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") == str(tmp_path / "backup"):
            names.append(sorted(os.listdir(tmp_path / "backup")))
        sync(fd)

    with page_store(tmp_path / "store") as store:
        put(store, b"one")
        monkeypatch.setattr(os, "fsync", notes)
        store.backup(tmp_path / "backup")
    assert names[0] == ["page.db.backup"]


def test_a_page_both_used_and_free_is_damage_and_its_message_stays(tmp_path: Path) -> None:
    with PageStore(tmp_path / "store", SMALL) as store:
        store.create_queue(QUEUE)
        put(store, b"one", b"two")
        number = store._content.get(QUEUE).index.entry(1, store._cache).message_page
        store._free.release(number)
        with pytest.raises(CorruptError, match="map says that it is free"), store.transaction() as transaction:
            transaction.remove(QUEUE, 1)
        store._free.take_number(number)
        assert drain(store) == [b"one", b"two"]


@pytest.mark.slow
def test_an_unreadable_index_makes_only_its_queue_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: it made the whole store unusable, because the index is read again if a change is undone."""
    read = PageFile.read
    with page_store(tmp_path / "store") as store:
        store.create_queue("other")
        put(store, *(b"%d" % number for number in range(700)))
        put(store, *(bytes(number) for number in range(20)), queue="other")
        middle = store._content.get(QUEUE).index.parts[5]
        first, behind = middle.first_key, middle.first_key + middle.entry_count
        transaction = store.transaction()
        transaction.get(QUEUE)
        store.checkpoint()
        drain(store, "other")  # evicts the index from the cache
        assert middle.number not in store._cache._pages

        def fails(file: PageFile, number: int) -> bytes:
            if number == middle.number:
                raise file.at(number).damage("crc", "is damaged")
            return read(file, number)

        with monkeypatch.context() as patched:
            patched.setattr(PageFile, "read", fails)
            removing = store.transaction()
            for key in (first - 1, behind):
                removing.remove(QUEUE, key)
            removing.taken.append((store._content.get(QUEUE), QueueEntry(1, 4, 0, 0, first, 1, 0)))
            with pytest.raises(CorruptError):
                removing.commit()
            removing.taken.pop()
            with pytest.raises(CorruptError):
                put(store, b"never")
            removing.rollback()
            transaction.rollback()
            put(store, b"goes on", queue="other")
            assert drain(store, "other") == [b"goes on"]
        assert drain(store) == [b"%d" % number for number in range(700)]


@pytest.mark.slow
def test_closing_a_poisoned_store_waits_for_the_leader(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "store", SMALL)
    store.create_queue(QUEUE)
    with ThreadPoolExecutor(1) as pool, store._log._group.lead_or_wait(store._log.end + 1):
        store._guard.fail(KeyboardInterrupt())
        closed = pool.submit(store.close)
        with pytest.raises(TimeoutError):
            closed.result(timeout=0.2)
    with pytest.raises(PoisonedError):
        closed.result(timeout=60)


@pytest.mark.slow
def test_closing_a_poisoned_store_waits_for_a_running_step(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "store", SMALL)
    with ThreadPoolExecutor(1) as pool, store._guard:
        store._guard.fail(KeyboardInterrupt())
        closed = pool.submit(store.close)
        with pytest.raises(TimeoutError):
            closed.result(timeout=0.2)
    with pytest.raises(PoisonedError):
        closed.result(timeout=60)
