"""The page store: durable transactions of threads that put a message, get one, or both; and opening after a kill."""

from __future__ import annotations

from binlog.pagestore import PageStoreOptions
from stress.bench.contestant import BODY_BYTES, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_page_store, persist_queue, sqlite_queue
from stress.bench.peers.queue_work import FILLED, QueueWork
from stress.bench.rows.alike import SQLITE, SQLITE_PROCESSES_MAX

OPEN = "pagestore-open"
OPEN_FROM_DISK = f"{OURS}, from the disk"
THREADS = (1, 8, 32)

_BYTES_A_SECOND = 1 << 28
_DOES = {
    QueueWork.PUT: "puts a message",
    QueueWork.GET: f"gets the oldest message (if the queue is empty, {FILLED:,} messages are put into it first)",
    QueueWork.BOTH: "puts a message and gets the oldest one",
}


def row_name(work: QueueWork, threads: int) -> str:
    """Return the name of the row in which `threads` threads run such transactions."""
    return f"pagestore-{work.value}-{threads}"


def rows() -> list[Row]:
    """Return all rows."""
    return [*(_row(work, threads) for work in QueueWork for threads in THREADS), _open()]


def _row(work: QueueWork, threads: int) -> Row:
    processes = min(threads, SQLITE_PROCESSES_MAX)
    many = "s" if threads > 1 else ""
    return Row(
        name=row_name(work, threads),
        title=f"A queue of messages of {BODY_BYTES} bytes, {threads} thread{many}; each transaction {_DOES[work]}, and "
        "is on the disk when its commit returns",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`PageStore`, in threads of one process.",
                measure=measuring(our_page_store.working(work, threads)),
            ),
            Contestant(
                name=SQLITE,
                how="A table as a queue, `journal_mode=WAL`, `synchronous=FULL`; "
                f"{processes} process{'es instead of threads' if processes > 1 else ''}.",
                measure=measuring(sqlite_queue.working(work), processes=processes),
            ),
            Contestant(
                name="persist-queue",
                how="Its SQLite queue with `auto_commit`, in threads of one process; a put and a get are two "
                "transactions.",
                measure=measuring(persist_queue.working(work, threads)),
                missing=persist_queue.missing,
            ),
        ),
    )


def _open() -> Row:
    log_mib = PageStoreOptions().log_bytes >> 20
    return Row(
        name=OPEN,
        title=f"Opening a page store whose process was killed when the log had {log_mib} MiB; each transaction in the "
        f"log put a message of {BODY_BYTES} bytes",
        unit=Unit.SECONDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="From the call of `PageStore` to its return, with the files in the page cache; afterwards the "
                "messages are counted.",
                measure=our_page_store.opening(from_disk=False),
            ),
            Contestant(
                name=OPEN_FROM_DISK,
                how="The same, after the kernel was asked to drop the cached pages of the files.",
                measure=our_page_store.opening(from_disk=True),
            ),
        ),
    )
