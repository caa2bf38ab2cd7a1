"""Making and repairing the archive of a closed file, and comparing it with the file.

An archive is written under another name, synced and read back from the disk.  Each byte is compared with the file's,
and with the CRCs of its index.  Nothing here takes a lock: only a repair changes the bytes before a closed file's tail,
and the caller excludes repairs.

Repairing an archive completes or rebuilds its index.  It leaves the records as they are: a damaged frame cannot be
recovered, and the frames around it are readable without a repair.  If the header's frame, our facts or the table of
frames are damaged and their content is known, the archive is written again under another name, synced, and renamed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from binlog.errors import CorruptError
from binlog.format.archive_file import frame_bytes_for, pack_end, pack_start
from binlog.format.index_file import INDEX_ENTRY
from binlog.format.log_header import HEADER_BYTES, LogHeader
from binlog.format.names import archive_file_name, unfinished_archive_name
from binlog.log.archive.archive_reader import ArchiveReader
from binlog.log.archive.zstd import Compressor, checksum_of
from binlog.log.directory import LogDirectory, OpenedFile
from binlog.log.files.header import read_header, validated_header
from binlog.log.index.index import Index, index_path, opened_index
from binlog.log.index.index_building import complete_index
from binlog.log.index.index_check import Contradiction, DamagedRange, IndexCheck, Verified
from binlog.storage.file_access import access_like
from binlog.storage.files import ByteSource, DiskFile, drop_page_cache, read_at


def verified(index: Index, content: ByteSource, header: LogHeader, path: str) -> Iterator[Verified]:
    """Yield all records of a file, as its index proves them.

    Raises: CorruptError if it does not prove them, after the records before.
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
    """Yield the records in pieces of about `frame_bytes`, cut at the ranges of the index.

    skipped: bytes of the first record that are in the header's frame, in a foreign file.
    A larger range, which has one record, is a piece of its own.
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


def write_archive(unfinished: DiskFile, source: tuple[int, LogHeader, str], index: Index, *, level: int) -> None:
    """Write the archive of a file, and sync it.

    unfinished: the empty file to write to.
    source: the log file's descriptor, its header and its path.
    Needs memory for three times a frame or the largest record.
    Raises: CorruptError if the index does not prove all records; FullError; PoisonedError.
    """
    source_fd, header, source_path = source
    start = read_at(source_fd, HEADER_BYTES, 0, source_path)
    # zstd would compress the header.  So its frame is made here, with a checksum from zstd.
    compressor = Compressor(level)
    frame = pack_start(start, compressor.frame(start)[-4:])
    written = [(len(frame), len(start), checksum_of(frame))]
    unfinished.write(frame, 0)
    at = len(frame)
    records = verified(index, source_fd, header, source_path)
    for piece in frames(records, HEADER_BYTES - header.first_offset, frame_bytes_for(header.tail)):
        frame = compressor.frame(piece)
        written.append((len(frame), len(piece), checksum_of(frame)))
        unfinished.write(frame, at)
        at += len(frame)
    end = pack_end(number=header.number, uuid=header.uuid, frames=written)
    unfinished.write(end, at)
    status = os.fstat(source_fd)
    # Without an index, the time of modification is the only time of the records.
    os.utime(unfinished.content, ns=(status.st_atime_ns, status.st_mtime_ns))
    unfinished.sync()


def verify_archive(fd: int, source: tuple[int, LogHeader, str], index: Index, *, path: str) -> None:
    """Raise CorruptError if the archive does not have the file's content, byte for byte; also VersionError.

    fd, path: the archive's.  source: as for `write_archive`.
    """
    source_fd, header, source_path = source
    drop_page_cache(fd)  # so that it is read from the disk
    content = ArchiveReader(fd, path)
    _ = content.end
    if content.faults:
        raise CorruptError(path, 0, "archive", content.faults[0])
    found_header = read_header(content, header.number, path)
    # The doorbell is not data, and may have been rung since.
    if found_header._replace(doorbell=header.doorbell) != header:
        raise CorruptError(path, 0, "archive", f"its header is not that of {source_path}")
    at = header.first_offset
    for found in verified(index, content, header, path):
        _compare(found.data, at, source_fd, source_path, path)
        at += len(found.data)


def _compare(data: bytes, at: int, source_fd: int, source_path: str, path: str) -> None:
    if data != read_at(source_fd, len(data), at, source_path):
        raise CorruptError(
            path, at, "archive", f"its bytes from {at} to {at + len(data)} are not those of {source_path}"
        )


_COPY_BYTES = 1 << 20


def repair_archive(directory: LogDirectory, number: int, *, dry_run: bool) -> list[tuple[str, int, str, str]]:
    """Repair an archive, or only report; return (path, offset, action, text) for each action.  Needs the repair lock.

    Raises: NotFoundError; CorruptError, VersionError if the archive cannot be read.
    """
    with directory.log_file(number) as file:
        if file.archive is None:
            return []  # it was restored as a file meanwhile, which the next repair handles
        header = validated_header(file.content, number, file.path)
        done = _repair_parts(directory, file, number, dry_run=dry_run)
        contradicts = _contradicts(directory, file, header)
        if contradicts is None or next(_archive(file).lost_frames(), None) is not None:
            return done
        if not dry_run:
            complete_index(directory, header, file.fd, content=file.content, rebuild=contradicts)
            if _contradicts(directory, file, header) is not None:
                # Its last entries were consistent, so entries were added after them; but an earlier entry is wrong.
                complete_index(directory, header, file.fd, content=file.content, rebuild=True)
        text = "the index rebuilt" if contradicts else "the index completed"
        return [*done, (file.path, header.first_offset, "index", text)]


def _repair_parts(
    directory: LogDirectory, file: OpenedFile, number: int, *, dry_run: bool
) -> list[tuple[str, int, str, str]]:
    """Write an archive again if a damaged part of it can be rebuilt from its frames."""
    archive = _archive(file)
    end, faults = archive.end, list(archive.faults)
    if not faults:
        return []
    if not dry_run:
        name = unfinished_archive_name(number)
        status = os.fstat(file.fd)
        directory.remove(name)
        try:
            with directory.created(name, access_like(status)) as unfinished:
                unfinished.write(archive.start, 0)
                at, frames_end = len(archive.start), end.table.places[-1]
                while at < frames_end:
                    data = read_at(file.fd, min(_COPY_BYTES, frames_end - at), at, file.path)
                    unfinished.write(data, at)
                    at += len(data)
                unfinished.write(pack_end(number=end.number, uuid=end.uuid, frames=end.table.frames()), at)
                os.utime(unfinished.content, ns=(status.st_atime_ns, status.st_mtime_ns))
                unfinished.sync()
                directory.rename(name, archive_file_name(number))
        finally:
            directory.remove(name)
    return [(file.path, 0, "archive", f"the archive rewritten: {'; '.join(faults)}")]


def _archive(file: OpenedFile) -> ArchiveReader:
    assert file.archive is not None
    return file.archive


def _contradicts(directory: LogDirectory, file: OpenedFile, header: LogHeader) -> bool | None:
    """Return whether the index contradicts the archive or is missing; None if it is complete."""
    with opened_index(directory, header.number) as index:
        if index is None:
            return True
        check = IndexCheck(index, file.content, header, file.path)
        contradicts = index.blank or any(isinstance(found, Contradiction) for found in check.run())
        return None if not contradicts and check.end == header.tail else contradicts
