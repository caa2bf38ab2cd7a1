"""Faults: a call of a process that has a store fails, or is short, at every place where it is made.

What must be true: there is an end; nothing but errors of binlog, and no InternalError; no descriptor left; what was
interrupted or short told to nobody; no space told as FullError, the message not there; after a failed write or sync
nothing appended until the store is opened anew (nor, perhaps, where queues or keys could not be told of a message).
Then all is there that was acknowledged; and what was there then, and was closed, is there still after a power cut, on a
disk that lacks what the failed sync was to cover.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from stress.crash.context import Context
from stress.crash.fault_scenarios import FAULTS, NO_SPACE, Fared, Fault, run
from stress.crash.fault_sweeps import FaultSweeps, replay_sweeps
from stress.crash.mortal import common_path
from stress.crash.store.aftermath import POOL, judge_store, remove_store
from stress.crash.store.inspection import Contents
from stress.crash.store.ledger import StoreLedger, StoreOwn
from stress.crash.store.options import options
from stress.crash.striker import Kind, arm, disarm

Step = Callable[[MessageStore, StoreOwn], None]

_LARGE_BYTES = 1900
_FAULTED, _BEFORE = range(2)
_ROOM = 200


def _append(store: MessageStore, own: StoreOwn) -> None:
    own.append(store, 0)


def _several(store: MessageStore, own: StoreOwn) -> None:
    own.append(store, 0, 0, 0)


def _large(store: MessageStore, own: StoreOwn) -> None:
    own.append(store, *(_LARGE_BYTES,) * 3)


SCENARIOS: dict[str, tuple[Step, ...]] = {
    "append": (_append, _several, _append),
    "roll": (_large, _large, _append, _large),
}


@dataclass(frozen=True)
class Case:
    """One fault: `first` is from which call on it fails, or at which alone."""

    scenario: str
    flush: str
    fault: str
    for_ever: bool
    first: int = 0

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"store-faults/{self.flush}"

    @property
    def name(self) -> str:
        """As it is told."""
        return f"{self.scenario} ({self.flush}), {self.fault} {'from' if self.for_ever else 'at'} {self.first}"


class StoreFaults(FaultSweeps[Case, Contents]):
    """See the module."""

    part = "store-faults"
    kind = "store"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._under = common_path(self._path, POOL)
        self._ledger = StoreLedger(2, _ROOM)

    def _all_sweeps(self) -> Iterator[Case]:
        for scenario, flush, fault, for_ever in itertools.product(SCENARIOS, Flush, FAULTS, (False, True)):
            yield Case(scenario, flush.value, fault, for_ever)

    def _remove(self, path: Path) -> None:
        remove_store(path)

    def _run(self, case: Case, fault: Fault) -> tuple[Contents, list[str]]:
        self._ledger.clear()
        flush = Flush(case.flush)
        with MessageStore(self._path, options(flush)) as store:
            self._ledger.writers[_BEFORE].append(store, 0, 0)
        fared = self._faulted(fault, case)
        contents, wrong = judge_store(self._path, self._ledger, Flush.SYNC)
        return contents, fared.wrong + _compare(fault, fared) + wrong

    def _faulted(self, fault: Fault, case: Case) -> Fared:
        own = self._ledger.writers[_FAULTED]

        def live() -> Fared:
            arm(fault.strike(case.first, for_ever=case.for_ever), self._under, self._slots[0])
            return run(
                lambda: MessageStore(self._path, options(Flush(case.flush))),
                [lambda store, step=step: step(store, own) for step in SCENARIOS[case.scenario]],  # type: ignore[misc]
                lambda store: own.append(store, 0),
                disarm,
                background_tells=True,
            )

        return self._fared(own, live)

    def _compare_after_cut(self, case: Case, path: Path, before: Contents) -> list[str]:
        after, wrong = judge_store(path, self._ledger, Flush.SYNC, again=True)
        wrong += [
            f"{which}, which was at {place} when the store was closed, is not there"
            for which, place in before.messages.items()
            if after.messages.get(which) != place
        ]
        return wrong


def _compare(fault: Fault, fared: Fared) -> list[str]:
    """Whether the errors are those that the fault may have."""
    told = sorted(set(fared.errors))
    if (fault.error in (0, errno.EINTR) or fault.kinds == (Kind.MEMORY,)) and told:
        return [f"nobody was to be told, and there was {', '.join(told)}"]
    if fault.error in NO_SPACE and not fault.of_syncs and set(told) - {"FullError"}:
        return [f"there is no space, and there was {', '.join(told)}"]
    return []


replay = partial(replay_sweeps, StoreFaults, Case)
