"""What an archive's frames tell of themselves, if its table of frames or our facts are damaged.

A frame says what it holds and where its blocks end (RFC 8878, 3.1.1), and carries its checksum.  So the table of frames
and our facts can be made again from the frames before them.
"""

from __future__ import annotations

from array import array

from binlog.format.archive_file import (
    FRAMES_MAX,
    HEADER_AT,
    START_BYTES,
    ArchiveEnd,
    FrameTable,
    is_start,
)
from binlog.format.flipped_bit import mended
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER
from binlog.storage.files import read_at
from binlog.storage.zstd import Decompressor, FrameError, checksum_of, frame_claims

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
