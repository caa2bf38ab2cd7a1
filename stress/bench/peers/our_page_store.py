"""binlog's page store: transactions of threads of one process, and opening what a killed one leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog.pagestore import PageStore
from stress.bench.contestant import Measure
from stress.bench.loops import in_threads
from stress.bench.measuring import Prepare, Prepared
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop
from stress.bench.processes import Loop
from stress.bench.sample import Sample
from stress.pagestore.opening import forget_all, kill_with_full_log, seconds_to_open

_QUEUE = "queue"


def working(work: QueueWork, threads: int) -> Prepare:
    """Transactions of so many threads, each on the disk when its commit returns."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with PageStore(directory / "store") as store:
                store.create_queue(_QUEUE)
                loop = queue_loop(_calls(store), work)
                yield in_threads(loop, threads) if threads > 1 else loop

        yield Prepared(opener, None)

    return prepare


def opening(*, from_disk: bool) -> Measure:
    """Seconds that it takes to open a store whose process was killed with a full log."""

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
