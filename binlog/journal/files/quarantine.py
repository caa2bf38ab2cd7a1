"""The folder in which a journal keeps what is damaged: nobody reads it, and nothing in it is ever removed or replaced.

All goes by the descriptor of the journal's folder: that may have another name by now, and its old one another journal.
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
    """Move a file of the journal there, durably; an empty one is removed.  Raises: AccessError; PoisonedError."""
    path = directory.file_path(name)
    with own_errors(path, "setting the file aside"):
        is_empty = os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_size == 0
    if is_empty:
        directory.remove(name)
    else:
        with _quarantine(directory) as quarantine, own_errors(path, "setting the file aside"):
            there = set(quarantine.names())
            unused = next(each for each in _names(new) if each not in there)
            os.rename(name, unused, src_dir_fd=directory.fd, dst_dir_fd=quarantine.fd)
    directory.sync()


def keep_copy(directory: Directory, name: str, data: bytes) -> None:
    """Write a file there, durably, but where a load that went no further has done so.

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
    """The name, and others for where it is taken."""
    return itertools.chain((name,), (f"{name}.{number}" for number in itertools.count()))


def _is_copy(quarantine: Directory, name: str, data: bytes) -> bool:
    """Whether there is a file that has just that, durably."""
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
    """The quarantine, which is there durably before anything comes into it, and has durably what came."""
    with directory.subfolder(QUARANTINE_FOLDER) as quarantine:
        yield quarantine
        quarantine.sync()
