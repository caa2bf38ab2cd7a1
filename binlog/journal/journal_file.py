"""A file of a journal, and how many of its records are alive."""

from __future__ import annotations

import itertools

from binlog.format.journal.block import HEAD_BYTES
from binlog.format.journal.file_header import FileHeader, JournalLayout
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
