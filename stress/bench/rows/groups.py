"""Consumer groups: dead and idle workers, many messages that wait or are delayed, and the sizes of a group."""

from __future__ import annotations

from binlog import Mode
from stress.bench.contestant import BODY_BYTES, IDLE_MS, OURS, Contestant, Measure, Row, Unit
from stress.bench.peers import (
    our_group_backlog,
    our_group_killed,
    our_group_sizes,
    our_group_waking,
    ours_waking,
)
from stress.bench.rows.group_rates import PERSIST_QUEUE, REDIS, SQLITE
from stress.bench.sample import Sample

KILLED, WAKE, HERD = "group-killed", "group-wake", "group-herd"
BACKLOG, HOT_KEY = "group-backlog", "group-hot-key"
OPENING, DISK, BYTES, MEMORY = "group-opening", "group-disk", "group-bytes", "group-memory"
DELAYED, IDLE = "group-delayed", "group-idle"
PRODUCER = "group-producer"

FREED = f"{OURS}, from the closed seat"
READER = f"{OURS}'s reader"
FEW = f"{OURS}, few messages wait"
NO_HOT_KEY = f"{OURS}, none with that key wait"
ALONE = f"{OURS}, no workers"

_IDLE_WORKERS = 32
_PRODUCER_WORKERS = 16

_BYTES_A_SECOND = 1 << 29
_LONG_FACTOR = 5
_DELAYED_A_LONG_SECOND = our_group_waking.DELAYED_A_SECOND // _LONG_FACTOR


def rows() -> list[Row]:
    """Return all rows."""
    return [
        _killed(),
        _wake(),
        _herd(),
        _backlog(),
        _hot_key(),
        _opening(),
        _disk(),
        _bytes(),
        _memory(),
        _delayed(),
        _idle(),
        _producer(),
    ]


def _killed() -> Row:
    return Row(
        name=KILLED,
        title="From SIGKILL of a worker that has a message to another worker that has it, which slept before",
        unit=Unit.MICROSECONDS,
        seconds_factor=_LONG_FACTOR,
        contestants=(
            Contestant(
                name=OURS,
                how="A process kills the worker, a forked Python process. The time ends when `ConsumerGroup.get` "
                "returns the message in the other worker. No setting decides how long it takes.",
                measure=our_group_killed.killed(since_freed=False),
            ),
            Contestant(
                name=FREED,
                how="The same, but the time begins when `poll` reports to the killing process that the kernel has "
                "closed the FIFO of the dead worker's seat. The lock of the seat is free then.",
                measure=our_group_killed.killed(since_freed=True),
            ),
            *(_not_timed(name, reason) for name, reason in _RETURNED_AFTER_DEATH.items()),
        ),
    )


# The defaults of the others, from their documents and sources.
_RETURNED_AFTER_DEATH = {
    SQLITE: "no process notices: a claimed row returns after a visibility time-out that the application chooses, or "
    "never",
    REDIS: "the server does not notice: a pending message returns when a consumer calls `XAUTOCLAIM` for messages that "
    "were idle for longer than a time that the application chooses",
    PERSIST_QUEUE: "no process notices: the message returns when a process opens the queue again, together with those "
    "of living workers",
}


def _not_timed(name: str, reason: str) -> Contestant:
    return Contestant(name=name, how=f"By default, {reason}.", measure=_unmeasured, missing=lambda: reason)


def _unmeasured(*_: object) -> Sample:
    raise AssertionError


def _wake() -> Row:
    since = "From the call of `Writer.append` in `Mode.SYNC` in another process, which has slept as well, to the return"
    return Row(
        name=WAKE,
        title="Waking a worker in another process with a message, after the producer and the worker have slept for "
        f"{IDLE_MS} ms",
        unit=Unit.MICROSECONDS,
        contestants=(
            Contestant(
                name=OURS,
                how=f"{since} of `ConsumerGroup.get`.",
                measure=our_group_waking.woken(since_return=False),
            ),
            Contestant(
                name=READER,
                how=f"{since} of `Reader.tail`.",
                measure=ours_waking.measure(Mode.SYNC, since_return=False),
            ),
            Contestant(
                name=f"{OURS}, from the return",
                how="From the return of `append` to the return of `ConsumerGroup.get`.",
                measure=our_group_waking.woken(since_return=True),
            ),
            Contestant(
                name=f"{READER}, from the return",
                how="From the return of `append` to the return of `Reader.tail`. The time is negative if the reader "
                "was faster.",
                measure=ours_waking.measure(Mode.SYNC, since_return=True),
            ),
        ),
    )


def _herd() -> Row:
    return _ours_alone(
        HERD,
        f"How many of {_IDLE_WORKERS} sleeping workers wake for one message",
        Unit.PROCESSES,
        "Processes whose main thread went to sleep again in the time from the append to some milliseconds after the "
        "acknowledgement (`/proc/PID/task/PID/status`). The median of all messages.",
        our_group_waking.woken_workers(_IDLE_WORKERS),
    )


def _backlog() -> Row:
    return Row(
        name=BACKLOG,
        title=f"A claim and its acknowledgement, not synced, while messages of {BODY_BYTES} bytes wait "
        f"({our_group_backlog.WAITING_A_SECOND:,} times the seconds of a measurement)",
        unit=Unit.MICROSECONDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="In turn, 1,000 messages are appended, and as many are taken and acknowledged in `Mode.FLUSH`. "
                "The time of the second half.",
                measure=our_group_backlog.backlog(is_long=True),
            ),
            Contestant(
                name=FEW,
                how="The same, while 1,000 to 2,000 messages wait.",
                measure=our_group_backlog.backlog(is_long=False),
            ),
        ),
    )


def _hot_key() -> Row:
    return Row(
        name=HOT_KEY,
        title="A group with order by key: messages of other keys that a worker takes and acknowledges, not synced, "
        f"while messages of one key wait ({our_group_backlog.HOT_A_SECOND:,} times the seconds of a measurement)",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="The worker has the first message of the key in hand, and the others of the key wait for it. In "
                "turn, 1,000 messages with other keys are appended, and as many are taken and acknowledged in "
                "`Mode.FLUSH`. The rate of the second half.",
                measure=our_group_backlog.hot_key(is_waiting=True),
            ),
            Contestant(
                name=NO_HOT_KEY,
                how="The same, but no message waits for the one in hand.",
                measure=our_group_backlog.hot_key(is_waiting=False),
            ),
        ),
    )


_WORKED = (
    f"acknowledged messages ({our_group_sizes.DONE_A_SECOND:,} times the seconds of a measurement) and messages that "
    f"wait for a retry ({our_group_sizes.OUTSTANDING_A_SECOND:,} for each of these seconds)"
)


def _opening() -> Row:
    return _ours_alone(
        OPENING,
        f"Opening a group with {_WORKED}",
        Unit.MICROSECONDS,
        "From the call of `ConsumerGroup` to the return of `get` with the first message, with the files in the page "
        "cache.",
        our_group_sizes.opening(),
        disk_bytes=_BYTES_A_SECOND,
    )


def _disk() -> Row:
    return _ours_alone(
        DISK,
        f"The disk space of a group with {_WORKED}",
        Unit.MEBIBYTES,
        "The allocated blocks of all files of the group, without the log of the messages; the group was made once "
        "for the run.",
        our_group_sizes.disk_mebibytes(),
        disk_bytes=_BYTES_A_SECOND,
    )


def _bytes() -> Row:
    return _ours_alone(
        BYTES,
        "How much the group's log grows for a message without a key that is claimed and acknowledged alone",
        Unit.BYTES,
        "The growth of the log's tail, divided by the number of messages.",
        our_group_sizes.bytes_a_message(),
        disk_bytes=_BYTES_A_SECOND,
    )


def _memory() -> Row:
    return _ours_alone(
        MEMORY,
        "Memory of a worker's process, above that of a process with a reader",
        Unit.MEBIBYTES,
        "`VmRSS` of a Python process that claims and acknowledges messages, less that of one that reads as many with "
        "a `Reader`.",
        our_group_sizes.memory(),
    )


def _delayed() -> Row:
    return _ours_alone(
        DELAYED,
        f"How long after its due time a worker has a message; one is due every {our_group_waking.DUE_EVERY_MS} ms, "
        f"and {our_group_waking.DELAYED_A_SECOND:,} times the seconds of a measurement are due in an hour",
        Unit.MICROSECONDS,
        "From the due time in the message to the return of `ConsumerGroup.get`; acknowledgements are not synced.",
        our_group_waking.lateness(),
        disk_bytes=_BYTES_A_SECOND,
    )


def _idle() -> Row:
    return _ours_alone(
        IDLE,
        "How often an idle worker wakes, whose group has "
        f"delayed messages ({_DELAYED_A_LONG_SECOND:,} for each second of the measurement)",
        Unit.WAKES,
        "How often a thread of its process goes to sleep (`/proc/PID/task/*/status`). The group has no other member.",
        our_group_waking.idle_wakes(_DELAYED_A_LONG_SECOND),
        seconds_factor=_LONG_FACTOR,
        disk_bytes=_BYTES_A_SECOND,
    )


def _producer() -> Row:
    return Row(
        name=PRODUCER,
        title=f"Durable appends of {BODY_BYTES} bytes by one process, while {_PRODUCER_WORKERS} workers claim and "
        "acknowledge the messages, durably too",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Writer.append` in `Mode.SYNC`; the workers as in the row of their number.",
                measure=our_group_sizes.producing(_PRODUCER_WORKERS),
            ),
            Contestant(
                name=ALONE,
                how="The same `Writer.append`, and no other process.",
                measure=our_group_sizes.producing(0),
            ),
        ),
    )


def _ours_alone(
    name: str, title: str, unit: Unit, how: str, measure: Measure, *, seconds_factor: float = 1, disk_bytes: int = 0
) -> Row:
    return Row(
        name=name,
        title=title,
        unit=unit,
        seconds_factor=seconds_factor,
        disk_bytes=disk_bytes,
        contestants=(Contestant(name=OURS, how=how, measure=measure),),
    )
