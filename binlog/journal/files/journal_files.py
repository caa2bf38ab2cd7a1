"""The files of a journal: those that have records, those that wait to be used again, and one made ahead of need.

Invariants
- Ids rise in the order in which files come into use, so that their order says what came first.
- A file that is used again has a new header, on the disk, before it counts as free: none of its old records comes back.
- Dead files are freed oldest first, each durably before the next one, for what ended records must not go before these.

A file of a journal, and how many of its records are alive.

Work of a journal that can be done later as well: what keeps it from being done now, and no longer, is no failure.
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

    number: of this object, which no other of the process has.
    alive: records that are there, and transactions that go on and have some here.
    record_count: how many records it has, alive or not, once the journal has gone on from it.
    outlasts: other files for which it must stay: a record here ended some of theirs, or it shows that a record of a
    transaction is missing that is committed there.
    alive_bytes: of records that are there.  damaged: a part of it is not what was written.
    """

    __slots__ = (
        "alive", "alive_bytes", "damaged", "directory", "fd", "file_bytes", "header", "name", "number", "outlasts",
        "path", "record_count",
    )  # fmt: skip

    def __init__(self, directory: Directory, name: str, header: FileHeader, file_bytes: int) -> None:
        self.path = directory.file_path(name)
        self.directory = directory
        self.name = name
        self.header = header
        self.file_bytes = file_bytes
        self.number = next(_numbers)
        self.fd = -1
        self.alive = 0
        self.record_count = 0
        self.alive_bytes = 0
        self.damaged = False
        self.outlasts: set[JournalFile] = set()

    def end(self, file: JournalFile) -> None:
        """A record here ended one of `file`'s."""
        file.alive -= 1
        if file is not self:
            self.outlasts.add(file)

    def read(self) -> bytes:
        """All of its bytes.  Raises: NotFoundError; AccessError."""
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
        """Close its descriptor; what was written stays with the kernel."""
        fd, self.fd = self.fd, -1
        self.directory.close_file(fd)

    def write_header(self) -> None:
        """Have the header be on the disk, whatever became of the sync of who wrote it; it is closed then.

        Raises: NotFoundError; AccessError; PoisonedError.
        """
        self.open()
        try:
            self._write_start(self.header)
            self.sync()
        finally:
            self.close()

    def _write_start(self, header: FileHeader) -> None:
        """A header, and in our layout zeros where the first record will be, so that what is found there was written.

        Both reach the disk together, in one sector.
        """
        zeros = bytes(HEAD_BYTES) if header.layout is JournalLayout.NATIVE else b""
        self.write(header.pack() + zeros, 0)

    def renew(self, header: FileHeader) -> JournalFile:
        """Begin another use of it, durably: none of the records that lie there counts any more.

        The new use is an object of its own, for what other files ended in the old one says nothing of it.
        Raises: NotFoundError; AccessError; PoisonedError.
        """
        self.open()
        try:
            self._write_start(header)
            self.sync()
        except BaseException:
            self.close()  # whoever had it in a list may have none any more
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
    """The files in a folder.  No two threads change them at once.

    data: those with records, oldest first, but the one in which the journal goes on.  free: those without.
    ahead: one that is ready, whose id is larger than all before.
    record_id_max: tells the largest id that a record or a transaction has had.
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
        """Those with records, oldest first."""
        yield from self.data
        if self.current is not None:
            yield self.current

    def prepare(self) -> None:
        """Have one ready, where there is none.  Raises: FullError; AccessError; PoisonedError."""
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
        """The one that is ready, or is made now; it becomes the one in which the journal goes on.

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
        """Make files until there are so many as there always are.  Raises: FullError; AccessError; PoisonedError."""
        while len(self) < self._options.files_min:
            file = self._make()
            file.close()
            self.free.append(file)

    def free_dead(self, file: JournalFile) -> None:
        """Have a file with records, which nobody needs any more, be used again, or go.

        Of several the oldest comes first.  What says that it is dead is on the disk.
        Raises: FullError; AccessError; PoisonedError.
        """
        self.recycle(file)
        self.data.remove(file)

    def recycle(self, file: JournalFile) -> None:
        """Have a file be used again, set aside where it is damaged, or removed where there are enough, durably.

        Raises: FullError; AccessError; PoisonedError.
        """
        if not file.damaged and file.file_bytes == self._options.file_bytes and not self._is_one_too_many(file):
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

    def _is_one_too_many(self, file: JournalFile) -> bool:
        """Whether a file that is dead is to go.

        Not where a new one would have to be made in its place, to keep the ids: the disk may be full.
        """
        options = self._options
        others = len(self) - (file in self.data)
        if options.pool_files is None or others < max(options.pool_files, options.files_min):
            return False
        return bool(self.free) or self.layout is not JournalLayout.NATIVE

    def replace(self, old: Sequence[JournalFile], new: Sequence[JournalFile]) -> None:
        """Have files take the place of others, which lie one behind the other."""
        place = self.data.index(old[0])
        for file in old:
            self.data.remove(file)
        for file in reversed(new):
            self.data.insert(place, file)

    def close(self) -> None:
        """Close all descriptors."""
        for file in (*self.data, *self.free, self.current, self.ahead):
            if file is not None:
                file.close()

    @property
    def record_id_in_header(self) -> int:
        """The largest id that a record or a transaction has had, as a header written now has it."""
        return min(self.record_id_max(), _RECORD_ID_MAX) if self.layout is JournalLayout.NATIVE else 0

    @property
    def _last_id(self) -> int:
        """The largest id of a file that has been in use."""
        return max((file.header.file_id for file in self), default=0)

    def _header(self) -> FileHeader:
        if self.layout is not JournalLayout.NATIVE and self.id_max >= _JBM_ID_MAX:
            raise FullError(f"{self.directory.path}: there are no more ids for files", limit=_JBM_ID_MAX)
        self.id_max += 1
        salt = os.urandom(_SALT_BYTES) if self.layout is JournalLayout.NATIVE else b""
        return FileHeader(self.layout, self.id_max, salt, time.time_ns(), self.record_id_in_header)

    def _keep_ids(self) -> None:
        """Write the largest id into a header that stays: the file that goes may have the last record that tells it."""
        if self.layout is not JournalLayout.NATIVE:
            return
        if self.free:
            self.free[0].open()  # while it is in the row
            kept = self.free.popleft().renew(self._header())
        else:
            kept = self._make()
        kept.close()
        self.free.append(kept)

    def _make(self) -> JournalFile:
        """A new file, filled, on the disk, and open."""
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
                raise AccessError(f"{path} is there already", errno=errno.EEXIST, path=path)
        except BaseException:
            directory.close_file(fd)
            directory.remove(unfinished)
            raise
        file.fd = fd
        return file


def _fill(fd: int, header: FileHeader, file_bytes: int, path: str) -> None:
    """The header, and then the layout's filling: written, for a sync of space that was only given costs more later."""
    start = header.pack()
    write_at(fd, start, 0, path)
    chunk = bytes([header.layout.fill]) * min(_CHUNK_BYTES, file_bytes)
    at = len(start)
    while at < file_bytes:
        part = chunk[: file_bytes - at]
        write_at(fd, part, at, path)
        at += len(part)


def is_for_ever(error: BaseException) -> bool:
    """Whether nothing may be appended behind it.

    A failed write or sync is so.  A full disk is not, nor a lack of descriptors, nor what could not be read: that ended
    before anything was changed, or where it can be begun again.
    """
    return not isinstance(error, BinlogError) or isinstance(error, (PoisonedError, InternalError))


@contextmanager
def ignored_until_later() -> Iterator[None]:
    """Goes on where the body raises what may pass: it is done the next time.  Raises: what is for ever."""
    try:
        yield
    except BinlogError as error:
        if is_for_ever(error):
            raise
