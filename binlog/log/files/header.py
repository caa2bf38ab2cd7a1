"""A log file's header as a reader uses it: validated without the lock, and cached between polls.

A reader checks the header before each wait and after each wake-up, and nearly always finds it unchanged or one append
further.  One call of C recognizes these two cases (native/log/header.c).  All others are read and parsed here, by
`validated_bytes`, which would accept every header that C accepts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

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
    """Return the header from one read, which is enough under the lock; without it use `validated_header`."""
    return parse_log_header(read_at(content, HEADER_BYTES, 0, path), path=path, number=number)


def validated_header(content: ByteSource, number: int, path: str) -> LogHeader:
    """Return a header that was read without the lock and validated; see `validated_bytes`."""
    return validated_bytes(content, number, path)[0]


def validated_bytes(
    content: ByteSource, number: int, path: str, known: LogHeader | None = None
) -> tuple[LogHeader, bytes]:
    """Return a header that was read without the lock and validated, and its bytes.

    known: an earlier validated header; if nothing has changed since, one read is enough.
    A read that overlaps a write may see half of it.  So one read is accepted if the live block proves its tail;
    everything else, including damage, only if two reads in a row give the same bytes.
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
        if known is not None and header == known._replace(doorbell=header.doorbell):
            return header, data
        if header.is_consistent or again:
            break
    evidence = FileEvidence(content, path)
    same_boot = is_this_boot(header.boot_id)
    believed = believe_tail(header, evidence, file_bytes=lambda: content_bytes(content), same_boot=same_boot)
    check_header(believed, path)
    if header.is_native and not (same_boot and header.live_good and believed.tail >= header.published_tail):
        believed = _recovered(believed, evidence, path, same_boot=same_boot)
    elif is_unproven(believed, evidence):
        believed = believed._replace(tail=believed.published_tail)
    # The disk has another tail: a later check must not find these bytes unchanged and accept them.
    return believed, data if believed.tail == header.tail else _bell_alone(data)


def check_header(header: LogHeader, path: str) -> None:
    """Raise CorruptError if the header's tail or record count is impossible, whatever happened to the file."""
    if not header.first_offset <= header.tail <= OFFSET_MAX:
        raise CorruptError(path, _TAIL, "tail", f"the tail {header.tail} is not a place for a record")
    # If the live block's CRC does not match, recovery may still find the count in a commit slot.
    if header.live_good and header.first_sequence + header.record_count > COUNT_MAX:
        raise CorruptError(path, _COUNT, "record-count", f"{header.record_count} records cannot be")


def check_size(tail: int, content: ByteSource, path: str) -> None:
    """Raise CorruptError if the file ends before its tail.  A reader notices when it gets there."""
    file_bytes = content_bytes(content)
    if tail > file_bytes:
        raise CorruptError(path, file_bytes, "truncated", f"the tail is {tail}, the file has {file_bytes} bytes")


def _bell_alone(data: bytes) -> bytes:
    return bytes(_BELL) + data[_BELL : _BELL + 4] + bytes(len(data) - _BELL - 4)


def _recovered(header: LogHeader, evidence: FileEvidence, path: str, *, same_boot: bool) -> LogHeader:
    """Return the header as recovery would leave it, in memory only.

    Either another boot wrote it last, so that its page cache is lost, and no writer has been here since; or the live
    block or the tail is damaged, because a read that overlapped a write was repeated.
    """
    verdict = decide(header, evidence, same_boot=same_boot, opened_before_unconfirmed=False)
    if verdict.action is Action.REFUSE:
        raise CorruptError(path, verdict.tail, f"recovery-{verdict.row}", verdict.text)
    return recovered(header, verdict)


# The low byte of the flags, which are big-endian.
_FLAGS = LOG_HEADER.offset("flags") + 1
_MIXED = int(Flag.FOREIGN_WRITERS)
_UNSURE = int(lib.BINLOG_HEADER_UNSURE)


class HeaderCache:
    """The header of a log file as last validated.

    `begin` must be called first.
    believe: gives a header the status and the next number that are validated (evidence.py).
    closed, next_number: as of the last check.
    after_close_from: the offset from which another program added records after the close.
    seed: of the checksums of the live block, the slots and the index's entries.
    address: of the C structure, valid for the lifetime of this object.
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
        """Read the header for the first time; `identity` is of the file or archive.

        Raises: CorruptError; VersionError; AccessError.
        """
        header, data = validated_bytes(content, self._number, self._path)
        self._content = content
        self._identity = identity
        # Without a descriptor C leaves everything to Python: an archive's header never changes.
        self._cache.fd = content if isinstance(content, int) else -1
        self._cache.device, self._cache.inode = identity
        self.seed = self._cache.seed = block_seed(header.uuid, self._number)
        self._take(header, data)

    def refresh(self) -> int:
        """Read the header again and return its tail.  Raises: CorruptError."""
        if lib.binlog_header_refresh(self._cache) == _UNSURE:
            self._read_carefully()
        return self.tail

    @property
    def tail(self) -> int:
        """The offset of the next record, as of the last check."""
        tail: int = self._cache.tail
        return tail

    @property
    def header(self) -> LogHeader:
        """All of the header."""
        if self._header.tail != self.tail:
            # C saw an append, which is the only change that it accepts.
            found = parse_log_header(ffi.buffer(self._cache.header)[:], path=self._path, number=self._number)
            self._header = self._believe(found)
        return self._header

    @property
    def has_foreign_writers(self) -> bool:
        """Whether another program appends to the log too, if this header can tell."""
        if self._header.tail != self.tail:
            # A waiting reader asks each time, so do not parse all of the header.
            return bool(self._cache.header[_FLAGS] & _MIXED)
        return self._header.has_foreign_writers

    @property
    def doorbell_at_previous_read(self) -> int:
        """The doorbell as of the check before the last one.

        A reader must read the doorbell that it waits on before it reads the tail, and one read has no order within it.
        """
        bell: int = self._cache.doorbell_at_previous_read
        return bell

    def reconsider(self) -> bool:
        """Whether the file is closed, according to the directory as it is now.  Raises: CorruptError."""
        self._read_carefully()
        return self.closed

    def _read_carefully(self) -> None:
        if isinstance(self._content, int) and not is_open_on(self._content, self._identity):
            raise failure(errno.EBADF, self._path, "reading")
        before = self.header
        header, data = validated_bytes(self._content, self._number, self._path, known=before)
        if header.tail < before.tail:
            raise CorruptError(self._path, _TAIL, "tail", f"the tail went back from {before.tail}")
        self._take(header, data)

    def _take(self, header: LogHeader, data: bytes) -> None:
        cache = self._cache
        self._header = header = self._believe(header)
        self.closed = header.closed
        self.next_number = header.next_number
        self.after_close_from = header.published_tail if header.closed else OFFSET_MAX
        cache.doorbell_at_previous_read = int.from_bytes(ffi.buffer(cache.header)[_BELL : _BELL + 4], "big")
        cache.tail = header.tail
        # Last: if Ctrl-C comes before this line, the old bytes make the next check repeat the work.
        cache.header = data

    def close(self) -> None:
        """Stop reading the header."""
        self._content = self._cache.fd = -1
