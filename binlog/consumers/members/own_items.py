"""The items that a member has: those assigned to it, those started for its user, and those that its user has.

The group's log adds an item here when it applies the operation that assigned it, in whatever thread that happens.  So
an exception between appending an operation and its outcome loses no item.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import get_ident

from binlog.consumers.state.group_state import AppliedOperation, Assigned, Item, ItemState, Outcome
from binlog.format.consumers.operation import Delivery


class OwnItems:
    """The items of one member.  Threads may share them.

    dying: items that the member is to make dead letters.
    """

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._assigned: deque[Assigned] = deque()
        self._started: deque[Assigned] = deque()
        self.dying: deque[Assigned] = deque()
        self._starting: set[int] = set()
        self._claims: dict[int, Assigned] = {}  # by thread: a started item on its way to the user
        self._handed: set[tuple[int, int]] = set()
        self._unsure: set[int] = set()  # assigned ones, for which a `start` may be in the log

    def add(self, applied: AppliedOperation) -> None:
        """Add the items that an operation of the member assigned or started."""
        if applied[4][1] or applied[4][2]:
            self._add(applied[4])

    def _add(self, outcome: Outcome) -> None:
        with self._mutex:
            for item in outcome[1]:
                (self.dying if item[3] else self._started if item[2] else self._assigned).append(item)
            for sequence, delivery in outcome[2]:
                if sequence in self._unsure:
                    self._forget_assigned(sequence)
                self._started.append(tuple.__new__(Assigned, (sequence, delivery, True, 0)))

    def take_started(self) -> Assigned | None:
        """Return the next started item, None if there is none.  Call `delivered` once the user has it.

        If an exception ends the call before, the thread's next call gets the same item.
        """
        me = get_ident()
        if me in self._claims:
            with self._mutex:
                item = self._claims[me]
                with suppress(ValueError):
                    self._started.remove(item)  # if the exception struck before the next block's last line
            return item
        if not self._started:
            return None
        with self._mutex:
            if not self._started:
                return None
            self._claims[me] = self._started[0]
            return self._started.popleft()

    def delivered(self) -> int:
        """Take note that the user has the item that this thread took; return how many such deliveries there are.

        Those that were ended by their tokens are among them, until `forget_others`.
        """
        me = get_ident()
        item = self._claims.get(me)
        if item is not None:  # otherwise the group was reset
            self._handed.add(item[:2])
            self._claims.pop(me, None)
        return len(self._handed)

    def forget_others(self, still_has: Callable[[int, int], int]) -> int:
        """Forget deliveries that were ended by their tokens, or otherwise without this object; return how many stay."""
        with self._mutex:
            # Other threads add to the set and remove from it meanwhile.
            self._handed.difference_update([each for each in list(self._handed) if not still_has(*each)])
            return len(self._handed)

    def drop_claim(self) -> None:
        """Take note that the item that this thread took is not the member's any more."""
        self._claims.pop(get_ident(), None)

    def take_one(self) -> Assigned | None:
        """Return an assigned item to be started, None if there is none; call `started` afterwards."""
        if not self._assigned:
            return None
        with self._mutex:
            if not self._assigned:
                return None
            item = self._assigned.popleft()
            self._starting.add(item[0])
            return item

    def take_assigned(self, count: int) -> list[Assigned]:
        """Return up to `count` assigned items to be started; call `started` afterwards."""
        with self._mutex:
            items = [self._assigned.popleft() for _ in range(min(count, len(self._assigned)))]
            self._starting.update(item.sequence for item in items)
            return items

    def started(self, items: Iterable[Assigned], *, is_sure: bool) -> None:
        """End what `take_assigned` began.  is_sure: they were started, or the member does not have them any more."""
        with self._mutex:
            for item in items:
                self._starting.discard(item[0])
                if not is_sure and not self._has_started(item[0]):
                    self._assigned.append(item)
                    self._unsure.add(item[0])

    def _has_started(self, sequence: int) -> bool:
        return any(each[0] == sequence for each in (*self._started, *self._claims.values(), *self._handed))

    def _forget_assigned(self, sequence: int) -> None:
        """Forget that an item is assigned, because the operation that started it was applied after all."""
        self._unsure.discard(sequence)
        self._assigned = deque(item for item in self._assigned if item[0] != sequence)

    def take_back(self, deliveries: Iterable[Delivery]) -> None:
        """Take started items back from a caller that an exception ended; the next one gets them."""
        with self._mutex:
            claim = self._claims.get(get_ident())
            for sequence, delivery in deliveries:
                self._handed.discard((sequence, delivery))
                if claim is not None and claim[:2] == (sequence, delivery):
                    continue
                self._started.append(Assigned(sequence, delivery, is_started=True, letter=0))

    def next_dying(self) -> Assigned | None:
        """Return an item that the member is to make a dead letter, None if there is none; see `remove_dying`."""
        with self._mutex:
            return self.dying[0] if self.dying else None

    def remove_dying(self, item: Assigned) -> None:
        """Forget a dying item, which is a dead letter now, or another member's."""
        with suppress(ValueError), self._mutex:
            self.dying.remove(item)

    def is_new(self, item: Item) -> bool:
        """Whether an item is neither here nor in the user's hands, in its present delivery."""
        with self._mutex:
            if item.letter:
                return all(each.sequence != item.sequence for each in self.dying)
            if item.state is ItemState.STARTED:
                here = ((each.sequence, each.delivery) for each in (*self._started, *self._claims.values()))
                return (item.sequence, item.delivery) not in self._handed and (item.sequence, item.delivery) not in here
            return item.sequence not in self._starting and all(
                each.sequence != item.sequence for each in self._assigned
            )

    def find_again(self, items: Iterable[Item]) -> None:
        """Add those of the member's items that are not here, because the outcomes of some operations are not known."""
        with self._mutex:
            for item in items:
                if self.is_new(item):
                    self.add_found(item)

    def add_found(self, item: Item) -> None:
        """Add an item that the state says the member has."""
        is_started = item.state is ItemState.STARTED
        if is_started:
            self._forget_assigned(item.sequence)
        self._add(Outcome(True, [Assigned(item.sequence, item.delivery, is_started, item.letter)], [], []))

    def ended(self, sequence: int, delivery: int) -> None:
        """Take note that the user has ended a delivery."""
        self._handed.discard((sequence, delivery))

    @property
    def has_any(self) -> bool:
        """Whether there is an item that the user does not have."""
        return bool(self._started or self._assigned or self.dying or get_ident() in self._claims)

    def take_all(self) -> list[Delivery]:
        """Return all items that the user does not have, with how often each was started, and forget them."""
        claim = self._claims.pop(get_ident(), None)
        if claim is not None:
            self._started.append(claim)
        if not (self._started or self._assigned):
            return []
        with self._mutex:
            items = [Delivery(item.sequence, item.delivery) for item in (*self._started, *self._assigned)]
            self._started.clear()
            self._assigned.clear()
            return items

    def clear(self) -> None:
        """Forget all items, because they belong to others by now."""
        with self._mutex:
            for items in (self._assigned, self._started, self.dying):
                items.clear()
            for others in (self._starting, self._handed, self._unsure, self._claims):
                others.clear()
