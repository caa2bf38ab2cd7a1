"""A prepared file: the next log file before it has its name.

It has a random name that only its maker knows.  It is complete and synced before it is named, and the naming never
replaces an existing file.  If the maker dies, other processes remove the file and never use it.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterable

from binlog.errors import FullError
from binlog.format.log_header import HEADER_BYTES, LogHeader, new_log_header
from binlog.format.names import log_file_name, prepared_file_name, prepared_file_number
from binlog.log.directory import LogDirectory
from binlog.storage.boot import boot_id
from binlog.storage.descriptors import identity_of, is_open_on
from binlog.storage.file_access import FileAccess
from binlog.storage.files import allocate, sync, write_at
from binlog.storage.native import fork_generation


class _OpenFile:
    """The descriptor of a prepared file, and whether the file has its name."""

    def __init__(self, directory: LogDirectory, name: str, access: FileAccess) -> None:
        self._directory, self._name = directory, name
        self._generation = fork_generation()
        self.is_named = False
        self.fd = directory.create(name, access)
        self.identity = identity_of(self.fd)

    def discard(self) -> None:
        """Close the file, and remove it if it has no name."""
        fd, self.fd = self.fd, -1
        self._directory.close_file(fd, self.identity)
        if not self.is_named and self._generation == fork_generation():
            self._directory.remove(self._name)


class PreparedFile:
    """A new file for `number`, with space allocated, to be given a header and its name, or discarded."""

    def __init__(self, directory: LogDirectory, number: int, *, file_bytes: int, access: FileAccess) -> None:
        self.number = number
        self._directory = directory
        self._name = prepared_file_name(number)
        self._path = directory.file_path(self._name)
        self._file = _OpenFile(directory, self._name, access)
        # Not `__del__`: the garbage collector may free the directory's descriptors before it calls that.  A finalizer
        # keeps the directory alive.
        self._discard = weakref.finalize(self, self._file.discard)
        try:
            self._allocate(file_bytes)
        except BaseException:
            self.discard()
            raise

    @property
    def intact(self) -> bool:
        """Whether the descriptor is still open on this file: a program may have closed it."""
        return is_open_on(self._file.fd, self._file.identity)

    def give_name(
        self, number: int, *, log_uuid: bytes | None, first_sequence: int, epoch: int = 0, flags: int = 0
    ) -> bool:
        """Write the header, sync it, and give the file its name; False if the name is taken.

        log_uuid: None for a new one.
        """
        assert number == self.number, "it was prepared for another number"
        header = new_header(
            number, log_uuid=log_uuid or new_log_uuid(), first_sequence=first_sequence, epoch=epoch, flags=flags
        )
        write_at(self._file.fd, header.pack(), 0, self._path)
        sync(self._file.fd, self._path)
        self._file.is_named = self._directory.link(self._name, log_file_name(self.number))
        return self._file.is_named

    def _allocate(self, file_bytes: int) -> None:
        try:
            allocate(self._file.fd, 0, file_bytes, self._path)
        except FullError:
            # A nearly full disk may still have room for a header and a few records.
            allocate(self._file.fd, 0, HEADER_BYTES, self._path)

    def discard(self) -> None:
        """Close the file, and remove it if it has no name."""
        self._discard()


def make_file(
    directory: LogDirectory,
    number: int,
    *,
    file_bytes: int,
    access: FileAccess,
    log_uuid: bytes | None = None,
    first_sequence: int = 0,
    epoch: int = 0,
    flags: int = 0,
) -> None:
    """Make an empty file of a log, durably, unless the number is taken.  See PreparedFile."""
    prepared = PreparedFile(directory, number, file_bytes=file_bytes, access=access)
    try:
        prepared.give_name(number, log_uuid=log_uuid, first_sequence=first_sequence, epoch=epoch, flags=flags)
    finally:
        prepared.discard()


def new_header(number: int, *, log_uuid: bytes, first_sequence: int, epoch: int = 0, flags: int = 0) -> LogHeader:
    """Return the header of an empty file that is made now."""
    return new_log_header(
        number=number, uuid=log_uuid, first_sequence=first_sequence, created_ns=time.time_ns(), boot_id=boot_id(),
        epoch=epoch, flags=flags,
    )  # fmt: skip


def new_log_uuid() -> bytes:
    """Return the identity of a new log: a random UUID, as in RFC 9562, version 4.

    Not from the module `uuid`, because that takes milliseconds to import.
    """
    value = bytearray(os.urandom(16))
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    return bytes(value)


def sweep(directory: LogDirectory, open_number: int, names: Iterable[str]) -> None:
    """Remove the prepared files up to the open one's number: their makers died, or can only lose the race.

    names: a listing of the directory.
    """
    for name in names:
        number = prepared_file_number(name)
        if number is not None and number <= open_number:
            directory.remove(name)
