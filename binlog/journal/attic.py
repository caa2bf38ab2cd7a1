"""The folder in which a journal keeps what is damaged: nobody reads it, and nothing in it is ever removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.format.journal.names import ATTIC_FOLDER
from binlog.storage.failures import own_errors
from binlog.storage.files import (
    create_file,
    make_directory,
    open_directory,
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
            os.rename(name, _unused(attic_fd, new), src_dir_fd=directory_fd, dst_dir_fd=attic_fd)
    sync_directory(directory_fd, folder)


def keep_copy(folder: str, directory_fd: int, name: str, data: bytes) -> None:
    """Write a file there, durably.  Raises: FullError; AccessError; PoisonedError."""
    with _attic(folder, directory_fd) as attic_fd:
        path = os.path.join(folder, ATTIC_FOLDER, name)
        remove_file(attic_fd, name, path)  # of a load that went no further
        fd = create_file(attic_fd, name, path, mode=None)
        try:
            write_at(fd, data, 0, path)
            sync(fd, path)
        finally:
            os.close(fd)


@contextmanager
def _attic(folder: str, directory_fd: int) -> Iterator[int]:
    path = os.path.join(folder, ATTIC_FOLDER)
    make_directory(path)
    attic_fd = open_directory(path)
    try:
        yield attic_fd
        sync_directory(attic_fd, path)
    finally:
        os.close(attic_fd)
    sync_directory(directory_fd, folder)


def _unused(attic_fd: int, name: str) -> str:
    there = set(os.listdir(attic_fd))
    return next(new for new in (name, *(f"{name}.{number}" for number in range(len(there) + 1))) if new not in there)
