"""NoteFile: a file to which signed notes are appended.

Empty lines are before and after each note.  A power cut may tear the last one; readers skip it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from binlog.errors import BinlogError, NotFoundError
from binlog.format.seal.note import NOTE_BYTES_MAX, NOTE_SEPARATOR, Note, parse_notes
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.files import content_bytes, read_at, sync, truncate, write_at

_PIECE_BYTES = 1 << 20


class NoteFile:
    """The file of notes with a name in a directory; it need not exist."""

    def __init__(self, directory: Directory, name: str) -> None:
        self._directory = directory
        self._name = name

    def append(self, note: Note) -> None:
        """Append a note, durably.  Raises: FullError; AccessError; PoisonedError."""
        self._directory.make(self._name)
        path = self._directory.file_path(self._name)
        with self._directory.opened(self._name, writable=True, append_only=True) as fd:
            size = content_bytes(fd)
            try:
                write_at(fd, NOTE_SEPARATOR + str(note).encode() + NOTE_SEPARATOR[1:], size, path)
                sync(fd, path)
            except BinlogError:
                # After a failed sync the note would be read until the next boot, and then be gone.
                with suppress(BinlogError):
                    truncate(fd, size, path)
                raise
        self._directory.sync()

    def sync(self) -> None:
        """Make all notes durable, also those of a process that died before it did.  Raises: PoisonedError; AccessError.

        Does nothing if the file does not exist.
        """
        with suppress(NotFoundError):
            with self._directory.opened(self._name) as fd:
                sync(fd, self._directory.file_path(self._name))
            self._directory.sync()

    def last(self) -> Note | None:
        """Return the last note that is not torn; None if the end of the file, which is read, has none."""
        data = self._read(max(self.size() - 2 * NOTE_BYTES_MAX, 0), 2 * NOTE_BYTES_MAX)
        return next(reversed(list(parse_notes(data))), None)

    def notes(self) -> Iterator[Note]:
        """Yield the notes of the file as it is now, without torn ones."""
        start, rest = 0, b""
        while data := self._read(start, _PIECE_BYTES):
            start += len(data)
            whole, separator, rest = (rest + data).rpartition(NOTE_SEPARATOR)
            yield from parse_notes(whole + separator)
            rest = rest[-2 * NOTE_BYTES_MAX :]
        yield from parse_notes(rest)

    def size(self) -> int:
        """Return the bytes of the file; 0 if it does not exist."""
        status = self._directory.status(self._name)
        return 0 if status is None else status.st_size

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other processes and threads that call this, for a block.  Raises: AccessError."""
        self._directory.make(self._name)
        with self._directory.opened(self._name) as fd:
            with own_errors(self._directory.file_path(self._name), "locking"):
                fcntl.flock(fd, fcntl.LOCK_EX)  # excludes other threads too, unlike a lock by fcntl(2)
            yield

    def _read(self, start: int, size: int) -> bytes:
        try:
            with self._directory.opened(self._name) as fd:
                return read_at(fd, size, start, self._directory.file_path(self._name))
        except NotFoundError:
            return b""
