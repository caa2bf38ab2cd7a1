"""What a process was told, kept where its death cannot take it: in a mapped file, to which it writes without a call."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from binlog import Ref

_ENTRY = struct.Struct("=IQI")
_COUNT = struct.Struct("=I")


_ROOM = 1 << 16


class Acknowledged:
    """A list of (ref, job), empty at first, that is pickled for another process, which adds to it."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_ROOM))
        self._map(path)

    def _map(self, path: Path) -> None:
        self._path = path
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def __getstate__(self) -> Path:
        return self._path

    def __setstate__(self, path: Path) -> None:
        self._map(path)

    def add(self, ref: Ref, job: int) -> None:
        """Note that the job was acknowledged, to lie at the ref."""
        (count,) = _COUNT.unpack_from(self._memory, 0)
        _ENTRY.pack_into(self._memory, _COUNT.size + count * _ENTRY.size, ref.number, ref.offset, job)
        _COUNT.pack_into(self._memory, 0, count + 1)  # last: an entry counts only when it is whole

    def entries(self) -> list[tuple[Ref, int]]:
        """All that was noted."""
        (count,) = _COUNT.unpack_from(self._memory, 0)
        found = (_ENTRY.unpack_from(self._memory, _COUNT.size + index * _ENTRY.size) for index in range(count))
        return [(Ref(number, offset), job) for number, offset, job in found]
