"""What comes of a store after deaths or faults: it is opened, looked at and appended to, and removed."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from binlog.commitlog.options import Flush
from binlog.errors import BinlogError
from stress.crash.ledger import Fate
from stress.crash.store.inspection import Contents
from stress.crash.store.judge import look_twice
from stress.crash.store.ledger import StoreLedger

POOL = "binlog-pool-"
"""What the names of a store's shared memory begin with."""

_AFTER, _AFTER_POWER_CUT = 98, 97  # who appends to what is judged


def judge_store(
    path: Path, ledger: StoreLedger, flush: Flush, *, least: Fate = Fate.KEPT, again: bool = False
) -> tuple[Contents, list[str]]:
    """What a store has, and what is wrong with it, and with what is appended to it then.

    again: after it was judged before.
    """
    problems: list[str] = []
    contents = Contents(0, 0)
    try:
        contents = look_twice(path, problems, writer=_AFTER_POWER_CUT if again else _AFTER, flush=flush)
        return contents, problems + ledger.compare(contents, least=least)
    except BinlogError as error:
        problems.append(f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever the store raises is what is to be told
        problems.append(f"an error that is none of binlog's: {type(error).__name__}: {error}")
    return contents, problems


def remove_store(path: Path) -> None:
    """Remove a store, and what its dead processes left in shared memory."""
    remove_pools(path)
    shutil.rmtree(path, ignore_errors=True)


def remove_pools(path: Path) -> None:
    """Remove the shared memory of the store in a folder, which need not be there."""
    with suppress(FileNotFoundError):
        status = path.stat()
        for name in os.listdir("/dev/shm"):
            if name.startswith(f"{POOL}{status.st_dev:x}-{status.st_ino:x}-"):
                os.unlink(f"/dev/shm/{name}")
