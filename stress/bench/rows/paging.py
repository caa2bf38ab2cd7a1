"""The queue over pages: its rate while messages go to pages and come back, and what memory it takes."""

from __future__ import annotations

from stress.bench.contestant import BODY_BYTES, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_queue

RATE = "paging"
MEMORY = "paging-memory"
LOG = f"{OURS}'s log"

_BYTES_A_SECOND = 1 << 29
_WAITING = f"{our_queue.WAITING_BYTES >> 20} MiB of older ones wait in pages"


def rows() -> list[Row]:
    """All of them."""
    return [_rate(), _memory()]


def _rate() -> Row:
    return Row(
        name=RATE,
        title=f"A queue: messages of {BODY_BYTES} bytes put, got and acknowledged, not synced, while {_WAITING}",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Queue.put`, `get` and `ack` in `Mode.FLUSH`, in turns; each message is read from its page.",
                measure=measuring(our_queue.in_turns()),
            ),
            Contestant(
                name=LOG,
                how=f"`Writer.append` of {BODY_BYTES} bytes in `Mode.FLUSH`, one a call, and nothing else.",
                measure=measuring(our_queue.flushed()),
            ),
        ),
    )


def _memory() -> Row:
    return Row(
        name=MEMORY,
        title=f"Memory at most of a process with such a queue, above what it has with an empty one; {_WAITING}",
        unit=Unit.MEBIBYTES,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="As above, `VmHWM` of the process.",
                measure=our_queue.peak_memory(),
            ),
        ),
    )
