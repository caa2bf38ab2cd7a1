"""The commit log: appends with each flush service, from threads of one process, and lookups of messages."""

from __future__ import annotations

from binlog.commitlog.options import Flush
from stress.bench.contestant import BODY_BYTES, MESSAGE_BYTES, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_commit_log, sqlite
from stress.bench.rows.alike import SQLITE, floor_mapped, floor_synced, sqlite_each

QUEUED = f"{OURS}, queues filled"
MESSAGES_A_CALL = 32
LOOKUP = "commitlog-lookup"
BY = {
    "offset": our_commit_log.by_offset,
    "queue offset": our_commit_log.by_queue_offset,
    "time": our_commit_log.by_time,
    "key": our_commit_log.by_key,
}

_BYTES_A_SECOND = 1 << 30
_STATE = {
    Flush.SYNC: "on stable storage",
    Flush.ASYNC: "in the mapped file",
    Flush.POOLED: "in shared memory",
}


def row_name(flush: Flush, threads: int = 1) -> str:
    """Return the name of the row in which `threads` threads append one message a call."""
    return f"commitlog-{flush.value}-{threads}"


def batch_name(flush: Flush) -> str:
    """Return the name of the row in which one thread appends many a call."""
    return f"commitlog-{flush.value}-batch"


def by_name(what: str) -> str:
    """Return the name of the contestant that finds a message by this."""
    return f"{OURS}, by {what}"


def rows() -> list[Row]:
    """Return all rows."""
    each = [_each(flush, threads) for flush in Flush for threads in (1, 8)]
    return [*each, *(_batch(flush) for flush in (Flush.ASYNC, Flush.POOLED)), _lookup()]


def _each(flush: Flush, threads: int) -> Row:
    many = "s" if threads > 1 else ""
    synced = flush is Flush.SYNC
    until_queued = () if synced or threads > 1 else (_until_queued(flush, 1),)
    return Row(
        name=row_name(flush, threads),
        title=f"Commit log, messages of {BODY_BYTES} bytes, {flush.value} flush, one a call, {threads} thread{many}",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`MessageStore.append` of one message with a tag. "
                f"When it returns, the message is {_STATE[flush]}.",
                measure=measuring(our_commit_log.appending(flush, threads=threads)),
            ),
            *until_queued,
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
                how=f"`MessageStore.append` of {MESSAGES_A_CALL} messages with a tag. "
                f"When it returns, the messages are {_STATE[flush]}.",
                measure=measuring(our_commit_log.appending(flush, messages=MESSAGES_A_CALL)),
            ),
            _until_queued(flush, MESSAGES_A_CALL),
            Contestant(
                name=SQLITE,
                how=f"`synchronous=NORMAL`, `executemany` of {MESSAGES_A_CALL} inserts in one transaction.",
                measure=measuring(sqlite.many_a_transaction("NORMAL", MESSAGES_A_CALL, BODY_BYTES)),
            ),
            floor_mapped(MESSAGE_BYTES),
        ),
    )


def _until_queued(flush: Flush, messages: int) -> Contestant:
    return Contestant(
        name=QUEUED,
        how="The same, but the time ends when the consume queue has an entry for the last message, so that readers of "
        "the queue see that message.",
        measure=measuring(our_commit_log.appending(flush, messages=messages, until_queued=True)),
    )


def _lookup() -> Row:
    return Row(
        name=LOOKUP,
        title="Commit log, finding a random message among millions, all in the page cache",
        unit=Unit.MICROSECONDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=tuple(
            Contestant(
                name=by_name(what),
                how=f"{ask.__doc__} The message is also read. The log has "
                f"{our_commit_log.MESSAGES_A_SECOND:,} messages times the seconds of a measurement.",
                measure=our_commit_log.finding(ask),
            )
            for what, ask in BY.items()
        ),
    )
