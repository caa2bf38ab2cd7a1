"""ConsumerGroup: a named group of workers over a log, each message of which goes to one of them."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Self

from binlog.consumers.control import GroupControl
from binlog.consumers.item import Item
from binlog.consumers.item_batch import ItemBatch
from binlog.consumers.open_group import GroupOptions, OpenGroup
from binlog.consumers.state.settings import Holds, OnExpiry, Order, Retry, Settings
from binlog.consumers.tokens import Token
from binlog.errors import ClosedError
from binlog.format.values import count_of, duration_of, member, seconds_of
from binlog.log.read.start import Start, StartPosition, parse_start
from binlog.storage.mode import Mode, waits_for_sync
from binlog.storage.native import fork_generation

if TYPE_CHECKING:
    from binlog.consumers.inspection.history import Event
    from binlog.consumers.inspection.letters import DeadLetter
    from binlog.consumers.inspection.peek import PeekedItem, Status
    from binlog.consumers.inspection.stat import GroupStat

_NS = 10**9
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_PREFETCH_MAX = 10_000
_THREADS_MAX = 1_000

Seconds = float | timedelta | str


class ConsumerGroup:
    """A group of workers: each message of a log goes to one of them, until one has acknowledged it.

    path: the log's directory, which must exist.  name: of the group: 1 to 100 letters, digits, '-', '_' and '.'.
    create: make the group if there is none.  start: where a new group begins, as a Reader's start.
    retry: when a message that failed is delivered again, and after how many deliveries it becomes a dead letter.
    order: of messages with the same key.  on_expiry: what becomes of a message that expired.
    outstanding_max: no new message is delivered while this many were delivered, or wait for a retry, and are not done.
    in_hand_max: no message is delivered while the members have this many; 0 for no limit.
    holds: how long, or how many bytes, the group keeps retention from removing messages that it is not done with, once
        it has stopped: "always", a time such as "7d", or bytes such as "10G".
    lease: seconds after which an item returns to the group though its worker is alive; None for never.
    skip_gone: skip messages that retention removed before the group had them; otherwise GoneError is raised.
    mode: how durable an acknowledgement is when it returns: Mode.SYNC, or Mode.FLUSH, after which a power cut may bring
        back the messages of the last half second.

    The settings from `retry` to `holds` are the group's: they count when it is created, and `set` changes them.
    The object takes one of 256 seats in the group when it first asks for items, and gives it back in `close`.  If its
    process dies, the kernel frees the seat, and another member has its items at once.
    Any number of threads may share the object; items may be ended in any thread.  A forked child that uses it becomes
    another member.  Leaving its `with` block closes it.
    Raises: NotFoundError if there is no log, or no group and create is False; BusyError, at the first item, if all
    seats are taken; ValueError if the group has other settings than the named ones; CorruptError, also if the log is an
    older copy of the one that the group had; AccessError, VersionError, FullError, PoisonedError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        create: bool = True,
        start: StartPosition | str = Start.BEGINNING,
        retry: Retry | None = None,
        order: Order | str | None = None,
        on_expiry: OnExpiry | str | None = None,
        outstanding_max: int | None = None,
        in_hand_max: int | None = None,
        holds: Holds | None = None,
        lease: Seconds | None = None,
        skip_gone: bool = False,
        mode: Mode | str = Mode.SYNC,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a group's name has 1 to 100 letters, digits, '-', '_' and '.', not {name!r}")
        waits_for_sync(mode, "consumer group")
        self.path, self.name = os.path.abspath(os.fspath(path)), name
        settings, changes = _settings(retry, order, on_expiry, outstanding_max, in_hand_max, holds)
        self._options = GroupOptions(
            path=self.path,
            name=name,
            create=create,
            start=parse_start(start),
            settings=settings,
            changes=changes,
            lease_ns=0 if lease is None else _lease_ns(lease),
            skips_gone=skip_gone,
            mode=member(Mode, mode, "mode"),
        )
        self._is_closed = False
        self._control: GroupControl | None = None
        self._open()

    def _open(self) -> None:
        self._opened = OpenGroup(self._options)
        self._finalizer = weakref.finalize(self, self._opened.end)
        self._finalizer.atexit = False

    def _usable(self) -> OpenGroup:
        """Return the group, opened in this process: a forked child opens its own.  Raises: ClosedError."""
        if self._is_closed:
            raise ClosedError("the consumer group is closed")
        if self._opened.generation != fork_generation():
            self._finalizer.detach()
            self._opened.abandon()
            self._control = None
            self._open()
        return self._opened

    # --- items

    def get(self, timeout: Seconds | None = None) -> Item | None:
        """Return the next item; None after `timeout` seconds, or never None without one.

        Raises: GoneError if retention removed messages that the group has not had; CorruptError and others.
        """
        item = self._usable().take(1, _timeout(timeout))
        if item is not None:
            item.owner = self
        return item

    def consume(self, timeout: Seconds | None = None, *, prefetch: int = 1) -> Consumption:
        """Return an iterator over items, which waits for more; it ends after `timeout` seconds without any.

        `for item in group.consume()` blocks; `async for item in group.consume()` does not block the event loop.
        prefetch: how many items are assigned ahead, so that one operation ends an item and starts the next.  Such an
        item is not counted as delivered, and returns to the group at the end of the loop.  With 0 no item waits while
        this worker is busy, and each item takes two operations.
        """
        _check_prefetch(prefetch)
        return Consumption(self, _timeout(timeout), prefetch)

    def batches(
        self, records_max: int = 100, *, wait: Seconds = 0.0, timeout: Seconds | None = None
    ) -> Iterator[ItemBatch]:
        """Iterate over batches of 1 to `records_max` items, each of which is ended by one operation.

        wait: if there are fewer items, wait this many seconds for more.  Ends after `timeout` seconds without any.
        """
        count_of(records_max, "records_max", 1, _PREFETCH_MAX)
        wait_seconds, timeout_seconds = duration_of(wait, "wait"), _timeout(timeout)
        opened = self._usable()
        with opened.taking(0):
            while items := opened.take_many(records_max, wait=wait_seconds, timeout=timeout_seconds):
                for item in items:
                    item.owner = self
                yield ItemBatch(items, opened, records_max)

    def work(self, handler: Callable[[Item], object], *, threads: int = 1, prefetch: int = 1) -> int:
        """Call a handler for each item, until SIGTERM or an exception that is not an Exception.

        The item is acknowledged if the handler returns, unless it has ended it; an Exception is logged, and is a
        failure of the item.  At SIGTERM (in the main thread) each thread finishes its item, and the call returns how
        many items it acknowledged; meanwhile signal.set_wakeup_fd is in use.  Ctrl-C gives the item in hand back, and
        raises KeyboardInterrupt.
        prefetch: as in `consume`.
        """
        _check_prefetch(prefetch)
        count_of(threads, "threads", 1, _THREADS_MAX)
        if iscoroutinefunction(handler):
            raise TypeError("a handler of `work` is no coroutine; use `async for item in group.consume()`")
        from binlog.consumers.working import WorkLoop  # it loads logging

        return WorkLoop(self._usable(), handler, prefetch).run(threads)

    # --- tokens

    def ack(self, token: Token | str) -> None:
        """Acknowledge a delivery by its token: see Item.token.  Any process may; it needs no seat.

        Raises: LeaseLostError if it does not count any more; ValueError if the token is of another group.
        """
        self._controlled().ack(token)

    def nack(self, token: Token | str, *, delay: Seconds | None = None, error: object = "") -> None:
        """Report a failure by the token: see Item.nack.  Raises: as `ack`."""
        self._controlled().nack(token, delay=delay, error=error)

    def reject(self, token: Token | str, *, error: object = "") -> None:
        """Make a message a dead letter by the token.  Raises: as `ack`."""
        self._controlled().reject(token, error=error)

    # --- for operators

    def stat(self) -> GroupStat:
        """Return what the group has done and has yet to do."""
        from binlog.consumers.inspection.stat import stat_group  # most programs do not need it

        self._usable()
        return stat_group(self.path, self.name)

    def items(self, *, statuses: Collection[Status] | None = None, count: int | None = None) -> Iterator[PeekedItem]:
        """Iterate over the messages that the group is not done with, outstanding ones first; takes none of them.

        statuses: only messages with one of these.  count: n at most.
        """
        from binlog.consumers.inspection.peek import Status, peek

        self._usable()
        return peek(self.path, self.name, statuses=tuple(Status) if statuses is None else statuses, count=count)

    def dead_letters(self) -> Iterator[DeadLetter]:
        """Iterate over the messages that the group gave up, oldest first, each with the reason."""
        from binlog.consumers.inspection.letters import read_dead_letters

        self._usable()
        return read_dead_letters(self.path, self.name)

    def history(self, *, item: int | None = None) -> Iterator[Event]:
        """Iterate over what happened in the group, oldest first, as far back as its log goes.

        item: the sequence of a message; only events about it.
        """
        from binlog.consumers.inspection.history import events

        self._usable()
        return events(self.path, self.name, item=item)

    def pause(self) -> None:
        """Let no member get a message, until `resume`.  Durable on return."""
        self._controlled().pause()

    def resume(self) -> None:
        """Let members get messages again.  Durable on return."""
        self._controlled().resume()

    def set(
        self,
        *,
        retry: Retry | None = None,
        on_expiry: OnExpiry | str | None = None,
        outstanding_max: int | None = None,
        in_hand_max: int | None = None,
        holds: Holds | None = None,
    ) -> Settings:
        """Change settings of the group for all members, and return its settings.  Durable on return."""
        return self._controlled().set(
            retry=retry, on_expiry=on_expiry, outstanding_max=outstanding_max, in_hand_max=in_hand_max, holds=holds
        )

    def reset(self, to: StartPosition | str | int, *, keep_outstanding: bool = False) -> int:
        """Deliver the messages from a place on again: see GroupControl.reset."""
        return self._controlled().reset(to, keep_outstanding=keep_outstanding)

    def release(self, seat: int) -> list[int]:
        """Give the items of a living member to others: see GroupControl.release."""
        return self._controlled().release(seat)

    def delete(self) -> None:
        """Delete the group with its dead letters, and close this object: see GroupControl.delete."""
        control = self._controlled()
        self._control = None
        control.delete()
        self.close()

    def _controlled(self) -> GroupControl:
        self._usable()
        if self._control is None:
            self._control = GroupControl(self.path, self.name, mode=self._options.mode)
        return self._control

    # --- closing

    def close(self) -> None:
        """Give back all items, and leave the group; a second call does nothing.

        A call of another thread ends with ClosedError; blocks until it has.  A signal handler may call it.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._finalizer.detach()
        try:
            if self._control is not None:
                self._control.close()
        finally:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Consumption:
    """The items of a group, one after the other: an iterator, and an asynchronous iterator."""

    def __init__(self, group: ConsumerGroup, timeout: float | None, prefetch: int) -> None:
        self._group, self._timeout, self._prefetch = group, timeout, prefetch
        self._items: Iterator[Item] | None = None

    def _consume(self) -> Iterator[Item]:
        opened, count, timeout = self._group._usable(), 1 + self._prefetch, self._timeout
        with opened.taking(self._prefetch):
            while (item := opened.take(count, timeout)) is not None:
                item.owner = self._group
                yield item

    def __iter__(self) -> Iterator[Item]:
        return self._consume()

    def __next__(self) -> Item:
        if self._items is None:
            self._items = self._consume()
        return next(self._items)

    async def __aiter__(self) -> AsyncIterator[Item]:
        tasks = self._group._usable().tasks()
        tasks.begin(self._prefetch)
        try:
            while (item := await tasks.take(self._timeout)) is not None:
                item.owner = self._group
                yield item
        finally:
            tasks.end(self._prefetch)


def _lease_ns(lease: Seconds) -> int:
    lease_ns = int(duration_of(lease, "lease") * _NS)
    if not lease_ns:
        raise ValueError("a lease is longer than nothing; None is for no lease")
    return lease_ns


def _check_prefetch(prefetch: int) -> None:
    count_of(prefetch, "prefetch", 0, _PREFETCH_MAX)


def _timeout(timeout: Seconds | None) -> float | None:
    return timeout if timeout is None or type(timeout) is float else seconds_of(timeout, "timeout")


def _settings(
    retry: Retry | None,
    order: Order | str | None,
    on_expiry: OnExpiry | str | None,
    outstanding_max: int | None,
    in_hand_max: int | None,
    holds: Holds | None,
) -> tuple[Settings, frozenset[str]]:
    """Return the settings of a new group, and the names of those that the caller gave."""
    settings, named = Settings(), set[str]()
    if retry is not None:
        if not isinstance(retry, Retry):
            raise TypeError(f"retry is a binlog.Retry, not {retry!r}")
        settings = settings.with_retry(retry)
        named |= {"deliveries_max", "first_ns", "most_ns", "factor_percent", "jitter_percent"}
    if holds is not None:
        settings = settings.with_holds(holds)
        named |= {"holds_ns", "holds_bytes"}
    if outstanding_max is not None or in_hand_max is not None:
        settings = settings.with_limits(outstanding_max=outstanding_max, in_hand_max=in_hand_max)
        named |= {"outstanding_max"} if outstanding_max is not None else set()
        named |= {"in_hand_max"} if in_hand_max is not None else set()
    enums = {
        "order": None if order is None else member(Order, order, "order"),
        "on_expiry": None if on_expiry is None else member(OnExpiry, on_expiry, "on_expiry"),
    }
    given = {name: value for name, value in enums.items() if value is not None}
    return replace(settings, **given), frozenset(named | set(given))  # type: ignore[arg-type]
