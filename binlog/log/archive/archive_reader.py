"""ArchiveReader: reads the bytes of a log file from its archive, one frame at a time.

Invariants
- Every byte returned was compared with a checksum.  Small frames are read whole.  A frame larger than FRAME_BYTES_MAX
  has one record; a part of it may be read, and only a read of its end compares the checksum.
- Nothing that an archive claims costs memory before it was compared: the table of frames with the CRC in our facts, a
  frame with the table.  One small frame is kept in memory, the one read last.
- Offsets in errors are those of the log file, as in refs: bytes from there on, or up to the end of a LostFrameError,
  are lost.  The text has the place in the archive.

If the table of frames or our facts are damaged, they are rebuilt from the frames: each frame has its content size and
its blocks' sizes (RFC 8878, 3.1.1), and a checksum.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator

from binlog.errors import CorruptError, VersionError
from binlog.format.archive_file import (
    FACTS_FRAME_BYTES,
    FRAME_BYTES_MAX,
    FRAMES_MAX,
    HEADER_AT,
    SEEK_FOOTER,
    START_BYTES,
    VERSION,
    ArchiveEnd,
    FrameTable,
    is_start,
    pack_start,
    parse_facts,
    parse_table,
    table_bytes,
)
from binlog.format.checksums import correct_flipped_bit
from binlog.format.log_header import FIRST_OFFSET_FOREIGN, HEADER_BYTES, LOG_HEADER, Status
from binlog.format.record import LENGTH_BYTES
from binlog.log.archive.zstd import Decompressor, FrameError, checksum_of, frame_claims
from binlog.storage.files import LostFrameError, read_at

_CHECKSUM_BYTES = 4
_FRAME_HEAD_BYTES_MAX = 18
_BLOCK_HEAD_BYTES = 3
_RLE, _RESERVED = 1, 3
# Blocks have up to 128 KiB, and zstd makes some smaller; a frame of many tiny ones is not ours.
_BLOCK_BYTES_LEAST = 1 << 8
_BLOCKS_LEAST = 16


def corrected_start(start: bytes) -> bytes | None:
    """Return the frame of the header with its flipped bit corrected; None if not exactly one bit is flipped."""
    decompressor = Decompressor()

    def is_sound(flipped: bytes) -> bool:
        try:
            return is_start(flipped) and len(decompressor.whole(flipped, HEADER_BYTES)) == HEADER_BYTES
        except FrameError:
            return False

    return correct_flipped_bit(start, is_sound)


def end_from_frames(fd: int, start: bytes, path: str) -> ArchiveEnd | None:
    """Return the archive's end as its frames imply it; None if they are damaged or do not have the whole file.

    start: the frame of the header, as it was written.
    """
    facts = LOG_HEADER.unpack(start, HEADER_AT)
    raw_bytes = max(int(facts["tail"]), HEADER_BYTES)
    # Arrays, because there may be two million frames.
    starts, places, checksums = array("Q", [0, HEADER_BYTES]), array("Q", [0, START_BYTES]), array("I")
    checksums.append(checksum_of(start))
    while starts[-1] < raw_bytes and len(checksums) < FRAMES_MAX:
        frame = _frame_at(fd, places[-1], path)
        if frame is None or frame[1] > raw_bytes - starts[-1]:
            return None
        places.append(places[-1] + frame[0])
        starts.append(starts[-1] + frame[1])
        checksums.append(frame[2])
    if starts[-1] < raw_bytes:
        return None
    return ArchiveEnd(
        number=int(facts["number"]), uuid=bytes(facts["uuid"]), raw_bytes=raw_bytes,
        table=FrameTable(starts, places, checksums),
    )  # fmt: skip


def _frame_at(fd: int, at: int, path: str) -> tuple[int, int, int] | None:
    """Return the size, content size and checksum of the frame at an offset; None if it is not one of ours."""
    try:
        head_bytes, content_bytes = frame_claims(read_at(fd, _FRAME_HEAD_BYTES_MAX, at, path))
    except FrameError:
        return None
    end = at + head_bytes
    for _ in range(content_bytes // _BLOCK_BYTES_LEAST + _BLOCKS_LEAST):
        data = read_at(fd, _BLOCK_HEAD_BYTES, end, path)
        head = int.from_bytes(data, "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if len(data) < _BLOCK_HEAD_BYTES or kind == _RESERVED:
            return None  # also at the file's end, so a false content size costs no time
        end += _BLOCK_HEAD_BYTES + (1 if kind == _RLE else size)
        if is_last:
            end += _CHECKSUM_BYTES
            return end - at, content_bytes, checksum_of(read_at(fd, _CHECKSUM_BYTES, end - _CHECKSUM_BYTES, path))
    return None


class ArchiveReader:
    """Reads an archive as if it were the log file.

    fd: the archive's descriptor, which must stay open while this is used.
    faults: damage that was corrected, in the parts read so far.
    Raises: CorruptError, VersionError.
    """

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        self._end: ArchiveEnd | None = None
        self._decompressor = Decompressor()
        self._last_frame: tuple[int, bytes] = (-1, b"")
        self._lost: dict[int, str] = {}  # the reason, by frame
        self._large_frame = -1
        self.faults: list[str] = []
        self._header = self._read_start()

    def read(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from an offset of the log file; fewer only at its end.

        Raises: LostFrameError; CorruptError if the table of frames is damaged; VersionError.
        """
        if offset + size <= HEADER_BYTES:
            return self._header[offset : offset + size]
        table = self.end.table
        end = min(offset + size, table.starts[-1])
        parts: list[bytes] = []
        while offset < end:
            frame = table.at(offset)
            start, until = table.starts[frame], min(table.starts[frame + 1], end)
            parts.append(self._read_frame(frame, offset - start, until - start))
            offset = until
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def file_bytes(self) -> int:
        """The log file's size, up to its tail.  Raises: CorruptError, VersionError."""
        return self.end.raw_bytes

    def frame_end(self, offset: int) -> int:
        """Return the end of the frame that has the record at an offset of the log file."""
        starts = self.end.table.starts
        # In a foreign file the first record starts in the frame of the header and continues in the next one.
        return starts[min(self.end.table.at(max(offset, HEADER_BYTES)) + 1, len(starts) - 1)]

    def frame_start(self, offset: int) -> int:
        """Return the start of the frame that has the record at an offset of the log file; 0 for the first such
        frame."""
        frame = min(self.end.table.at(offset), len(self.end.table) - 1)
        return self.end.table.starts[frame] if frame > 1 else 0

    def lost_frames(self) -> Iterator[LostFrameError]:
        """Read every frame, and yield an error for each that is damaged.  Raises: CorruptError, VersionError."""
        table = self.end.table
        for frame in range(len(table)):
            size = table.starts[frame + 1] - table.starts[frame]
            try:
                # Of a large frame only the last byte, which takes no memory and compares the checksum.
                self._read_frame(frame, 0 if size <= FRAME_BYTES_MAX else size - 1, size)
            except LostFrameError as lost:
                yield lost

    @property
    def end(self) -> ArchiveEnd:
        """The archive's end, read on first use.  Raises: CorruptError, VersionError."""
        if self._end is None:
            self._end = self._found_end()
        return self._end

    def _read_start(self) -> bytes:
        start = read_at(self.fd, START_BYTES, 0, self.path)
        try:
            header = self._header_in(start)
        except FrameError as fault:
            right = corrected_start(start)
            if right is None:
                text = f"the frame of the header is damaged: {fault}"
                raise CorruptError(self.path, 0, "archive", text) from fault
            self.faults.append("a bit of the frame of the header is flipped")
            start, header = right, self._header_in(right)
        if LOG_HEADER.unpack(header)["status"] != Status.CLOSED:
            raise CorruptError(self.path, 0, "archive", "it is an archive of a file that is not closed")
        self._header_checksum = checksum_of(start)
        return header

    def _header_in(self, start: bytes) -> bytes:
        if not is_start(start):
            raise FrameError("it does not begin as one of ours does")
        return self._decompressor.whole(start, HEADER_BYTES)

    @property
    def start(self) -> bytes:
        """The frame of the header, as it was written."""
        return pack_start(self._header, self._header_checksum.to_bytes(4, "little"))

    def _found_end(self) -> ArchiveEnd:
        """Return the archive's end, rebuilt from its frames if it is damaged.  Raises: CorruptError, VersionError."""
        try:
            end = self._read_end()
        except FrameError as fault:
            found = end_from_frames(self.fd, self.start, self.path)
            if found is None:
                raise self._unreadable(str(fault)) from fault
            self.faults.append(f"{fault}, and is rebuilt from its frames")
            return found
        # Check that the header is of the file whose bytes the other frames have.
        header = LOG_HEADER.unpack(self._header)
        wanted = (header["number"], header["uuid"], max(header["tail"], HEADER_BYTES), self._header_checksum)
        if (end.number, end.uuid, end.raw_bytes, end.table.checksums[0]) != wanted:
            raise self._unreadable("its content is of another file than its header")
        return end

    def _read_end(self) -> ArchiveEnd:
        """Read the archive's end.  Raises: FrameError if it is damaged; CorruptError, VersionError."""
        archive_bytes = os.fstat(self.fd).st_size
        size = table_bytes(read_at(self.fd, SEEK_FOOTER.size, max(archive_bytes - SEEK_FOOTER.size, 0), self.path))
        if size is None or size > archive_bytes - FACTS_FRAME_BYTES - START_BYTES:
            raise FrameError("it does not end with a table of frames")
        table_start = archive_bytes - size
        facts_start = table_start - FACTS_FRAME_BYTES
        facts = parse_facts(read_at(self.fd, FACTS_FRAME_BYTES, facts_start, self.path))
        if isinstance(facts, int):
            raise VersionError(f"{self.path}: version {facts} of an archive", found=facts, known=(VERSION,))
        if facts is None:
            raise FrameError(f"the facts that should be at {facts_start} in it are missing or damaged")
        if facts.dictionary_bytes:
            raise VersionError(f"{self.path}: an archive with a dictionary", found=facts.dictionary_bytes, known=(0,))
        table = parse_table(read_at(self.fd, size, table_start, self.path), facts, table_start=table_start)
        if table is None:
            raise FrameError("its table of frames is damaged")
        return ArchiveEnd(number=facts.number, uuid=facts.uuid, raw_bytes=facts.raw_bytes, table=table)

    def _unreadable(self, text: str) -> CorruptError:
        text = f"{text}; only the header of this archive can be read"
        return CorruptError(self.path, HEADER_BYTES, "archive", text)

    def _read_frame(self, frame: int, start: int, end: int) -> bytes:
        """Return the content of a frame from `start` to `end`, counted from its own start."""
        if frame == 0:
            return self._header[start:end]
        if self._last_frame[0] == frame:
            return self._last_frame[1][start:end]
        table = self.end.table
        if frame in self._lost:
            raise LostFrameError(self.path, table.starts[frame], table.starts[frame + 1], self._lost[frame])
        place, frame_bytes = table.places[frame], table.places[frame + 1] - table.places[frame]
        size = table.starts[frame + 1] - table.starts[frame]
        try:
            if frame_bytes > _compressed_most(size):
                raise FrameError("it is larger than its content allows")
            if size > FRAME_BYTES_MAX:
                return self._read_part(frame, start, end)
            data = read_at(self.fd, frame_bytes, place, self.path)
            if checksum_of(data) != table.checksums[frame]:
                raise FrameError("its checksum is not the one in the table of frames")
            content = self._decompressor.whole(data, size)
        except FrameError as fault:
            at = table.starts[frame]
            text = f"the bytes to {at + size} are lost: their frame, at {place} of the archive, is damaged ({fault})"
            self._lost[frame] = text
            raise LostFrameError(self.path, at, at + size, text) from fault
        self._last_frame = (frame, content)
        return content[start:end]

    def _read_part(self, frame: int, start: int, end: int) -> bytes:
        """Return the same of a large frame, without keeping the rest of its content in memory."""
        if self._large_frame != frame:
            self._check_large_frame(frame)
            self._large_frame = frame
        table = self.end.table
        place, until = table.places[frame], table.places[frame + 1]
        source = _FileRange(self.fd, place, until - place, self.path)
        return self._decompressor.part(source, table.starts[frame + 1] - table.starts[frame], start, end)

    def _check_large_frame(self, frame: int) -> None:
        """Check that the frame has one record: to read several, each from the frame's start, would take too long."""
        table = self.end.table
        place, until, start = table.places[frame], table.places[frame + 1], table.starts[frame]
        if checksum_of(read_at(self.fd, 4, until - 4, self.path)) != table.checksums[frame]:
            raise FrameError("its checksum is not the one in the table of frames")
        source = _FileRange(self.fd, place, until - place, self.path)
        data = self._decompressor.part(source, table.starts[frame + 1] - start, 0, 2 * LENGTH_BYTES)
        at = start
        if frame == 1 and not any(LOG_HEADER.unpack(self._header)["magic"]):
            # In a foreign file the first records, or a part of the first, are in the frame of the header.
            at, data = FIRST_OFFSET_FOREIGN, self._header[FIRST_OFFSET_FOREIGN:] + data
        first = at
        end = at + _record_bytes(data, 0)
        while end <= start:
            end += _record_bytes(data, end - first)
        if end != table.starts[frame + 1]:
            raise FrameError("it is larger than a frame with more than one record may be")


class _FileRange:
    """A part of a file, read from its start to its end."""

    def __init__(self, fd: int, start: int, size: int, path: str) -> None:
        self._fd, self._at, self._end, self._path = fd, start, start + size, path

    def read(self, size: int) -> bytes:
        data = read_at(self._fd, min(size, self._end - self._at), self._at, self._path)
        self._at += len(data)
        return data


def _record_bytes(data: bytes, at: int) -> int:
    """Return the size of the record at `at`, with its length."""
    return LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")


def _compressed_most(size: int) -> int:
    """Return a limit of a frame's size for content of `size` bytes (zstd.h, ZSTD_COMPRESSBOUND), and some more."""
    return size + (size >> 8) + 1024
