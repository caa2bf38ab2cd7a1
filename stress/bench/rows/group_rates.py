"""Consumer groups: the rate of workers that claim messages and acknowledge them, alone and many at a time."""

from __future__ import annotations

from functools import partial

from binlog import Mode
from stress.bench.contestant import BODY_BYTES, OURS, RECORD_BYTES, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_group, ours, persist_queue, redis_group, sqlite_queue
from stress.bench.peers.claim_work import claiming

LOG = f"{OURS}'s log"
SQLITE = "SQLite FULL"
SQLITE_NORMAL = "SQLite NORMAL"
REDIS = "Redis stream"
PERSIST_QUEUE = "persist-queue"

FLUSH, BATCHES = "group-flush", "group-batches"
WORKERS = (1, 8, 16)

_MESSAGES_A_BATCH = 100

# More than each of them takes in a second.
_OURS_A_SECOND = {1: 15_000, 8: 50_000, 16: 70_000}
_OURS_FLUSHED_A_SECOND, _OURS_IN_BATCHES_A_SECOND = 80_000, 200_000
_SQLITE_A_SECOND, _SQLITE_UNSYNCED_A_SECOND, _SQLITE_IN_BATCHES_A_SECOND = 8_000, 30_000, 50_000
_REDIS_A_SECOND, _REDIS_IN_BATCHES_A_SECOND = 15_000, 50_000
_PERSIST_QUEUE_A_SECOND = 8_000

_BYTES_A_SECOND = 1 << 29

_ONE_CLAIM = (
    "a table with a partial index of the messages that no worker has. `UPDATE ... RETURNING` claims the oldest one, "
    "and `DELETE` removes it by its key; each statement is a transaction, and waits with a busy time-out if it must. "
    "Each worker has a connection"
)
_TOGETHER = "the same, but one transaction (`BEGIN IMMEDIATE`) deletes a message and claims the next one"


def row_name(workers: int) -> str:
    """Return the name of the row of `workers` workers."""
    return f"group-{workers}"


def rows() -> list[Row]:
    """Return all rows."""
    return [*(_durable(workers) for workers in WORKERS), _flushed(), _in_batches()]


def _durable(workers: int) -> Row:
    several = "s" if workers > 1 else ""
    measure = partial(claiming, processes=workers, keep_waits=True)
    return Row(
        name=row_name(workers),
        title=f"{workers} worker{several}, each of which claims and acknowledges one message of {BODY_BYTES} bytes "
        "after another; an acknowledgement is on the disk when it returns",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`for item in group.consume()` and `item.ack()`, in `Mode.SYNC`. The time of a message is that of "
                "`ack`, which also claims the next message.",
                measure=measure(partial(our_group.claiming, Mode.SYNC), _OURS_A_SECOND[workers]),
            ),
            Contestant(
                name=LOG,
                how=f"`Writer.append` of a record of {RECORD_BYTES} bytes in `Mode.SYNC`, and nothing else; each "
                "process has a writer of its own.",
                measure=measuring(ours.one_a_call(Mode.SYNC), processes=workers, keep_waits=True),
            ),
            Contestant(
                name=SQLITE,
                how=f"`journal_mode=WAL`, `synchronous=FULL`, {_ONE_CLAIM}.",
                measure=measure(partial(sqlite_queue.claiming, "FULL"), _SQLITE_A_SECOND),
            ),
            Contestant(
                name=f"{SQLITE}, together",
                how=f"As {SQLITE}: {_TOGETHER}.",
                measure=measure(partial(sqlite_queue.claiming, "FULL", together=True), _SQLITE_A_SECOND),
            ),
            Contestant(
                name=REDIS,
                how="`XREADGROUP` with `COUNT 1`, and `XACK`, through a Unix socket to a server with `appendfsync "
                "always`; each worker has a connection.",
                measure=measure(redis_group.claiming, _REDIS_A_SECOND),
                missing=redis_group.missing,
            ),
            Contestant(
                name=PERSIST_QUEUE,
                how="`SQLiteAckQueue.get` and `ack`, in threads of one process, because two processes could get the "
                f"same message. After each {persist_queue.CLEARED_AT:,} messages the acknowledged ones are cleared.",
                measure=claiming(partial(persist_queue.claiming, threads=workers), _PERSIST_QUEUE_A_SECOND),
                missing=persist_queue.missing,
            ),
        ),
    )


def _flushed() -> Row:
    def sqlite(name: str, how: str, *, together: bool) -> Contestant:
        peer = partial(sqlite_queue.claiming, "NORMAL", together=together)
        return Contestant(name=name, how=how, measure=claiming(peer, _SQLITE_UNSYNCED_A_SECOND))

    return Row(
        name=FLUSH,
        title=f"A worker that claims and acknowledges one message of {BODY_BYTES} bytes after another; "
        "acknowledgements are not synced",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`for item in group.consume()` and `item.ack()`, in `Mode.FLUSH`.",
                measure=claiming(partial(our_group.claiming, Mode.FLUSH), _OURS_FLUSHED_A_SECOND),
            ),
            Contestant(
                name=LOG,
                how=f"`Writer.append` of a record of {RECORD_BYTES} bytes in `Mode.FLUSH`, and nothing else.",
                measure=measuring(ours.one_a_call(Mode.FLUSH)),
            ),
            sqlite(SQLITE_NORMAL, f"`journal_mode=WAL`, `synchronous=NORMAL`, {_ONE_CLAIM}.", together=False),
            sqlite(f"{SQLITE_NORMAL}, together", f"As {SQLITE_NORMAL}: {_TOGETHER}.", together=True),
        ),
    )


def _in_batches() -> Row:
    sqlite = partial(sqlite_queue.claiming_many, "FULL", messages=_MESSAGES_A_BATCH)
    redis = partial(redis_group.claiming, messages=_MESSAGES_A_BATCH)
    return Row(
        name=BATCHES,
        title=f"A worker that claims and acknowledges {_MESSAGES_A_BATCH} messages of {BODY_BYTES} bytes together; "
        "the acknowledgement is on the disk when it returns",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`for batch in group.batches()` and `with batch`, in `Mode.SYNC`.",
                measure=claiming(
                    partial(our_group.claiming_many, Mode.SYNC, messages=_MESSAGES_A_BATCH), _OURS_IN_BATCHES_A_SECOND
                ),
            ),
            Contestant(
                name=SQLITE,
                how="`journal_mode=WAL`, `synchronous=FULL`; `UPDATE ... RETURNING` claims the messages, and a second "
                "transaction deletes them by their keys.",
                measure=claiming(sqlite, _SQLITE_IN_BATCHES_A_SECOND),
            ),
            Contestant(
                name=REDIS,
                how=f"`XREADGROUP` with `COUNT {_MESSAGES_A_BATCH}`, and one `XACK` of all, to a server with "
                "`appendfsync always`.",
                measure=claiming(redis, _REDIS_IN_BATCHES_A_SECOND),
                missing=redis_group.missing,
            ),
        ),
    )
