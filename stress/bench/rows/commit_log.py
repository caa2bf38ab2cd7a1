"""The commit log: appends with each flush service, from threads of one process, and looking for messages."""

from __future__ import annotations

from binlog.commitlog.options import Flush
from stress.bench.contestant import BODY_BYTES, MESSAGE_BYTES, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_store, sqlite
from stress.bench.rows.alike import SQLITE, floor_mapped, floor_synced, sqlite_each

TOLD = f"{OURS}, queues told"
MESSAGES_A_CALL = 32
LOOKUP = "commitlog-lookup"
BY = {
    "offset": our_store.by_offset,
    "queue offset": our_store.by_queue_offset,
    "time": our_store.by_time,
    "key": our_store.by_key,
}

_BYTES_A_SECOND = 1 << 30
_HOW = {
    Flush.SYNC: "when it returns the message is on stable storage",
    Flush.ASYNC: "when it returns the message is in the mapped file",
    Flush.POOLED: "when it returns the message is in shared memory",
}


def row_name(flush: Flush, threads: int = 1) -> str:
    """The row in which so many threads append one message a call."""
    return f"commitlog-{flush.value}-{threads}"


def batch_name(flush: Flush) -> str:
    """The row in which one thread appends many a call."""
    return f"commitlog-{flush.value}-batch"


def by_name(what: str) -> str:
    """Who looks for a message by this."""
    return f"{OURS}, by {what}"


def rows() -> list[Row]:
    """All of them."""
    each = [_each(flush, threads) for flush in Flush for threads in (1, 8)]
    return [*each, *(_batch(flush) for flush in (Flush.ASYNC, Flush.POOLED)), _lookup()]


def _each(flush: Flush, threads: int) -> Row:
    many = "s" if threads > 1 else ""
    synced = flush is Flush.SYNC
    told = () if synced or threads > 1 else (_told(flush, 1),)
    return Row(
        name=row_name(flush, threads),
        title=f"Commit log, messages of {BODY_BYTES} bytes, {flush.value} flush, one a call, {threads} thread{many}",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how=f"`MessageStore.append` of one message with a tag: {_HOW[flush]}.",
                measure=measuring(our_store.appending(flush, threads=threads)),
            ),
            *told,
            sqlite_each(synced=synced, threads=threads),
            floor_synced(MESSAGE_BYTES) if synced else floor_mapped(MESSAGE_BYTES),
        ),
    )


def _batch(flush: Flush) -> Row:
    return Row(
        name=batch_name(flush),
        title=f"Commit log, messages of {BODY_BYTES} bytes, {flush.value} flush, {MESSAGES_A_CALL} a call, 1 thread",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how=f"`MessageStore.append` of {MESSAGES_A_CALL} messages with a tag: {_HOW[flush]}.",
                measure=measuring(our_store.appending(flush, messages=MESSAGES_A_CALL)),
            ),
            _told(flush, MESSAGES_A_CALL),
            Contestant(
                name=SQLITE,
                how=f"`synchronous=NORMAL`, `executemany` of {MESSAGES_A_CALL} in a transaction.",
                measure=measuring(sqlite.many_a_transaction("NORMAL", MESSAGES_A_CALL, BODY_BYTES)),
            ),
            floor_mapped(MESSAGE_BYTES),
        ),
    )


def _told(flush: Flush, messages: int) -> Contestant:
    return Contestant(
        name=TOLD,
        how="The same; the time ends when the consume queue has the last message, and so its readers.",
        measure=measuring(our_store.appending(flush, messages=messages, told=True)),
    )


def _lookup() -> Row:
    return Row(
        name=LOOKUP,
        title="Commit log, finding one message among millions, any of them, all in the page cache",
        unit=Unit.MICROSECONDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=tuple(
            Contestant(
                name=by_name(what),
                how=f"{ask.__doc__} It is read. Among {our_store.MESSAGES_A_SECOND:,} for each second of measuring.",
                measure=our_store.looking(ask),
            )
            for what, ask in BY.items()
        ),
    )
