"""Who has a queue, or what is depaged, to itself: each call is marked before it is made, and what it promised after."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from binlog.errors import AccessError, FullError
from stress.paging.ledger import Identity, Mark, What

_NONE = Identity(0, 0, 0)
_IN_TRANSACTION = (What.TX_ACK, What.TX_PUT, What.TX_TRIED, What.TX_DONE, What.TX_DROPPED)


class Witness(Protocol):
    """Where marks go."""

    def mark(self, mark: Mark) -> None:
        """Note a mark, now."""


@dataclass(frozen=True)
class Who:
    """Whose marks they are.

    life: which process it is, by which its messages are told from others'.  wrong: to which it adds what is wrong with
    what it was told.
    """

    witness: Witness
    life: int
    chance: random.Random
    wrong: list[str] = field(default_factory=list)


class Actor(ABC):
    """It has something open, and does steps with it."""

    def __init__(self, who: Who) -> None:
        self._chance = who.chance
        self._who = who
        self._number = self._tx = 0

    @abstractmethod
    def put(self) -> None:
        """Put one message."""

    def close(self) -> None:
        """Close what it has, which promises all."""
        self._close()
        self._mark(What.PUTS_SYNCED)
        self._mark(What.ACKS_SYNCED)

    @abstractmethod
    def _close(self) -> None: ...

    def _next(self) -> Identity:
        self._number += 1
        return Identity(self._who.life, 0, self._number)

    def _mark(self, what: What, message: Identity = _NONE) -> None:
        tx = self._tx if what in _IN_TRANSACTION else 0
        self._who.witness.mark(Mark(what, self._who.life, 0, tx, message))

    @contextmanager
    def _refusing(self, what: What, message: Identity = _NONE) -> Iterator[None]:
        """For a call whose error may say that nothing was done."""
        try:
            yield
        except (FullError, AccessError):
            self._mark(what, message)
            raise


Step = Callable[[Any], None]
"""A method of an actor."""


@dataclass(frozen=True)
class Kind:
    """What is broken, and how it is looked at.

    open: for an actor.  look: all messages that are there, in their order, which stay.  drain: likewise, and they are
    gone then.  put: messages, the first by itself, the others in one transaction.
    """

    open: Callable[[Path, Who], Actor]
    look: Callable[[Path], list[Identity]]
    drain: Callable[[Path], list[Identity]]
    put: Callable[[Path, list[Identity]], None]


@dataclass(frozen=True)
class Scenario:
    """So many steps, each as often as its number says against the others'."""

    kind: Kind
    steps: dict[Step, int]
    count: int

    def chosen(self, chance: random.Random) -> list[Step]:
        """As chance has it."""
        return chance.choices([*self.steps], [*self.steps.values()], k=self.count)

    def live(self, path: Path, witness: Witness, life: int, seed: str) -> None:
        """Open it, take the steps, and close it."""
        chance = random.Random(f"{seed}/{life}")
        with closing(self.kind.open(path, Who(witness, life, chance))) as actor:
            for step in self.chosen(chance):
                step(actor)
