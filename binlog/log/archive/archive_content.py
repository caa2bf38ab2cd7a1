"""The bytes of a log file that lie in an archive, read a frame at a time.

Invariants
- No byte is given that was not compared with a checksum: small frames are read whole; of one that is larger than
  FRAME_BYTES_MAX, which one record fills, a part may be read, and then only a read of its end compares it.
- What an archive claims costs no memory before it was compared: the table of frames with our facts' CRC, a frame with
  the table.  One small frame is kept, the last one read.
- Offsets in errors are those in the log file, as in refs: from there on, or up to the end of a LostFrameError, nothing
  of it can be had.  The text tells where in the archive the damage is.

What an archive's frames tell of themselves, if its table of frames or our facts are damaged.

A frame says what it holds and where its blocks end (RFC 8878, 3.1.1), and carries its checksum.  So the table of frames
and our facts can be made again from the frames before them.
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
from binlog.format.checksums import mended
from binlog.format.log_header import FIRST_OFFSET_FOREIGN, HEADER_BYTES, LOG_HEADER, Status
from binlog.format.record import LENGTH_BYTES
from binlog.log.archive.zstd import Decompressor, FrameError, checksum_of, frame_claims
from binlog.storage.files import LostFrameError, read_at

_CHECKSUM_BYTES = 4
_FRAME_HEAD_BYTES_MAX = 18
_BLOCK_HEAD_BYTES = 3
_RLE, _RESERVED = 1, 3
# Blocks hold up to 128 KiB, and zstd makes some of them smaller; a frame of many tiny ones is not ours.
_BLOCK_BYTES_LEAST = 1 << 8
_BLOCKS_LEAST = 16


def mended_start(start: bytes) -> bytes | None:
    """The frame of the header with its one flipped bit put right; None if it has none, or more of them."""
    decompressor = Decompressor()

    def is_sound(flipped: bytes) -> bool:
        try:
            return is_start(flipped) and len(decompressor.whole(flipped, HEADER_BYTES)) == HEADER_BYTES
        except FrameError:
            return False

    return mended(start, is_sound)


def walked_end(fd: int, start: bytes, path: str) -> ArchiveEnd | None:
    """What the archive's end would tell, by its frames; None if they do not hold all of the file, or are damaged.

    start: the frame of the header, as it was written.
    """
    facts = LOG_HEADER.unpack(start, HEADER_AT)
    raw_bytes = max(int(facts["tail"]), HEADER_BYTES)
    # Not a list of frames: there may be two million.
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
    """The frame that begins there: its size, what it holds, and its checksum; None where there is none of ours."""
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
            return None  # also where the file ends: what a frame claims to hold costs no time
        end += _BLOCK_HEAD_BYTES + (1 if kind == _RLE else size)
        if is_last:
            end += _CHECKSUM_BYTES
            return end - at, content_bytes, checksum_of(read_at(fd, _CHECKSUM_BYTES, end - _CHECKSUM_BYTES, path))
    return None


class ArchiveContent:
    """Reads an archive as if it were the log file.

    fd: the archive's descriptor, which stays open for as long as this is used.
    faults: what is damaged, and read all the same, as far as it was looked at.
    Raises: CorruptError, VersionError.
    """

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        self._end: ArchiveEnd | None = None
        self._decompressor = Decompressor()
        self._kept: tuple[int, bytes] = (-1, b"")
        self._lost: dict[int, str] = {}  # why
        self._large = -1
        self.faults: list[str] = []
        self._header = self._read_start()

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from an offset of the log file; fewer only where it ends.

        Raises: LostFrameError; CorruptError where the table of frames is damaged; VersionError.
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
        """Where the frame ends that holds the record at an offset of the log file."""
        starts = self.end.table.starts
        # In another program's file the first record starts in the frame of the header, and goes on in the next.
        return starts[min(self.end.table.at(max(offset, HEADER_BYTES)) + 1, len(starts) - 1)]

    def frame_start(self, offset: int) -> int:
        """Where the frame starts that holds the record at an offset of the log file; 0 for the first one of records."""
        frame = min(self.end.table.at(offset), len(self.end.table) - 1)
        return self.end.table.starts[frame] if frame > 1 else 0

    def lost_frames(self) -> Iterator[LostFrameError]:
        """Every frame that is damaged, each of which is read for it.  Raises: CorruptError, VersionError."""
        table = self.end.table
        for frame in range(len(table)):
            size = table.starts[frame + 1] - table.starts[frame]
            try:
                # Of a large one its last byte: that takes no memory, and compares the checksum.
                self._read_frame(frame, 0 if size <= FRAME_BYTES_MAX else size - 1, size)
            except LostFrameError as lost:
                yield lost

    @property
    def end(self) -> ArchiveEnd:
        """What the archive's end tells, read on first use.  Raises: CorruptError, VersionError."""
        if self._end is None:
            self._end = self._found_end()
        return self._end

    def _read_start(self) -> bytes:
        start = read_at(self.fd, START_BYTES, 0, self.path)
        try:
            header = self._header_in(start)
        except FrameError as fault:
            right = mended_start(start)
            if right is None:
                text = f"the frame of the header is damaged: {fault}"
                raise CorruptError(self.path, 0, "archive", text) from fault
            self.faults.append("a bit of the frame of the header is flipped")
            start, header = right, self._header_in(right)
        if LOG_HEADER.unpack(header)["status"] != Status.CLOSED:
            raise CorruptError(self.path, 0, "archive", "it is of a file that is not closed")
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
        """What the archive's end tells, or its frames, where that is damaged.  Raises: CorruptError, VersionError."""
        try:
            end = self._read_end()
        except FrameError as fault:
            found = walked_end(self.fd, self.start, self.path)
            if found is None:
                raise self._unreadable(str(fault)) from fault
            self.faults.append(f"{fault}, and its frames tell what was there")
            return found
        # The header is of the file whose bytes the rest holds.
        header = LOG_HEADER.unpack(self._header)
        wanted = (header["number"], header["uuid"], max(header["tail"], HEADER_BYTES), self._header_checksum)
        if (end.number, end.uuid, end.raw_bytes, end.table.checksums[0]) != wanted:
            raise self._unreadable("what it holds is of another file than its header")
        return end

    def _read_end(self) -> ArchiveEnd:
        """What the archive's end tells.  Raises: FrameError if it is damaged; CorruptError, VersionError."""
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
            raise FrameError(f"there are no facts of ours at {facts_start} in it, or they are damaged")
        if facts.dictionary_bytes:
            raise VersionError(f"{self.path}: an archive with a dictionary", found=facts.dictionary_bytes, known=(0,))
        table = parse_table(read_at(self.fd, size, table_start, self.path), facts, table_start=table_start)
        if table is None:
            raise FrameError("its table of frames is damaged")
        return ArchiveEnd(number=facts.number, uuid=facts.uuid, raw_bytes=facts.raw_bytes, table=table)

    def _unreadable(self, text: str) -> CorruptError:
        text = f"{text}; of this archive nothing but the header can be read"
        return CorruptError(self.path, HEADER_BYTES, "archive", text)

    def _read_frame(self, frame: int, start: int, end: int) -> bytes:
        """What a frame holds from `start` to `end`, counted from its own start."""
        if frame == 0:
            return self._header[start:end]
        if self._kept[0] == frame:
            return self._kept[1][start:end]
        table = self.end.table
        if frame in self._lost:
            raise LostFrameError(self.path, table.starts[frame], table.starts[frame + 1], self._lost[frame])
        place, frame_bytes = table.places[frame], table.places[frame + 1] - table.places[frame]
        size = table.starts[frame + 1] - table.starts[frame]
        try:
            if frame_bytes > _compressed_most(size):
                raise FrameError("it is larger than what it holds can be")
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
        self._kept = (frame, content)
        return content[start:end]

    def _read_part(self, frame: int, start: int, end: int) -> bytes:
        """The same of a large frame, of which only what is asked for is kept."""
        if self._large != frame:
            self._check_large(frame)
            self._large = frame
        table = self.end.table
        place, until = table.places[frame], table.places[frame + 1]
        source = _Piece(self.fd, place, until - place, self.path)
        return self._decompressor.part(source, table.starts[frame + 1] - table.starts[frame], start, end)

    def _check_large(self, frame: int) -> None:
        """See that one record fills it: to read many, each from the frame's start, would take for ever."""
        table = self.end.table
        place, until, start = table.places[frame], table.places[frame + 1], table.starts[frame]
        if checksum_of(read_at(self.fd, 4, until - 4, self.path)) != table.checksums[frame]:
            raise FrameError("its checksum is not the one in the table of frames")
        source = _Piece(self.fd, place, until - place, self.path)
        data = self._decompressor.part(source, table.starts[frame + 1] - start, 0, 2 * LENGTH_BYTES)
        at = start
        if frame == 1 and not any(LOG_HEADER.unpack(self._header)["magic"]):
            # Another program's: its first records, or a part of the first, are in the frame of the header.
            at, data = FIRST_OFFSET_FOREIGN, self._header[FIRST_OFFSET_FOREIGN:] + data
        first = at
        end = at + _record_bytes(data, 0)
        while end <= start:
            end += _record_bytes(data, end - first)
        if end != table.starts[frame + 1]:
            raise FrameError("it is larger than one may be that holds more than one record")


class _Piece:
    """A part of a file, read from its start to its end."""

    def __init__(self, fd: int, start: int, size: int, path: str) -> None:
        self._fd, self._at, self._end, self._path = fd, start, start + size, path

    def read(self, size: int) -> bytes:
        data = read_at(self._fd, min(size, self._end - self._at), self._at, self._path)
        self._at += len(data)
        return data


def _record_bytes(data: bytes, at: int) -> int:
    """What the record at `at` takes, with its length."""
    return LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")


def _compressed_most(size: int) -> int:
    """What a frame of so many bytes takes at most (zstd.h, ZSTD_COMPRESSBOUND), and some more."""
    return size + (size >> 8) + 1024
