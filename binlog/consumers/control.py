"""GroupControl: pauses, changes, resets and deletes a consumer group, and ends deliveries by their tokens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Self

from binlog.consumers.group_folder import (
    close_opened,
    finish_deletion,
    gone_if_deleted,
    open_existing,
    quiet_if_deleted,
)
from binlog.consumers.item import text_of
from binlog.consumers.members.letter_log import last_deliveries
from binlog.consumers.members.message_source import LogOnDisk, MessageSource, facts_of, sequence_at
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_state import GroupState, Item, ItemState, Outcome
from binlog.consumers.state.settings import Holds, OnExpiry, Order, Retry, Settings
from binlog.consumers.tokens import Token
from binlog.consumers.waking.seats import FifoSeats
from binlog.consumers.waking.waiting import Waiting
from binlog.errors import ClosedError, CorruptError, GoneError, LeaseLostError, NotFoundError, StateError
from binlog.format.consumers.message import Message
from binlog.format.consumers.operation import COUNT_MAX, NO_SEAT, Again, Delivery, Failure, Kind, Reset, Section
from binlog.format.values import duration_of, member
from binlog.log.maintain.fillers import is_filler
from binlog.log.read.start import Sequence, StartPosition, parse_start
from binlog.storage.mode import Mode, waits_for_sync
from binlog.storage.native import fork_generation

_NS = 10**9


class GroupControl:
    """A consumer group of a log, for a process that takes no messages from it.

    path: the log's directory.  name: of the group.
    mode: how durable `ack`, `nack` and `reject` are when they return; all other calls are durable on return.

    Threads may share it; a forked child opens its own.  Use it as a context manager, or close it.
    Each call blocks for a sync, and raises: GoneError if the group was deleted meanwhile; ClosedError; FullError and
    others, as a Writer; CorruptError if the group's log is damaged.
    Raises: NotFoundError if there is no such group; AccessError, CorruptError, VersionError, PoisonedError.
    """

    def __init__(self, path: str | os.PathLike[str], name: str, *, mode: Mode | str = Mode.SYNC) -> None:
        waits_for_sync(mode, "consumer group")
        self.path, self.name = os.path.abspath(os.fspath(path)), name
        self._mode = member(Mode, mode, "mode")
        self._clock = GroupClock()
        self._generation = fork_generation()
        self._is_closed = False
        with ExitStack() as undoing:
            self._folder, self._log = open_existing(self.path, name, self._clock)
            undoing.callback(close_opened, self._folder, self._log)
            with gone_if_deleted(self._folder):
                self._waiting = Waiting(self._folder)
                undoing.callback(self._waiting.close)
                self._seats = FifoSeats(self._folder)
                undoing.callback(self._seats.close)
            self._undoing = undoing.pop_all()

    # --- the group

    @property
    def uuid(self) -> bytes:
        """The UUID of the group's log, which a later group of the same name does not have."""
        return self._log.uuid

    def state(self) -> GroupState:
        """Return the state of the group now; it changes with the next call."""
        self._check()
        with gone_if_deleted(self._folder):
            self._log.catch_up()
            self._log.check_usable()
        return self._log.state

    def pause(self) -> None:
        """Let no member get a message, until `resume`."""
        self._apply((Kind.PAUSE, None))

    def resume(self) -> None:
        """Let members get messages again."""
        self._apply((Kind.RESUME, None))

    def set(
        self,
        *,
        retry: Retry | None = None,
        order: Order | str | None = None,
        on_expiry: OnExpiry | str | None = None,
        outstanding_max: int | None = None,
        in_hand_max: int | None = None,
        holds: Holds | None = None,
    ) -> Settings:
        """Change settings of the group, for all members; None leaves one as it is.  Returns the settings.

        in_hand_max: 0 for no limit.  holds: see `Holds`.  The others: see `Settings`.
        Raises: ValueError, also for another order than the group has: it was fixed when the group was created.
        """
        present = self.state().settings
        if order is not None and member(Order, order, "order") is not present.order:
            text = f"the group {self.name!r} has the order {present.order.value!r}, which cannot be changed"
            raise ValueError(f"{text}; delete the group, and create it with another order")
        new = present.with_limits(outstanding_max=outstanding_max, in_hand_max=in_hand_max)
        if retry is not None:
            new = new.with_retry(retry)
        if on_expiry is not None:
            new = replace(new, on_expiry=member(OnExpiry, on_expiry, "on_expiry"))
        if holds is not None:
            new = new.with_holds(holds)
        before = present.as_values()
        changes = {number: value for number, value in new.as_values().items() if value != before[number]}
        if changes:
            self._apply((Kind.SETTINGS, changes))
        return self._log.state.settings

    def reset(self, to: StartPosition | str | int, *, keep_outstanding: bool = False) -> int:
        """Deliver the messages from a place on again, and return the sequence number of the first one.

        to: a Reader's start or its text, or a sequence number; it may be later than the messages delivered so far.
        keep_outstanding: also deliver the earlier messages that are outstanding, which are done otherwise.
        Members lose the messages that they have in hand, and their acknowledgements are refused.
        Raises: GoneError if retention removed the message; ValueError if the log has no such place.
        """
        self._check()
        sequence = sequence_at(self.path, Sequence(to) if isinstance(to, int) else parse_start(to))
        self._apply((Kind.RESET, Reset(sequence, keep_outstanding)))
        return sequence

    def release(self, seat: int) -> list[int]:
        """Take everything from a living member as if it had died, and return the sequence numbers of its messages.

        For a member that is stopped or hangs.  If it continues, it joins again; its acknowledgements are refused.
        Raises: NotFoundError if no member has the seat.
        """
        found = self.state().seats.get(seat)
        if found is None:
            raise NotFoundError(f"no member of the group {self.name!r} has seat {seat}")
        self._apply((Kind.DEATH, [(seat, found.generation)]))
        self._waiting.wake_all(self._log.state)
        return found.held

    def delete(self) -> None:
        """Delete the group with its dead letters, and close this object.

        Members get GoneError from then on.  A group that is created later with this name is another one.
        """
        self._apply((Kind.DELETED, None))
        seats = list(self._log.state.seats)
        try:
            with quiet_if_deleted(self._folder):
                self._log.close()
            finish_deletion(self.path, self.name)
        finally:
            for seat in seats:
                self._waiting.wake(seat)
            self.close()

    # --- messages

    def retry_now(self, *, sequences: Iterable[int] | None = None, key: bytes | None = None) -> int:
        """Deliver messages that wait for a retry or a due time now, and return how many there were.

        sequences: of those messages; None for all.  key: only messages with this key; None for any.
        """
        wanted = None if sequences is None else set(sequences)
        key_hash = None if key is None else facts_of(Message(body=b"", key=key).pack(), 0).key_hash
        delayed = [
            Again(item.sequence)
            for item in self._delayed()
            if (wanted is None or item.sequence in wanted) and key_hash in (None, item.key_hash)
        ]
        self._deliver_again(delayed)
        return len(delayed)

    def retry_dead(self, sequences: Iterable[int]) -> list[int]:
        """Deliver dead letters of this group to it again; return those that it cannot get.

        They are counted from the first delivery on, and do not expire.  The dead letters stay in their log.
        It cannot get a message that is no dead letter of this group, that is outstanding or new, or that the log does
        not have any more.
        """
        wanted = set(sequences)
        state = self.state()
        numbers = last_deliveries(self._folder.file_path("dead"), wanted)
        source = MessageSource(LogOnDisk(self.path))
        again = []
        try:
            for sequence, delivery in sorted(numbers.items()):
                if sequence < state.next and state.find(sequence) is None:
                    key_hash = _key_hash(self.path, source, sequence)
                    if key_hash is not None:
                        again.append(Again(sequence, max(delivery, 1), key_hash))
        finally:
            source.close()
        self._deliver_again(again)
        return sorted(wanted - {each.sequence for each in again})

    def ack(self, token: Token | str) -> None:
        """Acknowledge a delivery: no member gets the message again.

        Raises: LeaseLostError if it does not count, because another member has the message, or it is done; ValueError
        if the token is of another group.
        """
        found = self._parse(token)
        self._end((Kind.DONE, [Delivery(found.sequence, found.delivery)]), found)

    def nack(self, token: Token | str, *, delay: float | timedelta | str | None = None, error: object = "") -> None:
        """Report a failure: the message is delivered again after `delay` seconds, by default as the group's Retry says.

        error: is kept with the message, up to 200 bytes.  Raises: as `ack`.
        """
        found = self._parse(token)
        if delay is not None:
            seconds = duration_of(delay, "delay")
        else:
            state = self.state()
            item = state.find(found.sequence)
            seconds = state.settings.retry.seconds(found.delivery - item.uncounted if item is not None else 1)
        self._set_clock()
        due_ns = self._clock.now_ns(self._log.state) + max(int(seconds * _NS), 0)
        self._end((Kind.RETRY, [Failure(found.sequence, found.delivery, due_ns, text_of(error))]), found)

    def reject(self, token: Token | str, *, error: object = "") -> None:
        """Make the message a dead letter.  Raises: as `ack`."""
        found = self._parse(token)
        self._end((Kind.REJECT, [Failure(found.sequence, found.delivery, 0, text_of(error))]), found)

    def _delayed(self) -> Iterator[Item]:
        return (item for item in self.state().items() if item.state is ItemState.DELAYED)

    def _deliver_again(self, entries: list[Again]) -> None:
        for first in range(0, len(entries), COUNT_MAX):
            self._apply((Kind.AGAIN, entries[first : first + COUNT_MAX]))

    def _parse(self, token: Token | str) -> Token:
        found = token if isinstance(token, Token) else Token.parse(token)
        self._check()
        if not found.is_of(self._log.uuid):
            raise ValueError(f"{found}: the token is of another group than {self.name!r}")
        return found

    # --- operations

    def _apply(self, section: Section) -> Outcome:
        """Append an operation durably, until it counts, and wake members for items."""
        self._check()
        with gone_if_deleted(self._folder):
            self._set_clock()
            while not (outcome := self._log.submit([section], anonymous=True, mode=Mode.SYNC)).counted:
                self._log.check_usable()  # otherwise the group was reset meanwhile
        self._waiting.wake_for_items(self._log.state, but=NO_SEAT)
        self._waiting.wake_listener()  # for messages that no member has read yet, and for due times
        return outcome

    def _end(self, section: Section, token: Token) -> None:
        """End a delivery.  Raises: LeaseLostError."""
        with gone_if_deleted(self._folder):
            self._set_clock()
            due_ns = self._log.state.next_due_ns
            outcome = self._log.submit([section], anonymous=True, mode=self._mode, epoch=token.epoch)
            if not outcome.counted:
                self._log.check_usable()
        if not outcome.counted or outcome.refused:
            text = "it is done, or another member has it"
            raise LeaseLostError(f"message {token.sequence}, token {token}: {text}")
        state = self._log.state
        self._waiting.wake_for_items(state, but=NO_SEAT)
        if state.next_due_ns is not None and (due_ns is None or state.next_due_ns < due_ns):
            self._waiting.wake_listener()

    def _set_clock(self) -> None:
        """Set group time if no member has in this boot: otherwise the operation would have the time of the last one."""
        with gone_if_deleted(self._folder):
            self._log.catch_up()
            if not self._log.state.is_deleted:
                self._log.set_clock(self._seats.is_gone)

    def _check(self) -> None:
        if self._is_closed:
            raise ClosedError(f"the control of the group {self.name!r} is closed")
        if self._generation != fork_generation():
            raise StateError(f"the control of the group {self.name!r} belongs to another process; open one in this one")

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        if not self._is_closed and self._generation == fork_generation():
            self._is_closed = True
            self._undoing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _key_hash(path: str, source: MessageSource, sequence: int) -> int | None:
    """Return the hash of a message's key, 0 for none; None if the log does not have the message any more."""
    try:
        record = source.read(sequence)
    except (GoneError, CorruptError, ValueError):
        return None
    return None if is_filler(path, record.ref, record.data) else facts_of(record.data, 0).key_hash
