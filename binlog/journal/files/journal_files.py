"""The files of a journal: with records, free for reuse, and one prepared ahead of need.

Invariants
- File ids rise in the order in which files come into use, so they give the order of the records.
- A reused file has a new header, durably, before it counts as free: none of its old records can reappear.
- Dead files are freed oldest first, each durably before the next one: a delete must not go before its record does.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from binlog.errors import AccessError, BinlogError, FullError, InternalError, PoisonedError
from binlog.format.journal.block import HEAD_BYTES
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.names import NEW_END
from binlog.journal.files.quarantine import move_file
from binlog.journal.options import JournalOptions
from binlog.storage.directory import Directory
from binlog.storage.files import sync, write_at

_numbers = itertools.count(1)


class JournalFile:
    """One use of a file.

    number: unique among the objects of this process.
    pin_count: live records in it, plus open transactions with records in it.  live_bytes: of its live records.
    record_count: all its records, set once the journal has cut over from it.
    must_outlive: files that depend on it: it deletes records of theirs, or it shows that a transaction committed there
    is incomplete.
    damaged: some of its bytes are not what was written.
    """

    __slots__ = (
        "damaged", "directory", "fd", "file_bytes", "header", "live_bytes", "must_outlive", "name", "number", "path",
        "pin_count", "record_count",
    )  # fmt: skip

    def __init__(self, directory: Directory, name: str, header: FileHeader, file_bytes: int) -> None:
        self.path = directory.file_path(name)
        self.directory = directory
        self.name = name
        self.header = header
        self.file_bytes = file_bytes
        self.number = next(_numbers)
        self.fd = -1
        self.pin_count = 0
        self.record_count = 0
        self.live_bytes = 0
        self.damaged = False
        self.must_outlive: set[JournalFile] = set()

    def unpin(self, file: JournalFile) -> None:
        """Remove a pin from `file`, which may be this one, because of a record in this file."""
        file.pin_count -= 1
        if file is not self:
            self.must_outlive.add(file)

    def read(self) -> bytes:
        """Read all of its bytes.  Raises: NotFoundError; AccessError."""
        return self.directory.read(self.name, self.file_bytes)

    def open(self) -> None:
        """Open it for writing.  Raises: NotFoundError; AccessError."""
        if self.fd < 0:
            self.fd = self.directory.open(self.name, writable=True)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Raises: FullError; PoisonedError."""
        write_at(self.fd, data, offset, self.path)

    def sync(self) -> None:
        """Raises: PoisonedError."""
        sync(self.fd, self.path)

    def close(self) -> None:
        """Close its descriptor.  The kernel keeps the bytes that were written."""
        fd, self.fd = self.fd, -1
        self.directory.close_file(fd)

    def write_header(self) -> None:
        """Write its header again and sync it, since an earlier sync may have failed; then close the file.

        Raises: NotFoundError; AccessError; PoisonedError.
        """
        self.open()
        try:
            self._write_start(self.header)
            self.sync()
        finally:
            self.close()

    def _write_start(self, header: FileHeader) -> None:
        """Write a header and, in the native layout, zeros at the place of the first head, so that no old head counts.

        Both are in one sector, so both become durable or neither.
        """
        zeros = bytes(HEAD_BYTES) if header.layout is JournalLayout.NATIVE else b""
        self.write(header.pack() + zeros, 0)

    def renew(self, header: FileHeader) -> JournalFile:
        """Begin another use of the file, durably, and return it: the old records no longer count.

        The new use is another object, because references to the old one by `must_outlive` do not apply to it.
        Raises: NotFoundError; AccessError; PoisonedError.
        """
        self.open()
        try:
            self._write_start(header)
            self.sync()
        except BaseException:
            self.close()  # the caller may drop the file without closing it
            raise
        new = JournalFile(self.directory, self.name, header, self.file_bytes)
        new.fd, self.fd = self.fd, -1
        return new

    def __repr__(self) -> str:
        return f"<JournalFile {self.name} id {self.header.file_id}>"


_SALT_BYTES = 8
_CHUNK_BYTES = 1 << 20
_JBM_ID_MAX = 2**32 - 1
_RECORD_ID_MAX = 2**63 - 1


class JournalFiles:
    """The files of a journal.  Only one thread changes them at a time.

    data: complete files with records, oldest first.  current: the file that takes appends.  free: files without
    records.
    ahead: the file for the next cutover, whose id is larger than that of any other file in use.
    record_id_max: returns the largest id that a record or a transaction has had.
    """

    def __init__(self, directory: Directory, options: JournalOptions, layout: JournalLayout) -> None:
        self.directory = directory
        self.layout = layout
        self.data: deque[JournalFile] = deque()
        self.free: deque[JournalFile] = deque()
        self.current: JournalFile | None = None
        self.ahead: JournalFile | None = None
        self.id_max = 0
        self.record_id_max: Callable[[], int] = lambda: 0
        self._options = options

    def __len__(self) -> int:
        return len(self.data) + len(self.free) + (self.current is not None) + (self.ahead is not None)

    def __iter__(self) -> Iterator[JournalFile]:
        """Yield the files with records, oldest first, and the current one."""
        yield from self.data
        if self.current is not None:
            yield self.current

    def prepare(self) -> None:
        """Prepare a file for the next cutover, unless one is ready.  Raises: FullError; AccessError; PoisonedError."""
        if self.ahead is not None:
            return
        if not self.free:
            self.ahead = self._make()
            return
        file = self.free[0]
        if file.header.file_id <= self._last_id:
            file = file.renew(self._header())
        file.open()
        self.free.popleft()
        self.ahead = file

    def take(self) -> JournalFile:
        """Make the prepared file the current one and return it; prepare one now if none is ready.

        Raises: as `prepare`.
        """
        self.prepare()
        file, self.ahead = self.ahead, None
        assert file is not None
        if self.current is not None:
            self.data.append(self.current)
        self.current = file
        return file

    def top_up(self) -> None:
        """Create files until the journal has `files_min`.  Raises: FullError; AccessError; PoisonedError."""
        while len(self) < self._options.files_min:
            file = self._make()
            file.close()
            self.free.append(file)

    def free_dead(self, file: JournalFile) -> None:
        """Free a dead file.  Free several ones oldest first.

        The records that made the file dead are durable.
        Raises: FullError; AccessError; PoisonedError.
        """
        self.recycle(file)
        self.data.remove(file)

    def recycle(self, file: JournalFile) -> None:
        """Reuse a file, or quarantine it if it is damaged, or remove it if the pool is full; durably.

        Raises: FullError; AccessError; PoisonedError.
        """
        if not file.damaged and file.file_bytes == self._options.file_bytes and not self._is_surplus(file):
            new = file.renew(self._header())
            new.close()
            self.free.append(new)
            return
        self._keep_ids()
        file.close()
        if file.damaged:
            move_file(self.directory, file.name, f"{file.name}.{file.header.file_id}")
        else:
            self.directory.remove(file.name)
            self.directory.sync()

    def _is_surplus(self, file: JournalFile) -> bool:
        """Whether to remove a dead file instead of keeping it for reuse.

        Not if `_keep_ids` would have to create a file for that: the disk may be full.
        """
        options = self._options
        others = len(self) - (file in self.data)
        if options.pool_files is None or others < max(options.pool_files, options.files_min):
            return False
        return bool(self.free) or self.layout is not JournalLayout.NATIVE

    def replace(self, old: Sequence[JournalFile], new: Sequence[JournalFile]) -> None:
        """Replace consecutive files by others."""
        index = self.data.index(old[0])
        for file in old:
            self.data.remove(file)
        for file in reversed(new):
            self.data.insert(index, file)

    def close(self) -> None:
        """Close all descriptors."""
        for file in (*self.data, *self.free, self.current, self.ahead):
            if file is not None:
                file.close()

    @property
    def record_id_in_header(self) -> int:
        """The largest id of a record or a transaction, as a new header has it."""
        return min(self.record_id_max(), _RECORD_ID_MAX) if self.layout is JournalLayout.NATIVE else 0

    @property
    def _last_id(self) -> int:
        """The largest id of a file in use."""
        return max((file.header.file_id for file in self), default=0)

    def _header(self) -> FileHeader:
        if self.layout is not JournalLayout.NATIVE and self.id_max >= _JBM_ID_MAX:
            raise FullError(f"{self.directory.path}: the file ids of this layout are used up", limit=_JBM_ID_MAX)
        self.id_max += 1
        salt = os.urandom(_SALT_BYTES) if self.layout is JournalLayout.NATIVE else b""
        return FileHeader(self.layout, self.id_max, salt, time.time_ns(), self.record_id_in_header)

    def _keep_ids(self) -> None:
        """Write the largest record id to another header: the file to be removed may have the only record with it."""
        if self.layout is not JournalLayout.NATIVE:
            return
        if self.free:
            self.free[0].open()  # if this fails, the file is still in the queue
            other = self.free.popleft().renew(self._header())
        else:
            other = self._make()
        other.close()
        self.free.append(other)

    def _make(self) -> JournalFile:
        """Create a file, filled and durable, and open it."""
        header = self._header()
        name = self._options.names.file(header.file_id)
        directory = self.directory
        path = directory.file_path(name)
        unfinished = name + NEW_END
        directory.remove(unfinished)
        fd = directory.create(unfinished)
        file = JournalFile(directory, name, header, self._options.file_bytes)
        try:
            _fill(fd, header, self._options.file_bytes, path)
            sync(fd, path)
            if not directory.link(unfinished, name):
                raise AccessError(f"{path} exists already", errno=errno.EEXIST, path=path)
        except BaseException:
            directory.close_file(fd)
            directory.remove(unfinished)
            raise
        file.fd = fd
        return file


def _fill(fd: int, header: FileHeader, file_bytes: int, path: str) -> None:
    """Write the header and the layout's fill bytes.  Space that is only allocated would make later syncs slower."""
    start = header.pack()
    write_at(fd, start, 0, path)
    chunk = bytes([header.layout.fill]) * min(_CHUNK_BYTES, file_bytes)
    at = len(start)
    while at < file_bytes:
        part = chunk[: file_bytes - at]
        write_at(fd, part, at, path)
        at += len(part)


def is_fatal(error: BaseException) -> bool:
    """Whether an error makes further appends impossible.

    A failed write or sync does.  A full disk, a lack of descriptors or a file that cannot be read does not: in these
    cases nothing was changed, or the change can be repeated.
    """
    return not isinstance(error, BinlogError) or isinstance(error, (PoisonedError, InternalError))


@contextmanager
def suppress_transient() -> Iterator[None]:
    """Ignore errors of work that will be retried later.  Raises: fatal errors."""
    try:
        yield
    except BinlogError as error:
        if is_fatal(error):
            raise
