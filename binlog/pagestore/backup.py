"""Backs up a page store while it is in use.

Pages are copied some at a time, with the guard held.  Pages that change meanwhile are copied again, the last ones while
no other thread can change anything.  The folder becomes a store when its log gets its name.  Until then its pages have
a temporary name, and it is refused as a store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from binlog.errors import AccessError, PoisonedError, StateError
from binlog.format.pagestore.other_files import BACKUP_EXTENSION, PAGE_FILE
from binlog.format.pagestore.page import FREE_CONTENT
from binlog.pagestore.pages.cache import Cache, PageFile
from binlog.pagestore.pages.generation import FIRST_GENERATION, FreePages, create_whole, finish_store
from binlog.storage.directory import Directory
from binlog.storage.files import list_folder, make_directory

PAGES_A_STEP = 1024
# Changed pages are copied this often before other threads have to wait.
_ROUNDS_MAX = 4


class Backup:
    """A backup in progress, in a folder that is new or empty."""

    def __init__(self, path: str, cache: Cache, free: FreePages) -> None:
        """Raises: StateError if the folder is not empty; FullError; AccessError."""
        self._path = os.path.abspath(path)
        self._cache = cache
        self._free = free
        make_directory(self._path)
        if list_folder(self._path):
            raise StateError(f"{self._path} is not empty; a backup needs a new or empty folder")
        with _not_of_the_store(self._path):
            self._directory = Directory(self._path, make=True)
            fd = self._directory.create(PAGE_FILE + BACKUP_EXTENSION)
            # Make this name durable first: without it, a power cut could leave a folder that resembles a store being
            # created.
            self._directory.sync()
        self._file = PageFile(self._path, fd, cache.file.page_bytes)
        self._rounds = 0
        self._copied_count = 0
        self._left: list[int] = []
        self._states = b""

    def begin(self) -> None:
        """Start tracking changed pages; the caller holds the guard.

        Raises: StateError if another backup is running.
        """
        if self._cache.changed is not None:
            raise StateError("another backup of the store is running")
        self._cache.changed = set()
        self._left = list(range(self._free.page_count))

    def copy_some(self) -> bool:
        """Copy some pages; return whether the copy is up to date.  The caller holds the guard.

        Raises: CorruptError; FullError; AccessError.
        """
        part, self._left = self._left[:PAGES_A_STEP], self._left[PAGES_A_STEP:]
        self._copy(part)
        if self._left:
            return False
        assert self._cache.changed is not None
        changed, self._cache.changed = self._cache.changed, set()
        self._left = sorted(changed)
        self._rounds += 1
        if len(self._left) > PAGES_A_STEP and self._rounds < _ROUNDS_MAX:
            return False
        self._copy(self._left)
        self._states = self._free.states
        return True

    def _copy(self, numbers: Iterable[int]) -> None:
        pages = ((number, self._content(number)) for number in numbers)
        while part := list(islice(pages, PAGES_A_STEP)):
            with _not_of_the_store(self._path):
                self._file.write(part, FIRST_GENERATION)

    def _content(self, number: int) -> bytes | bytearray:
        return FREE_CONTENT if self._free.is_free(number) else self._cache.content(number)

    def end(self) -> None:
        """Stop tracking changed pages, after success or failure; the caller holds the guard."""
        self._cache.changed = None

    def finish(self) -> None:
        """Turn the folder into a store.  Raises: FullError; AccessError."""
        with _not_of_the_store(self._path):
            self._file.sync()
            create_whole(self._directory, self._file.page_bytes, self._states)
            finish_store(self._directory, PAGE_FILE + BACKUP_EXTENSION)

    def close(self) -> None:
        """Close the folder and the file of pages."""
        self._directory.close()


@contextmanager
def _not_of_the_store(path: str) -> Iterator[None]:
    """Convert a PoisonedError of the copy to an AccessError: the store itself has not failed."""
    try:
        yield
    except PoisonedError as error:
        number = getattr(error.__cause__, "errno", None) or 0
        text = f"{path}: {os.strerror(number)} while writing a backup; remove it and retry, the store is not affected"
        raise AccessError(text, errno=number, path=path) from error
