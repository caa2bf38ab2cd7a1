"""IndexWriter: makes the index of a log file, completes it, and cuts it.

All of this needs the log file's lock, except `build_entries`.  If an index cannot be written, the log does not fail:
its writers continue without it.

An index that reaches past the tail has entries for bytes that a power cut took back, and that other records will
replace.  So `IndexWriter.cut` removes them, and syncs that, before anything else happens.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

from binlog.errors import CorruptError, NotFoundError
from binlog.format.checksums import crc32c
from binlog.format.index_file import (
    ENTRY_BYTES,
    HEADER_BYTES,
    INDEX_ENTRY,
    INDEX_HEADER,
    IndexEntry,
    Ranges,
    entry_count,
    entry_offset,
    entry_seed,
    pack_header,
    parse_entry,
)
from binlog.format.log_header import LogHeader
from binlog.format.names import archive_file_name, index_file_name, log_file_name
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX
from binlog.log.directory import LogDirectory
from binlog.log.index.index import Index
from binlog.storage.boot import boot_id
from binlog.storage.file_access import access_like
from binlog.storage.files import ByteSource, read_at, sync, truncate, write_at

# How much a writer reads at most to bring an index up to date while it holds the lock; `repair` has no such limit.
CATCH_UP_BYTES_MAX = 16 << 20
_READ_BYTES = 1 << 20
_TIME_AT = INDEX_ENTRY.offset("time_ns")
_SEQUENCE_AT = INDEX_ENTRY.offset("sequence")
_CRC_AT = INDEX_ENTRY.offset("entry_crc")
# How many last entries of another boot's index are checked one by one, because they may not have reached the disk.
_LAST_ENTRIES = 1 << 15


class IndexWriter:
    """The index of an open log file, for its writer.

    number, fd: the log file's.
    content: the file's bytes, if they are in an archive and not in `fd`.
    """

    def __init__(self, directory: LogDirectory, number: int, fd: int, *, content: ByteSource | None = None) -> None:
        name = index_file_name(number)
        self.path = directory.file_path(name)
        self._data_fd = fd
        self._content: ByteSource = fd if content is None else content
        self._data_path = directory.file_path((log_file_name if content is None else archive_file_name)(number))
        try:
            self._descriptor = directory.descriptor(name)
        except NotFoundError:
            directory.close_file(directory.create(name, access_like(os.fstat(fd))))
            self._descriptor = directory.descriptor(name)

    @property
    def fd(self) -> int:
        """The index's descriptor."""
        return self._descriptor.fd

    @property
    def intact(self) -> bool:
        """Whether the descriptor still is the index's, and was not closed by other code of this process."""
        return self._descriptor.intact

    def cut(self, header: LogHeader, tail: int) -> bool:
        """Remove entries that cannot be right; return whether the file is an index that can be continued.

        header: the log file's.  tail: the end of its records by recovery's verdict, which need not be carried out yet.
        """
        index = Index(self.fd, self.path)
        if not index.fits(header):
            if not (index.blank or index.named):
                return False  # a file of another kind has the name
            truncate(self.fd, 0, self.path)
            write_at(self.fd, pack_header(number=header.number, uuid=header.uuid), 0, self.path)
            sync(self.fd, self.path)
            return True
        count = _sound_count(index, header, tail)
        size = entry_offset(count)
        if index.file_bytes != size:
            truncate(self.fd, size, self.path)
            if count != index.count:
                sync(self.fd, self.path)
        return True

    def catch_up(self, header: LogHeader, tail: int, *, bytes_max: int | None = CATCH_UP_BYTES_MAX) -> bool:
        """Add entries up to the tail; return False if more than `bytes_max` has none.

        Raises: CorruptError if the last entry is damaged.
        """
        seed = entry_seed(number=header.number, uuid=header.uuid)
        last = self._last(seed)
        end, sequence = _end(header, last)
        if end == tail:
            return True
        if bytes_max is not None and tail - end > bytes_max:
            return False
        times = Ranges(end, sequence, self._time_ns(last), seed=seed)
        at = os.fstat(self.fd).st_size
        for entries in build_entries(self._content, times, tail, self._data_path):
            write_at(self.fd, entries, at, self.path)
            at += len(entries)
        return True

    def ranges_at_tail(self, header: LogHeader) -> Ranges | None:
        """Return a builder of entries for records after the tail; None if the index does not reach the tail."""
        seed = entry_seed(number=header.number, uuid=header.uuid)
        end, sequence = _end(header, self._last(seed))
        return Ranges(end, sequence, seed=seed) if end == header.tail else None

    def add(self, entries: bytearray, *, first_sequence: int = 0, time_ns: int = 0) -> None:
        """Write entries for records that are now in the log.

        first_sequence: added to the sequence number of each entry.
        time_ns: a time at which the records were in the file, if the file may have changed last before it.
        """
        seed = self._seed()
        time_ns = max(self._time_ns(self._last(seed)), time_ns)
        for at in range(0, len(entries), ENTRY_BYTES):
            entries[at + _TIME_AT : at + _TIME_AT + 8] = time_ns.to_bytes(8, "big")
            own = slice(at + _SEQUENCE_AT, at + _SEQUENCE_AT + 8)
            entries[own] = (first_sequence + int.from_bytes(entries[own], "big")).to_bytes(8, "big")
            crc = crc32c(memoryview(entries)[at : at + _CRC_AT], seed)
            entries[at + _CRC_AT : at + ENTRY_BYTES] = crc.to_bytes(4, "big")
        write_at(self.fd, entries, os.fstat(self.fd).st_size, self.path)

    def _last(self, seed: int) -> IndexEntry | None:
        """Return the last entry, or None.  Raises: CorruptError if it is damaged, because no entry can follow it."""
        count = entry_count(os.fstat(self.fd).st_size)
        if count == 0:
            return None
        at = entry_offset(count - 1)
        entry = parse_entry(read_at(self.fd, ENTRY_BYTES, at, self.path), seed)
        if entry is None:
            raise CorruptError(self.path, at, "index", "its last entry does not have its checksum")
        return entry

    def _seed(self) -> int:
        values = INDEX_HEADER.unpack(read_at(self.fd, HEADER_BYTES, 0, self.path).ljust(HEADER_BYTES, b"\0"))
        return entry_seed(number=values["number"], uuid=values["uuid"])

    def _time_ns(self, last: IndexEntry | None) -> int:
        """Return the earliest time at which all records without an entry are known to have been in the file."""
        return max(os.fstat(self._data_fd).st_mtime_ns, 0 if last is None else last.time_ns)

    def close(self) -> None:
        """Close the index."""
        self._descriptor.close()


def _end(header: LogHeader, last: IndexEntry | None) -> tuple[int, int]:
    """Return where the index of a log file ends, and the sequence number of the next record."""
    return (header.first_offset, header.first_sequence) if last is None else (last.end, last.next_sequence)


def complete_index(
    directory: LogDirectory, header: LogHeader, fd: int, *, content: ByteSource | None = None, rebuild: bool = False
) -> None:
    """Make the index of a file cover everything up to the tail and nothing after it, durably.

    fd, content: as for IndexWriter.  rebuild: discard the index and make a new one.
    Raises: CorruptError; FullError; AccessError; PoisonedError.
    """
    if rebuild:
        directory.remove(index_file_name(header.number))
    with closing(IndexWriter(directory, header.number, fd, content=content)) as writing:
        if not writing.cut(header, header.tail):
            text = "the file's index cannot be completed: a file of another kind has its name"
            raise CorruptError(writing.path, 0, "index", text)
        writing.catch_up(header, header.tail, bytes_max=None)
        sync(writing.fd, writing.path)


def build_entries(content: ByteSource, ranges: Ranges, tail: int, path: str) -> Iterator[bytes]:
    """Yield entries for the records from the end of `ranges` up to the tail, many at a time.

    Raises: CorruptError if whole records do not fill that.
    """
    size = _READ_BYTES
    while ranges.end < tail:
        at = ranges.end
        data = read_at(content, min(size, tail - at), at, path)
        entries = ranges.build(data, to_end=at + len(data) == tail)
        if entries:
            yield entries
            size = _READ_BYTES
            continue
        length = int.from_bytes(data[:LENGTH_BYTES], "big")
        record_bytes = LENGTH_BYTES + length
        if len(data) < LENGTH_BYTES or length > RECORD_BYTES_FORMAT_MAX or record_bytes > tail - at or len(data) > size:
            raise CorruptError(path, at, "length", f"no records fill the file up to its tail {tail}")
        if size >= record_bytes + _READ_BYTES or at + len(data) < min(at + size, tail):
            raise CorruptError(path, at, "length", f"no records fill the file up to its tail {tail}")
        size = record_bytes + _READ_BYTES


def _sound_count(index: Index, header: LogHeader, tail: int) -> int:
    """Return how many entries to keep: those up to the tail; of another boot's index, only consecutive ones."""
    count = index.count
    if count and header.boot_id == boot_id():
        before, last = index.entry(count - 2) if count > 1 else None, index.entry(count - 1)
        end = header.first_offset if count == 1 else None if before is None else before.end
        if last is not None and end == last.offset < last.end <= tail:
            return count
    count = index.count_before(tail)
    first = max(count - _LAST_ENTRIES, 0)
    while first and index.entry(first) is None:
        first -= 1
    begins = index.entry(first) if first else None
    ranges = Ranges(header.first_offset if begins is None else begins.offset, header.first_sequence, seed=index.seed)
    return first + ranges.follow(index.entries(first, count - first), tail)
