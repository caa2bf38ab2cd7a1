"""The parts of the harness: each failure mode of each system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stress.crash import damage, faults, kill, power
from stress.crash.context import Context
from stress.crash.system import System
from stress.crash.systems.commitlog import CommitLogSystem
from stress.crash.systems.depage import DepageSystem
from stress.crash.systems.journal import JournalSystem
from stress.crash.systems.log import LogSystem
from stress.crash.systems.pagestore import PageStoreSystem
from stress.crash.systems.queue import QueueSystem

SYSTEMS: tuple[System[Any, Any], ...] = (
    LogSystem(),
    CommitLogSystem(),
    JournalSystem(),
    QueueSystem(),
    DepageSystem(),
    PageStoreSystem(),
)


class Turns(Protocol):
    """A running part."""

    def turn(self) -> None:
        """Run for a few seconds at most."""


@dataclass(frozen=True)
class _Way:
    """A failure mode.  share: of a worker's time, relative to the others that run."""

    begin: Callable[[Context, System[Any, Any], str], Turns]
    replay: Callable[[System[Any, Any], str, Path, Path], list[str]]
    share: float


_WAYS = {
    "power": _Way(power.Power, power.replay, 0.15),
    "kill": _Way(kill.Kill, kill.replay, 0.1),
    "faults": _Way(faults.Faults, faults.replay, 0.05),
    "damage": _Way(damage.Damage, damage.replay, 0.05),
}


@dataclass(frozen=True)
class Part:
    """One failure mode of one system."""

    name: str
    system: System[Any, Any]
    way: _Way

    def begin(self, context: Context) -> Turns:
        """Start the part in a worker."""
        return self.way.begin(context, self.system, self.name)

    def replay(self, folder: Path, scratch: Path) -> list[str]:
        """Run a saved violation again and return what is wrong."""
        return self.way.replay(self.system, self.name, folder, scratch)

    @property
    def share(self) -> float:
        """The part's share of a worker's time, relative to the others that run."""
        return self.way.share * self.system.share


PARTS: dict[str, Part] = {
    part.name: part
    for system in SYSTEMS
    for name, way in _WAYS.items()
    if name != "damage" or not system.name  # only the bytes of a log are changed at random
    for part in [Part(f"{system.name}-{name}".lstrip("-"), system, way)]
}
