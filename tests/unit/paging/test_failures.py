"""After a failed sync nothing in memory is trusted, and every call is refused until the paging is opened again."""

from __future__ import annotations

import errno
import gc
import os
import resource
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from binlog import Mode
from binlog.compose import open_queue
from binlog.errors import AccessError, FullError, PoisonedError
from binlog.format.paging.names import ACKS_EXTENSION, ADDRESS_FILE, FAILED_FILE, PAGE_EXTENSION
from binlog.format.paging.page_file import PageLayout
from binlog.paging import addresses
from binlog.paging import page as page_module
from binlog.paging.cursor import page_deliveries
from binlog.paging.inspection import check_paging
from binlog.paging.options import PagingOptions
from binlog.paging.transactions import PageTransactions
from binlog.queue.queue import Queue
from binlog.storage import directory, files
from binlog.storage.directory import Directory
from binlog.storage.failures import write_failure
from binlog.storage.files import remove_file
from binlog.storage.handle import new_guard
from tests.support.children import Child
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.failing import paging_that_fails, raising, syncs_that_fail
from tests.support.paging import numbered_messages, page_all, page_files, page_messages, paging
from tests.support.queues import bodies

_SMALL = PagingOptions(page_bytes=1024)


def queue_with_failed_sync(path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> list[bytes]:
    """Create a queue with a failed sync, and return its messages."""
    queue = open_queue(path, mode=Mode.FLUSH, options=_SMALL)
    bodies = [b"%03d" % number * 100 for number in range(12)]
    for body in bodies:
        queue.put(body)
    queue.ack(queue.get())
    with syncs_that_fail(monkeypatch, end):
        with pytest.raises(PoisonedError):
            queue.sync()
        with pytest.raises(PoisonedError):
            queue.close()
    return bodies[1:]


@pytest.mark.parametrize("end", [PAGE_EXTENSION, ACKS_EXTENSION])
def test_the_next_process_rewrites_files_after_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    path = tmp_path / "queue"
    bodies = queue_with_failed_sync(path, monkeypatch, end)
    (mark,) = path.rglob(FAILED_FILE)
    assert check_paging(path) == []
    before = {
        each.name: each.read_bytes() for each in path.rglob("0*") if each.suffix in (PAGE_EXTENSION, ACKS_EXTENSION)
    }
    written: dict[str, bytes] = {}
    write_at = files.write_at

    def noted(fd: int, data: bytes, offset: int, where: str) -> None:
        written[Path(where).name] = written.get(Path(where).name, b"") + data
        write_at(fd, data, offset, where)

    monkeypatch.setattr(files, "write_at", noted)  # which only `write_again` calls by this name
    with syncs_that_fail(monkeypatch, end), pytest.raises(PoisonedError):
        open_queue(path, options=_SMALL)
    assert mark.exists(), "the next start must rewrite the files"
    written.clear()
    with open_queue(path, options=_SMALL) as queue:
        assert written == before
        assert not mark.exists()
        assert [queue.get_nowait().body for _ in bodies] == bodies
    written.clear()
    with open_queue(path, options=_SMALL):
        assert written == {}


def test_a_failed_sync_at_the_start_makes_the_next_start_rewrite_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue"
    with open_queue(path, options=_SMALL) as queue:
        queue.put(b"message")
    with syncs_that_fail(monkeypatch, PAGE_EXTENSION), pytest.raises(PoisonedError):
        open_queue(path, options=_SMALL)
    assert list(path.rglob(FAILED_FILE))
    with open_queue(path, options=_SMALL) as queue:
        assert queue.get_nowait().body == b"message"


def test_a_poisoned_queue_leaves_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_with_failed_sync(
        tmp_path / "first", monkeypatch, PAGE_EXTENSION
    )  # opens everything that is opened once per process
    before = descriptors_before()
    queue_with_failed_sync(tmp_path / "queue", monkeypatch, PAGE_EXTENSION)
    assert count_descriptors() == before


def test_a_failed_count_of_a_delivery_leaves_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception that poisoned the queue, which its caller may keep, has the file in its traceback."""
    before = descriptors_before()
    queue = open_queue(tmp_path / "queue", options=_SMALL)
    queue.put(b"message")
    with monkeypatch.context() as patched:
        patched.setattr(page_deliveries, "write_delivery", lambda *_: errno.EIO)
        with pytest.raises(PoisonedError) as kept:
            queue.get_nowait()
    with suppress(PoisonedError):
        queue.close()
    assert not [name for name in _open_names() if name.endswith(".deliveries")]
    del kept, queue
    gc.collect()
    assert count_descriptors() == before


def _open_names() -> list[str]:
    return [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if _is_open(number)]


def _is_open(number: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{number}")


def _assert_poisoned(queue: Queue) -> None:
    for call in (lambda: queue.put(b""), queue.get_nowait, queue.qsize, queue.empty, queue.join):
        with pytest.raises(PoisonedError):
            call()
    with suppress(PoisonedError):
        queue.close()


def test_a_failed_sync_during_a_read_poisons_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(tmp_path / "queue", options=_SMALL) as queue:
        for number in range(2):
            queue.put(b"%d" % number)
        queue.ack(queue.get())
    queue = open_queue(tmp_path / "queue", mode=Mode.FLUSH, options=_SMALL)
    with syncs_that_fail(monkeypatch, ACKS_EXTENSION), pytest.raises(PoisonedError):
        queue.get_nowait()
    _assert_poisoned(queue)


def test_a_failed_journal_poisons_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = open_queue(tmp_path / "queue", mode=Mode.FLUSH, options=_SMALL)

    with monkeypatch.context() as patched:
        patched.setattr(PageTransactions, "begin", raising(PoisonedError("a sync of the journal failed")))
        with pytest.raises(PoisonedError), queue.transaction() as transaction:
            transaction.put(b"message")
    _assert_poisoned(queue)


def test_an_unreadable_address_gets_no_second_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(tmp_path / "queue") as queue:
        queue.put(b"message")
    read_at = directory.read_at

    def fails(fd: int, size: int, offset: int, path: str) -> bytes:
        if path.endswith(ADDRESS_FILE):
            raise AccessError("Input/output error", errno=errno.EIO, path=path)
        return read_at(fd, size, offset, path)

    with monkeypatch.context() as patched:
        patched.setattr(directory, "read_at", fails)
        with pytest.raises(AccessError):
            open_queue(tmp_path / "queue")
    with open_queue(tmp_path / "queue") as queue:
        assert queue.get_nowait().body == b"message"


def _fail_to_remove(directory_fd: int, name: str, path: str) -> None:
    if name.endswith(PAGE_EXTENSION):
        raise AccessError("Input/output error", errno=errno.EIO, path=path)
    remove_file(directory_fd, name, path)


def test_a_depaged_page_that_could_not_be_removed_is_not_depaged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bytes] = []
    with paging(tmp_path / "paging") as (opened, store):

        def depage() -> bool:
            return opened.manager.depage(store.address, lambda _, messages, __: found.extend(messages))

        store.start_paging()
        store.page(b"message")
        with monkeypatch.context() as patched:
            patched.setattr(directory, "remove_file", _fail_to_remove)
            assert depage(), "the messages were delivered"
            while store.is_paging:
                with suppress(AccessError):
                    depage()
            with pytest.raises(AccessError):  # the record of the depage stays as long as the page
                depage()
        kept = len(list(tmp_path.rglob(f"*{PAGE_EXTENSION}")))
        assert kept == 2, "the depaged page, and the empty one after it"
    with paging(tmp_path / "paging") as (opened, store):
        assert not depage()
        assert found == [b"message"]
        assert not list(tmp_path.rglob(f"*{PAGE_EXTENSION}"))


def test_a_leftover_depaged_page_is_removed_before_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bytes] = []
    for _ in range(2):
        with paging(tmp_path / "paging") as (opened, store):
            if not found:
                store.start_paging()
                store.page(b"message")
                with monkeypatch.context() as patched:
                    patched.setattr(directory, "remove_file", _fail_to_remove)
                    opened.manager.depage(store.address, lambda _, messages, __: found.extend(messages))
            while opened.manager.depage(store.address, lambda _, messages, __: found.extend(messages)):
                pass
            assert not list(tmp_path.rglob(f"*{PAGE_EXTENSION}"))
    assert found == [b"message"]


def test_pages_that_could_not_be_removed_leave_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paging(tmp_path / "first"):
        pass  # opens everything that is opened once per process
    before = descriptors_before()
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        store.page(b"message")
        monkeypatch.setattr(directory, "remove_file", _fail_to_remove)
        opened.manager.depage(store.address, lambda *_: None)
        with pytest.raises(AccessError):
            opened.manager.depage(store.address, lambda *_: None)
    assert count_descriptors() == before


def test_a_failure_to_end_page_mode_poisons_the_paging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with paging(tmp_path / "paging") as (_, store):
        store.start_paging()
        with monkeypatch.context() as patched:
            patched.setattr(page_module, "write_at", raising(write_failure(errno.EIO, "a page")))
            with pytest.raises(PoisonedError):
                store.depage()
        for call in (store.start_paging, store.depage, store.stop):
            with pytest.raises(PoisonedError):
                call()
        store.stop()  # a second call does nothing


def test_a_thread_that_sees_a_failed_sync_finds_the_paging_poisoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, noting, noted = Directory.make, threading.Event(), threading.Event()

    def slowly(where: Directory, name: str) -> bool:
        if name == FAILED_FILE and not noting.is_set():
            noting.set()
            noted.wait()
        return make(where, name)

    with paging_that_fails(tmp_path / "paging") as (_, store):
        store.start_paging()
        store.page(b"message")

        def sync() -> None:
            with suppress(PoisonedError):
                store.sync()

        monkeypatch.setattr(Directory, "make", slowly)
        with syncs_that_fail(monkeypatch, PAGE_EXTENSION):
            other = threading.Thread(target=sync)
            other.start()
            noting.wait()
            try:
                for call in (store.sync, lambda: store.page(b"more"), store.depage):
                    with pytest.raises(PoisonedError):
                        call()
            finally:
                noted.set()
                other.join()


@pytest.mark.parametrize("call", ["page", "depage"])
def test_a_failure_to_open_the_next_page_poisons_the_paging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Regression: one call was refused, and the next one accepted, because a failed write was forgotten."""

    with paging_that_fails(tmp_path / "paging") as (_, store):
        store.start_paging()
        calls = {"page": partial(page_all, store, numbered_messages(30)), "depage": store.depage}
        store.page(b"message")
        with monkeypatch.context() as patched:
            patched.setattr(page_module, "write_at", raising(write_failure(errno.EIO, "a page")))
            with pytest.raises(PoisonedError):
                calls[call]()
        for again in calls.values():
            with pytest.raises(PoisonedError):
                again()


def _close_a_page_on_a_full_disk(path: Path) -> None:
    with paging(path) as (_, store):
        store.start_paging()
        page_all(store, numbered_messages(10))
        (file,) = page_files(store)
        size = file.stat().st_size
        os.truncate(file, size - 200)  # so that truncating it to the end of its messages is refused as well
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 200, hard))  # setrlimit(2): EFBIG; Python ignores SIGXFSZ
        page = store.pages[0]
        page.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert page.message_count == 10
        found = page_messages(page)
        assert found == numbered_messages(10)[: len(found)]
        assert found


def test_a_page_without_its_end_is_readable(tmp_path: Path) -> None:
    """Regression: it raised an OSError that is not an error of binlog."""
    Child(lambda: _close_a_page_on_a_full_disk(tmp_path)).join()


@pytest.mark.parametrize("error", [FullError, AccessError])
def test_an_unrecorded_rollback_does_not_block_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    found: list[bytes] = []

    refuses = raising(FullError("no space") if error is FullError else AccessError("no", errno=errno.EIO, path=""))
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        store.page(b"message")
        with monkeypatch.context() as patched:
            patched.setattr(opened.journal, "commit", refuses)
            patched.setattr(opened.journal, "rollback", refuses)
            transaction = opened.manager.begin()
            store.page(b"never", transaction)
            with pytest.raises(error), transaction:
                transaction.commit()
        assert opened.manager.depage(store.address, lambda _, messages, __: found.extend(messages))
    assert found == [b"message"]
    with paging(tmp_path / "paging") as (opened, store):
        assert opened.manager.transactions.counts == {}


@pytest.mark.slow
def test_a_failed_sync_poisons_the_queue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    q = open_queue(folder, mode=Mode.FLUSH)
    for body in bodies(3):
        q.put(body)
    got = q.get()
    errors: list[type[BaseException]] = []

    def join() -> None:
        try:
            q.join()
        except PoisonedError as error:
            errors.append(type(error))

    joining = threading.Thread(target=join)
    joining.start()

    with syncs_that_fail(monkeypatch, PAGE_EXTENSION), pytest.raises(PoisonedError):
        q.put(b"last", mode=Mode.SYNC)
    joining.join()
    assert errors == [PoisonedError]
    transaction = q.transaction()
    transaction.put(b"never")
    for call in (lambda: q.put(b""), q.get, lambda: q.ack(got), lambda: q.nack(got), transaction.commit, q.qsize):
        with pytest.raises(PoisonedError):
            call()
    with pytest.raises(PoisonedError):
        q.close()


@pytest.mark.parametrize("number", [0, errno.EDQUOT])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_page_removed_during_its_sync_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_written: bool
) -> None:
    """Regression: `delete` left the descriptor to the syncing thread, which did not close it if the sync failed."""
    folder = addresses.make_folder(Directory(str(tmp_path)), "a", PageLayout.NATIVE, new_guard("a test"))
    before = descriptors_before()
    page = page_module.Page.create(folder, 1, 1024)
    begun, removed = threading.Event(), threading.Event()

    def sync(fd: int) -> None:
        begun.set()
        assert removed.wait(60)
        if number:
            raise OSError(number, os.strerror(number))

    def run() -> None:
        with suppress(FullError, PoisonedError):
            page.sync()

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", sync)
        thread = threading.Thread(target=run)
        thread.start()
        assert begun.wait(60)
        if is_written:
            page.close()
        page.delete()
        removed.set()
        thread.join()
    assert count_descriptors() == before
