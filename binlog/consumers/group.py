"""ConsumerGroup: a named group of workers over a log, and the items that it hands to one of them."""

from __future__ import annotations

import os
import random
import re
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Self

from binlog.consumers.clock import GroupClock
from binlog.consumers.dead_letters import DeadLetters
from binlog.consumers.group_log import GroupLog
from binlog.consumers.member import Held, Member, Parts
from binlog.consumers.message_source import LogOnDisk, MessageSource, sequence_at
from binlog.consumers.settings import Order, Settings
from binlog.consumers.waking.seats import FifoSeats
from binlog.consumers.waking.waiting import Waiting
from binlog.consumers.waking.watcher import Watcher
from binlog.errors import ClosedError, LeaseLostError
from binlog.format.consumers.message import Message
from binlog.format.consumers.operation import Delivery, Failure, Kind, Section
from binlog.format.record import Ref
from binlog.format.values import member, seconds_of
from binlog.log.read.start import Start, StartPosition, parse_start
from binlog.log.writer import Writer
from binlog.storage.directory import Directory
from binlog.storage.mode import Mode, waits_for_sync
from binlog.storage.native import fork_generation

_NS = 10**9
_WAKE_SECONDS = 0.01
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_OUTSTANDING_MAX = 1 << 20
_PREFETCH_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a message that failed is delivered again, and how often.

    deliveries_max: after this many deliveries without an ack it becomes a dead letter; None for no limit.
    first: seconds until the second delivery.  factor: each later wait is this many times longer.  most: seconds at
    most.  jitter: each wait is longer or shorter by up to this share of it.
    """

    deliveries_max: int | None = 10
    first: float = 1.0
    factor: float = 2.0
    most: float = 3600.0
    jitter: float = 0.1

    def seconds(self, delivery: int) -> float:
        """Return how long to wait after this delivery."""
        wait = min(self.first * self.factor ** min(delivery - 1, 1000), self.most)
        return wait * (1 + self.jitter * random.uniform(-1, 1))


@dataclass(slots=True, eq=False)
class Item:
    """A message that this process has.  End it with one of its methods, or use it as a context manager.

    data: the body.  key, headers: of its envelope, if it has one.  sequence, ref: of the message in the log.
    delivery: how often it was delivered, this time included, and not given back.
    """

    data: bytes
    key: bytes | None
    headers: Mapping[str, bytes]
    sequence: int
    ref: Ref
    delivery: int
    _number: int = field(repr=False)
    _epoch: int = field(repr=False)
    _group: ConsumerGroup = field(repr=False)
    _is_ended: bool = field(default=False, repr=False)

    def ack(self) -> None:
        """Acknowledge: no member gets the message again.  Durable on return, in the group's mode.

        Raises: LeaseLostError if another member has the message, or it is done.
        """
        self._end((Kind.DONE, [self._this]))

    def nack(self, *, delay: float | None = None, error: object = "") -> None:
        """Report a failure: the message is delivered again after `delay` seconds, by default as the group's Retry says.

        error: is kept with the message, up to 200 bytes.  Raises: LeaseLostError.
        """
        wait = self._group.retry.seconds(self.delivery) if delay is None else seconds_of(delay, "delay")
        due_ns = self._group.time_ns() + int(wait * _NS)
        self._end((Kind.RETRY, [Failure(*self._this, due_ns, str(error))]))

    def reject(self, error: object = "") -> None:
        """Make the message a dead letter.  Raises: LeaseLostError."""
        self._end((Kind.REJECT, [Failure(*self._this, 0, str(error))]))

    def back(self) -> None:
        """Give the message back; the delivery is not counted."""
        self._end((Kind.BACK, [self.sequence]))

    @property
    def _this(self) -> Delivery:
        return Delivery(self.sequence, self._number)

    def _end(self, section: Section) -> None:
        self._is_ended = True
        self._group.finish(section, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._is_ended:
            return
        if kind is None:
            self.ack()
        elif issubclass(kind, Exception):
            self.nack(error=f"{kind.__name__}: {error}")
        else:
            self.back()  # Ctrl-C and the like say nothing about the message


class _Opened:
    """A member of a group with all that it uses, in one process."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.generation = fork_generation()
        with ExitStack() as undoing:
            log = undoing.enter_context(Directory(group.path))
            directory = undoing.enter_context(undoing.enter_context(log.subfolder("groups")).subfolder(group.name))
            clock = GroupClock()
            group_log = GroupLog.open(directory.path, clock)
            undoing.callback(group_log.close)
            if not group_log.state.is_created:
                group_log.set_up(group.settings, sequence_at(group.path, group.start))
            source = MessageSource(LogOnDisk(group.path))
            undoing.callback(source.close)
            waiting = Waiting(directory)
            undoing.callback(waiting.close)
            seats = FifoSeats(undoing.enter_context(directory.subfolder("members")))
            dead_letters = DeadLetters(lambda: Writer(directory.file_path("dead")), group.name)
            undoing.callback(dead_letters.close)
            self._watcher: Watcher | None = None
            self.member = Member(
                Parts(
                    clock=clock, log=group_log, source=source, seats=seats, waiting=waiting, dead_letters=dead_letters
                ),
                lease_ns=group.lease_ns,
                mode=group.mode,
                skips_gone=group.skips_gone,
                hint=f"pid {os.getpid()} on {os.uname().nodename}",
                seats_changed=self._refresh,
            )
            undoing.callback(self.member.leave)
            self._watcher = Watcher(seats, self.member.others, self.member.record_deaths)
            undoing.callback(self._watcher.stop)
            self._undoing = undoing.pop_all()

    def _refresh(self) -> None:
        if self._watcher is not None:
            self._watcher.refresh()

    def check(self) -> None:
        """Raise the error that ended the watcher's thread."""
        if self._watcher is not None and self._watcher.failure is not None:
            raise self._watcher.failure

    def abandon(self) -> None:
        """In a forked child: close what the table of descriptors does not close."""
        if self._watcher is not None:
            self._watcher.abandon()

    def close(self) -> None:
        """Leave the group, and close everything."""
        if self.generation == fork_generation():
            self._undoing.close()


class ConsumerGroup:
    """A group of workers: each message of a log goes to one of them, until one has acknowledged it.

    path: the log's directory.  name: of the group, which is created if it does not exist.
    start: where a new group begins, as a Reader's start.  retry, order, outstanding_max: settings of a new group.
    lease: seconds after which an item returns to the group though its worker is alive; None for never.
    skip_gone: skip messages that retention removed before the group had them; otherwise GoneError is raised.
    mode: how durable an acknowledgement is when it returns.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        start: StartPosition | str = Start.BEGINNING,
        retry: Retry | None = None,
        order: Order | str = Order.NONE,
        outstanding_max: int = 65_536,
        lease: float | None = None,
        skip_gone: bool = False,
        mode: Mode | str = Mode.SYNC,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a group's name has 1 to 100 letters, digits, '-', '_' and '.', not {name!r}")
        if not 1 <= outstanding_max <= _OUTSTANDING_MAX:
            raise ValueError(f"outstanding_max is 1 to {_OUTSTANDING_MAX}, not {outstanding_max}")
        waits_for_sync(mode, "consumer group")
        self.path, self.name = os.path.abspath(os.fspath(path)), name
        self.retry = retry or Retry()
        self.mode = member(Mode, mode, "mode")
        self.lease_ns = int((0 if lease is None else seconds_of(lease, "lease")) * _NS)
        self.skips_gone = skip_gone
        self.start = parse_start(start)
        self.settings = Settings(
            deliveries_max=self.retry.deliveries_max or 0,
            first_ns=int(self.retry.first * _NS),
            most_ns=int(self.retry.most * _NS),
            order=member(Order, order, "order"),
            outstanding_max=outstanding_max,
        )
        self._is_closed = False
        self._open()

    def get(self, timeout: float | None = None) -> Item | None:
        """Return the next item; None after `timeout` seconds."""
        with self._call() as member:
            found = member.take(1, timeout)
        return None if found is None else self._item(found)

    def consume(self, timeout: float | None = None, *, prefetch: int = 1) -> Iterator[Item]:
        """Iterate over items, and wait for more; ends after `timeout` seconds without any.

        prefetch: how many items are assigned ahead, so that one operation ends an item and starts the next.
        """
        if not 0 <= prefetch <= _PREFETCH_MAX:
            raise ValueError(f"prefetch is 0 to {_PREFETCH_MAX}, not {prefetch}")
        with self._call() as member:
            member.prefetch = prefetch
        try:
            while True:
                with self._call() as member:
                    found = member.take(1 + prefetch, timeout)
                if found is None:
                    return
                yield self._item(found)
        finally:
            if not self._is_closed:
                with self._call() as member:
                    member.prefetch = 0
                    member.give_back()

    def time_ns(self) -> int:
        """Return the group time now."""
        with self._call() as member:
            return member.time_ns()

    def close(self) -> None:
        """Give back all items, and leave the group; a second call does nothing.

        A call of another thread ends with ClosedError; blocks until it has.
        """
        with self._calls:
            if self._is_closed:
                return
            self._is_closed = True
            self._opened.member.is_closing = True
            while self._call_count:
                self._opened.member.wake()
                self._calls.wait(_WAKE_SECONDS)
        self._at_exit.detach()
        self._opened.close()

    def finish(self, section: Section, item: Item) -> None:
        """End a delivery of an item.  Raises: LeaseLostError if it does not count."""
        with self._call() as member:
            refused = member.finish(section, item.sequence, item._epoch)
        if refused:
            text = "it is done, or another member has it"
            raise LeaseLostError(f"message {item.sequence}, delivery {item.delivery}: {text}")

    @contextmanager
    def _call(self) -> Iterator[Member]:
        """Hold the member open for a block.  Raises: ClosedError."""
        if not self._is_closed and self._opened.generation != fork_generation():
            self._open_again()
        with self._calls:
            if self._is_closed:
                raise ClosedError("the consumer group is closed")
            self._call_count += 1
        try:
            self._opened.check()
            yield self._opened.member
        finally:
            with self._calls:
                self._call_count -= 1
                self._calls.notify_all()

    def _open_again(self) -> None:
        """Take a seat of its own for a forked child, whose parent keeps the other one."""
        self._at_exit.detach()
        self._opened.abandon()
        self._open()

    def _open(self) -> None:
        self._calls = threading.Condition()
        self._call_count = 0
        self._opened = _Opened(self)
        self._at_exit = weakref.finalize(self, self._opened.close)

    def _item(self, held: Held) -> Item:
        message = Message.parse(held.record.data)
        return Item(
            bytes(message.body),
            message.key,
            message.headers,
            held.sequence,
            held.record.ref,
            held.counted,
            held.delivery,
            held.epoch,
            self,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
