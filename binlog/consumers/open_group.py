"""OpenGroup: a consumer group in one process, and the order of its calls.

A call of a thread inside another call of the same thread is refused: only a signal handler makes one, and it would find
what the interrupted call has half done.  `close` is the exception: the interrupted call then closes at its end.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, NoReturn

from binlog.consumers.group_folder import (
    check_folder,
    close_opened,
    gone_if_deleted,
    open_existing,
    open_or_create,
    quiet_if_deleted,
)
from binlog.consumers.item import Item
from binlog.consumers.members.letter_log import DeadLetters, LettersOnDisk
from binlog.consumers.members.member import Member
from binlog.consumers.members.message_source import LogOnDisk, MessageSource, sequence_at
from binlog.consumers.members.parts import Held, Parts
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.settings import Retry, Settings
from binlog.consumers.state.state_reader import log_headers
from binlog.consumers.tokens import Token
from binlog.consumers.waking.seats import FifoSeats
from binlog.consumers.waking.waiting import Waiting
from binlog.consumers.waking.watcher import Watcher
from binlog.errors import BinlogError, ClosedError, GoneError, LeaseLostError, StateError
from binlog.format.consumers.operation import Delivery, Section
from binlog.log.read.start import StartPosition
from binlog.storage.mode import Mode
from binlog.storage.native import fork_generation

if TYPE_CHECKING:
    from binlog.consumers.asynchronous import TaskCalls

_WAKE_SECONDS = 0.01

# The arguments of ConsumerGroup that are settings, and the fields of Settings that each one has.
_SETTINGS = {
    "retry": ("deliveries_max", "first_ns", "most_ns", "factor_percent", "jitter_percent"),
    "order": ("order",),
    "on_expiry": ("on_expiry",),
    "outstanding_max": ("outstanding_max",),
    "in_hand_max": ("in_hand_max",),
    "holds": ("holds_ns", "holds_bytes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """How to open a group: see ConsumerGroup.  changes: those of `Settings` that the caller named."""

    path: str
    name: str
    create: bool
    start: StartPosition
    settings: Settings
    changes: frozenset[str]
    lease_ns: int
    skips_gone: bool
    mode: Mode


class OpenGroup:
    """A group that is open in one process; it takes a seat when it first asks for items."""

    def __init__(self, options: GroupOptions) -> None:
        self.generation = fork_generation()
        self._options = options
        self._callers: set[int] = set()
        self._joining = threading.RLock()
        self._member: Member | None = None
        self._watcher: Watcher | None = None
        self._log_id = ""
        self._tasks: TaskCalls | None = None
        self._is_closed = self._closes_later = False
        self._late_ends: list[int] = []  # loops that ended in the middle of another call
        self._closed = threading.Event()
        self._clock = GroupClock()
        with ExitStack() as undoing:
            opens = open_or_create if options.create else open_existing
            self._folder, self._log = opens(options.path, options.name, self._clock)
            undoing.callback(close_opened, self._folder, self._log)
            if not self._log.state.is_created:
                start = sequence_at(options.path, options.start)
                with gone_if_deleted(self._folder):
                    self._log.set_up(options.settings, start)
            self._check_settings()
            self._undoing = undoing.pop_all()
        atexit.register(self.close)

    def _check_settings(self) -> None:
        """Raises: ValueError if the group has other settings than the caller named."""
        has, named = self._log.state.settings, self._options.settings
        differing = {name for name in self._options.changes if getattr(has, name) != getattr(named, name)}
        for argument, of_settings in _SETTINGS.items():
            if differing.intersection(of_settings):
                text = f"the group {self._options.name!r} was created with another {argument}"
                remedy = "delete the group, or" if argument == "order" else "`set` changes it, or"
                raise ValueError(f"{text}; {remedy} leave the argument out")

    # --- joining

    def _joined(self) -> Member:
        if self._member is not None:
            if self._watcher is not None and self._watcher.failure is not None:
                raise self._watcher.failure
            return self._member
        with self._joining:
            return self._member or self._join()

    def _join(self) -> Member:
        options = self._options
        with ExitStack() as undoing:
            source = MessageSource(LogOnDisk(options.path))
            undoing.callback(source.close)
            self._log.catch_up()
            source.check_history(self._log.state)
            waiting = Waiting(self._folder)
            undoing.callback(waiting.close)
            seats = FifoSeats(self._folder)
            undoing.callback(seats.close)
            dead_letters = DeadLetters(self._open_dead_letters, options.name)
            undoing.callback(dead_letters.close)
            member = Member(
                Parts(
                    clock=self._clock, log=self._log, source=source, seats=seats, waiting=waiting,
                    dead_letters=dead_letters,
                ),
                lease_ns=options.lease_ns,
                mode=options.mode,
                skips_gone=options.skips_gone,
                hint=f"pid {os.getpid()} on {os.uname().nodename}",
                seats_changed=self._refresh,
            )  # fmt: skip
            undoing.callback(member.leave)
            self._watcher = Watcher(seats, member.membership, self.close)
            undoing.callback(self._watcher.stop)
            self._undoing.enter_context(quiet_if_deleted(self._folder))
            self._undoing.push(undoing.pop_all())
        self._member = member
        member.is_closing = self._is_closed  # another thread may have closed the group meanwhile
        return member

    def _open_dead_letters(self) -> LettersOnDisk:
        letters = LettersOnDisk(self._folder.file_path("dead"))
        try:
            self._folder.check()  # the group may be deleted, and another one have its name
        except BaseException:
            letters.close()
            raise
        return letters

    def _refresh(self) -> None:
        if self._watcher is not None:
            self._watcher.refresh()

    # --- calls

    @contextmanager
    def _call(self) -> Iterator[Member]:
        """Hold the member open for a block.  Raises: ClosedError, StateError; GoneError if the group was deleted."""
        me = self._begin()
        try:
            self._callers.add(me)
            yield self._joined()
        except BinlogError as error:
            check_folder(self._folder, error)
            raise
        finally:
            self._callers.discard(me)  # in one call of C: Ctrl-C may strike before the first line of a function
            self._ended()

    def _begin(self) -> int:
        """Raises: ClosedError; StateError in a signal handler that interrupted a call, and in a forked child."""
        me = get_ident()
        if self.generation != fork_generation() or self._is_closed or me in self._callers:
            self._refuse()
        return me

    def _refuse(self) -> NoReturn:
        if self.generation != fork_generation():
            raise StateError("the item belongs to the process that forked this one; use its token: ConsumerGroup.ack")
        if self._is_closed:
            raise ClosedError("the consumer group is closed")
        raise StateError("a call of this thread is in progress: a signal handler may only close the group")

    def _ended(self) -> None:
        """End loops, and close, if that had to wait for this call."""
        if self._late_ends and not self._is_closed:
            self.end_taking(self._late_ends.pop())
        if self._is_closed:
            self._closed.set()
            if self._closes_later and not self._callers:
                self._close_all()

    def take(self, count: int, timeout: float | None, is_wanted: Callable[[], bool] | None = None) -> Item | None:
        """Return the next item; None after `timeout` seconds.

        count: how many to have assigned.  is_wanted: if it returns False, the call ends; after a change, call `wake`.
        """
        me = self._begin()
        try:
            self._callers.add(me)
            member = self._joined()
            held = member.take(count, timeout, is_wanted)
        except BinlogError as error:
            check_folder(self._folder, error)
            raise
        finally:
            self._callers.discard(me)  # in one call of C: Ctrl-C may strike before the first line of a function
            if self._late_ends or self._is_closed:
                self._ended()
        if held is None:
            return None
        item = Item(held, self)
        member.delivered()
        return item

    def take_many(self, count: int, *, wait: float, timeout: float | None) -> list[Item]:
        """Return up to `count` items, none after `timeout` seconds.  wait: for more of them, in seconds."""
        with self._call() as member:
            found: list[Held] = member.take_many(count, wait=wait, timeout=timeout)
        return [Item(held, self) for held in found]

    @contextmanager
    def taking(self, ahead: int) -> Iterator[None]:
        """Say for a block that a loop takes items, with `ahead` of them assigned ahead."""
        self.begin_taking(ahead)
        try:
            yield
        finally:
            if get_ident() in self._callers:
                self._late_ends.append(ahead)  # the garbage collector ends the loop, in the middle of a call
            elif not self._is_closed and self.generation == fork_generation():
                self.end_taking(ahead)

    def begin_taking(self, ahead: int) -> None:
        """Begin a loop that takes items, with `ahead` of them assigned ahead."""
        with self._call() as member:
            member.begin_taking(ahead)

    def end_taking(self, ahead: int) -> None:
        """End a loop; the last one gives back the items that it has not handed out."""
        # If the group was deleted, there is nothing to give back, and the loop's caller may be the garbage collector.
        with suppress(GoneError), self._call() as member:
            member.end_taking(ahead)

    def wake(self) -> None:
        """Let calls that wait for an item check again whether it is wanted.  A signal handler may call this."""
        if self._member is not None and not self._is_closed:
            self._member.wake()

    def tasks(self) -> TaskCalls:
        """Return the calls for asyncio."""
        from binlog.consumers.asynchronous import TaskCalls  # asyncio is large, and most programs do not use it

        if self._tasks is None:
            self._tasks = TaskCalls(self)
        return self._tasks

    def ack(self, sequence: int, delivery: int, epoch: int) -> None:
        """Acknowledge a delivery.  Raises: LeaseLostError if it does not count."""
        me = self._begin()
        try:
            self._callers.add(me)
            counts = self._joined().ack(sequence, delivery, epoch)
        except BinlogError as error:
            check_folder(self._folder, error)
            raise
        finally:
            self._callers.discard(me)  # in one call of C: Ctrl-C may strike before the first line of a function
            if self._late_ends or self._is_closed:
                self._ended()
        if not counts:
            raise LeaseLostError(f"message {sequence}: it is done, or another member has it")

    def finish(self, sections: list[Section], items: Iterable[Item], *, batch: int = 0) -> None:
        """End deliveries of items.  batch: how many items the loop wants next.

        Raises: LeaseLostError if one does not count; the others do.
        """
        if refused := self.refused(sections, list(items), batch=batch):
            lost = ", ".join(str(delivery.sequence) for delivery in refused)
            raise LeaseLostError(f"message {lost}: it is done, or another member has it")

    def extend(self, section: Section, item: Item) -> None:
        """Give a delivery more time.  Raises: LeaseLostError if it does not count."""
        if self.refused([section], [item], is_end=False):
            raise LeaseLostError(f"message {item.sequence}: it is done, or another member has it")

    def refused(
        self, sections: list[Section], items: list[Item], *, batch: int = 0, is_end: bool = True
    ) -> list[Delivery]:
        """End deliveries of items of one epoch, or only extend them; return those that do not count."""
        me = self._begin()
        try:
            self._callers.add(me)
            ended = [item.this for item in items] if is_end else []
            return self._joined().finish(sections, ended, items[0].epoch, batch=batch)
        except BinlogError as error:
            check_folder(self._folder, error)
            raise
        finally:
            self._callers.discard(me)  # in one call of C: Ctrl-C may strike before the first line of a function
            self._ended()

    # --- facts

    @property
    def retry(self) -> Retry:
        """When a message that failed is delivered again."""
        return self._log.state.settings.retry

    def time_ns(self) -> int:
        """Return the group time now."""
        return self._clock.now_ns(self._log.state)

    def token(self, item: Item) -> Token:
        """Return the text that ends an item from any process."""
        return Token.of(self._log.uuid, item.epoch, *item.this)

    def message_id(self, sequence: int) -> str:
        """Return the id of a message: of its log, and its number there."""
        self._log_id = self._log_id or _log_id(self._options.path)
        return f"{self._log_id}-{sequence}"

    # --- closing

    def close(self) -> None:
        """Give back all items, leave the group, and close everything; a second call does nothing.

        Blocks: until the calls of other threads have ended, after waking them.  In a signal handler that interrupted a
        call, that call closes at its end.
        """
        if self.generation != fork_generation():
            self.abandon()
            return
        if self._is_closed:
            return
        self._is_closed = True
        if self._member is not None:
            self._member.is_closing = True
        if self._tasks is not None:
            self._tasks.close()
        if get_ident() in self._callers:
            self._closes_later = True
            if self._member is not None:
                self._member.wake()  # the calls of other threads end too
            return
        while self._callers:
            if self._member is not None:
                self._member.wake()
            self._closed.wait(_WAKE_SECONDS)
            self._closed.clear()
        self._close_all()

    def _close_all(self) -> None:
        self._closes_later = False
        atexit.unregister(self.close)
        self._undoing.close()

    def end(self) -> None:
        """Close in another thread, because the garbage collector calls this in the middle of anything."""
        if self.generation != fork_generation() or self._is_closed:
            return
        if self._watcher is not None and self._watcher.is_running:
            self._watcher.end()
        else:
            threading.Thread(target=self.close, name="binlog-closing").start()

    def abandon(self) -> None:
        """In a forked child: close what the table of descriptors does not close."""
        atexit.unregister(self.close)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.abandon()


def _log_id(path: str) -> str:
    """Return 16 hex digits of the log's UUID, zeros if all of its files are another program's."""
    return next((header.uuid for header in log_headers(path) if header.is_native), bytes(8)).hex()[:16]
