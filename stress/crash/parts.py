"""The parts of the harness: each failure mode of each system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stress.crash.failure_modes import damage, faults, kill, power
from stress.crash.system import System
from stress.crash.systems.commitlog.system import CommitLogSystem
from stress.crash.systems.group.damage import GroupDamage
from stress.crash.systems.group.damage import replay as replay_group_damage
from stress.crash.systems.group.system import GroupSystem
from stress.crash.systems.journal.system import JournalSystem
from stress.crash.systems.log.system import LogSystem
from stress.crash.systems.messages.depage import DepageSystem
from stress.crash.systems.messages.queue import QueueSystem
from stress.crash.systems.pagestore.system import PageStoreSystem
from stress.crash.systems.seal.system import SealSystem
from stress.crash.workers.context import Context

SYSTEMS: tuple[System[Any, Any], ...] = (
    LogSystem(),
    CommitLogSystem(),
    JournalSystem(),
    QueueSystem(),
    DepageSystem(),
    PageStoreSystem(),
    GroupSystem(),
    SealSystem(),
)


class PartRun(Protocol):
    """A running part."""

    def run_slice(self) -> None:
        """Run for a few seconds at most."""


@dataclass(frozen=True)
class _FailureMode:
    """A failure mode.  share: of a worker's time, relative to the others that run."""

    begin: Callable[[Context, System[Any, Any], str], PartRun]
    replay: Callable[[System[Any, Any], str, Path, Path], list[str]]
    share: float


_FAILURE_MODES = {
    "power": _FailureMode(power.Power, power.replay, 0.15),
    "kill": _FailureMode(kill.Kill, kill.replay, 0.1),
    "faults": _FailureMode(faults.Faults, faults.replay, 0.05),
}

# Only the bytes of logs, and of the logs of groups, are changed at random.
_DAMAGE = {
    "": _FailureMode(damage.Damage, damage.replay, 0.05),
    "group": _FailureMode(GroupDamage, replay_group_damage, 0.05),
}


@dataclass(frozen=True)
class Part:
    """One failure mode of one system."""

    name: str
    system: System[Any, Any]
    failure_mode: _FailureMode

    def begin(self, context: Context) -> PartRun:
        """Start the part in a worker."""
        return self.failure_mode.begin(context, self.system, self.name)

    def replay(self, folder: Path, scratch: Path) -> list[str]:
        """Run a saved violation again and return the violations found."""
        return self.failure_mode.replay(self.system, self.name, folder, scratch)

    @property
    def share(self) -> float:
        """The part's share of a worker's time, relative to the others that run."""
        return self.failure_mode.share * self.system.share


PARTS: dict[str, Part] = {
    part.name: part
    for system in SYSTEMS
    for name, failure_mode in (*_FAILURE_MODES.items(), ("damage", _DAMAGE.get(system.name)))
    if failure_mode is not None
    for part in [Part(f"{system.name}-{name}".lstrip("-"), system, failure_mode)]
}
