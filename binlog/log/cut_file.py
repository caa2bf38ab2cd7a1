"""A log file that was cut below its header while it was in use, as logrotate's copytruncate does.

Its records are lost.  `repair` gives it a header again, from what its neighbours and its index still tell, and seals it
without records, so that none of the lost offsets is used twice.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from binlog.errors import BinlogError
from binlog.format.index_file import INDEX_HEADER
from binlog.format.log_header import LogHeader, Status, new_log_header
from binlog.log.directory import LogDirectory
from binlog.log.index import Index, opened_index
from binlog.log.prepared_file import new_log_uuid
from binlog.storage.boot import boot_id


def header_again(directory: LogDirectory, number: int) -> tuple[LogHeader, str]:
    """Return a header for the file, which has none, and a text that says how much was lost.  Its lock is held."""
    before, after = _neighbour(directory, number - 1), _neighbour(directory, number + 1)
    with opened_index(directory, number) as index:
        found = _from_index(index, number)
    uuid, first, end = found if found is not None else (None, None, None)
    for each in (before, after):
        if each is not None and each.ours:
            uuid = uuid or each.uuid
    if before is not None and before.ours:
        first = before.first_sequence + before.record_count
    header = new_log_header(
        number=number, uuid=uuid or new_log_uuid(), first_sequence=first or 0, created_ns=time.time_ns(),
        boot_id=boot_id(), epoch=1 + max((each.epoch for each in (before, after) if each is not None), default=0),
    )  # fmt: skip
    if after is not None:
        header = replace(header, status=Status.CLOSED, next_number=number + 1)
    lost = f"all up to offset {end} that the index tells of" if end else "all that it had"
    return header, f"the records of the file are lost, {lost}"


def _neighbour(directory: LogDirectory, number: int) -> LogHeader | None:
    with suppress(BinlogError):
        return directory.read_header(number)
    return None


def _from_index(index: Index | None, number: int) -> tuple[bytes, int | None, int | None] | None:
    """UUID, first sequence and last offset, as far as the index of the file tells."""
    if index is None or not index.named or len(index.header) < INDEX_HEADER.size:
        return None
    values = INDEX_HEADER.unpack(index.header)
    if values["number"] != number or not any(values["uuid"]):
        return None
    first, last = (index.entry(0), index.entry(index.count - 1)) if index.count else (None, None)
    return values["uuid"], None if first is None else first.sequence, None if last is None else last.end
