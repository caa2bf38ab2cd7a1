"""The state of a consumer group in plain Python, to compare the compiled one with, and to seed bugs in its rules.

The rules are those of binlog/consumers/state/group_state.py, by number.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from binlog.consumers.state.group_state import Assigned, ItemState, Outcome
from binlog.consumers.state.settings import OUTSTANDING_MAX, OnExpiry, Order, Settings
from binlog.format.consumers.operation import (
    NO_SEAT,
    START_FIRST,
    WINDOW_MESSAGES_MAX,
    Again,
    Clock,
    Delivery,
    Extension,
    Failure,
    Kind,
    MessageFacts,
    Operation,
    Reset,
    Setting,
    Window,
)

WORKER_DIED = "worker died"
EXPIRED = "expired"
LEASE_ENDED = "lease ended"
_NO_FACTS = MessageFacts()
_FIXED = frozenset((Setting.RULES, Setting.ORDER))
_NUMBER_MAX = (1 << 64) - 1
DELIVERY_MAX = (1 << 32) - 1


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


@dataclass(slots=True)
class Counters:
    """What happened so far: counts of operations and messages."""

    done: int = 0
    started: int = 0
    failed: int = 0
    died: int = 0
    expired: int = 0
    dead: int = 0
    gone: int = 0
    void: int = 0


def _is_at_work(item: Item) -> bool:
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


class PlainState:
    """The state of a group after some operations.

    next: the first sequence that was never assigned.  known_end: the sequence after the last message that a window
    named.  Everything before `next` that is not in `items` is done.
    """

    def __init__(self) -> None:
        self.settings = Settings()
        self.epoch = 0
        self.clock_ns = 0
        self.clock: Clock | None = None
        self.next = self.known_end = 0
        self.witness: tuple[tuple[int, int], int] | None = None
        self.items: dict[int, Item] = {}
        self.seats: dict[int, Seat] = {}
        self.generations: dict[int, int] = {}
        self.is_paused = self.is_deleted = self.is_created = False
        self.letters = 0
        self.counters = Counters()
        self._took_new = False
        self._facts: deque[MessageFacts] = deque()  # of the last messages before `known_end`
        self._ready = _Ready()
        self._suspects = _Ready()
        self._scheduled: set[int] = set()  # those that wait for their due time and were never delivered
        self._timed: list[tuple[int, int]] = []
        self._dying: list[tuple[int, int]] = []
        self._keys: dict[int, list[int]] = {}
        self._in_hand = self._letters_in_hand = 0
        self.membership = 0  # changes when a member joins or leaves

    @property
    def floor(self) -> int:
        """The smallest sequence that is not done."""
        return min(min(self.items, default=self.next), self.next)

    @property
    def in_hand(self) -> int:
        """How many items members have."""
        return self._in_hand

    @property
    def scheduled_count(self) -> int:
        """How many items were never delivered and wait for their due time."""
        return len(self._scheduled)

    @property
    def next_due_ns(self) -> int | None:
        """The group time at which the next item becomes ready, or None."""
        while self._timed and not self._is_timed(*self._timed[0]):
            heapq.heappop(self._timed)
        return self._timed[0][0] if self._timed else None

    @property
    def available(self) -> int:
        """How many items members may get now, except for `in_hand_max`."""
        ready = len(self._ready) + len(self._suspects) + (self._assignable_letter() is not None)
        return ready + (self.known_end - self.next if self._may_take_new() else 0)

    @property
    def assignable(self) -> int:
        """How many items members may get now."""
        limit = self.settings.in_hand_max
        return min(self.available, max(limit - self.in_hand, 0)) if limit else self.available

    def facts(self) -> list[MessageFacts]:
        """Return the facts of the messages from `next` to `known_end`, if the windows have any."""
        return list(self._facts)

    def restore(self, items: Iterable[Item], facts: Iterable[MessageFacts], *, took_new: bool) -> None:
        """Set the items of a state whose other attributes are set, as of a checkpoint."""
        self._took_new = took_new
        self._facts.extend(facts)
        # Items that members have are the first ones with their keys.
        for item in sorted(items, key=lambda each: (not _is_at_work(each), each.sequence)):
            if item.seat != NO_SEAT:
                self.seats[item.seat].held.add(item.sequence)
                self._in_hand += 1
                self._letters_in_hand += bool(item.letter)
                if item.due_ns:
                    heapq.heappush(self._timed, (item.due_ns, item.sequence))
            self._add(item)

    @property
    def took_new(self) -> bool:
        """Whether the last item that was picked in turn was a new one."""
        return self._took_new

    def apply(self, operation: Operation) -> Outcome:
        """Apply an operation."""
        if not self._counts(operation):
            self.counters.void += 1
            return Outcome(False, [], [], [])
        self.clock_ns = max(self.clock_ns, operation.group_time_ns)
        self._make_due()
        outcome = Outcome(True, [], [], [])
        for kind, entries in operation.sections:
            self._apply_section(operation, kind, entries, outcome)
        if operation.want:
            outcome.assigned.extend(self._assign(operation))
        return outcome

    def _counts(self, operation: Operation) -> bool:
        """Rule 1."""
        if self.is_deleted or operation.epoch != self.epoch:
            return False
        kinds = [kind for kind, _ in operation.sections]
        if not self.is_created:
            return Kind.SETTINGS in kinds
        if operation.seat == NO_SEAT:
            return not operation.want and Kind.JOIN not in kinds
        seat = self.seats.get(operation.seat)
        if Kind.JOIN in kinds:
            return seat is None and operation.generation == self.generations.get(operation.seat, 0) + 1
        return seat is not None and seat.generation == operation.generation

    def _apply_section(self, operation: Operation, kind: Kind, entries: Any, outcome: Outcome) -> None:
        match kind:
            case Kind.DONE:
                self._apply_done(entries, operation.seat, outcome.refused)
            case Kind.START:
                for sequence in entries:
                    if delivery := self._start(sequence, operation.seat):
                        outcome.started.append(Delivery(sequence, delivery))
            case Kind.WINDOW:
                self._apply_window(entries)
            case Kind.RETRY | Kind.REJECT:
                self._apply_failures(entries, kind, outcome.refused)
            case Kind.BACK:
                outcome.refused.extend(each for each in entries if not self._give_back(each, operation.seat))
            case Kind.EXTEND:
                self._apply_extensions(entries, outcome.refused)
            case Kind.JOIN:
                self.seats[operation.seat] = Seat(operation.generation, entries.hint, entries.lease_ns)
                self.generations[operation.seat] = operation.generation
                self.membership += 1
            case Kind.LEAVE:
                if operation.seat in self.seats:
                    self._remove_seat(operation.seat, died=False)
            case Kind.DEATH:
                for seat, generation in entries:
                    if seat in self.seats and self.seats[seat].generation == generation:
                        self._remove_seat(seat, died=True)
            case Kind.GONE:
                for first, end in entries:
                    self._apply_gone(first, end)
            case Kind.PAUSE | Kind.RESUME:
                self.is_paused = kind is Kind.PAUSE
            case Kind.SETTINGS:
                self._apply_settings(entries)
            case Kind.CLOCK:
                if self.clock is None or entries.boot != self.clock.boot:  # of two first members, one sets the clock
                    self.clock = entries
            case Kind.RESET:
                self._reset(entries)
            case Kind.DELETED:
                self.is_deleted = True
            case Kind.AGAIN:
                for again in entries:
                    self._deliver_again(again)
            case Kind.CHECKPOINT:
                pass

    def _apply_settings(self, values: Mapping[int, int]) -> None:
        start = values.get(Setting.START)
        if self.is_created and start is not None:
            return  # of two processes that create the group, one does
        if self.is_created:  # the order is in the queues by key
            values = {number: value for number, value in values.items() if number not in _FIXED}
        self.settings = self.settings.changed(values)
        if not self.is_created:
            self.is_created = True
            self.next = self.known_end = start or 0

    # --- messages of the log

    def _apply_window(self, window: Window) -> None:
        """Rule 10."""
        skipped, end = self.known_end - window.first, window.first + window.message_count
        if not 0 <= skipped < window.message_count <= WINDOW_MESSAGES_MAX or end > _NUMBER_MAX:
            return
        if window.messages:
            for index in range(skipped, window.message_count):
                self._take_facts(window.first + index, window.messages[index])
        elif self._facts:
            self._facts.extend([_NO_FACTS] * (window.message_count - skipped))
        self.known_end = end
        self.witness = (window.end, window.last_crc)

    def _take_facts(self, sequence: int, facts: MessageFacts) -> None:
        if facts.due_ns > self.clock_ns:
            self._add(Item(sequence, ItemState.DELAYED, facts.key_hash, facts.expiry_ns, facts.due_ns))
            self._facts.append(facts)
        else:
            self._facts.append(facts._replace(due_ns=0))

    def _apply_gone(self, first: int, end: int) -> None:
        """Rule 11."""
        for sequence in [each for each in self.items if first <= each < end]:
            self._remove(self.items[sequence])
            self.counters.gone += 1
        if first <= self.next < end:
            self.counters.gone += end - self.next
            self._skip_new(end)

    def _skip_new(self, end: int) -> None:
        while self._facts and self.known_end - len(self._facts) < end:
            self._facts.popleft()
        self.next = end
        self.known_end = max(self.known_end, end)

    def _reset(self, reset: Reset) -> None:
        """Rule 13."""
        self.epoch += 1
        kept = [each for each in self.items.values() if reset.keeps and each.sequence < reset.to]
        for item in list(self.items.values()):
            self._remove(item)
        self._facts.clear()
        self.next = self.known_end = reset.to
        self.witness = None
        for item in kept:
            item.uncounted += item.state is ItemState.STARTED
            item.seat, item.state, item.due_ns = NO_SEAT, ItemState.READY, 0
            self._add(item)

    def _deliver_again(self, again: Again) -> None:
        """Rule 14."""
        item = self.items.get(again.sequence)
        if item is not None:
            if item.state is ItemState.DELAYED:
                self._detach(item)
                self._make_ready(item)
        elif again.delivery and again.sequence < self.next:
            item = Item(again.sequence, ItemState.READY, again.key_hash)
            item.delivery = item.uncounted = max(again.delivery, min(self.counters.started + 1, DELIVERY_MAX))
            self._add(item)

    # --- operations of members

    def _last_delivery(self, sequence: int, delivery: int) -> Item | None:
        """Rule 3."""
        item = self.items.get(sequence)
        if item is None or item.delivery != delivery:
            return None
        return item if delivery or item.letter else None

    def _apply_done(self, entries: Iterable[Delivery], seat: int, refused: list[Delivery]) -> None:
        for sequence, delivery in entries:
            item = self._last_delivery(sequence, delivery)
            if item is None or (item.letter and not item.seat == seat != NO_SEAT):
                refused.append(Delivery(sequence, delivery))
                continue
            self.counters.dead += bool(item.letter)
            self.counters.done += not item.letter
            self._remove(item)

    def _start(self, sequence: int, seat: int) -> int:
        """Rule 4.  Return the delivery, 0 if the member does not have the item or has started it."""
        item = self.items.get(sequence)
        if item is None or item.seat != seat or item.state is not ItemState.HELD or item.letter:
            return 0
        item.state = ItemState.STARTED
        item.delivery += 1
        self.counters.started += 1
        if lease := self.seats[seat].lease_ns:
            self._set_deadline(item, min(self.clock_ns + lease, _NUMBER_MAX))
        return item.delivery

    def _set_deadline(self, item: Item, deadline_ns: int) -> None:
        item.due_ns = deadline_ns
        heapq.heappush(self._timed, (deadline_ns, item.sequence))

    def _apply_failures(self, entries: Iterable[Failure], kind: Kind, refused: list[Delivery]) -> None:
        for sequence, delivery, due_ns, reason in entries:
            item = self._last_delivery(sequence, delivery)
            if item is None or item.letter:
                refused.append(Delivery(sequence, delivery))
                continue
            self.counters.failed += 1
            item.is_suspect = False  # its member is alive
            if kind is Kind.REJECT or self._is_last(item):
                self._let_die(item, reason)
            else:
                self._return(item, due_ns)

    def _is_last(self, item: Item) -> bool:
        return bool(self.settings.deliveries_max) and item.delivery - item.uncounted >= self.settings.deliveries_max

    def _give_back(self, delivery: Delivery, seat: int) -> bool:
        item = self.items.get(delivery.sequence)
        if item is None or item.seat != seat or seat == NO_SEAT or item.delivery != delivery.delivery:
            return False
        item.uncounted += item.state is ItemState.STARTED
        self._return(item)
        return True

    def _apply_extensions(self, entries: Iterable[Extension], refused: list[Delivery]) -> None:
        for sequence, delivery, deadline_ns in entries:
            item = self._last_delivery(sequence, delivery)
            if item is None or item.state is not ItemState.STARTED:
                refused.append(Delivery(sequence, delivery))
            elif deadline_ns > self.clock_ns:
                self._set_deadline(item, deadline_ns)
            else:
                self._return(item)

    def _remove_seat(self, number: int, *, died: bool) -> None:
        """Rules 5 and 6."""
        seat = self.seats.pop(number)
        self.membership += 1
        items = [self.items[sequence] for sequence in sorted(seat.held)]
        self.counters.died += died
        for item in items:
            if item.state is not ItemState.STARTED:
                self._return(item)
            elif not died:
                item.uncounted += 1
                self._return(item)
            else:
                self._return_of_dead(item)

    def _return_of_dead(self, item: Item) -> None:
        item.deaths += 1
        item.is_suspect = True
        if self._is_last(item):
            self._let_die(item, WORKER_DIED)
            return
        wait_ns = 0
        if item.deaths > 1:
            wait_ns = min(self.settings.first_ns << min(item.deaths - 2, 62), self.settings.most_ns)
        self._return(item, min(self.clock_ns + wait_ns, _NUMBER_MAX))

    def _return(self, item: Item, due_ns: int = 0) -> None:
        """Take an item from its member; a member may get it from a time on."""
        self._detach(item)
        if due_ns <= self.clock_ns:
            self._make_ready(item)
            return
        item.state, item.due_ns = ItemState.DELAYED, due_ns
        heapq.heappush(self._timed, (due_ns, item.sequence))
        if self.settings.order is Order.RELAXED:
            self._leave_key(item)
        else:
            self._queue_by_key(item)

    def _let_die(self, item: Item, reason: str) -> None:
        """Rules 5 and 12."""
        self._detach(item)
        self.letters += 1
        item.letter, item.reason, item.state, item.due_ns = self.letters, reason, ItemState.READY, 0
        heapq.heappush(self._dying, (item.letter, item.sequence))
        self._queue_by_key(item)

    # --- the items, and queues that follow from them

    def _add(self, item: Item) -> None:
        self.items[item.sequence] = item
        if item.state is ItemState.DELAYED:
            heapq.heappush(self._timed, (item.due_ns, item.sequence))
            if not item.delivery:
                self._scheduled.add(item.sequence)
            if self.settings.order is Order.STRICT:
                self._queue_by_key(item)
        elif item.letter and item.state is ItemState.READY:
            heapq.heappush(self._dying, (item.letter, item.sequence))
            self._queue_by_key(item)
        elif item.state is ItemState.READY:
            self._make_ready(item)
        else:
            self._queue_by_key(item)

    def _remove(self, item: Item) -> None:
        self._detach(item)
        self._leave_key(item)
        del self.items[item.sequence]

    def _detach(self, item: Item) -> None:
        """Take an item from its member, or from the items that a member may get."""
        self._ready.discard(item.sequence)
        self._suspects.discard(item.sequence)
        self._scheduled.discard(item.sequence)
        if item.seat != NO_SEAT:
            if (seat := self.seats.get(item.seat)) is not None:
                seat.held.discard(item.sequence)
            item.seat = NO_SEAT
            self._in_hand -= 1
            self._letters_in_hand -= bool(item.letter)

    def _make_ready(self, item: Item) -> None:
        """Let a member get the item, as soon as it is the first one with its key."""
        item.due_ns = 0
        item.state = ItemState.READY
        is_first = self._queue_by_key(item)
        if item.letter:
            heapq.heappush(self._dying, (item.letter, item.sequence))
        elif is_first:
            (self._suspects if item.is_suspect else self._ready).add(item.sequence)
        else:
            item.state = ItemState.BLOCKED

    def _queue_by_key(self, item: Item) -> bool:
        """Rule 8.  Put the item at its place among those with its key; return whether it is the first one.

        The order is by sequence, but the item that a member has is the first one.
        """
        if not item.key_hash or self.settings.order is Order.NONE:
            return True
        queue = self._keys.setdefault(item.key_hash, [])
        if item.sequence in queue:
            queue.remove(item.sequence)
        is_first_in_hand = bool(queue) and _is_at_work(self.items[queue[0]])
        insort(queue, item.sequence, lo=int(is_first_in_hand))
        for sequence in queue[1:2]:
            self._block(self.items[sequence])
        if queue[0] != item.sequence:
            self._unblock(self.items[queue[0]])
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
            self._unblock(self.items[queue[0]])
        else:
            del self._keys[item.key_hash]

    def _is_timed(self, due_ns: int, sequence: int) -> bool:
        item = self.items.get(sequence)
        return item is not None and item.due_ns == due_ns and item.state in (ItemState.DELAYED, ItemState.STARTED)

    def _make_due(self) -> None:
        """Rule 2."""
        while self._timed and self._timed[0][0] <= self.clock_ns:
            due_ns, sequence = heapq.heappop(self._timed)
            if self._is_timed(due_ns, sequence):
                item = self.items[sequence]
                if item.state is ItemState.STARTED and self._is_last(item):
                    self._let_die(item, LEASE_ENDED)
                    continue
                self._detach(item)
                self._make_ready(item)

    # --- assignment

    def _may_take_new(self) -> bool:
        """Rule 9."""
        return (
            len(self.items) - len(self._scheduled) < self.settings.outstanding_max and len(self.items) < OUTSTANDING_MAX
        )

    def _assign(self, operation: Operation) -> list[Assigned]:
        """Rule 7."""
        seat = self.seats.get(operation.seat)
        if seat is None or self.is_paused:
            return []
        share = max(1, -(-self.available // len(self.seats)))
        count = min(operation.want, share)
        if self.settings.in_hand_max:
            count = min(count, self.settings.in_hand_max - self._in_hand)
        assigned: list[Assigned] = []
        while len(assigned) < count and not self._has_suspect(seat):
            item = self._pick(is_alone=not seat.held)
            if item is None:
                break
            item.seat, item.state = operation.seat, ItemState.HELD
            seat.held.add(item.sequence)
            self._in_hand += 1
            self._letters_in_hand += bool(item.letter)
            is_first = not assigned and operation.flags & START_FIRST and not item.letter
            delivery = self._start(item.sequence, operation.seat) if is_first else item.delivery
            assigned.append(Assigned(item.sequence, delivery, bool(is_first), item.letter))
        return assigned

    def _has_suspect(self, seat: Seat) -> bool:
        return any(self.items[sequence].is_suspect for sequence in seat.held)

    def _pick(self, *, is_alone: bool) -> Item | None:
        if (sequence := self._assignable_letter()) is not None:
            heapq.heappop(self._dying)
            return self.items[sequence]
        if self._suspects:
            # A member that has items gets no more until it is alone: otherwise suspects could wait forever.
            return self.items[self._suspects.pop()] if is_alone else None
        self._took_new = not self._took_new
        if self._took_new:
            return self._pick_new() or self._pick_ready()
        return self._pick_ready() or self._pick_new()

    def _assignable_letter(self) -> int | None:
        """Rule 12.  Return the sequence of the next dying item, unless a member has one."""
        while self._dying and not self._is_next_dying(*self._dying[0]):
            heapq.heappop(self._dying)
        if not self._dying or self._letters_in_hand:
            return None
        return self._dying[0][1]

    def _is_next_dying(self, letter: int, sequence: int) -> bool:
        item = self.items.get(sequence)
        return item is not None and item.letter == letter and item.seat == NO_SEAT

    def _pick_ready(self) -> Item | None:
        while self._ready:
            item = self.items[self._ready.pop()]
            if not self._expire(item):
                return item
        return None

    def _pick_new(self) -> Item | None:
        while self.next < self.known_end and self._may_take_new():
            sequence = self.next
            self.next += 1
            has_facts = sequence >= self.known_end - len(self._facts)
            facts = self._facts.popleft() if has_facts else _NO_FACTS
            if facts.due_ns:  # it became an item when its window came
                continue
            item = Item(sequence, ItemState.READY, facts.key_hash, facts.expiry_ns)
            self.items[sequence] = item
            if not self._queue_by_key(item):
                item.state = ItemState.BLOCKED
            elif not self._expire(item):
                return item
        return None

    def _expire(self, item: Item) -> bool:
        """Rule 10."""
        if not item.expiry_ns or item.expiry_ns > self.clock_ns:
            return False
        self.counters.expired += 1
        if self.settings.on_expiry is OnExpiry.DROP:
            self._remove(item)
        else:
            self._let_die(item, EXPIRED)
        return True
