"""Waking: how soon a reader in another process, which has slept for a while, has a new record."""

from __future__ import annotations

from binlog import Mode
from stress.bench.contestant import IDLE_MS, OURS, Contestant, Row, Unit
from stress.bench.measuring import waiting
from stress.bench.peers import floor, ours_waking

NAME = "waking"
FLOOR = "floor: futex"
CALLS = "floor: append, futex, read"
FROM_THE_CALL = f"{OURS}, flush"


def rows() -> list[Row]:
    """Return the one row."""
    return [
        Row(
            name=NAME,
            title=f"Waking a reader in another process, after the writer and the reader have slept for {IDLE_MS} ms",
            unit=Unit.MICROSECONDS,
            contestants=(
                Contestant(
                    name=OURS,
                    how="From the return of `Writer.append` to the return of `Reader.tail` with the record, in another "
                    "process. `append` wakes the reader just before it returns, so the time is negative if `tail` "
                    "returns first.",
                    measure=ours_waking.measure(Mode.SYNC, since_return=True),
                ),
                Contestant(
                    name=f"{OURS}, with the sync",
                    how="From the call of `append`. The time includes the sync, because the writer wakes the reader "
                    "after it.",
                    measure=ours_waking.measure(Mode.SYNC, since_return=False),
                ),
                Contestant(
                    name=FROM_THE_CALL,
                    how="From the call of `append` in `Mode.FLUSH`.",
                    measure=ours_waking.measure(Mode.FLUSH, since_return=False),
                ),
                Contestant(
                    name=f"{OURS}, flush, wait()",
                    how="The same, but the reader calls `Reader.wait`, and then iterates.",
                    measure=ours_waking.measure(Mode.FLUSH, since_return=False, follow=ours_waking.by_wait),
                ),
                Contestant(
                    name=FLOOR,
                    how="Two C loops and a word that both of them map: from before `FUTEX_WAKE` in one loop to after "
                    "`FUTEX_WAIT` in the other.",
                    measure=waiting(floor.with_roles("floor_ring", "floor_wait"), processes=2),
                ),
                Contestant(
                    name=CALLS,
                    how="Two C loops, one with the system calls of an append in `Mode.FLUSH`, and one with those of a "
                    "reader that wakes up and reads the record: from before the first call to after the last one.",
                    measure=waiting(floor.with_roles("floor_append_ring", "floor_append_wait"), processes=2),
                ),
            ),
        )
    ]
