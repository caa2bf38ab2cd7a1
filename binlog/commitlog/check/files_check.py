"""The check of the names and sizes of mapped files, and of gaps between them."""

from __future__ import annotations

import itertools
import os
import stat
from collections import Counter
from collections.abc import Iterator

from binlog.format.commitlog.names import mapped_file_name, mapped_file_offset
from binlog.format.problem import Problem
from binlog.storage.failures import own_errors
from binlog.storage.files import list_folder


def check_files(folder: str, *, unit_bytes: int, growing: bool) -> Iterator[Problem]:
    """Yield the problems of the files in a folder.

    unit_bytes: each file holds a multiple of it.  growing: the last file may be empty, while its owner creates it.
    """
    found: dict[int, int] = {}
    for name in list_folder(folder):
        offset = mapped_file_offset(name)
        path = os.path.join(folder, name)
        if offset is None:
            yield Problem(path, 0, "name", "not the name of a store's file; RocketMQ cannot open the store with it")
        elif (size := _size(path)) is not None:
            found[offset] = size
    last = max(found, default=0)
    steps = [after - before for before, after in itertools.pairwise(sorted(found))]
    sizes = Counter([size for size in found.values() if size] + steps)
    usual = sizes.most_common(1)[0][0] if sizes else 0
    end: int | None = None
    for offset, size in sorted(found.items()):
        path = os.path.join(folder, mapped_file_name(offset))
        if size == 0 and offset == last and growing:
            continue
        if size != usual or size % unit_bytes or size == 0:
            yield Problem(path, 0, "file_bytes", f"the file has {size} bytes instead of {usual}")
        if end is not None and offset != end:
            yield Problem(path, 0, "gap", f"the file before it ends at {end}")
        end = offset + usual


def _size(path: str) -> int | None:
    """Return the size of a regular file; 0 for another kind of file, and None if it was removed."""
    with own_errors(path, "reading the size"):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
