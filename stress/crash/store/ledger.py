"""What processes that may die say of the messages that they append to a store, in memory that they share."""

from __future__ import annotations

from binlog import Entry, Ref
from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from stress.crash.ledger import AnyLedger, Fate, Part, record_bytes
from stress.crash.store.inspection import Contents, Place
from stress.crash.store.messages import message_of


class StoreOwn(Part):
    """One who appends to a store: a place for threads, of one process after the other."""

    def append(self, store: MessageStore, *sizes: int) -> None:
        """Append the next messages, in one call; 0: of a size of its own.

        Each counts for itself: a process that dies in the middle may leave the first ones of a call.
        """
        first = self.tried
        for _ in sizes:
            self._try(1)
        indexes = range(first, self.tried)
        messages = [message_of(self.writer, index, size) for index, size in zip(indexes, sizes, strict=True)]
        appended = self._called(first, len(sizes), lambda: store.append(messages))
        fate = Fate.DURABLE if store._options.flush is Flush.SYNC else Fate.KEPT
        for index, *place in zip(indexes, appended.offsets, appended.queue_offsets, strict=True):
            self._tell(index, 1, [_ref(Place(*place))], fate)


class StoreLedger(AnyLedger[StoreOwn]):
    """All who append."""

    def __init__(self, writers: int, room: int) -> None:
        super().__init__(StoreOwn, writers, room)

    def compare(self, contents: Contents, *, least: Fate = Fate.KEPT) -> list[str]:
        """What is wrong with what a store has; see `judge`.  What lay before its start was removed."""
        there = [
            Entry(_ref(place), record_bytes(*which))
            for which, place in contents.messages.items()
            if which[0] < len(self.writers)  # those of who judged it are not in here
        ]
        gone = [
            Entry(ref, record_bytes(own.writer, index))
            for own in self.writers
            for index, ref, _, _ in own.entries()
            if ref is not None and ref.offset < contents.start
        ]
        return self.judge(sorted([*gone, *there], key=lambda entry: entry.ref.offset), least=least)


def _ref(place: Place) -> Ref:
    """Both offsets of a message, as a ledger keeps them: which are never both 0 then."""
    return Ref(place.queue_offset + 1, place.offset)
