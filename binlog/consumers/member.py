"""A member of a group: takes a seat, gets items, acknowledges them, and waits for more."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from binlog.consumers.clock import clock_values, group_time_ns, is_this_boots
from binlog.consumers.dead_letters import DeadLetters
from binlog.consumers.group_log import GroupLog
from binlog.consumers.listener import Listener
from binlog.consumers.message_source import MessageSource, StoredRecord
from binlog.consumers.seats import Seat, Seats
from binlog.consumers.state import Assigned, GroupState, Outcome
from binlog.consumers.wakeups import Wakeups
from binlog.consumers.watcher import Watcher
from binlog.errors import ClosedError, CorruptError, GoneError
from binlog.format.consumers.operation import NO_SEAT, START_FIRST, Delivery, Kind, Section
from binlog.storage.directory import Directory
from binlog.storage.mode import Mode

_WAIT_SECONDS_MAX = 5.0


class Held(NamedTuple):
    """An item that the member has, and its message."""

    sequence: int
    delivery: int
    record: StoredRecord


def time_of(state: GroupState) -> int:
    """Return the group time now."""
    return group_time_ns(state.clock, state.clock_ns)


class Member:
    """A seat in a group, and the items that its process has.  Any number of threads may use it.

    path: of the messages' log.  directory: of the group.  settings: for a group that does not exist yet.
    """

    def __init__(
        self, path: str, directory: Directory, name: str, settings: Mapping[str, Any], *, lease_ns: int, mode: Mode
    ) -> None:
        self._mode = mode
        self._mutex = threading.RLock()
        self._prefetched: deque[Assigned] = deque()
        self._started: deque[Assigned] = deque()
        self.prefetch = 0
        self._known_seats: dict[int, int] = {}
        with ExitStack() as undoing:
            self.log = GroupLog(directory.path, time_of)
            undoing.callback(self.log.close)
            self.log.set_up(dict(settings))
            self.source = MessageSource(path)
            undoing.callback(self.source.close)
            self._wakeups = Wakeups(directory)
            undoing.callback(self._wakeups.close)
            self._listener = Listener(directory)
            undoing.callback(self._listener.close)
            self._seats = Seats(directory.subfolder("members"))
            self._seat = self._join(lease_ns)
            undoing.callback(self._seat.close)
            self._dead_letters = DeadLetters(directory.file_path("dead"), name)
            undoing.callback(self._dead_letters.close)
            self._watcher = Watcher(self._seats, self._others, self._bury)
            self._closing = undoing.pop_all()
        self._is_closed = False

    @property
    def state(self) -> GroupState:
        """The group's state, as far as this process has applied it."""
        return self.log.state

    # --- joining and leaving

    def _join(self, lease_ns: int) -> Seat:
        log = self.log
        log.catch_up()
        if not is_this_boots(log.state.clock):
            log.submit([(Kind.CLOCK, clock_values(log.state.clock_ns))], anonymous=True)
        seat = self._seats.take()
        try:
            dead = [
                (number, each.generation)
                for number, each in log.state.seats.items()
                if number == seat.number or self._seats.is_free(number)
            ]
            if dead:
                log.submit([(Kind.DEATH, dead)], anonymous=True)
            log.seat, log.generation = seat.number, log.state.generations.get(seat.number, 0) + 1
            log.submit([(Kind.JOIN, {"lease_ns": lease_ns})])
        except BaseException:
            seat.close()
            raise
        return seat

    def _others(self) -> dict[int, int]:
        """Return the generation of each living seat but ours, for the watcher."""
        self.log.catch_up()
        return {number: seat.generation for number, seat in list(self.state.seats.items()) if number != self.log.seat}

    def _bury(self, dead: list[tuple[int, int]]) -> None:
        self.log.submit([(Kind.DEATH, dead)], anonymous=True)
        self._wake_others()

    def close(self) -> None:
        """Give everything back, free the seat, and close all files."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watcher.stop()
        with self._closing:
            if self._seat.is_ours and not self.state.is_deleted:
                self.log.submit([(Kind.LEAVE, None)])
                self._wake_others()
                self._hand_over_listening()

    # --- items

    def take(self, count: int, timeout: float | None) -> list[Held]:
        """Return up to `count` items, the first one started; none after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._check()
            with self._mutex:
                if self._started:
                    return self._with_messages([self._started.popleft()])
                if self._prefetched:
                    return self._with_messages([self._start_prefetched()])
            outcome = self._submit([*self._window(count)], want=count, flags=START_FIRST)
            letters = [each for each in outcome.assigned if each.letter]
            items = [each for each in outcome.assigned if not each.letter]
            for letter in letters:
                self._make_dead_letter(letter)
            self._wake_others()
            if items:
                with self._mutex:
                    self._prefetched.extend(items[1:])
                first = items[0] if items[0].is_started else self._start(items[0])
                self._hand_over_listening()
                return self._with_messages([first])
            left = None if deadline is None else deadline - time.monotonic()
            if not letters and not self._wait(left):
                return []

    def finish(self, sections: Sequence[Section]) -> list[Delivery]:
        """End deliveries; while a loop consumes, start its next item in the same operation.  Return those refused."""
        self._check()
        with self._mutex:
            following = self._prefetched.popleft() if self._prefetched and self.prefetch else None
        start: list[Section] = [] if following is None else [(Kind.START, [following.sequence])]
        want = self.prefetch if following is not None else 0
        outcome = self._submit([*sections, *start, *self._window(want)], want=want, mode=self._mode)
        with self._mutex:
            if following is not None:
                self._started.append(following._replace(delivery=following.delivery + 1, is_started=True))
            self._prefetched.extend(each for each in outcome.assigned if not each.letter)
        for letter in (each for each in outcome.assigned if each.letter):
            self._make_dead_letter(letter)
        self._wake_others()
        return outcome.refused

    def give_back(self) -> None:
        """Give back all items that were not handed to the user."""
        with self._mutex:
            left = [each.sequence for each in (*self._started, *self._prefetched)]
            self._started.clear()
            self._prefetched.clear()
        if left and not self._is_closed:
            self._submit([(Kind.BACK, left)])
            self._wake_others()

    def _start_prefetched(self) -> Assigned:
        return self._start(self._prefetched.popleft())

    def _start(self, item: Assigned) -> Assigned:
        self._submit([(Kind.START, [item.sequence])])
        return item._replace(delivery=item.delivery + 1, is_started=True)

    def _with_messages(self, items: list[Assigned]) -> list[Held]:
        return [Held(each.sequence, each.delivery, self.source.read(each.sequence)) for each in items]

    def _make_dead_letter(self, letter: Assigned) -> None:
        item = replace(self.state.items[letter.sequence])
        try:
            record: StoredRecord | None = self.source.read(letter.sequence)
        except (CorruptError, GoneError):
            record = None
        self._dead_letters.append(item, record and record.data, str(record.ref) if record else "")
        self._submit([(Kind.DONE, [Delivery(letter.sequence, letter.delivery)])], mode=self._mode)

    def _window(self, count: int) -> list[Section]:
        """Return a section with new messages, if fewer than `count` are known."""
        state = self.state
        if not count or state.known_end - state.next >= count:
            return []
        window = self.source.window(state.known_end)
        return [] if window is None else [(Kind.WINDOW, window)]

    def _submit(
        self, sections: Sequence[Section], *, want: int = 0, flags: int = 0, mode: Mode = Mode.FLUSH
    ) -> Outcome:
        outcome = self.log.submit(sections, want=want, flags=flags, mode=mode)
        seats = {number: seat.generation for number, seat in list(self.state.seats.items())}
        if seats != self._known_seats:
            self._known_seats = seats
            self._watcher.refresh()
        return outcome

    def _check(self) -> None:
        if self._is_closed:
            raise ClosedError("the consumer group is closed")
        self.log.check_usable()
        if self._watcher.failure is not None:
            raise self._watcher.failure

    # --- waiting

    def _wake_others(self) -> None:
        """Wake as many idle members as there are items."""
        state = self.state
        available = state.available
        if available and not state.is_paused:
            others = [seat for seat in list(state.seats) if seat != self.log.seat]
            self._wakeups.wake(self._wakeups.idle(others)[:available])

    def _wait(self, timeout: float | None) -> bool:
        """Wait until an item may be available; False after `timeout` seconds."""
        if timeout is not None and timeout <= 0:
            return False
        seat, state = self.log.seat, self.state
        seen = self._wakeups.value(seat)
        self._wakeups.set_idle(seat, True)
        try:
            self.log.catch_up()
            if state.available and not state.is_paused:
                return True
            seconds = _WAIT_SECONDS_MAX if timeout is None else min(timeout, _WAIT_SECONDS_MAX)
            bell = None
            if self._listener.take(seat):
                found = self.source.bell_to_wait_on(state.known_end)
                if found is None:
                    return True
                bell, seconds = found[:2], min(seconds, found[2])
                if (due_ns := state.next_due_ns) is not None:
                    seconds = min(seconds, max(due_ns - time_of(state), 0) / 1e9)
            self._wakeups.wait(seat, seen, seconds, bell)
        finally:
            self._wakeups.set_idle(seat, False)
        return True

    def _hand_over_listening(self) -> None:
        """Let an idle member listen for new messages, if this one did."""
        if self._listener.is_ours:
            self._listener.give_up()
            others = [seat for seat in list(self.state.seats) if seat not in (self.log.seat, NO_SEAT)]
            self._wakeups.wake(self._wakeups.idle(others)[:1])
