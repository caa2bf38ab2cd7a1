"""Looking at the names and sizes of a folder's mapped files, and at whether one follows the other."""

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
    """What is wrong with them.

    unit_bytes: of what a file holds a whole number.  growing: the last one may be empty, for it may be in the making.
    """
    found: dict[int, int] = {}
    for name in list_folder(folder):
        offset = mapped_file_offset(name)
        path = os.path.join(folder, name)
        if offset is None:
            yield Problem(path, 0, "name", "no file of a store has such a name, and RocketMQ does not open one with it")
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
            yield Problem(path, 0, "file_bytes", f"the file has {size} bytes, where each should have {usual}")
        if end is not None and offset != end:
            yield Problem(path, 0, "gap", f"the file before it ends at {end}")
        end = offset + usual


def _size(path: str) -> int | None:
    """How long a regular file is; 0 for what is none, and None where it was removed."""
    with own_errors(path, "asking for the size"):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
