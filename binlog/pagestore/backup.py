"""A copy of a store that goes on meanwhile.

Pages are copied some at a time, with the guard held; what changes behind that is copied again, and what is left in the
end while nobody changes anything.  The folder is a store once its log has its name, and before that none: it has the
pages under a name of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from binlog.errors import AccessError, PoisonedError, StateError
from binlog.format.pagestore.other_files import BACKUP_END, PAGE_FILE
from binlog.format.pagestore.page import FREE_CONTENT
from binlog.pagestore.pages.cache import Cache, PageFile
from binlog.pagestore.pages.generation import FIRST_GENERATION, FreePages, create_whole, finish_store
from binlog.storage.directory import Directory
from binlog.storage.files import list_folder, make_directory

PAGES_A_STEP = 1024
# What changes meanwhile is copied so often before who changes it has to wait.
_ROUNDS_MAX = 4


class Backup:
    """A copy that is being made, in a folder that is new or empty."""

    def __init__(self, path: str, cache: Cache, free: FreePages) -> None:
        """Raises: StateError where something is in the folder; FullError; AccessError."""
        self._path = os.path.abspath(path)
        self._cache = cache
        self._free = free
        make_directory(self._path)
        if list_folder(self._path):
            raise StateError(f"{self._path} is not empty, and no backup goes there")
        with _not_of_the_store(self._path):
            self._directory = Directory(self._path, make=True)
            fd = self._directory.create(PAGE_FILE + BACKUP_END)
            # Durable before any other name: without it what a power cut leaves could be taken for a store being made.
            self._directory.sync()
        self._file = PageFile(self._path, fd, cache.file.page_bytes)
        self._rounds = 0
        self._copied_count = 0
        self._left: list[int] = []
        self._states = b""

    def begin(self) -> None:
        """From now on it is noted what changes.  The guard is held.  Raises: StateError where there is one already."""
        if self._cache.changed is not None:
            raise StateError("a backup of the store is being made already")
        self._cache.changed = set()
        self._left = list(range(self._free.page_count))

    def copy_some(self) -> bool:
        """Copy some pages; whether all were copied as they are now.  The guard is held.

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
        """Whether it succeeded or not: nothing is noted any more.  The guard is held."""
        self._cache.changed = None

    def finish(self) -> None:
        """Have the folder be a store.  Raises: FullError; AccessError."""
        with _not_of_the_store(self._path):
            self._file.sync()
            create_whole(self._directory, self._file.page_bytes, self._states)
            finish_store(self._directory, PAGE_FILE + BACKUP_END)

    def close(self) -> None:
        """Close the folder and the pages."""
        self._directory.close()


@contextmanager
def _not_of_the_store(path: str) -> Iterator[None]:
    """What fails of a copy is told so that nobody takes the store for one that has failed."""
    try:
        yield
    except PoisonedError as error:
        number = getattr(error.__cause__, "errno", None) or 0
        text = f"{path}: {os.strerror(number)} while a backup was written, which is none; the store goes on"
        raise AccessError(text, errno=number, path=path) from error
