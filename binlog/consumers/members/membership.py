"""The membership of one member: its seat, the deaths of others, and leaving."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.waking.seats import SeatFolder, TakenSeat
from binlog.consumers.waking.waiting import Waiting
from binlog.errors import GoneError
from binlog.format.consumers.operation import NO_SEAT, Join, Kind

SeatDeath = tuple[int, int]
"""A seat and the generation of its dead member."""


class Membership:
    """A seat in a group, and the place of its member in the group's log.

    join: what the member says when it joins.
    """

    def __init__(self, log: GroupLog, seats: SeatFolder, waiting: Waiting, join: Join) -> None:
        self._log, self._seats, self._waiting, self._join = log, seats, waiting, join
        self._joining = threading.RLock()
        self._seat = self._take_seat()

    def _take_seat(self) -> TakenSeat:
        log = self._log
        log.catch_up()
        log.set_clock(self._seats.is_gone)
        seat = self._seats.take(lambda number: number in log.state.seats)
        try:
            self._waiting.begin(seat.number)
            self._join_until_it_counts(seat.number)
        except BaseException:
            seat.close()
            raise
        return seat

    def join_again(self) -> None:
        """Join again if another process took the member for dead, or an operator released it."""
        seat = self._log.state.seats.get(self._log.seat)
        if seat is None or seat.generation != self._log.generation:
            self._join_until_it_counts(self._log.seat)

    def _join_until_it_counts(self, number: int) -> None:
        with self._joining:
            while not self._has_joined(number):
                self._append_join(number)

    def _has_joined(self, number: int) -> bool:
        """Whether the member has the seat by the group's log; another thread may have joined for it."""
        log = self._log
        log.catch_up()
        log.check_usable()
        seat = log.state.seats.get(number)
        return seat is not None and (log.seat, log.generation) == (number, seat.generation)

    def _append_join(self, number: int) -> None:
        log = self._log
        self.record_deaths([seat for seat in self._others(number) if self._seats.is_free(seat[0])])
        if (before := log.state.seats.get(number)) is not None:
            # That member is dead, because this process has its lock.
            self.release([(number, before.generation)])
        log.join(number, self._join)

    def _others(self, but: int) -> list[SeatDeath]:
        return [(number, seat.generation) for number, seat in self._log.state.seats.items() if number != but]

    def others(self) -> dict[int, int]:
        """Return the generation of each living seat but ours."""
        self._log.catch_up()
        return {} if self._log.state.is_deleted else dict(self._others(self._log.seat))

    def check_others(self) -> None:
        """Record the deaths of members whose seats are free, in case no watcher noticed."""
        dead = [each for each in self.others().items() if self._seats.is_free(each[0])]
        self.record_deaths(dead)

    def record_deaths(self, dead: Sequence[SeatDeath]) -> None:
        """Record that the members of these seats and generations died, and wake idle members for their items.

        Of several processes that notice a death, the one that has the seat's lock records it.
        """
        if not dead:
            return
        with ExitStack() as taken:
            ours: list[SeatDeath] = []
            for number, generation in dead:
                if (seat := self._seats.take_dead(number)) is not None:
                    taken.callback(seat.close)
                    ours.append((number, generation))
            if ours:
                self._log.catch_up()
                self.release([death for death in ours if death in self._others(NO_SEAT)])

    def release(self, seats: Sequence[SeatDeath]) -> None:
        """Give the items of members to others.  The caller knows that they died, or takes them for dead."""
        if seats:
            self._log.submit([(Kind.DEATH, list(seats))], anonymous=True)
            # This member too: the watcher's thread calls this, and the other threads may be idle.
            self._waiting.wake_all(self._log.state)

    def restore_seat(self) -> None:
        """Make the seat's file again if it was removed."""
        self._seat.restore()

    def leave(self) -> None:
        """Give back everything, and free the seat."""
        log = self._log
        try:
            with suppress(GoneError):  # the group was deleted
                if not log.state.is_deleted:
                    log.submit([(Kind.LEAVE, None)])
                    self._waiting.wake_for_items(log.state, but=log.seat)
                    self._waiting.hand_over(log.state, log.seat)
        finally:
            self._seat.close()
