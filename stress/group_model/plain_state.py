"""The state of a consumer group in plain Python, to compare the compiled one with, and to seed bugs in its rules.

The rules are those of binlog/consumers/state/group_state.py, by number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from binlog.consumers.state.group_state import Assigned, ItemState, Outcome
from binlog.consumers.state.settings import OUTSTANDING_MAX, OnExpiry, Settings
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
from stress.group_model.plain_items import Item, PlainItems, Seat, is_at_work

WORKER_DIED = "worker died"
EXPIRED = "expired"
LEASE_ENDED = "lease ended"
_NO_FACTS = MessageFacts()
_FIXED = frozenset((Setting.RULES, Setting.ORDER))
_NUMBER_MAX = (1 << 64) - 1
DELIVERY_MAX = (1 << 32) - 1


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
        self.items = PlainItems()
        self.generations: dict[int, int] = {}
        self.is_paused = self.is_deleted = self.is_created = False
        self.letters = 0
        self.counters = Counters()
        self._took_new = False
        self._facts: deque[MessageFacts] = deque()  # of the last messages before `known_end`
        self.membership = 0  # changes when a member joins or leaves

    @property
    def seats(self) -> dict[int, Seat]:
        """The members that are alive, by number."""
        return self.items.seats

    @property
    def floor(self) -> int:
        """The smallest sequence that is not done."""
        return min(min(self.items, default=self.next), self.next)

    @property
    def in_hand(self) -> int:
        """How many items members have."""
        return self.items.in_hand

    @property
    def scheduled_count(self) -> int:
        """How many items were never delivered and wait for their due time."""
        return len(self.items.scheduled)

    @property
    def next_due_ns(self) -> int | None:
        """The group time at which the next item becomes ready, or None."""
        return self.items.next_due_ns

    @property
    def available(self) -> int:
        """How many items members may get now, except for `in_hand_max`."""
        return self.items.available + (self.known_end - self.next if self._may_take_new() else 0)

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
        self.items.order = self.settings.order
        # Items that members have are the first ones with their keys.
        for item in sorted(items, key=lambda each: (not is_at_work(each), each.sequence)):
            if item.seat != NO_SEAT:
                self.items.hold(item, item.seat)
                if item.due_ns:
                    self.items.set_deadline(item, item.due_ns)
            self.items.add(item)

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
            self.items.order = self.settings.order
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
            self.items.add(Item(sequence, ItemState.DELAYED, facts.key_hash, facts.expiry_ns, facts.due_ns))
            self._facts.append(facts)
        else:
            self._facts.append(facts._replace(due_ns=0))

    def _apply_gone(self, first: int, end: int) -> None:
        """Rule 11."""
        for sequence in [each for each in self.items if first <= each < end]:
            self.items.remove(self.items[sequence])
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
            self.items.remove(item)
        self._facts.clear()
        self.next = self.known_end = reset.to
        self.witness = None
        for item in kept:
            item.uncounted += item.state is ItemState.STARTED
            item.seat, item.state, item.due_ns = NO_SEAT, ItemState.READY, 0
            self.items.add(item)

    def _deliver_again(self, again: Again) -> None:
        """Rule 14."""
        item = self.items.get(again.sequence)
        if item is not None:
            if item.state is ItemState.DELAYED:
                self.items.detach(item)
                self.items.make_ready(item)
        elif again.delivery and again.sequence < self.next:
            item = Item(again.sequence, ItemState.READY, again.key_hash)
            item.delivery = item.uncounted = max(again.delivery, min(self.counters.started + 1, DELIVERY_MAX))
            self.items.add(item)

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
            self.items.remove(item)

    def _start(self, sequence: int, seat: int) -> int:
        """Rule 4.  Return the delivery, 0 if the member does not have the item or has started it."""
        item = self.items.get(sequence)
        if item is None or item.seat != seat or item.state is not ItemState.HELD or item.letter:
            return 0
        item.state = ItemState.STARTED
        item.delivery += 1
        self.counters.started += 1
        if lease := self.seats[seat].lease_ns:
            self.items.set_deadline(item, min(self.clock_ns + lease, _NUMBER_MAX))
        return item.delivery

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
                self.items.set_deadline(item, deadline_ns)
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
        self.items.detach(item)
        if due_ns <= self.clock_ns:
            self.items.make_ready(item)
        else:
            self.items.delay(item, due_ns)

    def _let_die(self, item: Item, reason: str) -> None:
        """Rules 5 and 12."""
        self.items.detach(item)
        self.letters += 1
        item.letter, item.reason = self.letters, reason
        self.items.queue_letter(item)

    def _make_due(self) -> None:
        """Rule 2."""
        while (item := self.items.pop_due(self.clock_ns)) is not None:
            if item.state is ItemState.STARTED and self._is_last(item):
                self._let_die(item, LEASE_ENDED)
            else:
                self._return(item)

    # --- assignment

    def _may_take_new(self) -> bool:
        """Rule 9."""
        return (
            len(self.items) - len(self.items.scheduled) < self.settings.outstanding_max
            and len(self.items) < OUTSTANDING_MAX
        )

    def _assign(self, operation: Operation) -> list[Assigned]:
        """Rule 7."""
        seat = self.seats.get(operation.seat)
        if seat is None or self.is_paused:
            return []
        share = max(1, -(-self.available // len(self.seats)))
        count = min(operation.want, share)
        if self.settings.in_hand_max:
            count = min(count, self.settings.in_hand_max - self.in_hand)
        assigned: list[Assigned] = []
        while len(assigned) < count and not self._has_suspect(seat):
            item = self._pick(is_alone=not seat.held)
            if item is None:
                break
            item.state = ItemState.HELD
            self.items.hold(item, operation.seat)
            is_first = not assigned and operation.flags & START_FIRST and not item.letter
            delivery = self._start(item.sequence, operation.seat) if is_first else item.delivery
            assigned.append(Assigned(item.sequence, delivery, bool(is_first), item.letter))
        return assigned

    def _has_suspect(self, seat: Seat) -> bool:
        return any(self.items[sequence].is_suspect for sequence in seat.held)

    def _pick(self, *, is_alone: bool) -> Item | None:
        if (item := self.items.pop_letter()) is not None:
            return item
        if self.items.has_suspects:
            # A member that has items gets no more until it is alone: otherwise suspects could wait forever.
            return self.items.pop_suspect() if is_alone else None
        self._took_new = not self._took_new
        if self._took_new:
            return self._pick_new() or self._pick_ready()
        return self._pick_ready() or self._pick_new()

    def _pick_ready(self) -> Item | None:
        while (item := self.items.pop_ready()) is not None:
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
            if not self.items.queue_by_key(item):
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
            self.items.remove(item)
        else:
            self._let_die(item, EXPIRED)
        return True
