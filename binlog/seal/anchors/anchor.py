"""Anchor: a place that gets the checkpoints of a log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from binlog.format.seal.note import Note, Signature

ProofFrom = Callable[[int], list[bytes]]
"""Returns the proof that the tree of an older size is the beginning of the published one."""


class Anchor(ABC):
    """A place that gets the checkpoints of a log.

    name: as in the option that made it; for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def publish(self, note: Note, proof_from: ProofFrom) -> tuple[Signature, ...]:
        """Hand over a checkpoint, and return the signatures of witnesses that came back.

        Blocks for some seconds at most.
        Raises: SealError if the anchor knows a checkpoint that contradicts this one; OSError, or an error of binlog, if
        it cannot be reached.
        """

    def latest(self, origin: str) -> Note | None:
        """Return the latest checkpoint that the anchor has of a log, if it can tell.  Raises: as `publish`."""
        return None
