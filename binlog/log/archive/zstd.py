"""zstd frames, compressed and decompressed: the one module that knows the zstandard package.

Facts relied on:
- RFC 8878, 3.1.1: a frame may say what it holds, whether a checksum follows, and how large a window it needs.  What a
  frame claims is compared with what is expected before any memory is given for it.
- zstd: up to level 19 a window has 8 MiB at most, or is the whole of what a smaller frame holds.
- python-zstandard: `decompress` gives memory for all that a frame claims to hold; a stream reader only for the window.
"""

from __future__ import annotations

from typing import Protocol

import zstandard

LEVEL_DEFAULT = 3
LEVEL_MAX = 19

WINDOW_BYTES_MAX = 8 << 20
"""What a decompressor keeps at most, beside what it is asked for."""

_READ_BYTES = 1 << 17
_SKIP_BYTES = 1 << 20


class FrameError(Exception):
    """A frame is not what was written.  The text says why."""


class Source(Protocol):
    """What a frame is read from, a piece at a time."""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""


class Compressor:
    """Makes frames, each with its size and a checksum."""

    def __init__(self, level: int) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)

    def frame(self, data: bytes | bytearray) -> bytes:
        """A frame that holds the data."""
        return self._compressor.compress(data)


class Decompressor:
    """Reads frames, and gives no byte of one that is not as it was written, but for `part`, of a large one."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)

    def whole(self, frame: bytes, size: int) -> bytes:
        """All that a frame holds, which is `size` bytes.  Raises: FrameError."""
        try:
            claims = zstandard.get_frame_parameters(frame)
            if claims.content_size != size or not claims.has_checksum:
                raise FrameError("it is not the frame that the table of frames tells of")
            data = self._decompressor.decompress(frame, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise FrameError(f"it does not decompress ({error})") from error
        if len(data) != size:
            raise FrameError(f"it holds {len(data)} bytes, not {size}")
        return data

    def part(self, source: Source, size: int, start: int, end: int) -> bytes:
        """What a frame of `size` bytes holds from `start` to `end`, with memory for that and a window alone.

        The checksum is compared where `end` is `size`.  Raises: FrameError.
        """
        try:
            with self._decompressor.stream_reader(source, read_size=_READ_BYTES, closefd=False) as reader:  # type: ignore[arg-type]
                at = 0
                while at < start:
                    skipped = len(reader.read(min(_SKIP_BYTES, start - at)))
                    if not skipped:
                        break
                    at += skipped
                data = _read_all(reader, end - start) if at == start else b""
                more = reader.read(1) if end == size else b""
        except zstandard.ZstdError as error:
            raise FrameError(f"it does not decompress ({error})") from error
        if len(data) != end - start or more:
            raise FrameError(f"it does not hold {size} bytes")
        return data


def _read_all(reader: zstandard.ZstdDecompressionReader, size: int) -> bytes:
    parts: list[bytes] = []
    while size and (data := reader.read(min(_SKIP_BYTES, size))):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def frame_claims(head: bytes) -> tuple[int, int]:
    """How many bytes the head of a frame has, and how many the frame holds, by its first bytes.

    Raises: FrameError where that is no frame with its size and a checksum.
    """
    try:
        claims, size = zstandard.get_frame_parameters(head), zstandard.frame_header_size(head)
    except zstandard.ZstdError as error:
        raise FrameError(f"it is no frame ({error})") from error
    if not claims.has_checksum or not 0 < claims.content_size < 1 << 63:
        raise FrameError("it does not say what it holds, or has no checksum")
    return size, claims.content_size


def checksum_of(frame: bytes) -> int:
    """The checksum at a frame's end."""
    return int.from_bytes(frame[-4:], "little")
