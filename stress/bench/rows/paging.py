"""The queue over pages: its rate while messages are paged and depaged, and its memory."""

from __future__ import annotations

from binlog import Mode
from stress.bench.contestant import BODY_BYTES, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_queue, ours

RATE = "paging"
MEMORY = "paging-memory"
MANY = "paging-many"
MANY_MEMORY = "paging-many-memory"
LOG = f"{OURS}'s log"

_BYTES_A_SECOND = 1 << 29
_MANY_BYTES_A_SECOND = our_queue.MANY_A_SECOND * (BODY_BYTES + 64)
_MILLIONS_A_SECOND = f"{our_queue.MANY_A_SECOND / 1e6:g} million"
_MANY = f"millions of messages of {BODY_BYTES} bytes ({_MILLIONS_A_SECOND} times the seconds of a measurement)"
_WAITING = f"{our_queue.WAITING_BYTES >> 20} MiB of older messages wait in pages"


def rows() -> list[Row]:
    """Return all rows."""
    alternating_figures, many = our_queue.alternating(), our_queue.many()
    return [
        Row(
            name=RATE,
            title=f"A queue: messages of {BODY_BYTES} bytes put, got and acknowledged, not synced, while {_WAITING}",
            unit=Unit.RECORDS,
            disk_bytes=_BYTES_A_SECOND,
            contestants=(
                Contestant(
                    name=OURS,
                    how="`Queue.put`, `get` and `ack` in turn, in `Mode.FLUSH`; each message is read from its page.",
                    measure=alternating_figures.rate(),
                ),
                Contestant(
                    name=LOG,
                    how=f"`Writer.append` of {BODY_BYTES} bytes in `Mode.FLUSH`, one record a call, and nothing else.",
                    measure=measuring(ours.one_a_call(Mode.FLUSH, BODY_BYTES)),
                ),
            ),
        ),
        _memory(MEMORY, f"the queue of `{RATE}`, in which {_WAITING}", _BYTES_A_SECOND, alternating_figures),
        Row(
            name=MANY,
            title=f"A queue of {_MANY}: all are put, not synced, and then all are got and acknowledged",
            unit=Unit.RECORDS,
            disk_bytes=_MANY_BYTES_A_SECOND,
            contestants=(
                Contestant(
                    name=OURS,
                    how="`Queue.put` of all in `Mode.FLUSH`, then `get` and `ack` of each; "
                    "a message counts after all three.",
                    measure=many.rate(),
                ),
                Contestant(
                    name=LOG,
                    how=f"`Writer.append` of the same number of records, with {BODY_BYTES} bytes, in `Mode.FLUSH`.",
                    measure=our_queue.many_flushed(),
                ),
            ),
        ),
        _memory(MANY_MEMORY, f"a queue of {_MANY}", _MANY_BYTES_A_SECOND, many),
    ]


def _memory(name: str, of: str, disk_bytes: int, figures: our_queue.Figures) -> Row:
    return Row(
        name=name,
        title=f"Peak memory of a process with {of}, less that of a process with an empty queue",
        unit=Unit.MEBIBYTES,
        disk_bytes=disk_bytes,
        contestants=(
            Contestant(
                name=OURS,
                how="`VmHWM` of the process that the previous row measured.",
                measure=figures.memory(),
            ),
        ),
    )
