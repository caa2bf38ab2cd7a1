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
            title=f"Waking a reader that has slept for {IDLE_MS} ms, in another process",
            unit=Unit.MICROSECONDS,
            contestants=(
                Contestant(
                    name=OURS,
                    how="From when `Writer.append` returned in one process, which is when others are woken, to when "
                    "`Reader.tail` returned the record in the other; less than 0 if the reader was faster.",
                    measure=ours_waking.measure(Mode.SYNC, since_return=True),
                ),
                Contestant(
                    name=f"{OURS}, with the sync",
                    how="From when `append` was called: the processor has slept too, and all of it comes before "
                    "the bell.",
                    measure=ours_waking.measure(Mode.SYNC, since_return=False),
                ),
                Contestant(
                    name=FROM_THE_CALL,
                    how="From when `append` was called in `Mode.FLUSH`.",
                    measure=ours_waking.measure(Mode.FLUSH, since_return=False),
                ),
                Contestant(
                    name=f"{OURS}, flush, wait()",
                    how="The same with `Reader.wait`, and then iterating.",
                    measure=ours_waking.measure(Mode.FLUSH, since_return=False, follow=ours_waking.by_wait),
                ),
                Contestant(
                    name=FLOOR,
                    how="Two C loops and a word that both map: from before `FUTEX_WAKE` in the one to after "
                    "`FUTEX_WAIT` in the other.",
                    measure=waiting(floor.with_roles("floor_ring", "floor_wait"), processes=2),
                ),
                Contestant(
                    name=CALLS,
                    how="Two C loops of the system calls of an append in `Mode.FLUSH`, and of waking up and reading "
                    "it: from before the first to after the last.",
                    measure=waiting(floor.with_roles("floor_append_ring", "floor_append_wait"), processes=2),
                ),
            ),
        )
    ]
