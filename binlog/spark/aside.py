"""What a task writes aside until the driver appends it, and what the driver makes of it.

A task that writes much makes a file that can be one of the log's as it is, and has it on the disk before the driver
hears of it.  Less than that would make many small files of a log, so it is copied; in a job that has both, into files
that the driver makes, with nobody waiting for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby

from binlog import Batch, Draft, Drafted


def write_aside(path: str, batches: Iterable[Batch], *, record_bytes_max: int, file_bytes_min: int) -> Drafted | None:
    """Write records into a new file; None where there are none.

    record_bytes_max: a larger one is refused.  file_bytes_min: from so many bytes on it can be a file of the log.
    Raises: FullError, AccessError.
    """
    left = iter(batches)
    for first in left:
        with Draft(path, durable_from=file_bytes_min, record_bytes_max=record_bytes_max) as draft:
            for batch in chain((first,), left):
                draft.append(batch)
            return draft.finish()
    return None


def to_append(path: str, written: Sequence[Drafted]) -> list[Drafted]:
    """What is to be appended in place of what tasks wrote: the same records in the same order.

    path: what the names of new files begin with.  Raises: AccessError, CorruptError, FullError.
    """
    if not any(each.durable for each in written):
        return list(written)
    found: list[Drafted] = []
    for durable, group in groupby(written, key=lambda each: each.durable):
        run = list(group)
        found += run if durable else [_together(f"{path}.{len(found)}", run)]
    return found


def _together(path: str, written: Iterable[Drafted]) -> Drafted:
    with Draft(path) as draft:
        for batch in _used_up(written):
            draft.append(batch)
        return draft.finish()


def _used_up(written: Iterable[Drafted]) -> Iterator[Batch]:
    for each in written:
        yield from each.read()
        each.remove()
