"""What a store's workload says of itself in the trace, and what must be there by that after a power cut."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from stress.crash.marks import Values
from stress.crash.store.inspection import Place
from stress.crash.store.messages import Identity


class MarkKind(enum.IntEnum):
    """Tried and removing come before the call, the others after it."""

    TRIED = 1  # a writer's message
    APPENDED = 2  # it lies at this place, as the call said
    DURABLE = 3  # all before this offset is promised to survive a power cut
    REMOVING = 4  # files may go, up to this offset
    REMOVED = 5  # they are gone, up to this offset


class Mark(NamedTuple):
    """One mark.  writer, number: of a message.  place: where it lies; of all other marks the offset is in it."""

    kind: MarkKind
    writer: int
    number: int
    place: Place

    @property
    def values(self) -> Values:
        """As five numbers."""
        return self.kind, self.writer, self.number, self.place.queue_offset, self.place.offset


def mark_of(values: Values) -> Mark:
    """The mark that `values` gave."""
    kind, writer, index, queue_offset, offset = values
    return Mark(MarkKind(kind), writer, index, Place(offset, queue_offset))


def offset_mark(kind: MarkKind, offset: int) -> Mark:
    """A mark that says nothing but an offset."""
    return Mark(kind, 0, 0, Place(offset, 0))


@dataclass
class Expectation:
    """By the marks until some tick.

    placed: where messages lie, as calls said.  durable: the offset before which all is promised.
    removing, removed: where the log may begin at most, and must at least.
    """

    tried: set[Identity] = field(default_factory=set)
    placed: dict[Identity, Place] = field(default_factory=dict)
    durable: int = 0
    removing: int = 0
    removed: int = 0

    def add(self, mark: Mark) -> None:
        """Take one more mark into account."""
        match mark.kind:
            case MarkKind.TRIED:
                self.tried.add((mark.writer, mark.number))
            case MarkKind.APPENDED:
                self.placed[mark.writer, mark.number] = mark.place
            case MarkKind.DURABLE:
                self.durable = max(self.durable, mark.place.offset)
            case MarkKind.REMOVING:
                self.removing = max(self.removing, mark.place.offset)
            case MarkKind.REMOVED:
                self.removed = max(self.removed, mark.place.offset)

    def promised(self) -> list[Mark]:
        """What must be there, and what may be gone, as marks for an expectation to begin with."""
        durable = [
            Mark(MarkKind.APPENDED, writer, index, place)
            for (writer, index), place in self.placed.items()
            if place.offset < self.durable
        ]
        offsets = [(MarkKind.DURABLE, self.durable), (MarkKind.REMOVED, self.removed)]
        return [*durable, *(offset_mark(kind, offset) for kind, offset in offsets)]

    def possible(self) -> list[Mark]:
        """What may be there, likewise."""
        tried = [Mark(MarkKind.TRIED, writer, index, Place(0, 0)) for writer, index in sorted(self.tried)]
        return [*tried, offset_mark(MarkKind.REMOVING, self.removing)]
