"""A folder of mapped files, each as long as the others, that together are one run of bytes.

Invariant: the files are in the order of their offsets.  Mostly each begins where the one before it ends; where a file
is missing, a place is looked for one by one.  The tuple of files is replaced as a whole, so who reads needs no lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

from binlog.commitlog.files.mapped_file import Buffer, MappedFile
from binlog.errors import CorruptError, StateError
from binlog.format.commitlog.names import mapped_file_name, mapped_file_offset
from binlog.storage.failures import own_errors
from binlog.storage.file_pool import FilePool
from binlog.storage.native import CommitGroup, fork_generation


class MappedFileQueue:
    """The files of a folder, each of `file_bytes`.  folder: its path.

    flushed_where, committed_where: up to where all is flushed, and committed; offsets of the whole.
    flushed_ms: the `store_ms` of the file that was flushed last, as it was before; 0 for none.
    unfinished: full files whose last bytes the group has not written yet, each with their offset and the bytes.
    buffer: called for a new file, with its offset; the memory to append to, or None where there is none to be had.
    ahead_bytes: as a MappedFile has it.  guard: of all that changes the store's files.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        file_bytes: int,
        *,
        buffer: Callable[[int], Buffer | None] = lambda offset: None,
        ahead_bytes: int | None = None,
        files: FilePool | None = None,
    ) -> None:
        """files: as a MappedFile has it."""
        if files is None:
            files, folder = FilePool.of(folder), ""
        self.folder = files.directory.file_path(os.fspath(folder))
        self.file_bytes = file_bytes
        self._flushed_where = self._committed_where = 0
        self._flushed_ms = 0
        self._group: CommitGroup | None = None
        self._sample = 0, 0
        self.unfinished: list[tuple[MappedFile, int, bytes]] = []
        self._buffer = buffer
        self._ahead_bytes = ahead_bytes
        self.guard = files.guard
        self._file_pool = files
        self._directory = files.directory
        self._name = os.fspath(folder)
        self._files: tuple[MappedFile, ...] = ()
        self._ahead: MappedFile | None = None
        self._mutex = threading.Lock()
        self._making = threading.Lock()  # taken first
        self._generation = fork_generation()

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """Those that are there now."""
        return self._files

    @property
    def min_offset(self) -> int:
        """Where the first one starts; 0 where there is none."""
        return self._files[0].offset if self._files else 0

    @property
    def max_offset(self) -> int:
        """Up to where bytes were committed; 0 where there is no file."""
        return self._files[-1].offset + self._files[-1].committed if self._files else 0

    @property
    def wrote_where(self) -> int:
        """Up to where bytes were appended."""
        return self._files[-1].offset + self._files[-1].wrote if self._files else 0

    @property
    def flushed_where(self) -> int:
        """See above."""
        return self._flushed_where if self._group is None else self._group.durable

    @property
    def committed_where(self) -> int:
        """See above."""
        return self._committed_where if self._group is None else self._group.durable

    @property
    def flushed_ms(self) -> int:
        """See above."""
        if self._group is not None and (files := self._files):
            # A sample is a time, and an offset that was asked for after it: what was stored before that ends before it.
            # Once the offset is durable, the time is flushed, and a new sample is taken.
            now = files[-1].store_ms, self.wrote_where
            for store_ms, end in (self._sample, now):
                if self._group.durable >= end:
                    self._flushed_ms = max(self._flushed_ms, store_ms)
                    self._sample = now
        return self._flushed_ms

    @flushed_ms.setter
    def flushed_ms(self, store_ms: int) -> None:
        self._flushed_ms = store_ms

    def flush_by(self, group: CommitGroup) -> None:
        """Have a group, which begins at `flushed_where`, write and sync what is appended from here on."""
        self._group = group
        if self._files:
            self._files[-1].flush_by(group)

    def load(self) -> None:
        """Open what is there, taken for full; an empty last one is removed, for a crash may leave one.

        Raises: CorruptError where a file has another size.
        """
        found = [mapped_file_offset(name) for name in self._directory.names(self._name)]
        offsets = sorted(offset for offset in found if offset is not None)
        if offsets and self._empty(offsets[-1]):
            self._directory.remove(self._file_name(offsets.pop()))
            self._sync()
        for offset in offsets:
            if self._empty(offset):
                path = os.path.join(self.folder, mapped_file_name(offset))
                raise CorruptError(path, 0, "file_bytes", f"the file has 0 bytes, and not {self.file_bytes}")
            file = self._open(offset)
            file.take_as_full()
            self._files = (*self._files, file)
        if offsets:
            # A process that was killed leaves names that nobody has synced.
            self._sync()
        self._flushed_where = self._committed_where = self.max_offset

    def _file_name(self, offset: int) -> str:
        return os.path.join(self._name, mapped_file_name(offset))

    def _empty(self, offset: int) -> bool:
        with own_errors(self.folder, "asking for sizes"):
            return os.stat(self._file_name(offset), dir_fd=self._directory.fd).st_size == 0

    def _open(self, offset: int, buffer: Buffer | None = None) -> MappedFile:
        return MappedFile(
            self._name,
            offset,
            self.file_bytes,
            buffer=buffer,
            ahead_bytes=self._ahead_bytes,
            files=self._file_pool,
        )

    def _sync(self) -> None:
        with self._file_pool.change:
            self._directory.sync(self._name)

    def last_file(self, offset: int = 0) -> MappedFile:
        """The one to append to, which is made where there is none or the last one is full.

        offset: where in the whole the first one of all is to begin, rounded down to what a file may start at.
        """
        files = self._files
        if files and files[-1].wrote != self.file_bytes:
            return files[-1]
        if self._group is not None and not self.guard.held:
            with self.guard:  # a leader must not find the files half changed
                return self.last_file(offset)
        if self._generation != fork_generation():
            raise StateError(f"{self.folder} is the parent process's to write")
        with self._making:  # waits for one that is being made ahead
            start = self._files[-1].end if self._files else offset - offset % self.file_bytes
            ahead, self._ahead = self._ahead, None
            file = ahead or self._make(start)
            if self._group is not None:
                rest = file.flush_by(self._group)
                if self._files:
                    self.unfinished.append((self._files[-1], *rest))
                    self._group.by_caller = True
            with self._mutex:
                if not self._files:
                    self._flushed_where = self._committed_where = start
                self._files = (*self._files, file)
            return file

    def make_ahead(self) -> None:
        """Make the file after the last one where that is half full, so that no append waits for it.

        Raises: AccessError, FullError, PoisonedError.
        """
        with self._making:
            files = self._files
            if self._ahead is None and files and 2 * files[-1].wrote >= self.file_bytes:
                self._ahead = self._make(files[-1].end)

    def _make(self, start: int) -> MappedFile:
        with self._file_pool.change:
            buffer = self._buffer(start)
            try:
                return self._open(start, buffer)
            except BaseException:
                if buffer is not None:
                    buffer.give_back()
                raise

    def find(self, offset: int, *, first_where_below: bool = False) -> MappedFile | None:
        """The file that holds an offset, or None; with `first_where_below` the first file where none is so low."""
        files = self._files
        if not files or offset >= files[-1].end:
            return None
        if offset < files[0].offset:
            return files[0] if first_where_below else None
        index = offset // self.file_bytes - files[0].offset // self.file_bytes
        if index < len(files) and files[index].offset <= offset < files[index].end:
            return files[index]
        return next((file for file in files if file.offset <= offset < file.end), None)

    def find_by_time(self, seconds: float) -> MappedFile | None:
        """The first file that was written at a time or after it, else the last one; None where there is none."""
        files = self._files
        return next((file for file in files if file.modified >= seconds), files[-1] if files else None)

    def commit(self, least_pages: int = 0) -> bool:
        """Commit the file at `committed_where`; whether that moved it.  One file a call."""
        file = self.find(self.committed_where, first_where_below=self.committed_where == 0)
        before = self.committed_where
        if file is not None:
            self._committed_where = file.offset + file.commit(least_pages)
        return self.committed_where != before

    def flush(self, least_pages: int = 0) -> bool:
        """Flush the file at `flushed_where`; whether that moved it.  One file a call."""
        file = self.find(self.flushed_where, first_where_below=self.flushed_where == 0)
        before = self.flushed_where
        if file is not None:
            store_ms = file.store_ms
            self._flushed_where = file.offset + file.flush(least_pages)
            if self._flushed_where != before:
                self._flushed_ms = store_ms
        return self.flushed_where != before

    def check(self) -> None:
        """Raise GoneError if the last file's name no longer leads to it."""
        if self._files:
            self._files[-1].check()

    def write_anew(self, start: int, stop: int) -> None:
        """Write again, and sync, the files from that which holds one offset to that which ends behind another."""
        for file in self._files:
            if file.end > start and file.offset < stop:
                file.write_anew(min(stop - file.offset, file.file_bytes))

    def clear(self) -> None:
        """Remove all files, durably, the last one first."""
        for file in reversed(self._files):
            self._remove(file)

    def truncate(self, offset: int) -> None:
        """Have it all end at an offset, durably: what lies behind is erased or removed, the last file first."""
        for file in reversed(self._files):
            if file.offset >= offset and file is not self._files[0]:
                self._remove(file)
            elif file.offset + file.committed > offset:
                file.move(max(offset - file.offset, 0))
        self._sync()
        self._flushed_where = self._committed_where = min(max(offset, self.min_offset), self.max_offset)

    def remove_first(self, wanted: Callable[[MappedFile], bool], count_max: int, pause: float = 0.0) -> int:
        """Remove files from the first one on for as long as they are `wanted`, never the last one; how many were.

        Who reads one of them goes on.
        count_max: so many at most.  pause: seconds between two, so that the disk has time for others.
        """
        count = 0
        for file in self._files[:-1]:
            if count == count_max or not wanted(file):
                break
            if count and pause:
                time.sleep(pause)
            self._remove(file)
            count += 1
        return count

    def _remove(self, file: MappedFile) -> None:
        with self._mutex, self._file_pool.change:
            file.shut_down()
            file.remove()
            # Each name for itself: a power cut that brought back one before the others would leave a gap between files.
            self._sync()
            self._files = tuple(each for each in self._files if each is not file)

    def close(self) -> None:
        """Unmap all files; one made ahead is removed."""
        if self._ahead is not None:
            self._ahead.remove()
            self._ahead.shut_down()
        for file in self._files:
            file.shut_down()

    def __iter__(self) -> Iterator[MappedFile]:
        return iter(self._files)
