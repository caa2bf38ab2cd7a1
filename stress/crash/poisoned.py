"""A turn whose sync fails, and then the death of whoever opens the log anew and takes the turn again.

The file that says of itself that a sync failed is sealed on the way; a death in the middle of that must leave the turn
in the log as a whole or not at all, and known to be so.
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


def one_poisoned(log: Path, own: Own, under: str, failed: int, strike: Strike) -> tuple[bool, list[str]]:
    """Fail a turn's `failed`-th sync, and strike who takes it again; whether that was killed, and what is wrong.

    Afterwards the turn was taken once more, by one whom nothing befell.
    """
    syncs = Strike(Action.FAIL, failed, (Kind.DATA_SYNC, Kind.SYNC), error=errno.EIO)
    wrong = []
    mortals = []
    for each in (syncs, strike, NOTHING):

        def live(each: Strike = each) -> None:
            arm(each, under)
            with (
                contextlib.suppress(PoisonedError) if each is syncs else contextlib.nullcontext(),
                Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer,
            ):
                own.append_turn(writer, _A_TURN, first=0)

        mortals.append(Mortal(live, own))
        if failure := mortals[-1].failure():
            wrong.append(failure)
    return mortals[1].killed, wrong
