"""Look at one kept violation again: `python -m stress.crash.replay FOLDER SCRATCH`, with the recorder preloaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stress.crash import damage, faults, kill, power
from stress.crash.journal import faults as journal_faults
from stress.crash.journal import kill as journal_kill
from stress.crash.journal.subject import JOURNALS
from stress.crash.log_subject import LOGS
from stress.crash.paging import kill as paging_kill
from stress.crash.paging.subject import QUEUES
from stress.crash.store import faults as store_faults
from stress.crash.store import kill as store_kill
from stress.crash.store.subject import STORES

_SHOWN_MAX = 20
_REPLAYS: dict[str, Callable[[Path, Path], list[str]]] = {
    "power": partial(power.replay, LOGS),
    "kill": kill.replay,
    "faults": faults.replay,
    "damage": damage.replay,
    "store-power": partial(power.replay, STORES),
    "store-kill": store_kill.replay,
    "store-faults": store_faults.replay,
    "journal-power": partial(power.replay, JOURNALS),
    "journal-kill": journal_kill.replay,
    "journal-faults": journal_faults.replay,
    "paging-power": partial(power.replay, QUEUES),
    "paging-kill": paging_kill.replay,
}


def main() -> int:
    """Print what is wrong; 1 where something is."""
    folder, scratch = map(Path, sys.argv[1:])
    part = json.loads((folder / "part.json").read_text())["part"]
    wrong = _REPLAYS[part](folder, scratch)
    print("\n".join(wrong[:_SHOWN_MAX]) if wrong else "nothing is wrong with it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
