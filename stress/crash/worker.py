"""One worker: `python -m stress.crash.worker JOB`, with the recorder preloaded.  Sends JSON lines (see Context)."""

from __future__ import annotations

import faulthandler
import gc
import shutil
import sys
import time
from collections.abc import Callable
from typing import Protocol

from stress.crash.context import Context, job_of
from stress.crash.damage import Damage
from stress.crash.faults import Faults
from stress.crash.journal.faults import JournalFaults
from stress.crash.journal.kill import JournalKill
from stress.crash.journal.subject import JOURNALS
from stress.crash.kill import Kill
from stress.crash.life_kill import LifeKill
from stress.crash.log_subject import LOGS
from stress.crash.pagestore.faults import PageStoreFaults
from stress.crash.pagestore.kill import PAGE_STORE_VICTIM
from stress.crash.pagestore.subject import PAGE_STORES
from stress.crash.paging.faults import DepageFaults, PagingFaults
from stress.crash.paging.kill import PAGING_VICTIM
from stress.crash.paging.subject import DEPAGES, QUEUES
from stress.crash.power import Power
from stress.crash.store.faults import StoreFaults
from stress.crash.store.kill import StoreKill
from stress.crash.store.subject import STORES


class Part(Protocol):
    """A way to break a log."""

    def turn(self) -> None:
        """A few seconds of it at most."""


PARTS: dict[str, Callable[[Context], Part]] = {
    "power": lambda context: Power(context, LOGS),
    "kill": Kill,
    "faults": Faults,
    "damage": Damage,
    "store-power": lambda context: Power(context, STORES),
    "store-kill": StoreKill,
    "store-faults": StoreFaults,
    "journal-power": lambda context: Power(context, JOURNALS),
    "journal-kill": JournalKill,
    "journal-faults": JournalFaults,
    "paging-power": lambda context: Power(context, QUEUES),
    "paging-kill": lambda context: LifeKill(context, PAGING_VICTIM),
    "paging-faults": PagingFaults,
    "depage-power": lambda context: Power(context, DEPAGES),
    "depage-faults": DepageFaults,
    "pagestore-power": lambda context: Power(context, PAGE_STORES),
    "pagestore-kill": lambda context: LifeKill(context, PAGE_STORE_VICTIM),
    "pagestore-faults": PageStoreFaults,
}
SHARES = {
    "power": 0.4,
    "kill": 0.2,
    "faults": 0.05,
    "damage": 0.05,
    "store-power": 0.15,
    "store-kill": 0.1,
    "store-faults": 0.05,
    "journal-power": 0.15,
    "journal-kill": 0.1,
    "journal-faults": 0.05,
    "paging-power": 0.15,
    "paging-kill": 0.1,
    "paging-faults": 0.05,
    "depage-power": 0.1,
    "depage-faults": 0.05,
    "pagestore-power": 0.15,
    "pagestore-kill": 0.1,
    "pagestore-faults": 0.05,
}
"""How much of a worker's time each part has, against the others that run."""


def main() -> None:
    """Run the parts in turn until it is time to stop."""
    faulthandler.enable()  # a crash of the compiled part, and the SIGABRT that ends one that hangs, say where
    context = Context(job_of(sys.argv[1]))
    parts: dict[str, Part] = {name: PARTS[name](context) for name in context.job.parts}
    spent = dict.fromkeys(parts, 0.0)
    gc.freeze()  # what is imported stays: no need to look through it again and again
    while not context.done:
        name = min(parts, key=lambda name: spent[name] / SHARES[name])
        begun = time.monotonic()
        parts[name].turn()
        spent[name] += time.monotonic() - begun
        context.tell()
    context.tell(at_once=True)
    shutil.rmtree(context.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
