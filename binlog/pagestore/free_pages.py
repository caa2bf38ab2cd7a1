"""Which pages are free; the lowest one is used first, so that the file stays dense."""

from __future__ import annotations

from collections.abc import Callable

from binlog.errors import FullError
from binlog.format.pagestore.page import PAGE_COUNT_MAX

_USED, _FREE = ord("0"), ord("1")


class FreePages:
    """A byte for each page, as `FreeMap` has them.

    ensure: is told of a page that the file does not have yet, and may refuse it.
    """

    def __init__(self, states: bytes, ensure: Callable[[int], None]) -> None:
        self._states = bytearray(states)
        self._ensure = ensure
        self._lowest = 0
        self.free_count = self._states.count(_FREE)

    @property
    def states(self) -> bytes:
        """For each page `1` where it is free, and else `0`."""
        return bytes(self._states)

    @property
    def page_count(self) -> int:
        """Pages, free or not."""
        return len(self._states)

    def is_free(self, number: int) -> bool:
        """Whether nobody has the page."""
        return number >= len(self._states) or self._states[number] == _FREE

    def take(self) -> int:
        """The lowest page that is free, which is in use from now on.  Raises: FullError; AccessError."""
        number = self._states.find(_FREE, self._lowest) if self.free_count else -1
        if number < 0:
            self._lowest = len(self._states)
            return self.take_behind()
        self._states[number] = _USED
        self._lowest = number + 1
        self.free_count -= 1
        return number

    def take_behind(self) -> int:
        """The page behind the last one, which is in use from now on.  Raises: FullError; AccessError."""
        number = len(self._states)
        if number > PAGE_COUNT_MAX:
            raise FullError("the store has as many pages as there can be", limit=PAGE_COUNT_MAX)
        self._ensure(number)
        self._states.append(_USED)
        return number

    def take_this(self, number: int) -> None:
        """As `take`, of a page that is free."""
        self._states[number] = _USED
        self.free_count -= 1

    def cut(self) -> None:
        """Have no free pages behind the last one that is in use."""
        used = len(self._states.rstrip(b"1"))
        self.free_count -= len(self._states) - used
        del self._states[used:]
        self._lowest = min(self._lowest, used)

    def give(self, number: int) -> None:
        """The page is free from now on."""
        self._states[number] = _FREE
        self._lowest = min(self._lowest, number)
        self.free_count += 1
