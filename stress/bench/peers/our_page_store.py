"""binlog's page store: transactions by threads of one process, and opening after a kill."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog import Mode
from binlog.pagestore import PageStore, PageStoreOptions
from binlog.storage.files import drop_page_cache
from stress.bench.contestant import BODY_BYTES, Measure
from stress.bench.loops import in_threads
from stress.bench.measuring import Prepare, preparing
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop
from stress.bench.processes import die_with_parent
from stress.bench.sample import Sample

_QUEUE = "queue"
OPTIONS = PageStoreOptions(mode=Mode.FLUSH)
# Of the log, so that no checkpoint is due yet: more than one record, which has a message, its entry, and sometimes a
# new page of the index.
_LEFT_BYTES = 8192


@contextmanager
def _with_queue(directory: Path) -> Iterator[PageStore]:
    with PageStore(directory / "store") as store:
        store.create_queue(_QUEUE)
        yield store


def working(work: QueueWork, threads: int) -> Prepare:
    """Run transactions in several threads, each on the disk when its commit returns."""
    return preparing(_with_queue, lambda store: in_threads(queue_loop(_calls(store), work), threads))


def opening(*, from_disk: bool) -> Measure:
    """Measure the seconds to open a store whose process was killed with a full log."""

    def measure(directory: Path, seconds: float) -> Sample:
        path = directory / "store"
        count = kill_with_full_log(path)
        if from_disk:
            forget_all(path)
        return Sample(seconds_to_open(path, count))

    return measure


def _calls(store: PageStore) -> QueueCalls:
    def put(body: bytes) -> None:
        with store.transaction() as transaction:
            transaction.put(_QUEUE, body)

    def get() -> bool:
        with store.transaction() as transaction:
            return transaction.get(_QUEUE) is not None

    def both(body: bytes) -> None:
        with store.transaction() as transaction:
            transaction.put(_QUEUE, body)
            transaction.get(_QUEUE)

    def fill(bodies: list[bytes]) -> None:
        with store.transaction() as transaction:
            for body in bodies:
                transaction.put(_QUEUE, body)

    return QueueCalls(put, get, both, fill)


def kill_with_full_log(path: Path) -> int:
    """Let a process fill a new store's log, one message a transaction, and be killed; return the number of messages."""
    ours, theirs = os.pipe()
    starter, pid = os.getpid(), os.fork()
    if pid == 0:
        try:
            die_with_parent(starter)
            os.write(theirs, str(_fill(path)).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:  # noqa: BLE001 - the forked child must not continue as if it were this process
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(theirs)
    with open(ours) as pipe:
        count = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != -signal.SIGKILL:
        raise RuntimeError(f"the process should have been killed, but ended with {status}")
    return int(count)


def _fill(path: Path) -> int:
    body = os.urandom(BODY_BYTES)  # no zeros at the end of a page, which the log would omit
    store = PageStore(path, OPTIONS)
    store.create_queue(_QUEUE)
    log, count = store._log, 0
    while log.end - log._base < OPTIONS.log_bytes - _LEFT_BYTES:
        with store.transaction() as transaction:
            transaction.put(_QUEUE, body)
        count += 1
    assert store._cache.generation == store._files.start.generation, "a checkpoint was made"
    return count


def forget_all(path: Path) -> None:
    """Make the kernel drop the cached pages of a folder's files, as after a restart of the machine."""
    for file in path.iterdir():
        fd = os.open(file, os.O_RDWR)
        try:
            os.fsync(fd)
            drop_page_cache(fd)
        finally:
            os.close(fd)


def seconds_to_open(path: Path, count: int) -> float:
    """Return how long opening takes; then check the number of messages."""
    begun = time.perf_counter()
    with PageStore(path) as store:
        seconds = time.perf_counter() - begun
        found = store.waiting_count(_QUEUE)
    assert found == count, f"{found} messages were found, of {count}"
    return seconds
