"""Where the records of one call lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from binlog.format.ref import Ref


class Refs(Sequence[Ref]):
    """The refs of records that lie one after the other in one file, in their order.  Each is made when it is asked for.

    Equal to any sequence of the same refs.  Takes 8 bytes a record.
    """

    __slots__ = ("_first", "_number", "_starts")

    def __init__(self, number: int, first: int, starts: bytes) -> None:
        """`first`: the offset of what begins with the records; `starts`: where in that each begins, as uint64."""
        self._number = number
        self._first = first
        self._starts = memoryview(starts).cast("Q")

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Ref: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ref]: ...
    def __getitem__(self, index: int | slice) -> Ref | list[Ref]:
        if isinstance(index, slice):
            return [Ref(self._number, self._first + start) for start in self._starts[index]]
        return Ref(self._number, self._first + self._starts[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Refs], tuple[int, int, bytes]]:
        return Refs, (self._number, self._first, self._starts.tobytes())

    def __repr__(self) -> str:
        return f"<binlog.Refs of {len(self)}{f' from {self[0]} to {self[-1]}' if len(self) else ''}>"
