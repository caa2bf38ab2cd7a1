"""The header of a log file as a reader last believed it, and looking whether it has changed.

A reader looks before each wait and after each wake-up, and nearly always finds the same header or one append more.  So
these two are told in one call of C (native/header.c), and only what it is unsure of is read and parsed here, as
header_reading says.  What C believes, that would believe as well.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from binlog.errors import CorruptError
from binlog.format.log_header import LOG_HEADER, Flag, LogHeader, block_seed, parse_log_header
from binlog.format.ref import OFFSET_MAX
from binlog.log.header_reading import settled_bytes
from binlog.storage.content import Content
from binlog.storage.failures import failure
from binlog.storage.identity import Identity, is_identity
from binlog.storage.native import ffi, lib

_TAIL = LOG_HEADER.offset("tail")
_BELL = LOG_HEADER.offset("doorbell")
# The low byte of the flags, which are big-endian.
_FLAGS = LOG_HEADER.offset("flags") + 1
_MIXED = int(Flag.MIXED)
_UNSURE = int(lib.BINLOG_LOOK_UNSURE)


class KnownHeader:
    """See the module.

    believe: gives a header the status and the next number that are believed (witnesses.py).
    `begin` comes first.
    closed, next_number: as they were at the last look.
    late_from: what lies there or farther on was added by another program after the close.
    seed: of the checksums of the live block, the slots and the index's entries.
    address: of what the C knows, valid as long as this is.
    """

    _header: LogHeader
    closed: bool
    next_number: int
    late_from: int
    seed: int

    def __init__(self, number: int, path: str, believe: Callable[[LogHeader], LogHeader]) -> None:
        self._content: Content = -1
        self._number = number
        self._path = path
        self._believe = believe
        self._known = ffi.new("struct binlog_known *")
        self.address = int(ffi.cast("uintptr_t", self._known))

    def begin(self, content: Content, identity: Identity) -> None:
        """Read it for the first time; `identity` is of the file or archive.

        Raises: CorruptError; VersionError; AccessError.
        """
        header, data = settled_bytes(content, self._number, self._path)
        self._content = content
        self._identity = identity
        # Without a descriptor the C is unsure of everything, and asks us: an archive's header never changes.
        self._known.fd = content if isinstance(content, int) else -1
        self._known.device, self._known.inode = identity
        self.seed = self._known.seed = block_seed(header.uuid, self._number)
        self._take(header, data)

    def look(self) -> int:
        """Read the header again; its tail.  Raises: CorruptError."""
        if lib.binlog_header_look(self._known) == _UNSURE:
            self._look_carefully()
        return self.tail

    @property
    def tail(self) -> int:
        """Where the next record will be written, as it was at the last look."""
        tail: int = self._known.tail
        return tail

    @property
    def header(self) -> LogHeader:
        """All of it."""
        if self._header.tail != self.tail:
            # The C saw an append, which is all that it believes without us.
            found = parse_log_header(ffi.buffer(self._known.header)[:], path=self._path, number=self._number)
            self._header = self._believe(found)
        return self._header

    @property
    def mixed(self) -> bool:
        """Whether another program writes here too, as far as this header tells."""
        if self._header.tail != self.tail:
            # Without parsing all of it: a waiting reader asks each time.
            return bool(self._known.header[_FLAGS] & _MIXED)
        return self._header.mixed

    @property
    def bell_before(self) -> int:
        """The doorbell as it was before the last look.

        What is waited on must have been read before the tail is, and one read gives no order: so it is the last one's.
        """
        bell: int = self._known.bell_before
        return bell

    def reconsider(self) -> bool:
        """Whether the file is closed, by what the directory holds now.  Raises: CorruptError."""
        self._look_carefully()
        return self.closed

    def _look_carefully(self) -> None:
        if isinstance(self._content, int) and not is_identity(self._content, self._identity):
            raise failure(errno.EBADF, self._path, "reading")
        before = self.header
        header, data = settled_bytes(self._content, self._number, self._path, known=before)
        if header.tail < before.tail:
            raise CorruptError(self._path, _TAIL, "tail", f"the tail went back from {before.tail}")
        self._take(header, data)

    def _take(self, header: LogHeader, data: bytes) -> None:
        known = self._known
        self._header = header = self._believe(header)
        self.closed = header.closed
        self.next_number = header.next_number
        self.late_from = header.own_tail if header.closed else OFFSET_MAX
        known.bell_before = int.from_bytes(ffi.buffer(known.header)[_BELL : _BELL + 4], "big")
        known.tail = header.tail
        # Last: as long as these are the old ones, a next look is as good as this one, should Ctrl-C have ended it.
        known.header = data

    def close(self) -> None:
        """Look no more."""
        self._content = self._known.fd = -1
