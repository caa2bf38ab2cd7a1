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
from stress.crash.life_kill import replay as replay_life
from stress.crash.log_subject import LOGS
from stress.crash.pagestore import faults as page_store_faults
from stress.crash.pagestore.kill import PAGE_STORE_VICTIM
from stress.crash.pagestore.subject import PAGE_STORES
from stress.crash.paging import faults as paging_faults
from stress.crash.paging.kill import PAGING_VICTIM
from stress.crash.paging.subject import DEPAGES, QUEUES
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
    "paging-kill": partial(replay_life, PAGING_VICTIM),
    "paging-faults": paging_faults.replay,
    "depage-power": partial(power.replay, DEPAGES),
    "depage-faults": paging_faults.replay_depaging,
    "pagestore-power": partial(power.replay, PAGE_STORES),
    "pagestore-kill": partial(replay_life, PAGE_STORE_VICTIM),
    "pagestore-faults": page_store_faults.replay,
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
