"""A member of a group: takes a seat, gets items, acknowledges them, and waits for more."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from binlog.consumers.clock import GroupClock
from binlog.consumers.dead_letters import DeadLetters
from binlog.consumers.group_log import GroupLog
from binlog.consumers.message_source import MessageSource, StoredRecord
from binlog.consumers.state import DAMAGED, Assigned, GroupState, ItemState, Outcome
from binlog.consumers.waking.seats import SeatFolder, TakenSeat
from binlog.consumers.waking.waiting import Waiting
from binlog.errors import ClosedError, CorruptError, GoneError
from binlog.format.consumers.operation import NO_SEAT, START_FIRST, Delivery, Failure, Join, Kind, Section
from binlog.format.record import Ref
from binlog.log.maintain.file_repair import FILLER
from binlog.storage.mode import Mode

# An idle member checks everything this often, in case a wake-up was lost.
_WAIT_SECONDS_MAX = 5.0

# Sections whose entries are about a delivery.
_OF_DELIVERIES = (Kind.DONE, Kind.RETRY, Kind.REJECT, Kind.EXTEND)


class Held(NamedTuple):
    """An item that the member has, and its message.

    delivery: how often it was started.  counted: how often without being given back.  epoch: in which it was started.
    """

    sequence: int
    delivery: int
    counted: int
    epoch: int
    record: StoredRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a member works with."""

    clock: GroupClock
    log: GroupLog
    source: MessageSource
    seats: SeatFolder
    waiting: Waiting
    dead_letters: DeadLetters


class Member:
    """A seat in a group, and the items that its process has.  Any number of threads may use it.

    lease_ns: after this time an item returns to the group though the member is alive; 0 for never.
    mode: of what ends a delivery.  skips_gone: skip messages that the log does not have any more.
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
        self._source, self._seats, self._waiting = parts.source, parts.seats, parts.waiting
        self._dead_letters = parts.dead_letters
        self._lease_ns, self._mode, self._skips_gone = lease_ns, mode, skips_gone
        self._hint = hint
        self._seats_changed = seats_changed
        self._mutex = threading.RLock()
        self._prefetched: deque[Assigned] = deque()
        self._started: deque[Assigned] = deque()
        self._handed: set[int] = set()  # items that the user has
        self._working_count = 0
        self._is_uncertain = False  # a call ended in the middle of an operation
        self._membership = 0
        self._asked_at = Ref(0, 0)
        self.is_closing = False
        self.prefetch = 0
        self.seat = self._join()

    @property
    def state(self) -> GroupState:
        """The group's state, as far as this process has applied it."""
        return self.log.state

    def time_ns(self) -> int:
        """Return the group time now."""
        return self._clock.now_ns(self.state)

    # --- joining and leaving

    def _join(self) -> TakenSeat:
        log = self.log
        log.catch_up()
        if not self._clock.is_set(log.state):
            log.submit([(Kind.CLOCK, self._clock.for_this_boot(log.state))], anonymous=True)
        seat = self._seats.take()
        try:
            log.catch_up()
            self._waiting.begin(seat.number)
            self._take_part(seat.number)
        except BaseException:
            seat.close()
            raise
        return seat

    def _take_part(self, number: int) -> None:
        """Append JOIN for a seat that this process has, until it counts."""
        while True:
            self.log.check_usable()
            # A member with our seat is dead, because we have its lock.
            self.record_deaths(self._dead_seats(but=NO_SEAT, ours=number))
            self.log.seat, self.log.generation = number, self.state.last_generation(number) + 1
            if self.log.submit([(Kind.JOIN, Join(self._lease_ns, self._hint))]).counted:
                return

    def _dead_seats(self, *, but: int, ours: int = -1) -> list[tuple[int, int]]:
        return [
            (number, seat.generation)
            for number, seat in self.state.seats.items()
            if number != but and (number == ours or self._seats.is_free(number))
        ]

    def others(self) -> dict[int, int]:
        """Return the generation of each living seat but ours."""
        self.log.catch_up()
        if self.state.is_deleted:
            return {}
        return {number: seat.generation for number, seat in self.state.seats.items() if number != self.log.seat}

    def record_deaths(self, dead: Sequence[tuple[int, int]]) -> None:
        """Record that the members of these seats and generations died, and wake idle members for their items."""
        if dead:
            self.log.submit([(Kind.DEATH, list(dead))], anonymous=True)
            # The watcher's thread calls this: the threads of this member may be idle too.
            self._waiting.wake_for_items(self.state, but=NO_SEAT)

    def wake(self) -> None:
        """Wake the threads that wait for an item, so that they find that the member is closing."""
        self._waiting.wake(self.log.seat)

    def leave(self) -> None:
        """Give back everything, and free the seat."""
        try:
            if not self.state.is_deleted:
                self.log.submit([(Kind.LEAVE, None)])
                self._wake_others()
                self._waiting.hand_over(self.state, self.log.seat)
        finally:
            self.seat.close()

    # --- items

    def take(self, count: int, timeout: float | None) -> Held | None:
        """Return an item, and have up to `count` - 1 more assigned; None after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self.is_closing:
                with self._working():
                    if (found := self._next_own_item()) is not None:
                        if (held := self._hand_out(found)) is not None:
                            return held
                        continue
                    is_progress = self._ask(count)
                left = None if deadline is None else deadline - time.monotonic()
                if not is_progress and not self._wait(left):
                    return None
        finally:
            self._waiting.hand_over(self.state, self.log.seat)
        raise ClosedError("the consumer group was closed meanwhile")

    def _ask(self, count: int) -> bool:
        """Ask for items; return whether there is something to do now."""
        outcome = self._submit(self._new_messages(count), want=count, flags=START_FIRST)
        self._take_in(outcome)
        self._asked_at = self.log.own_position
        return bool(outcome.assigned) or not outcome.counted

    def _take_in(self, outcome: Outcome) -> None:
        """Keep the items that an operation got, and make the dying ones dead letters."""
        with self._mutex:
            for item in outcome.assigned:
                if not item.letter:
                    (self._started if item.is_started else self._prefetched).append(item)
            self._started.extend(_started(each) for each in outcome.started)
        self._make_dead_letters(outcome.assigned)
        self._wake_others()

    def _next_own_item(self) -> Assigned | None:
        """Return the next item that the member has, started; None if it has none that the user has not."""
        while True:
            with self._mutex:
                if self._started:
                    return self._started.popleft()
                if not self._prefetched:
                    return None
                prefetched = self._prefetched.popleft()
            if (started := self._start(prefetched)) is not None:
                return started

    def finish(self, section: Section, sequence: int, epoch: int) -> list[Delivery]:
        """End a delivery; while a loop consumes, start its next item in the same operation.

        epoch: in which the item was handed out.  Returns the delivery if it does not count any more.
        """
        with self._working():
            return self._finish(section, sequence, epoch)

    def _finish(self, section: Section, sequence: int, epoch: int) -> list[Delivery]:
        self._source.forget(sequence)
        with self._mutex:
            self._handed.discard(sequence)
            following = self._prefetched.popleft() if self._prefetched and self.prefetch else None
        sections, want = [section], 0
        if following is not None:
            sections.append((Kind.START, [following.sequence]))
            want = self.prefetch
            sections += self._new_messages(want)
        due_ns = self.state.next_due_ns
        outcome = self._submit(sections, want=want, mode=self._mode, epoch=epoch)
        self._take_in(outcome)
        earlier_ns = self.state.next_due_ns
        if earlier_ns is not None and (due_ns is None or earlier_ns < due_ns):
            self._waiting.wake_listener()
        return outcome.refused

    def give_back(self) -> None:
        """Give back all items that were not handed to the user."""
        with self._mutex:
            left = [each.sequence for each in (*self._started, *self._prefetched)]
            self._started.clear()
            self._prefetched.clear()
        if left:
            self._submit([(Kind.BACK, left)])
            self._wake_others()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Count the threads that work on items of the member, for a block."""
        with self._mutex:
            self._working_count += 1
        try:
            self._find_own_items()
            yield
        finally:
            with self._mutex:
                self._working_count -= 1

    def _find_own_items(self) -> None:
        """After an exception in the middle of an operation: find the items that the member has since then.

        If another thread works on items, which may be those, a later call finds them.
        """
        if not self._is_uncertain:
            return
        self.log.catch_up()
        with self._mutex:
            if self._working_count > 1:
                return
            self._is_uncertain = False
            seat = self.state.seats.get(self.log.seat)
            known = {each.sequence for each in (*self._started, *self._prefetched)} | self._handed
            for sequence in seat.held if seat is not None else ():
                item = self.state.find(sequence)
                if item is None or sequence in known:
                    continue
                is_started = item.state is ItemState.STARTED
                found = Assigned(sequence, item.delivery, is_started, item.letter)
                (self._started if is_started or item.letter else self._prefetched).append(found)

    def _start(self, item: Assigned) -> Assigned | None:
        """Start an item that is held; None if the member lost it."""
        outcome = self._submit([(Kind.START, [item.sequence])])
        return _started(outcome.started[0]) if outcome.started else None

    def _hand_out(self, item: Assigned) -> Held | None:
        """Return a started item with its message; None if it was not to be handed to the user."""
        if item.letter:
            self._make_dead_letters([item])
            return None
        try:
            record = self._source.read(item.sequence)
        except GoneError:
            first = self._source.first_sequence()
            if not self._skips_gone or item.sequence >= first:
                self._submit([(Kind.BACK, [item.sequence])])
                raise
            self._submit([(Kind.GONE, [(item.sequence, first)])])
            return None
        except BaseException:
            self._submit([(Kind.BACK, [item.sequence])])
            raise
        if record.data.startswith(FILLER):
            self._submit([(Kind.REJECT, [Failure(item.sequence, item.delivery, 0, DAMAGED)])])
            return None
        with self._mutex:
            self._handed.add(item.sequence)
        found = self.state.find(item.sequence)
        counted = item.delivery if found is None else item.delivery - found.uncounted
        return Held(item.sequence, item.delivery, counted, self.state.epoch, record)

    def _make_dead_letters(self, assigned: Iterable[Assigned]) -> bool:
        """Append the dying ones of these items to the dead letters; return whether there were any."""
        letters = [each for each in assigned if each.letter]
        if letters:
            # Otherwise a power cut could give the numbers of these dead letters to other items.
            self.log.sync()
        for letter in letters:
            try:
                self._make_dead_letter(letter)
            except BaseException:
                # Another member makes it, and this one does not keep others from theirs.
                self._submit([(Kind.BACK, [letter.sequence])])
                raise
        return bool(letters)

    def _make_dead_letter(self, letter: Assigned) -> None:
        item = self.state.find(letter.sequence)
        if item is None:
            return
        try:
            record: StoredRecord | None = self._source.read(letter.sequence)
        except (CorruptError, GoneError):
            record = None
        self._dead_letters.append(item, record)
        self._submit([(Kind.DONE, [Delivery(letter.sequence, letter.delivery)])], mode=self._mode)

    def _new_messages(self, count: int) -> list[Section]:
        """Return a section with new messages, if fewer than `count` are known and not assigned.

        Raises: GoneError if retention removed messages that the group has not had.
        """
        state = self.state
        while count and state.known_end - state.next < count:
            known_end = state.known_end
            try:
                to_group_ns = self.time_ns() - self._clock.wall_ns()
                window = self._source.window(known_end, to_group_ns=to_group_ns)
            except GoneError:
                # Others may have had these messages, and this process does not know it yet.
                self.log.catch_up()
                first = self._source.first_sequence()
                if state.known_end >= first and state.known_end != known_end:
                    continue
                if not self._skips_gone:
                    raise
                return [(Kind.GONE, [(state.next, first)])]
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
        try:
            outcome = self.log.submit(sections, want=want, flags=flags, mode=mode, epoch=epoch)
        except BaseException:
            self._is_uncertain = True
            raise
        if self._membership != self.state.membership:
            self._membership = self.state.membership
            self._seats_changed()
        if outcome.counted:
            return outcome
        if epoch is None or epoch == self.state.epoch:
            self._lose_items()
        deliveries = [entry for kind, entries in sections if kind in _OF_DELIVERIES for entry in entries]
        return Outcome(False, [], [], [Delivery(each[0], each[1]) for each in deliveries])

    def _lose_items(self) -> None:
        """Take note that the group was reset or deleted, or that the member was taken for dead.

        Its items belong to others by now, so nothing that it says about them counts.
        """
        self.log.check_usable()
        with self._mutex:
            self._started.clear()
            self._prefetched.clear()
            self._handed.clear()
            seat = self.state.seats.get(self.log.seat)
            if seat is None or seat.generation != self.log.generation:
                self._take_part(self.log.seat)

    # --- waiting

    def _wake_others(self) -> None:
        self._waiting.wake_for_items(self.state, but=self.log.seat)

    def _wait(self, timeout: float | None) -> bool:
        """Wait until an item may be available; False after `timeout` seconds."""
        if timeout is not None and timeout <= 0:
            return False
        state = self.state
        with self._waiting.idle(self.log.seat) as seen:
            self.log.catch_up()
            # If nothing was appended since the member asked in vain, it would ask in vain again.
            if state.available and not state.is_paused and self.log.position != self._asked_at:
                return True
            seconds = _WAIT_SECONDS_MAX if timeout is None else min(timeout, _WAIT_SECONDS_MAX)
            bell = None
            if self._waiting.listens(self.log.seat) and state.known_end == state.next:
                found = self._source.bell_to_wait_on(state.known_end)
                if found is None:
                    return True
                bell, seconds = found[:2], min(seconds, found[2])
            if (due_ns := state.next_due_ns) is not None:
                seconds = min(seconds, max(due_ns - self.time_ns(), 0) / 1e9)
            self._waiting.wait(self.log.seat, seen, seconds, bell)
        self.record_deaths(self._dead_seats(but=self.log.seat) if self._waiting.is_check_due() else [])
        return True


def _started(delivery: Delivery) -> Assigned:
    return Assigned(delivery.sequence, delivery.delivery, is_started=True, letter=0)
