"""Invented recordings, for the models of a disk."""

from __future__ import annotations

from stress.crash.preloaded.trace import Event, Kind

ROOT, FILE = 1, 2


class Run:
    """Events one after another, two ticks each."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.tick = 0

    def add(self, kind: Kind, inode: int = FILE, *, offset: int = 0, data: bytes = b"", name: str = "", old: str = "",
            ticks: int = 2) -> None:  # fmt: skip
        self.events.append(
            Event(
                kind, 1, self.tick + 1, self.tick + ticks, inode, ROOT, name, ROOT if old else 0, old, offset, data, ()
            )
        )
        self.tick += 2
