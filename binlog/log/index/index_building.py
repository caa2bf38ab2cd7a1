"""Making the index of a log file: where there is none, and where it ended too early or too late.

All of it happens under the log file's lock, but for `build_entries`.  An index that cannot be written is no failure of
the log: its writers go on without.

An index that reaches beyond the tail tells of bytes that a power cut took back, and that others will take the place of.
So it is cut, and that is synced, before anything else is: see `IndexWriting.cut`.
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
from binlog.storage.files import ByteSource, read_at, sync, write_at

# What a writer reads at most to bring an index up to date while it holds the lock; `repair` reads whatever it takes.
CATCH_UP_BYTES_MAX = 16 << 20
_READ_BYTES = 1 << 20
_TIME_AT = INDEX_ENTRY.offset("time_ns")
_SEQUENCE_AT = INDEX_ENTRY.offset("sequence")
_CRC_AT = INDEX_ENTRY.offset("entry_crc")
# Of another boot's index the last entries are looked at one by one: those that may not have come to the disk.
_LOOK_BACK = 1 << 15


class IndexWriting:
    """The index of one open log file, as its writer has it.

    number, fd: the log file's.
    content: what its bytes are read from, where that is not `fd`.
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
        """Whether its descriptor was not closed behind our back."""
        return self._descriptor.intact

    def cut(self, header: LogHeader, tail: int) -> bool:
        """Take away what cannot be there; whether this is an index to go on with.

        header: the log file's.  tail: where its records end, by the verdict on it, which need not be carried out yet.
        """
        index = Index(self.fd, self.path)
        if not index.fits(header):
            if not (index.blank or index.named):
                return False  # something else under our name
            os.ftruncate(self.fd, 0)
            write_at(self.fd, pack_header(number=header.number, uuid=header.uuid), 0, self.path)
            sync(self.fd, self.path)
            return True
        count = _sound_count(index, header, tail)
        size = entry_offset(count)
        if index.file_bytes != size:
            os.ftruncate(self.fd, size)
            if count != index.count:
                sync(self.fd, self.path)
        return True

    def catch_up(self, header: LogHeader, tail: int, *, bytes_max: int | None = CATCH_UP_BYTES_MAX) -> bool:
        """Make entries up to the tail; False where the index lies further behind than `bytes_max`, or does not hold."""
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

    def ranges_behind(self, header: LogHeader) -> Ranges | None:
        """What makes entries for records that are written behind the tail; None where the index does not reach it."""
        seed = entry_seed(number=header.number, uuid=header.uuid)
        end, sequence = _end(header, self._last(seed))
        return Ranges(end, sequence, seed=seed) if end == header.tail else None

    def add(self, entries: bytearray, *, first_sequence: int = 0, time_ns: int = 0) -> None:
        """Write entries that were made while their records were at hand, now that those are in the log.

        first_sequence: what their sequences are counted from.
        time_ns: a time by which the records are there, where the file may have changed for the last time before that.
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
        """The last entry, None for none.  Raises: CorruptError where it does not hold: nothing can follow it."""
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
        """The earliest time at which all that has no entry yet is known to have been in the file."""
        return max(os.fstat(self._data_fd).st_mtime_ns, 0 if last is None else last.time_ns)

    def close(self) -> None:
        """Give the index back."""
        self._descriptor.close()


def _end(header: LogHeader, last: IndexEntry | None) -> tuple[int, int]:
    """Where the index of a log file ends, and the sequence number of the record there."""
    return (header.first_offset, header.first_sequence) if last is None else (last.end, last.next_sequence)


def complete_index(
    directory: LogDirectory, header: LogHeader, fd: int, *, content: ByteSource | None = None, anew: bool = False
) -> None:
    """Have the index of a file tell of everything up to the tail, and of nothing beyond it, durably.

    fd, content: as for IndexWriting.  anew: whatever the index tells now.
    Raises: CorruptError; FullError; AccessError; PoisonedError.
    """
    if anew:
        directory.remove(index_file_name(header.number))
    with closing(IndexWriting(directory, header.number, fd, content=content)) as writing:
        if not writing.cut(header, header.tail):
            text = "the file's index cannot be completed: something else has its name"
            raise CorruptError(writing.path, 0, "index", text)
        writing.catch_up(header, header.tail, bytes_max=None)
        sync(writing.fd, writing.path)


def build_entries(content: ByteSource, ranges: Ranges, tail: int, path: str) -> Iterator[bytes]:
    """Entries for the records from where `ranges` is up to the tail, many at a time.

    Raises: CorruptError where no records fill that.
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
    """How many entries to keep: those up to the tail, and of another boot's as far as the last ones follow on."""
    count = index.count
    if count and header.boot_id == boot_id():
        before, last = index.entry(count - 2) if count > 1 else None, index.entry(count - 1)
        end = header.first_offset if count == 1 else None if before is None else before.end
        if last is not None and end == last.offset < last.end <= tail:
            return count
    count = index.count_before(tail)
    first = max(count - _LOOK_BACK, 0)
    while first and index.entry(first) is None:
        first -= 1
    begins = index.entry(first) if first else None
    ranges = Ranges(header.first_offset if begins is None else begins.offset, header.first_sequence, seed=index.seed)
    return first + ranges.follow(index.entries(first, count - first), tail)
