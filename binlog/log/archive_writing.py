"""Making the archive of one closed file, and comparing it with the file.

The archive is made under a draft's name, synced, and read back from the disk: each byte is compared with the file's,
and with the CRCs of its index.  Nothing here takes a lock: the bytes below a closed file's tail never change, but by a
repair, from which the caller is safe.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import replace

from binlog.errors import CorruptError
from binlog.format.archive_file import frame_bytes_for, pack_end, pack_start
from binlog.format.index_file import INDEX_ENTRY
from binlog.format.log_header import HEADER_BYTES, LogHeader
from binlog.log.header_reading import read_header
from binlog.log.index import Index, index_path
from binlog.log.index_check import Contradiction, DamagedRange, IndexCheck, Verified
from binlog.storage.archive_content import ArchiveContent
from binlog.storage.content import Content
from binlog.storage.files import DiskFile, forget, read_at
from binlog.storage.zstd import Compressor, checksum_of


def verified(index: Index, content: Content, header: LogHeader, path: str) -> Iterator[Verified]:
    """All records of a file, as its index proves them.

    Raises: CorruptError where it does not; what precedes that was given before.
    """
    check = IndexCheck(index, content, header, path)
    for found in check.walk():
        if isinstance(found, Verified):
            yield found
        elif isinstance(found, Contradiction):
            raise CorruptError(index_path(path), found.offset, "index", found.text)
        elif isinstance(found, DamagedRange):
            text = f"the bytes from {found.start} to {found.end} are not those that were written there"
            raise CorruptError(path, found.start, "index-crc", text)
    if check.end != header.tail:
        raise CorruptError(index_path(path), 0, "index", f"it ends at {check.end}, and the file at {header.tail}")


def frames(ranges: Iterator[Verified], skipped: int, frame_bytes: int) -> Iterator[bytes]:
    """The records in pieces of about `frame_bytes`, cut where the ranges of the index end.

    skipped: bytes of the first record that are elsewhere, in another program's file.
    A range that is larger, which one record fills, is a piece of its own.
    """
    piece = bytearray()
    for found in ranges:
        data = memoryview(found.data)
        at, first = 0, min(skipped, len(data))
        skipped -= first
        for _, _, _, size, *_ in struct.iter_unpack(INDEX_ENTRY.format, found.entries):
            held = len(piece) + at - first
            if held > 0 and held + size > frame_bytes:
                piece += data[first:at]
                yield bytes(piece)
                piece.clear()
                first = at
            at += size
        piece += data[first:at]
    if piece:
        yield bytes(piece)


def write_archive(draft: DiskFile, source: tuple[int, LogHeader, str], index: Index, *, level: int) -> None:
    """Write the archive of a file, and sync it.

    draft: the empty file that it is written to.
    source: the log file's descriptor, its header and its path.
    Needs memory for a frame, or the largest record, three times.
    Raises: CorruptError where the index does not prove all records; FullError; PoisonedError.
    """
    source_fd, header, source_path = source
    start = read_at(source_fd, HEADER_BYTES, 0, source_path)
    # zstd would compress the header: so its frame is made here, and of zstd's only the checksum is taken.
    compressor = Compressor(level)
    frame = pack_start(start, compressor.frame(start)[-4:])
    written = [(len(frame), len(start), checksum_of(frame))]
    draft.write(frame, 0)
    at = len(frame)
    records = verified(index, source_fd, header, source_path)
    for piece in frames(records, HEADER_BYTES - header.first_offset, frame_bytes_for(header.tail)):
        frame = compressor.frame(piece)
        written.append((len(frame), len(piece), checksum_of(frame)))
        draft.write(frame, at)
        at += len(frame)
    end = pack_end(number=header.number, uuid=header.uuid, frames=written)
    draft.write(end, at)
    status = os.fstat(source_fd)
    # Where nothing else tells, when the file was written last says how old its records are.
    os.utime(draft.content, ns=(status.st_atime_ns, status.st_mtime_ns))
    draft.sync()


def verify_archive(fd: int, source: tuple[int, LogHeader, str], index: Index, *, path: str) -> None:
    """Raise CorruptError where the archive does not hold the file, byte for byte; also VersionError.

    fd, path: the archive's.  source: as for `write_archive`.
    """
    source_fd, header, source_path = source
    forget(fd)  # so that it is read from the disk
    content = ArchiveContent(fd, path)
    _ = content.end
    if content.faults:
        raise CorruptError(path, 0, "archive", content.faults[0])
    found_header = read_header(content, header.number, path)
    # The doorbell means nothing, and may have been rung since.
    if replace(found_header, doorbell=header.doorbell) != header:
        raise CorruptError(path, 0, "archive", f"it has not the header of {source_path}")
    at = header.first_offset
    for found in verified(index, content, header, path):
        _compare(found.data, at, source_fd, source_path, path)
        at += len(found.data)


def _compare(data: bytes, at: int, source_fd: int, source_path: str, path: str) -> None:
    if data != read_at(source_fd, len(data), at, source_path):
        raise CorruptError(
            path, at, "archive", f"it does not hold what {source_path} does, from {at} to {at + len(data)}"
        )
