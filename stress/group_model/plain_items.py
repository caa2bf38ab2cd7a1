"""The outstanding items of a plain state, and the queues that follow from them.

The rules are those of binlog/consumers/state/group_state.py, by number.
"""

from __future__ import annotations

import heapq
from bisect import insort
from dataclasses import dataclass, field

from binlog.consumers.state.group_state import ItemState
from binlog.consumers.state.settings import Order, Settings
from binlog.format.consumers.operation import NO_SEAT


@dataclass(slots=True)
class Item:
    """An outstanding item: it was assigned or delayed, and is not done.

    due_ns: the due time of a delayed item, the end of the lease of a started one; 0 for none.
    delivery: how often it was started.  deaths: how many members died that had started it.
    letter: its number among the dying items, 0 if it is not dying.  reason: why it is dying.
    """

    sequence: int
    state: ItemState
    key_hash: int = 0
    expiry_ns: int = 0
    due_ns: int = 0
    seat: int = NO_SEAT
    delivery: int = 0
    uncounted: int = 0
    deaths: int = 0
    is_suspect: bool = False
    letter: int = 0
    reason: str = ""


@dataclass(slots=True)
class Seat:
    """A member that is alive.  held: the sequences of its items."""

    generation: int
    hint: str
    lease_ns: int = 0
    held: set[int] = field(default_factory=set)


def is_at_work(item: Item) -> bool:
    """Whether a member has the item, and not in order to make it a dead letter."""
    return item.seat != NO_SEAT and not item.letter


class _Ready:
    """Sequences, of which the smallest comes out first."""

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._members: set[int] = set()

    def __len__(self) -> int:
        return len(self._members)

    def add(self, sequence: int) -> None:
        if sequence not in self._members:
            self._members.add(sequence)
            heapq.heappush(self._heap, sequence)

    def discard(self, sequence: int) -> None:
        self._members.discard(sequence)

    def pop(self) -> int:
        while (sequence := heapq.heappop(self._heap)) not in self._members:
            pass
        self._members.remove(sequence)
        return sequence


class PlainItems(dict[int, Item]):
    """The outstanding items by sequence, each in the queues that follow from its fields.

    order: of items with the same key.  seats: the members that are alive, by number.
    scheduled: the sequences of items that were never delivered and wait for their due time.
    in_hand, letters_in_hand: how many items members have, and how many of these are dying.
    """

    def __init__(self) -> None:
        super().__init__()
        self.order = Settings().order
        self.seats: dict[int, Seat] = {}
        self.scheduled: set[int] = set()
        self.in_hand = self.letters_in_hand = 0
        self._ready = _Ready()
        self._suspects = _Ready()
        self._timed: list[tuple[int, int]] = []
        self._dying: list[tuple[int, int]] = []
        self._keys: dict[int, list[int]] = {}

    @property
    def available(self) -> int:
        """How many of the items members may get now."""
        return len(self._ready) + len(self._suspects) + (self.next_letter() is not None)

    @property
    def has_suspects(self) -> bool:
        """Whether members may get an item that may have killed a member."""
        return bool(self._suspects)

    @property
    def next_due_ns(self) -> int | None:
        """The group time at which the next item becomes ready, or None."""
        while self._timed and not self._is_timed(*self._timed[0]):
            heapq.heappop(self._timed)
        return self._timed[0][0] if self._timed else None

    def add(self, item: Item) -> None:
        """Add an item to the queues that its state needs."""
        self[item.sequence] = item
        if item.state is ItemState.DELAYED:
            heapq.heappush(self._timed, (item.due_ns, item.sequence))
            if not item.delivery:
                self.scheduled.add(item.sequence)
            if self.order is Order.STRICT:
                self.queue_by_key(item)
        elif item.letter and item.state is ItemState.READY:
            heapq.heappush(self._dying, (item.letter, item.sequence))
            self.queue_by_key(item)
        elif item.state is ItemState.READY:
            self.make_ready(item)
        else:
            self.queue_by_key(item)

    def remove(self, item: Item) -> None:
        """Take an item from its member and from all queues."""
        self.detach(item)
        self._leave_key(item)
        del self[item.sequence]

    def hold(self, item: Item, seat: int) -> None:
        """Give an item to a member."""
        item.seat = seat
        self.seats[seat].held.add(item.sequence)
        self.in_hand += 1
        self.letters_in_hand += bool(item.letter)

    def detach(self, item: Item) -> None:
        """Take an item from its member, or from the items that a member may get."""
        self._ready.discard(item.sequence)
        self._suspects.discard(item.sequence)
        self.scheduled.discard(item.sequence)
        if item.seat != NO_SEAT:
            if (seat := self.seats.get(item.seat)) is not None:
                seat.held.discard(item.sequence)
            item.seat = NO_SEAT
            self.in_hand -= 1
            self.letters_in_hand -= bool(item.letter)

    def make_ready(self, item: Item) -> None:
        """Let a member get the item, as soon as it is the first one with its key."""
        item.due_ns = 0
        item.state = ItemState.READY
        is_first = self.queue_by_key(item)
        if item.letter:
            heapq.heappush(self._dying, (item.letter, item.sequence))
        elif is_first:
            (self._suspects if item.is_suspect else self._ready).add(item.sequence)
        else:
            item.state = ItemState.BLOCKED

    def set_deadline(self, item: Item, deadline_ns: int) -> None:
        """Let the lease of a started item end at a time."""
        item.due_ns = deadline_ns
        heapq.heappush(self._timed, (deadline_ns, item.sequence))

    def delay(self, item: Item, due_ns: int) -> None:
        """Let a member get an item that no member has only from a time on."""
        item.state, item.due_ns = ItemState.DELAYED, due_ns
        heapq.heappush(self._timed, (due_ns, item.sequence))
        if self.order is Order.RELAXED:
            self._leave_key(item)
        else:
            self.queue_by_key(item)

    def queue_letter(self, item: Item) -> None:
        """Let a member get a dying item that no member has, in the order of the numbers."""
        item.state, item.due_ns = ItemState.READY, 0
        heapq.heappush(self._dying, (item.letter, item.sequence))
        self.queue_by_key(item)

    def queue_by_key(self, item: Item) -> bool:
        """Rule 8.  Put the item at its place among those with its key; return whether it is the first one.

        The order is by sequence, but the item that a member has is the first one.
        """
        if not item.key_hash or self.order is Order.NONE:
            return True
        queue = self._keys.setdefault(item.key_hash, [])
        if item.sequence in queue:
            queue.remove(item.sequence)
        is_first_in_hand = bool(queue) and is_at_work(self[queue[0]])
        insort(queue, item.sequence, lo=int(is_first_in_hand))
        for sequence in queue[1:2]:
            self._block(self[sequence])
        if queue[0] != item.sequence:
            self._unblock(self[queue[0]])
        return queue[0] == item.sequence

    def _block(self, item: Item) -> None:
        if item.state is ItemState.READY and not item.letter:
            item.state = ItemState.BLOCKED
            self._ready.discard(item.sequence)
            self._suspects.discard(item.sequence)

    def _unblock(self, item: Item) -> None:
        if item.state is ItemState.BLOCKED:
            item.state = ItemState.READY
            (self._suspects if item.is_suspect else self._ready).add(item.sequence)

    def _leave_key(self, item: Item) -> None:
        queue = self._keys.get(item.key_hash) if item.key_hash else None
        if queue is None or item.sequence not in queue:
            return
        queue.remove(item.sequence)
        if queue:
            self._unblock(self[queue[0]])
        else:
            del self._keys[item.key_hash]

    def _is_timed(self, due_ns: int, sequence: int) -> bool:
        item = self.get(sequence)
        return item is not None and item.due_ns == due_ns and item.state in (ItemState.DELAYED, ItemState.STARTED)

    def pop_due(self, clock_ns: int) -> Item | None:
        """Return the next item whose due time has come, or None; the caller gives it another state."""
        while self._timed and self._timed[0][0] <= clock_ns:
            due_ns, sequence = heapq.heappop(self._timed)
            if self._is_timed(due_ns, sequence):
                return self[sequence]
        return None

    def next_letter(self) -> int | None:
        """Rule 12.  Return the sequence of the next dying item, unless a member has one."""
        while self._dying and not self._is_next_dying(*self._dying[0]):
            heapq.heappop(self._dying)
        if not self._dying or self.letters_in_hand:
            return None
        return self._dying[0][1]

    def _is_next_dying(self, letter: int, sequence: int) -> bool:
        item = self.get(sequence)
        return item is not None and item.letter == letter and item.seat == NO_SEAT

    def pop_letter(self) -> Item | None:
        """Return the next dying item, unless a member has one, or None."""
        if self.next_letter() is None:
            return None
        return self[heapq.heappop(self._dying)[1]]

    def pop_suspect(self) -> Item:
        """Return the first item that may have killed a member."""
        return self[self._suspects.pop()]

    def pop_ready(self) -> Item | None:
        """Return the first other item that a member may get, or None."""
        return self[self._ready.pop()] if self._ready else None
