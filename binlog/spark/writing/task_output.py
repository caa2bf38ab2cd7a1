"""The file that a task writes, and the files that the driver appends, without Spark.

Output of `file_bytes_min` bytes and more becomes a file of the log.  Smaller output would leave a log of many small
files, so it is copied.  A job with both kinds copies the small output to new files, outside of the log's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby

from binlog import Batch, ExternalFile, ExternalFileWriter


def write_task_output(
    path: str, batches: Iterable[Batch], *, record_bytes_max: int, file_bytes_min: int
) -> ExternalFile | None:
    """Write records into a new file and return it, or None if there are no records.

    record_bytes_max: a larger record is an error.  file_bytes_min: a file of this size can become a file of the log.
    Raises: FullError, AccessError.
    """
    left = iter(batches)
    for first in left:
        with ExternalFileWriter(path, durable_from=file_bytes_min, record_bytes_max=record_bytes_max) as external:
            for batch in chain((first,), left):
                external.append(batch)
            return external.finish()
    return None


def files_to_append(path: str, written: Sequence[ExternalFile]) -> list[ExternalFile]:
    """Return the files to append: the same records in the same order, with small files merged between large ones.

    path: the start of the new files' names.  Raises: AccessError, CorruptError, FullError.
    """
    if not any(each.durable for each in written):
        return list(written)
    found: list[ExternalFile] = []
    for durable, group in groupby(written, key=lambda each: each.durable):
        run = list(group)
        found += run if durable else [_merged(f"{path}.{len(found)}", run)]
    return found


def _merged(path: str, written: Iterable[ExternalFile]) -> ExternalFile:
    with ExternalFileWriter(path) as external:
        for batch in _drain(written):
            external.append(batch)
        return external.finish()


def _drain(written: Iterable[ExternalFile]) -> Iterator[Batch]:
    for each in written:
        yield from each.read()
        each.remove()
