"""A turn whose sync fails, then the death of whoever opens the log anew and takes the turn again, and one more death.

The file that says of itself that a sync failed is sealed on the way; a death in the middle of that must leave the turn
in the log as a whole or not at all, and known to be so.  The second death is of one who takes another source's turn: to
settle that, whoever comes next looks at every turn that was not finished.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from binlog import Writer
from binlog.errors import PoisonedError
from stress.crash.judge import LOCK_SECONDS, PREPARE_BYTES
from stress.crash.ledger import Own
from stress.crash.mortal import Mortal
from stress.crash.striker import NOTHING, Action, Kind, Strike, arm

_A_TURN = 3
_SYNCS_ABOUT = 8  # of one who opens a log and takes a turn


def one_poisoned(log: Path, own: Own, other: Own, under: str, failed: int, strike: Strike) -> tuple[bool, list[str]]:
    """Fail a turn's `failed`-th sync, and strike who takes it again; whether that was killed, and what is wrong.

    other: whose turn is killed after that.  At the end both turns were taken again, by one whom nothing befell.
    """
    syncs = (Kind.DATA_SYNC, Kind.SYNC)
    failing = Strike(Action.FAIL, failed, syncs, error=errno.EIO)
    dying = Strike(Action.KILL_BEFORE, strike.first % _SYNCS_ABOUT, syncs)
    killed = False
    wrong = []
    for each, turns in ((failing, (own,)), (strike, (own,)), (dying, (other,)), (NOTHING, (own, other))):

        def live(each: Strike = each, turns: tuple[Own, ...] = turns) -> None:
            arm(each, under)
            with (
                contextlib.suppress(PoisonedError) if each is failing else contextlib.nullcontext(),
                Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer,
            ):
                for turn in turns:
                    turn.append_turn(writer, _A_TURN, first=0)

        mortal = Mortal(live, turns[0])
        if failure := mortal.failure():
            wrong.append(failure)
        if each is strike:
            killed = mortal.killed
    return killed, wrong
