"""Reading the records of a journal's file as columns, with what became of them, without an object for any."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from binlog._codec import gather_bodies
from binlog.errors import NotFoundError
from binlog.format.journal.compiled import COLUMNS, scan_columns
from binlog.journal.inspection import records_crc
from binlog.journal.survey import FilePart
from binlog.storage.directory import Directory


class JournalColumns:
    """Some records of a file, as columns that have a value for each of them, in buffers as Arrow has them.

    columns: `offset`, `record_bytes`, `tx_id`, `record_id`, `body_offset`: int64.  `body_bytes`,
    `counts_bytes`: int32.  `kind`,
    `user_type`, `state`: a byte.
    data: where the bodies are.
    """

    def __init__(self, data: bytes | bytearray, count: int, columns: Mapping[str, bytes]) -> None:
        self.data = data
        self.count = count
        self.columns = columns

    def bodies(self, offsets: Any, sizes: Any, first: int, bytes_max: int) -> tuple[int, bytes, bytes]:
        """Bodies of some of them: how many, their bounds, int32 and one more, and their bytes in one run.

        offsets, sizes: `body_offset` and `body_bytes` of those.  As many from the first-th on as are `bytes_max`
        together, and one at least.
        """
        return gather_bodies(self.data, offsets, sizes, first, bytes_max)


class PartReader:
    """Gives the records of a part, some ten thousand at a time.  Its file is read when it is made."""

    def __init__(self, part: FilePart) -> None:
        """Raises: NotFoundError where the file is not what it was; AccessError."""
        self._part = part
        self._data = _read_part(part)

    def __iter__(self) -> Iterator[JournalColumns]:
        states = zlib.decompress(self._part.states)
        at = 0
        for scan in scan_columns(self._data, self._part.header):
            if count := scan.record_count:
                columns = {name: getattr(scan, name) for name in COLUMNS}
                yield JournalColumns(scan.data, count, {**columns, "state": states[at : at + count]})
            at += count


def _read_part(part: FilePart) -> bytes:
    with Directory(part.folder) as directory:
        data = directory.read(part.name, part.end)
    is_same = len(data) == part.end and data.startswith(part.start)
    if not is_same or records_crc(data, part.header, part.end) != part.crc:
        raise NotFoundError(f"{part.path} is used for something else, or was compacted")
    return data
