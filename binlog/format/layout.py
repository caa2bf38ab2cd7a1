"""Layout: the fields of a header or record on disk, as a table that is written once.

The struct that packs it, the constants in C and the tables in docs/format.md are all made from it.  On import it checks
that its fields fill it exactly.  All integers are big-endian, except in formats of other programs that are not.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

_INTEGER_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "i64": "q"}


class Field(NamedTuple):
    """One field of a layout.

    const: its value, if that never changes.
    kind: "u8", "u16", "u32", "u64" (big-endian integers), "i32", "i64" (those with a sign) or "bytes:N".
    """

    name: str
    kind: str
    meaning: str
    const: int | bytes | None = None

    @property
    def code(self) -> str:
        """The field's format code for `struct`."""
        if self.kind.startswith("bytes:"):
            return f"{int(self.kind[6:])}s"
        return _INTEGER_CODES[self.kind]

    @property
    def size(self) -> int:
        """The field's size in bytes."""
        return struct.calcsize(">" + self.code)


class Layout:
    """A sequence of fields that fill `size` bytes without a gap.

    base: the offset of the first field, if the layout is a part of a larger one.
    line: no field may cross a multiple of this number of bytes; 0 for no such rule.
    little: the integers are little-endian, as in some formats of other programs.
    """

    def __init__(
        self,
        name: str,
        title: str,
        size: int,
        fields: tuple[Field, ...],
        base: int = 0,
        line: int = 0,
        little: bool = False,
    ) -> None:
        self.name = name
        self.title = title
        self.size = size
        self.fields = fields
        self.base = base
        self.line = line
        self.little = little
        self._offsets: dict[str, int] = {}
        offset = self.base
        for item in self.fields:
            if item.name in self._offsets:
                raise ValueError(f"{self.name}: two fields are named {item.name}")
            last = offset + item.size - 1
            if self.line and offset // self.line != last // self.line:
                raise ValueError(f"{self.name}.{item.name} crosses a {self.line}-byte line")
            self._offsets[item.name] = offset
            offset += item.size
        if offset - self.base != self.size:
            raise ValueError(f"{self.name}: fields fill {offset - self.base} bytes, not {self.size}")
        self._struct = struct.Struct(("<" if self.little else ">") + "".join(item.code for item in self.fields))

    @property
    def end(self) -> int:
        """The offset after the last field."""
        return self.base + self.size

    def offset(self, name: str) -> int:
        """Return the offset of a field; that of the first one is `base`."""
        return self._offsets[name]

    def const(self, name: str) -> int | bytes | None:
        """Return the constant value of a field, or None if it has none."""
        return next(item.const for item in self.fields if item.name == name)

    def pack(self, values: Mapping[str, int | bytes]) -> bytes:
        """Return the packed bytes.  values: by field name; a field with a constant needs none."""
        return self._struct.pack(*(values.get(item.name, item.const) for item in self.fields))

    @property
    def format(self) -> str:
        """The layout's format for `struct`."""
        return self._struct.format

    def values(self, data: bytes | memoryview, at: int | None = None) -> tuple[Any, ...]:
        """Return the fields' values, in order.  at: the start of the layout in `data`; `base` by default."""
        return self._struct.unpack_from(data, self.base if at is None else at)

    def unpack(self, data: bytes | memoryview, at: int | None = None) -> dict[str, Any]:
        """Return the fields' values by name.  at: as `values`."""
        return dict(zip(self._offsets, self.values(data, at), strict=True))
