"""Reading a log file's header while others rewrite it, and whether its tail can be believed.

The header of a log file as a reader last believed it, and looking whether it has changed.

A reader looks before each wait and after each wake-up, and nearly always finds the same header or one append more.  So
these two are told in one call of C (native/log/header.c), and only what it is unsure of is read and parsed here, as
header_reading says.  What C believes, that would believe as well.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

from binlog.errors import CorruptError, VersionError
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER, Flag, LogHeader, block_seed, parse_log_header
from binlog.format.record import COUNT_MAX, OFFSET_MAX
from binlog.log.recovery.evidence import FileEvidence, believe_tail, is_unproven
from binlog.log.recovery.recovery_table import Action, decide, recovered
from binlog.storage.boot import is_this_boot
from binlog.storage.descriptors import Identity, is_open_on
from binlog.storage.failures import failure
from binlog.storage.files import ByteSource, content_bytes, read_at
from binlog.storage.native import ffi, lib

_TAIL = LOG_HEADER.offset("tail")
_COUNT = LOG_HEADER.offset("record_count")
_BELL = LOG_HEADER.offset("doorbell")


def read_header(content: ByteSource, number: int, path: str) -> LogHeader:
    """The header as one read gives it, which is right under the lock; see `settled_header` for elsewhere."""
    return parse_log_header(read_at(content, HEADER_BYTES, 0, path), path=path, number=number)


def settled_header(content: ByteSource, number: int, path: str) -> LogHeader:
    """A checked header, read without the lock; see `settled_bytes`."""
    return settled_bytes(content, number, path)[0]


def settled_bytes(
    content: ByteSource, number: int, path: str, known: LogHeader | None = None
) -> tuple[LogHeader, bytes]:
    """A checked header, read without the lock, and its bytes.

    known: one that was checked before; where nothing has changed since, one read is all.
    A read that meets a write may see half of it.  So one read is believed where our live block vouches for its tail;
    anything else, damage too, only once two reads in a row give the same bytes.
    """
    before = b""
    while True:
        data = read_at(content, HEADER_BYTES, 0, path)
        again = data == before
        before = data
        try:
            header = parse_log_header(data, path=path, number=number)
        except (CorruptError, VersionError):
            if again:
                raise
            continue
        if known is not None and header == replace(known, doorbell=header.doorbell):
            return header, data
        if header.settled or again:
            break
    evidence = FileEvidence(content, path)
    same_boot = is_this_boot(header.boot_id)
    believed = believe_tail(header, evidence, file_bytes=lambda: content_bytes(content), same_boot=same_boot)
    check_header(believed, path)
    if header.ours and not (same_boot and header.live_good and believed.tail >= header.own_tail):
        believed = _recovered(believed, evidence, path, same_boot=same_boot)
    elif is_unproven(believed, evidence):
        believed = replace(believed, tail=believed.own_tail)
    # What is on the disk says something else: no later look may find it unchanged, and believe it.
    return believed, data if believed.tail == header.tail else _bell_alone(data)


def check_header(header: LogHeader, path: str) -> None:
    """Raise CorruptError where the header's tail or its count cannot be right, whatever happened to the file."""
    if not header.first_offset <= header.tail <= OFFSET_MAX:
        raise CorruptError(path, _TAIL, "tail", f"the tail {header.tail} is not a place for a record")
    # Where the live block's CRC does not hold, recovery may still find the count in a commit slot.
    if header.live_good and header.first_sequence + header.record_count > COUNT_MAX:
        raise CorruptError(path, _COUNT, "record-count", f"{header.record_count} records cannot be")


def check_size(tail: int, content: ByteSource, path: str) -> None:
    """Raise CorruptError where the file ends before its tail.  A reader finds out when it comes there."""
    file_bytes = content_bytes(content)
    if tail > file_bytes:
        raise CorruptError(path, file_bytes, "truncated", f"the tail is {tail}, the file has {file_bytes} bytes")


def _bell_alone(data: bytes) -> bytes:
    return bytes(_BELL) + data[_BELL : _BELL + 4] + bytes(len(data) - _BELL - 4)


def _recovered(header: LogHeader, evidence: FileEvidence, path: str, *, same_boot: bool) -> LogHeader:
    """The header as recovery would leave it, in memory alone.

    Either another boot wrote it last, so that what the page cache held is gone, and no writer has been here since; or
    the live block or the tail is damaged, for a read that met a write was repeated.
    """
    verdict = decide(header, evidence, same_boot=same_boot, vouched=False)
    if verdict.action is Action.REFUSE:
        raise CorruptError(path, verdict.tail, f"recovery-{verdict.row}", verdict.text)
    return recovered(header, verdict)


# The low byte of the flags, which are big-endian.
_FLAGS = LOG_HEADER.offset("flags") + 1
_MIXED = int(Flag.MIXED)
_UNSURE = int(lib.BINLOG_HEADER_UNSURE)


class HeaderCache:
    """See the module.

    believe: gives a header the status and the next number that are believed (witnesses.py).
    `begin` comes first.
    closed, next_number: as they were at the last look.
    after_close_from: what lies there or farther on was added by another program after the close.
    seed: of the checksums of the live block, the slots and the index's entries.
    address: of what the C knows, valid as long as this is.
    """

    _header: LogHeader
    closed: bool
    next_number: int
    after_close_from: int
    seed: int

    def __init__(self, number: int, path: str, believe: Callable[[LogHeader], LogHeader]) -> None:
        self._content: ByteSource = -1
        self._number = number
        self._path = path
        self._believe = believe
        self._cache = ffi.new("struct binlog_header_cache *")
        self.address = int(ffi.cast("uintptr_t", self._cache))

    def begin(self, content: ByteSource, identity: Identity) -> None:
        """Read it for the first time; `identity` is of the file or archive.

        Raises: CorruptError; VersionError; AccessError.
        """
        header, data = settled_bytes(content, self._number, self._path)
        self._content = content
        self._identity = identity
        # Without a descriptor the C is unsure of everything, and asks us: an archive's header never changes.
        self._cache.fd = content if isinstance(content, int) else -1
        self._cache.device, self._cache.inode = identity
        self.seed = self._cache.seed = block_seed(header.uuid, self._number)
        self._take(header, data)

    def refresh(self) -> int:
        """Read the header again; its tail.  Raises: CorruptError."""
        if lib.binlog_header_refresh(self._cache) == _UNSURE:
            self._read_carefully()
        return self.tail

    @property
    def tail(self) -> int:
        """Where the next record will be written, as it was at the last look."""
        tail: int = self._cache.tail
        return tail

    @property
    def header(self) -> LogHeader:
        """All of it."""
        if self._header.tail != self.tail:
            # The C saw an append, which is all that it believes without us.
            found = parse_log_header(ffi.buffer(self._cache.header)[:], path=self._path, number=self._number)
            self._header = self._believe(found)
        return self._header

    @property
    def mixed(self) -> bool:
        """Whether another program writes here too, as far as this header tells."""
        if self._header.tail != self.tail:
            # Without parsing all of it: a waiting reader asks each time.
            return bool(self._cache.header[_FLAGS] & _MIXED)
        return self._header.mixed

    @property
    def doorbell_at_previous_read(self) -> int:
        """The doorbell as it was before the last look.

        What is waited on must have been read before the tail is, and one read gives no order: so it is the last one's.
        """
        bell: int = self._cache.doorbell_at_previous_read
        return bell

    def reconsider(self) -> bool:
        """Whether the file is closed, by what the directory holds now.  Raises: CorruptError."""
        self._read_carefully()
        return self.closed

    def _read_carefully(self) -> None:
        if isinstance(self._content, int) and not is_open_on(self._content, self._identity):
            raise failure(errno.EBADF, self._path, "reading")
        before = self.header
        header, data = settled_bytes(self._content, self._number, self._path, known=before)
        if header.tail < before.tail:
            raise CorruptError(self._path, _TAIL, "tail", f"the tail went back from {before.tail}")
        self._take(header, data)

    def _take(self, header: LogHeader, data: bytes) -> None:
        cache = self._cache
        self._header = header = self._believe(header)
        self.closed = header.closed
        self.next_number = header.next_number
        self.after_close_from = header.own_tail if header.closed else OFFSET_MAX
        cache.doorbell_at_previous_read = int.from_bytes(ffi.buffer(cache.header)[_BELL : _BELL + 4], "big")
        cache.tail = header.tail
        # Last: as long as these are the old ones, a next look is as good as this one, should Ctrl-C have ended it.
        cache.header = data

    def close(self) -> None:
        """Look no more."""
        self._content = self._cache.fd = -1
