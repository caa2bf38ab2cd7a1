"""The folder in which a journal keeps what is damaged: nobody reads it, and nothing in it is ever removed or replaced.

All goes by the descriptor of the journal's folder: that may have another name by now, and its old one another journal.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.errors import NotFoundError
from binlog.format.journal.names import ATTIC_FOLDER, NEW_END
from binlog.storage.failures import own_errors
from binlog.storage.files import (
    create_file,
    link_file,
    make_subfolder,
    open_file,
    read_at,
    remove_file,
    sync,
    sync_directory,
    write_at,
)


def move_file(folder: str, directory_fd: int, name: str, new: str) -> None:
    """Move a file of the journal there, durably; an empty one is removed.  Raises: AccessError; PoisonedError."""
    path = os.path.join(folder, name)
    with own_errors(path, "setting the file aside"):
        is_empty = os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_size == 0
    if is_empty:
        remove_file(directory_fd, name, path)
    else:
        with _attic(folder, directory_fd) as attic_fd, own_errors(path, "setting the file aside"):
            there = set(os.listdir(attic_fd))
            unused = next(each for each in _names(new) if each not in there)
            os.rename(name, unused, src_dir_fd=directory_fd, dst_dir_fd=attic_fd)
    sync_directory(directory_fd, folder)


def keep_copy(folder: str, directory_fd: int, name: str, data: bytes) -> None:
    """Write a file there, durably, but where a load that went no further has done so.

    Raises: FullError; AccessError; PoisonedError.
    """
    path = os.path.join(folder, ATTIC_FOLDER, name)
    with _attic(folder, directory_fd) as attic_fd:
        unfinished = name + NEW_END
        remove_file(attic_fd, unfinished, path)
        fd = create_file(attic_fd, unfinished, path)
        try:
            write_at(fd, data, 0, path)
            sync(fd, path)
        finally:
            os.close(fd)
        for new in _names(name):
            if _is_copy(attic_fd, new, path, data):
                remove_file(attic_fd, unfinished, path)
                return
            if link_file(attic_fd, unfinished, new, path):
                return


def _names(name: str) -> Iterator[str]:
    """The name, and others for where it is taken."""
    return itertools.chain((name,), (f"{name}.{number}" for number in itertools.count()))


def _is_copy(attic_fd: int, name: str, path: str, data: bytes) -> bool:
    """Whether there is a file that has just that, durably."""
    try:
        fd = open_file(attic_fd, name, path, writable=False)
    except NotFoundError:
        return False
    try:
        if read_at(fd, len(data) + 1, 0, path) != data:
            return False
        sync(fd, path)
        return True
    finally:
        os.close(fd)


@contextmanager
def _attic(folder: str, directory_fd: int) -> Iterator[int]:
    """The attic, which is there durably before anything comes into it, and has durably what came."""
    path = os.path.join(folder, ATTIC_FOLDER)
    with own_errors(path, "making the directory"):
        make_subfolder(path, parent_fd=directory_fd)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
        attic_fd = os.open(ATTIC_FOLDER, flags, dir_fd=directory_fd)
    try:
        sync_directory(directory_fd, folder)
        yield attic_fd
        sync_directory(attic_fd, path)
    finally:
        os.close(attic_fd)
