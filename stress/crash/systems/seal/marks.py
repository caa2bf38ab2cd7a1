"""The marks of a sealer: the checkpoints that it returned, that its anchor has, and that a reader saw.

The records of the same processes have the marks of a log (stress/crash/systems/log/actor.py).
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import Note
from stress.crash.marks import Values

_ROOT = struct.Struct("=4q")


class MarkKind(enum.IntEnum):
    """The kind of a mark.  The numbers are above those of a log's marks."""

    SEALED = 101  # `seal` returned it
    ANCHORED = 102  # the anchor has it, durably
    SEEN = 103  # it was in the folder of the seal


class Head(NamedTuple):
    """The size and the root of a checkpoint.  root: as four numbers."""

    size: int
    root: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.size} records, root {_ROOT.pack(*self.root).hex()[:16]}"


class Mark(NamedTuple):
    """A mark."""

    kind: MarkKind
    size: int
    root: tuple[int, ...]


def head_with(size: int, root: bytes) -> Head:
    """Return a head."""
    return Head(size, _ROOT.unpack(root))


def head_of(note: Note) -> Head:
    """Return the head of a checkpoint."""
    found = parse_checkpoint(note.text)
    return head_with(found.size, found.root)


def is_of_seal(values: Values) -> bool:
    """Whether a mark with these values is one of a sealer."""
    return values[0] >= MarkKind.SEALED


def mark_of(values: Values) -> tuple[MarkKind, Head]:
    """Return the kind and the head of a mark with these values."""
    kind, size, *root = values
    return MarkKind(kind), Head(size, tuple(root[:4]))
