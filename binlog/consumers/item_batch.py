"""ItemBatch: items that are ended together, by one operation of the group's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, overload

from binlog.consumers.item import Item, text_of
from binlog.format.consumers.operation import Failure, Kind, Section

if TYPE_CHECKING:
    from datetime import timedelta

    from binlog.consumers.open_group import OpenGroup


class ItemBatch(Sequence[Item]):
    """Items that one call got.  End them together with a `with` block, or with `ack`.

    At the end of the block the items are acknowledged, but for those for which `nack`, `reject` or `back` was called.
    An exception in the block reports a failure of the others and continues; Ctrl-C and the like give them back.
    """

    def __init__(self, items: list[Item], opened: OpenGroup, size: int) -> None:
        self._items, self._opened, self._size = items, opened, size
        self._failed: dict[int, Failure] = {}
        self._rejected: dict[int, Failure] = {}
        self._back: set[int] = set()
        self._is_ended = False

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def nack(self, index: int, *, delay: float | timedelta | str | None = None, error: object = "") -> None:
        """Report a failure of one item, at the end of the block: see Item.nack."""
        self._failed[self._mark(index)] = self._items[index].failure(delay, error)

    def reject(self, index: int, error: object = "") -> None:
        """Make one item a dead letter, at the end of the block."""
        self._rejected[self._mark(index)] = Failure(*self._items[index].this, 0, text_of(error))

    def back(self, index: int) -> None:
        """Give one item back, at the end of the block; the delivery is not counted."""
        self._back.add(self._mark(index))

    def _mark(self, index: int) -> int:
        place = range(len(self._items))[index]
        for marked in (self._failed, self._rejected):
            marked.pop(place, None)
        self._back.discard(place)
        return place

    def ack(self) -> None:
        """End all items: acknowledge those that were not marked.  Durable on return, in the group's mode.

        Blocks: for one append to the group's log.
        Raises: LeaseLostError, which names the messages that other members have or that are done; the others count.
        """
        self._end((Kind.DONE, [item.this for item in self._unmarked()]))

    def _unmarked(self) -> list[Item]:
        marked = self._failed.keys() | self._rejected.keys() | self._back
        return [item for place, item in enumerate(self._items) if place not in marked and not item.is_ended]

    def _end(self, rest: Section) -> None:
        back = [self._items[place].this for place in sorted(self._back)]
        sections: list[Section] = [
            rest,
            (Kind.RETRY, list(self._failed.values())),
            (Kind.REJECT, list(self._rejected.values())),
            (Kind.BACK, back),
        ]
        self._opened.finish([each for each in sections if each[1]], self._items, batch=self._size)
        self._is_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._is_ended:
            return
        if kind is None:
            self.ack()
        elif issubclass(kind, Exception):
            self._end((Kind.RETRY, [item.failure(None, error) for item in self._unmarked()]))
        else:
            self._end((Kind.BACK, [item.this for item in self._unmarked()]))
