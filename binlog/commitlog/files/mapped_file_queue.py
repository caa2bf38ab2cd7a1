"""A folder of mapped files of one size, which together form one run of bytes.

Invariant: the files are sorted by offset.  Usually each starts at the end of the one before it; if a file is missing,
`find` searches one by one.  The tuple of files is replaced as a whole, so readers need no lock.
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
    """The mapped files in `folder`, of `file_bytes` each.

    flushed_where, committed_where: the end of the flushed and of the committed bytes; offsets in the whole run.
    flushed_ms: the `store_ms` that the last flushed file had before its flush; 0 for none.
    unfinished: full files with bytes that the group has not written yet: the file, the position, the bytes.
    buffer: called with the offset of a new file; returns the memory to append to, or None if there is none.
    ahead_bytes: as for MappedFile.  guard: protects every change of the store's files.
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
        """files: as for MappedFile."""
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
        self._next_file: MappedFile | None = None
        self._mutex = threading.Lock()
        self._making = threading.Lock()  # acquired before _mutex
        self._generation = fork_generation()

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """Return the present files."""
        return self._files

    @property
    def min_offset(self) -> int:
        """Return the start of the first file; 0 if there is none."""
        return self._files[0].offset if self._files else 0

    @property
    def max_offset(self) -> int:
        """Return the end of the committed bytes; 0 if there is no file."""
        return self._files[-1].offset + self._files[-1].committed if self._files else 0

    @property
    def wrote_where(self) -> int:
        """Return the end of the appended bytes."""
        return self._files[-1].offset + self._files[-1].wrote if self._files else 0

    @property
    def flushed_where(self) -> int:
        """Return the end of the flushed bytes."""
        return self._flushed_where if self._group is None else self._group.durable

    @property
    def committed_where(self) -> int:
        """Return the end of the committed bytes."""
        return self._committed_where if self._group is None else self._group.durable

    @property
    def flushed_ms(self) -> int:
        """Return a time before which every stored message is flushed; 0 for none."""
        if self._group is not None and (files := self._files):
            # A sample is a store time, and an end offset read after it: messages stored earlier end before that offset.
            # Once the offset is durable, the time counts as flushed, and the next sample is taken.
            now = files[-1].store_ms, self.wrote_where
            for store_ms, end in (self._sample, now):
                if self._group.durable >= end:
                    self._flushed_ms = max(self._flushed_ms, store_ms)
                    self._sample = now
        return self._flushed_ms

    @flushed_ms.setter
    def flushed_ms(self, store_ms: int) -> None:
        self._flushed_ms = store_ms

    def attach_group(self, group: CommitGroup) -> None:
        """Let a group, which starts at `flushed_where`, write and sync later appends."""
        self._group = group
        if self._files:
            self._files[-1].attach_group(group)

    def load(self) -> None:
        """Open the files of the folder, as full ones; remove an empty last file, which a crash may leave.

        Raises: CorruptError if a file has another size.
        """
        found = [mapped_file_offset(name) for name in self._directory.names(self._name)]
        offsets = sorted(offset for offset in found if offset is not None)
        if offsets and self._empty(offsets[-1]):
            self._directory.remove(self._file_name(offsets.pop()))
            self._sync()
        for offset in offsets:
            if self._empty(offset):
                path = os.path.join(self.folder, mapped_file_name(offset))
                raise CorruptError(path, 0, "file_bytes", f"the file has 0 bytes, not {self.file_bytes}")
            file = self._open(offset)
            file.mark_full()
            self._files = (*self._files, file)
        if offsets:
            # A killed process may leave names that were never synced.
            self._sync()
        self._flushed_where = self._committed_where = self.max_offset

    def _file_name(self, offset: int) -> str:
        return os.path.join(self._name, mapped_file_name(offset))

    def _empty(self, offset: int) -> bool:
        with own_errors(self.folder, "reading the size"):
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
        """Return the file to append to, creating it if there is none or the last one is full.

        offset: where the very first file is to start, rounded down to a multiple of the file size.
        """
        files = self._files
        if files and files[-1].wrote != self.file_bytes:
            return files[-1]
        if self._group is not None and not self.guard.held:
            with self.guard:  # so that a leader sees the list of files and its group change together
                return self.last_file(offset)
        if self._generation != fork_generation():
            raise StateError(f"{self.folder} belongs to the parent process, and only that may append")
        with self._making:  # waits for a file that `allocate_next` is creating
            start = self._files[-1].end if self._files else offset - offset % self.file_bytes
            next_file, self._next_file = self._next_file, None
            file = next_file or self._create(start)
            if self._group is not None:
                rest = file.attach_group(self._group)
                if self._files:
                    self.unfinished.append((self._files[-1], *rest))
                    self._group.by_caller = True
            with self._mutex:
                if not self._files:
                    self._flushed_where = self._committed_where = start
                self._files = (*self._files, file)
            return file

    def allocate_next(self) -> None:
        """Create the next file once the last one is half full, so that no append waits for it.

        Raises: AccessError, FullError, PoisonedError.
        """
        with self._making:
            files = self._files
            if self._next_file is None and files and 2 * files[-1].wrote >= self.file_bytes:
                self._next_file = self._create(files[-1].end)

    def _create(self, start: int) -> MappedFile:
        with self._file_pool.change:
            buffer = self._buffer(start)
            try:
                return self._open(start, buffer)
            except BaseException:
                if buffer is not None:
                    buffer.give_back()
                raise

    def find(self, offset: int, *, first_if_below: bool = False) -> MappedFile | None:
        """Return the file that holds an offset, or None; with `first_if_below`, the first file for a lower
        offset."""
        files = self._files
        if not files or offset >= files[-1].end:
            return None
        if offset < files[0].offset:
            return files[0] if first_if_below else None
        index = offset // self.file_bytes - files[0].offset // self.file_bytes
        if index < len(files) and files[index].offset <= offset < files[index].end:
            return files[index]
        return next((file for file in files if file.offset <= offset < file.end), None)

    def find_by_time(self, seconds: float) -> MappedFile | None:
        """Return the first file modified at a time or later, else the last file; None if there is none."""
        files = self._files
        return next((file for file in files if file.modified >= seconds), files[-1] if files else None)

    def commit(self, least_pages: int = 0) -> bool:
        """Commit the file at `committed_where`, one file a call; return whether that moved it."""
        file = self.find(self.committed_where, first_if_below=self.committed_where == 0)
        before = self.committed_where
        if file is not None:
            self._committed_where = file.offset + file.commit(least_pages)
        return self.committed_where != before

    def flush(self, least_pages: int = 0) -> bool:
        """Flush the file at `flushed_where`, one file a call; return whether that moved it."""
        file = self.find(self.flushed_where, first_if_below=self.flushed_where == 0)
        before = self.flushed_where
        if file is not None:
            store_ms = file.store_ms
            self._flushed_where = file.offset + file.flush(least_pages)
            if self._flushed_where != before:
                self._flushed_ms = store_ms
        return self.flushed_where != before

    def check(self) -> None:
        """Raise GoneError if the name of the last file no longer leads to it."""
        if self._files:
            self._files[-1].check()

    def rewrite(self, start: int, stop: int) -> None:
        """Rewrite and sync the files from the one that holds `start` to the one that holds the byte before `stop`."""
        for file in self._files:
            if file.end > start and file.offset < stop:
                file.rewrite(min(stop - file.offset, file.file_bytes))

    def clear(self) -> None:
        """Remove all files durably, the last one first."""
        for file in reversed(self._files):
            self._remove(file)

    def truncate(self, offset: int) -> None:
        """End the run at an offset, durably: erase or remove everything after it, the last file first."""
        for file in reversed(self._files):
            if file.offset >= offset and file is not self._files[0]:
                self._remove(file)
            elif file.offset + file.committed > offset:
                file.move(max(offset - file.offset, 0))
        self._sync()
        self._flushed_where = self._committed_where = min(max(offset, self.min_offset), self.max_offset)

    def remove_first(self, wanted: Callable[[MappedFile], bool], count_max: int, pause: float = 0.0) -> int:
        """Remove files from the start while they are `wanted`, but never the last one; return how many were removed.

        Open readers of a removed file can continue.
        count_max: the most files to remove.  pause: seconds between two removals, so that the disk can serve others.
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
            # One sync for each name: if a power cut restored one and not the next, there would be a gap between files.
            self._sync()
            self._files = tuple(each for each in self._files if each is not file)

    def close(self) -> None:
        """Unmap all files, and remove a file that `allocate_next` created."""
        if self._next_file is not None:
            self._next_file.remove()
            self._next_file.shut_down()
        for file in self._files:
            file.shut_down()

    def __iter__(self) -> Iterator[MappedFile]:
        return iter(self._files)
