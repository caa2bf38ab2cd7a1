"""The quarantine: a folder for damaged files, which are never read, removed or replaced.

All calls use the descriptor of the journal's folder, because its path may name another journal by now.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.errors import NotFoundError
from binlog.format.journal.names import NEW_END, QUARANTINE_FOLDER
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at, sync


def move_file(directory: Directory, name: str, new: str) -> None:
    """Move a file to the quarantine, durably; remove it if it is empty.  Raises: AccessError; PoisonedError."""
    path = directory.file_path(name)
    with own_errors(path, "moving the file to the quarantine"):
        is_empty = os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_size == 0
    if is_empty:
        directory.remove(name)
    else:
        with _quarantine(directory) as quarantine, own_errors(path, "moving the file to the quarantine"):
            taken = set(quarantine.names())
            unused = next(each for each in _names(new) if each not in taken)
            os.rename(name, unused, src_dir_fd=directory.fd, dst_dir_fd=quarantine.fd)
    directory.sync()


def keep_copy(directory: Directory, name: str, data: bytes) -> None:
    """Write a file to the quarantine, durably, unless an earlier, interrupted load has written the same bytes.

    Raises: FullError; AccessError; PoisonedError.
    """
    with _quarantine(directory) as quarantine:
        unfinished = name + NEW_END
        quarantine.write_new(unfinished, data)
        for new in _names(name):
            if _is_copy(quarantine, new, data):
                quarantine.remove(unfinished)
                return
            if quarantine.link(unfinished, new):
                return


def _names(name: str) -> Iterator[str]:
    """Yield the name, and further names for the case that it is taken."""
    return itertools.chain((name,), (f"{name}.{number}" for number in itertools.count()))


def _is_copy(quarantine: Directory, name: str, data: bytes) -> bool:
    """Whether a file has exactly these bytes; makes them durable."""
    try:
        with quarantine.opened(name) as fd:
            path = quarantine.file_path(name)
            is_copy = read_at(fd, len(data) + 1, 0, path) == data
            if is_copy:
                sync(fd, path)
    except NotFoundError:
        return False
    return is_copy


@contextmanager
def _quarantine(directory: Directory) -> Iterator[Directory]:
    """Open the quarantine, which exists durably before the block; sync it afterwards."""
    with directory.subfolder(QUARANTINE_FOLDER) as quarantine:
        yield quarantine
        quarantine.sync()
