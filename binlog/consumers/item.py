"""Item: a message that this process has, until it is acknowledged, given back, or another member has it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, Protocol, Self

from binlog.consumers.members.parts import Held
from binlog.consumers.state.settings import Retry
from binlog.consumers.tokens import Token
from binlog.errors import LeaseLostError
from binlog.format.consumers.message import MAGIC, Message
from binlog.format.consumers.operation import Delivery, Extension, Failure, Kind, Section
from binlog.format.record import Ref
from binlog.format.values import duration_of

if TYPE_CHECKING:
    from datetime import timedelta

_NS = 10**9
_NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})


def text_of(error: object) -> str:
    """Return the text of an error that is kept with a message: the type of an exception, and its text if it has one."""
    if not isinstance(error, BaseException):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a program's exception whose text cannot be made
        return type(error).__name__


class TaskEndings(Protocol):
    """Ends deliveries for asyncio tasks."""

    async def finish(self, section: Section, item: Item) -> None:
        """End a delivery.  Raises: LeaseLostError if it does not count."""


class Ending(Protocol):
    """Ends deliveries: an open group."""

    @property
    def retry(self) -> Retry:
        """When a message that failed is delivered again."""

    def time_ns(self) -> int:
        """Return the group time now."""

    def ack(self, sequence: int, delivery: int, epoch: int) -> None:
        """Acknowledge a delivery.  Raises: LeaseLostError if it does not count."""

    def finish(self, sections: list[Section], items: list[Item]) -> None:
        """End deliveries of items.  Raises: LeaseLostError if one does not count."""

    def extend(self, section: Section, item: Item) -> None:
        """Give a delivery more time.  Raises: LeaseLostError if it does not count."""

    def tasks(self) -> TaskEndings:
        """Return the calls for asyncio."""

    def token(self, item: Item) -> Token:
        """Return the text that ends an item from any process."""

    def message_id(self, sequence: int) -> str:
        """Return the id of a message."""


class Item:
    """A message that this process has.  End it with one of its methods, or use it as a context manager.

    data: the body.  key, headers: of its envelope, if it has one.  sequence, ref: of the message in the log.
    delivery: how often it was delivered, this time included, and not given back.
    A block that ends without an exception acknowledges; an exception reports a failure and continues; Ctrl-C,
    cancellation and SystemExit give the message back, because they say nothing about it.
    owner: an object that stays alive as long as the item.
    """

    __slots__ = (
        "_epoch",
        "_is_ended",
        "_number",
        "_opened",
        "data",
        "delivery",
        "headers",
        "key",
        "owner",
        "ref",
        "sequence",
    )

    def __init__(self, held: Held, opened: Ending) -> None:
        self.sequence, self._number, self.delivery, self._epoch, (ref, record) = held
        self.ref: Ref = ref
        self.key: bytes | None = None
        self.headers: Mapping[str, bytes] = _NO_HEADERS
        self.data: bytes = record
        if record[:4] == MAGIC:
            message = Message.parse(record)
            self.data, self.key, self.headers = bytes(message.body), message.key, message.headers
        self._opened = opened
        self.owner: object = None
        self._is_ended = False

    def __repr__(self) -> str:
        return f"<Item {self.sequence}, delivery {self.delivery}, {len(self.data)} bytes>"

    @property
    def id(self) -> str:
        """A text that is the same in each delivery of the message, and differs from that of every other message.

        A handler that stores it with its effect can tell that it has handled the message before.
        """
        return self._opened.message_id(self.sequence)

    @property
    def token(self) -> str:
        """A text with which any process can end this delivery: see ConsumerGroup.ack.

        The item stays this process's: if the process dies, another member gets the message.
        """
        return str(self._opened.token(self))

    def ack(self) -> None:
        """Acknowledge: no member gets the message again.  Durable on return, in the group's mode.

        Blocks: for one append to the group's log.
        Raises: LeaseLostError if another member has the message, or it is done; StateError if a parent process has it;
        FullError, and the item is still in hand.
        """
        if self._is_ended:
            self._refuse()
        self._opened.ack(self.sequence, self._number, self._epoch)
        self._is_ended = True

    def nack(self, *, delay: float | timedelta | str | None = None, error: object = "") -> None:
        """Report a failure: the message is delivered again after `delay` seconds, by default as the group's Retry says.

        error: is kept with the message, up to 200 bytes.  Blocks and raises: as `ack`.
        """
        self._end((Kind.RETRY, [self.failure(delay, error)]))

    def reject(self, error: object = "") -> None:
        """Make the message a dead letter.  Blocks and raises: as `ack`."""
        self._end((Kind.REJECT, [Failure(*self.this, 0, text_of(error))]))

    def back(self) -> None:
        """Give the message back; the delivery is not counted.  Blocks and raises: as `ack`."""
        self._end((Kind.BACK, [self.this]))

    def extend(self, seconds: float | timedelta | str) -> None:
        """Let the item's lease end this many seconds from now; without a lease, it has one then.

        Blocks and raises: as `ack`.
        """
        deadline_ns = self._opened.time_ns() + int(duration_of(seconds, "seconds") * _NS)
        self._opened.extend((Kind.EXTEND, [Extension(*self.this, deadline_ns)]), self)

    @property
    def this(self) -> Delivery:
        """The delivery, as the group's log counts it."""
        return tuple.__new__(Delivery, (self.sequence, self._number))

    @property
    def epoch(self) -> int:
        """The group's epoch in which the item was delivered."""
        return self._epoch

    def failure(self, delay: float | timedelta | str | None, error: object) -> Failure:
        """Return the entry that reports a failure of this delivery."""
        wait = self._opened.retry.seconds(self.delivery) if delay is None else duration_of(delay, "delay")
        return Failure(*self.this, self._opened.time_ns() + int(wait * _NS), text_of(error))

    def _refuse(self) -> NoReturn:
        raise LeaseLostError(f"message {self.sequence}: this delivery was ended before")

    def _end(self, section: Section) -> None:
        if self._is_ended:
            self._refuse()
        self._opened.finish([section], [self])
        self._is_ended = True

    def _section_of(self, kind: type[BaseException] | None, error: BaseException | None) -> Section:
        """Return the section with which the end of a block ends the item."""
        if kind is None:
            return Kind.DONE, [self.this]
        if issubclass(kind, Exception):
            return Kind.RETRY, [self.failure(None, text_of(error))]
        return Kind.BACK, [self.this]

    @property
    def is_ended(self) -> bool:
        """Whether the item was acknowledged, reported as failed, or given back."""
        return self._is_ended

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if not self._is_ended:
            await self._opened.tasks().finish(self._section_of(kind, error), self)
            self._is_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._is_ended:
            return
        if kind is None:
            self.ack()
        else:
            self._end(self._section_of(kind, error))
