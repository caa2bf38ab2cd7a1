"""A member of a group: takes a seat, gets items, acknowledges them, and waits for more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from binlog.consumers.members.membership import Membership
from binlog.consumers.members.message_source import StoredRecord
from binlog.consumers.members.own_items import OwnItems
from binlog.consumers.members.parts import Held, Parts
from binlog.consumers.state.group_state import DAMAGED, Assigned, GroupState, Outcome
from binlog.consumers.waking.waiting import LATE_SECONDS, Role
from binlog.errors import BinlogError, ClosedError, CorruptError, FullError, GoneError
from binlog.format.consumers.operation import START_FIRST, Delivery, Failure, Join, Kind, Section
from binlog.format.record import Ref
from binlog.log.maintain.fillers import FILLER, is_filler
from binlog.storage.mode import Mode

# An idle member checks everything this often, in case a wake-up was lost.
_WAIT_SECONDS_MAX = 5.0

# After this many items in hand, the member checks which of them it still has.
_HANDED_MAX = 1000

# Sections whose entries are about a delivery.
_OF_DELIVERIES = (Kind.DONE, Kind.BACK, Kind.RETRY, Kind.REJECT, Kind.EXTEND)

# The first byte of a filler, or none if it is empty.
_OF_FILLERS = (FILLER[:1], b"")


class Member:
    """A seat in a group, and the items that its process has.  Any number of threads may use it.

    lease_ns: after this time an item returns to the group though the member is alive; 0 for never.
    mode: of acknowledgements and failures.  skips_gone: skip messages that the log does not have any more.
    hint: about the process, for people.  seats_changed: called when members joined or left.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        lease_ns: int,
        mode: Mode,
        skips_gone: bool,
        hint: str = "",
        seats_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.log, self._clock = parts.log, parts.clock
        self._source, self._waiting = parts.source, parts.waiting
        self._dead_letters = parts.dead_letters
        self._mode, self._skips_gone = mode, skips_gone
        self._seats_changed = seats_changed
        self._items = OwnItems()
        self._dying = threading.RLock()  # held by the thread that makes dead letters
        self._takers: list[int] = []  # how many items each loop has assigned ahead
        self._membership = 0
        self._asked_at = Ref(0, 0)
        self._handed_max = _HANDED_MAX
        self._has_found_none = False  # the last search for new messages
        self.is_closing = False
        self.state: GroupState = self.log.state
        self.log.applied, self.log.lost, self.log.was_reset = self._items.add, self._find_items, self._items.clear
        self.membership = Membership(self.log, parts.seats, parts.waiting, Join(lease_ns, hint))

    def time_ns(self) -> int:
        """Return the group time now."""
        return self._clock.now_ns(self.state)

    def wake(self) -> None:
        """Wake the threads that wait for an item, so that they check whether the member is closing."""
        self._waiting.wake(self.log.seat)

    def leave(self) -> None:
        """Give back everything, and free the seat."""
        self.membership.leave()

    # --- loops

    def begin_taking(self, ahead: int) -> None:
        """Begin a loop that has `ahead` items assigned ahead."""
        self._takers.append(ahead)

    def end_taking(self, ahead: int) -> None:
        """End a loop; if it was the last one, give back the items that no user has."""
        with suppress(ValueError):
            self._takers.remove(ahead)
        if not self._takers:
            with suppress(FullError):  # they stay this member's, and its next loop has them
                self.give_back()

    def give_back(self) -> None:
        """Give back all items that were not handed to the user."""
        if items := self._items.take_all():
            is_sure = False
            try:
                self._submit([(Kind.BACK, items)])
                is_sure = True
            finally:
                if not is_sure:
                    self._find_items(item.sequence for item in items)
            self._waiting.wake_for_items(self.state, but=self.log.seat)

    # --- getting items

    def take(self, count: int, timeout: float | None, is_wanted: Callable[[], bool] | None = None) -> Held | None:
        """Return an item, and have up to `count` - 1 more assigned; None after `timeout` seconds.

        is_wanted: if it returns False, the call returns None; after a change, call `wake`.
        """
        if not self.is_closing and (item := self._items.take_started()) and (held := self._hand_out(item)):
            return held
        deadline = None if timeout is None else time.monotonic() + timeout
        is_late = False
        try:
            while not self.is_closing:
                if (held := self._next_held()) is not None:
                    return held
                if is_wanted is not None and not is_wanted():
                    return None
                if self._items.dying:
                    self._make_dead_letters()  # an exception ended the call that began it
                if self._ask(count):
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is None or left > 0:
                    self._wait(left, is_wanted)
                elif is_late or not self._learns_of_items():
                    return None
                else:
                    is_late = True  # only once: other members append all the time
        finally:
            self._waiting.hand_over(self.state, self.log.seat)
        raise ClosedError("the consumer group was closed meanwhile")

    def take_many(self, count: int, *, wait: float, timeout: float | None) -> list[Held]:
        """Return up to `count` items; none after `timeout` seconds.

        wait: if there are fewer, wait this many seconds for more.
        """
        while (first := self.take(count, timeout)) is not None:
            found = [first]
            try:
                self._items.delivered()
                self._take_more(found, count, time.monotonic() + wait)
            except BaseException:
                self._items.take_back([Delivery(held.sequence, held.delivery) for held in found])
                raise
            # The lease of the first ones may have ended meanwhile.
            if found := [held for held in found if self._still_has(held.sequence, held.delivery)]:
                return found
        return []

    def _take_more(self, found: list[Held], count: int, deadline: float) -> None:
        """Take items until there are `count`, or there are none at the deadline."""
        while len(found) < count and not self.is_closing:
            if (held := self._next_held(count - len(found))) is not None:
                found.append(held)
                self._items.delivered()
            elif not self._ask(count - len(found)):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._wait(left)

    def _next_held(self, start_max: int = 1) -> Held | None:
        """Return the next item that the member has; None if it has none that the user has not.

        start_max: if none is started, start up to this many.
        """
        while True:
            item = self._items.take_started()
            if item is None:
                if not self._start(start_max):
                    return None
            elif (held := self._hand_out(item)) is not None:
                return held

    def _start(self, count: int) -> bool:
        """Start assigned items; return whether there were any."""
        items = self._items.take_assigned(count)
        if not items:
            return False
        is_sure = False
        try:
            outcome = self._submit([(Kind.START, [item.sequence for item in items])])
            is_sure = True
        finally:
            self._items.started(items, is_sure=is_sure)
        if len(outcome.started) < len(items):
            # The member lost them; or an operation whose outcome it does not know started them.
            started = {delivery.sequence for delivery in outcome.started}
            self._find_items(item.sequence for item in items if item.sequence not in started)
        return True

    def _ask(self, count: int) -> bool:
        """Ask for items, if there may be any; return whether there is something to do now."""
        if self.state.is_paused:
            return False
        messages = self._new_messages(count)
        if not messages and not self._may_get_items():
            return False
        next_before = self.state.next
        outcome = self._submit(messages, want=count, flags=START_FIRST)
        self._asked_at = Ref(0, 0) if outcome.assigned else self.log.own_position
        self._after()
        if self._items.has_any or outcome.assigned or not outcome.counted:
            # Also items of an earlier operation, whose outcome was not known.  Those that were assigned may all be dead
            # letters by now, and there may be others after them.
            return True
        # If new messages were blocked, delayed or dropped, there may be others after them.
        return self.state.next != next_before

    def _learns_of_items(self) -> bool:
        """Apply the operations of other processes; return whether there may be items for that reason."""
        before = self.log.position
        self.log.catch_up()
        self.log.check_usable()
        return self.log.position != before or self._may_get_items()

    def _may_get_items(self) -> bool:
        state = self.state
        if state.is_paused:
            return False
        # If nothing was appended since the member asked in vain, it would ask in vain again.
        return self._is_due() or (bool(state.available) and self.log.position != self._asked_at)

    def _is_due(self) -> bool:
        due_ns = self.state.next_due_ns
        return due_ns is not None and due_ns <= self.time_ns()

    # --- ending items

    def ack(self, sequence: int, delivery: int, epoch: int) -> bool:
        """Acknowledge a delivery: a fast `finish`; return whether it counted."""
        items, takers, state = self._items, self._takers, self.state
        want = max(takers) if takers else 0
        following = items.take_one() if want and state.known_end - state.next >= want else None
        if following is None:
            done = Delivery(sequence, delivery)
            return not self.finish([(Kind.DONE, [done])], [done], epoch)
        is_sure = False
        try:
            outcome = self.log.step(sequence, delivery, following[0], want, self._mode, epoch)
            if self._membership != state.membership or not outcome[0]:
                self._take_note(outcome, epoch)
            is_sure = outcome[0]
        finally:
            items.started((following,), is_sure=is_sure)
        items.ended(sequence, delivery)
        self._after()
        if not takers:
            self.give_back()  # a loop may have ended meanwhile
        return outcome[0] and not outcome[3]

    def finish(
        self, sections: Sequence[Section], ended: Sequence[Delivery], epoch: int | None, *, batch: int = 0
    ) -> list[Delivery]:
        """End deliveries; while a loop consumes, start its next item in the same operation.

        ended: none if the sections only extend a delivery.  epoch: in which the items were handed out.
        batch: how many items a loop of batches wants next.
        Returns the deliveries that do not count any more.
        """
        takers, want, flags, all_sections = self._takers if ended else [], 0, 0, list(sections)
        following: list[Assigned] = []
        if takers and batch:
            want, flags = batch, START_FIRST
        elif takers and (following := self._items.take_assigned(1)):
            all_sections.append((Kind.START, [following[0].sequence]))
            want = max(takers)
        is_sure = False
        try:
            if want:
                all_sections += self._new_messages(want)
            due_ns = self.state.next_due_ns
            outcome = self._submit(all_sections, want=want, flags=flags, mode=self._mode, epoch=epoch)
            is_sure = outcome.counted
        finally:
            if following:
                self._items.started(following, is_sure=is_sure)
        self._ended(ended)
        earlier_ns = self.state.next_due_ns
        if earlier_ns is not None and (due_ns is None or earlier_ns < due_ns):
            self._waiting.wake_listener()
        return outcome.refused

    def _ended(self, ended: Sequence[Delivery]) -> None:
        """Finish after deliveries were ended."""
        for sequence, delivery in ended:
            self._items.ended(sequence, delivery)
        # The deliveries are ended, so the call has succeeded, and its caller must not end them again.  A dying item
        # that could not be made a dead letter is handed out again, and the next call raises an error that lasts.
        with suppress(BinlogError):
            self._after()
        if not self._takers:
            self.give_back()  # a loop may have ended meanwhile

    def _after(self) -> None:
        """Make the dying items of an operation dead letters, and wake other members for what it left."""
        try:
            if self._items.dying:
                self._make_dead_letters()
        finally:
            if self.state.member_count > 1:
                self._waiting.wake_for_items(self.state, but=self.log.seat)

    def _find_items(self, sequences: Iterable[int] | None = None) -> None:
        """Find the items that the member has by the state, because the outcomes of some operations are not known."""
        seat = self.state.seats.get(self.log.seat)
        if seat is None or seat.generation != self.log.generation:
            return
        held = set(seat.held)
        found = [self.state.find(each) for each in (seat.held if sequences is None else sequences) if each in held]
        self._items.find_again(item for item in found if item is not None)

    def _hand_out(self, item: Assigned) -> Held | None:
        """Return a started item with its message; None if it was not to be handed to the user."""
        sequence, delivery, _, _ = item
        epoch = self.state.epoch  # before the check, because another thread may apply a reset meanwhile
        if not (counted := self._still_has(sequence, delivery)):
            self._items.drop_claim()
            return None
        try:
            record = self._source.read(sequence)
        except GoneError:
            self.log.catch_up()
            if self._still_has(item.sequence, item.delivery):
                first = self._source.first_sequence()
                if not self._skips_gone or item.sequence >= first:
                    self._end_claim((Kind.BACK, [Delivery(sequence, delivery)]))
                    raise
                self._end_claim((Kind.GONE, [(self.state.floor, first)]))
            self._items.drop_claim()  # or its lease ended, and others are done with it
            return None
        except Exception:
            self._end_claim((Kind.BACK, [Delivery(sequence, delivery)]))
            raise
        if record[1][:1] in _OF_FILLERS and is_filler(self._source.path, record.ref, record.data):
            self._end_claim((Kind.REJECT, [Failure(sequence, delivery, 0, DAMAGED)]))
            return None
        return tuple.__new__(Held, (sequence, delivery, counted, epoch, record))

    def _end_claim(self, section: Section) -> None:
        """End the delivery of an item that the user is not to have."""
        self._submit([section])
        self._items.drop_claim()

    def delivered(self) -> None:
        """Take note that the user has what `take` returned to this thread; otherwise its next call returns it again."""
        if self._items.delivered() > self._handed_max:
            left = self._items.forget_others(partial(self.state.started_by, self.log.seat))
            self._handed_max = max(_HANDED_MAX, 2 * left)

    def _still_has(self, sequence: int, delivery: int) -> int:
        """Return the count of deliveries of a started item; 0 if its lease ended, or the member lost it."""
        if self.log.is_unsure:
            self.log.resolve_unknown()  # it may have given the item back
        counted = self.state.started_by(self.log.seat, sequence, delivery)
        if not counted:
            self._items.ended(sequence, delivery)
        return counted

    def _make_dead_letters(self) -> None:
        """Append the dying items that the member has to the dead letters."""
        with self._dying:
            is_synced = False
            while (letter := self._items.next_dying()) is not None:
                try:
                    if not is_synced:
                        # Otherwise a power cut could give the number of this dead letter to another item.
                        self.log.sync()
                        is_synced = True
                    self._make_dead_letter(letter)
                except BaseException:
                    # Another member makes it, and this one does not keep others from theirs.
                    self._submit([(Kind.BACK, [Delivery(letter.sequence, letter.delivery)])])
                    self._items.remove_dying(letter)
                    raise
                self._items.remove_dying(letter)

    def _make_dead_letter(self, letter: Assigned) -> None:
        item = self.state.find(letter.sequence)
        if item is None or not self._is_dying(letter):
            return
        try:
            record: StoredRecord | None = self._source.read(letter.sequence)
        except (CorruptError, GoneError):
            record = None
        self._dead_letters.append(item, record, lambda: self._is_dying(letter, catches_up=True))
        self._submit([(Kind.DONE, [Delivery(letter.sequence, letter.delivery)])], mode=self._mode)

    def _is_dying(self, letter: Assigned, *, catches_up: bool = False) -> bool:
        """Whether the member still has to make an item a dead letter.  catches_up: by all operations so far."""
        if catches_up:
            self.log.catch_up()
        item = self.state.find(letter.sequence)
        return item is not None and item.letter == letter.letter and item.seat == self.log.seat

    def _new_messages(self, count: int) -> list[Section]:
        """Return a section with new messages, if fewer than `count` are known and not assigned.

        Raises: GoneError if retention removed messages that the group has not had.
        """
        state, tries = self.state, 3
        while count and state.known_end - state.next < count:
            known_end, tries = state.known_end, tries - 1
            try:
                to_group_ns = self.time_ns() - self._clock.wall_ns()
                window = self._source.window(known_end, to_group_ns=to_group_ns)
            except GoneError:
                # Others may have had these messages, and this process does not know it yet.
                self.log.catch_up()
                first = self._source.first_sequence()
                if state.known_end >= first and (tries or state.known_end != known_end):
                    continue  # retention removed files without messages, or the group has them by now
                if not self._skips_gone:
                    raise
                return [(Kind.GONE, [(state.next, first)])]
            self._has_found_none = window is None
            return [] if window is None else [(Kind.WINDOW, window)]
        return []

    def _submit(
        self,
        sections: Sequence[Section],
        *,
        want: int = 0,
        flags: int = 0,
        mode: Mode = Mode.FLUSH,
        epoch: int | None = None,
    ) -> Outcome:
        outcome = self.log.submit(sections, want=want, flags=flags, mode=mode, epoch=epoch)
        self._take_note(outcome, epoch)
        if outcome.counted:
            return outcome
        deliveries = [entry for kind, entries in sections if kind in _OF_DELIVERIES for entry in entries]
        return Outcome(False, [], [], [Delivery(each[0], each[1]) for each in deliveries])

    def _take_note(self, outcome: Outcome, epoch: int | None) -> None:
        """Take note of an operation of the member.  epoch: in which it was to count, None for any."""
        if self._membership != self.state.membership:
            self._membership = self.state.membership
            self._seats_changed()
        if not outcome.counted and (epoch is None or epoch == self.state.epoch):
            self._lose_items()

    def _lose_items(self) -> None:
        """Take note that the group was reset or deleted, or that the member was taken for dead.

        Its items belong to others by now, so nothing that it says about them counts.
        """
        self.log.check_usable()
        self._items.clear()
        self.membership.join_again()

    # --- waiting

    def _wait(self, timeout: float | None, is_wanted: Callable[[], bool] | None = None) -> bool:
        """Wait until an item may be available; False after `timeout` seconds."""
        if timeout is not None and timeout <= 0:
            return False
        seat = self.log.seat
        with self._waiting.idle(seat) as seen:
            self.log.catch_up()
            self.log.check_usable()
            if self._may_get_items():
                return True
            if self.is_closing or (is_wanted is not None and not is_wanted()):
                return True
            seconds = _WAIT_SECONDS_MAX if timeout is None else min(timeout, _WAIT_SECONDS_MAX)
            role, bell = self._waiting.role(seat), None
            if role is not Role.NONE and not self.state.is_paused:
                if (due_ns := self.state.next_due_ns) is not None:
                    seconds = min(seconds, max(due_ns - self.time_ns(), 0) / 1e9)
                if self.state.known_end == self.state.next:
                    found = self._source.bell_to_wait_on(self.state.known_end)
                    if found is not None:
                        bell, seconds = found[:2], min(seconds, found[2])
                    elif self._has_found_none:
                        seconds = min(seconds, LATE_SECONDS)  # there is one, and it is not durable yet
                    else:
                        seconds = 0.0  # there is a new message
            if seconds:
                self._waiting.wait(seat, seen, seconds, bell)
            if role is Role.DEPUTY:
                # The listener goes first, unless its process is stopped.
                self._waiting.wait(seat, seen, LATE_SECONDS, None)
                self.log.catch_up()
        if self._waiting.is_check_due():
            self.membership.check_others()
        return True
