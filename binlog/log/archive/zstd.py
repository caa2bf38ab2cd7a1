"""Compressor and Decompressor of zstd frames; the only module that uses the zstandard package.

Facts relied on:
- RFC 8878, 3.1.1: a frame may have its content size, whether a checksum follows, and the size of its window.  These are
  compared with the expected values before any memory is allocated for them.
- zstd: up to level 19 a window has at most 8 MiB, or is the whole content of a smaller frame.
- python-zstandard: `decompress` allocates the content size that a frame claims; a stream reader only the window.
"""

from __future__ import annotations

from typing import Protocol

import zstandard

LEVEL_DEFAULT = 3
LEVEL_MAX = 19

WINDOW_BYTES_MAX = 8 << 20
"""The most memory that a decompressor uses, beside the content that it returns."""

_READ_BYTES = 1 << 17
_SKIP_BYTES = 1 << 20


class FrameError(Exception):
    """A frame is not as it was written.  The text has the reason."""


class Source(Protocol):
    """The bytes of a frame, read piece by piece."""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""


class Compressor:
    """Makes frames, each with its content size and a checksum."""

    def __init__(self, level: int) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)

    def frame(self, data: bytes | bytearray) -> bytes:
        """Return a frame of the data."""
        return self._compressor.compress(data)


class Decompressor:
    """Reads frames, and returns no byte of a damaged one; `part` of a large frame may."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)

    def whole(self, frame: bytes, size: int) -> bytes:
        """Return the whole content of a frame, `size` bytes.  Raises: FrameError."""
        try:
            claims = zstandard.get_frame_parameters(frame)
            if claims.content_size != size or not claims.has_checksum:
                raise FrameError("it is not the frame that the table of frames describes")
            data = self._decompressor.decompress(frame, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise FrameError(f"it does not decompress ({error})") from error
        if len(data) != size:
            raise FrameError(f"its content has {len(data)} bytes, not {size}")
        return data

    def part(self, source: Source, size: int, start: int, end: int) -> bytes:
        """Return a part of a frame's content of `size` bytes, with memory for that part and a window alone.

        The checksum is compared if `end` is `size`.  Raises: FrameError.
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
            raise FrameError(f"its content does not have {size} bytes")
        return data


def _read_all(reader: zstandard.ZstdDecompressionReader, size: int) -> bytes:
    parts: list[bytes] = []
    while size and (data := reader.read(min(_SKIP_BYTES, size))):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def frame_claims(head: bytes) -> tuple[int, int]:
    """Return the size of a frame's header, and the content size that it claims, from its first bytes.

    Raises: FrameError if this is not a frame with its content size and a checksum.
    """
    try:
        claims, size = zstandard.get_frame_parameters(head), zstandard.frame_header_size(head)
    except zstandard.ZstdError as error:
        raise FrameError(f"it is not a frame ({error})") from error
    if not claims.has_checksum or not 0 < claims.content_size < 1 << 63:
        raise FrameError("it has no content size, or no checksum")
    return size, claims.content_size


def checksum_of(frame: bytes) -> int:
    """Return the checksum at the end of a frame."""
    return int.from_bytes(frame[-4:], "little")
