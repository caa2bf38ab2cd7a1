"""How much of a store must be whole, however it was left, and while a process writes to it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from binlog.commitlog.store_state import StoreState


@dataclass(frozen=True, slots=True)
class Settled:
    """Up to where: an offset of the commit log, or the time at which a message was stored, None for all of it.

    What lies behind is in flight: it is being written, or a crash kept it from the disk and recovery will see to it.
    cut_ms: if RocketMQ had the store last, when its last message was stored.  What lies behind that may be what
    RocketMQ cut off, which it neither erases nor takes out of queues and key index.
    """

    end: int | None = None
    until_ms: int | None = None
    cut_ms: int | None = None

    @classmethod
    def of(cls, state: StoreState) -> Settled:
        """That of a store in this state."""
        if state.clean:
            foreign = state.news is None and state.checkpoint is not None
            return cls(cut_ms=state.checkpoint.log_ms if foreign and state.checkpoint is not None else None)
        if state.owned and state.news is not None:
            return cls(end=state.news.readable_end)
        return cls(until_ms=0 if state.checkpoint is None else state.checkpoint.recovery_ms)

    @property
    def all(self) -> bool:
        """Whether everything is."""
        return self.end is None and self.until_ms is None


class Lost:
    """Stretches of the commit log that are damaged: what queues and key index should have of them nobody can say.

    removed_end: up to where the log was removed while it was gone through.
    """

    def __init__(self) -> None:
        self.removed_end = 0
        self._stretches: list[tuple[int, int]] = []

    def add(self, start: int, stop: int) -> None:
        """From `start` to before `stop`, which lies behind all that were added."""
        self._stretches.append((start, stop))

    def __contains__(self, offset: int) -> bool:
        before = bisect_right(self._stretches, offset, key=lambda stretch: stretch[0])
        return before > 0 and offset < self._stretches[before - 1][1]
