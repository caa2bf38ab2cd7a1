"""Scans of a commit log from another process: its messages in order, and its end.

RocketMQ publishes no end of its log, so a reader must find it.  RocketMQ cuts off a damaged end by resuming before it:
later valid messages stay in the file, and the queues and the key index still lead to them.  Without an owner's sidecar,
a reader must therefore walk through the last file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from binlog.commitlog.files.files_reader import FilesReader
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.compiled import WalkStop, walk
from binlog.format.commitlog.message import (
    BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE,
    StoredMessage,
    ends_file,
    parse_message_at,
)

_PIECE_BYTES = 1 << 20
_LENGTH_BYTES = 4


class _Piece(NamedTuple):
    """Bytes at an offset of the log, in the file that starts at `start`.

    rest_bytes: the size from there to the end of the file.  complete: the piece has all readable bytes of that file.
    """

    start: int
    offset: int
    data: memoryview
    rest_bytes: int
    complete: bool


class LogScan:
    """A scan of the commit log in `files`.

    end: of the readable part; None reads up to the first zeros in place of a message.
    Messages in files that are removed meanwhile are skipped.
    """

    def __init__(self, files: FilesReader, end: int | None) -> None:
        self._files = files
        self._end = end

    def messages(self, offset: int) -> Iterator[StoredMessage]:
        """Yield the messages from the one at an offset on.  Raises: CorruptError at bytes that are not a message."""
        size = _PIECE_BYTES
        while (piece := self._piece(offset, size)) is not None:
            offset = piece.offset
            found = 0
            while rest := piece.data[offset - piece.offset :]:
                if ends_file(rest, piece.offset + piece.rest_bytes - offset):
                    offset = piece.offset + piece.rest_bytes
                    break
                found = int.from_bytes(rest[:_LENGTH_BYTES], "big")
                if found == 0 and self._end is None:
                    return
                if not piece.complete and (found > len(rest) or len(rest) < BLANK.size):
                    break
                path = self._files.path_of(piece.start)
                message = parse_message_at(rest[:found], offset, path, offset - piece.start)
                yield message
                offset += message.message_bytes
            size = _PIECE_BYTES if offset > piece.offset else max(min(found, piece.rest_bytes), 2 * size)

    def offset_by_time(self, store_ms: int) -> int:
        """Return the offset of the first message stored at a time or later; the end if there is none."""
        self._files.refresh()
        at = self._files.min_offset
        for start in self._files.offsets:
            first = next(self.messages(start), None)
            if first is None or first.store_ms >= store_ms:
                break
            at = start
        # In large pieces first, of which only the store times matter.
        while (piece := self._piece(at, _PIECE_BYTES)) is not None:
            found = walk(bytes(piece.data), piece.offset, check=False)
            if found.store_ms >= store_ms or found.consumed == 0:
                break
            at = piece.offset + found.consumed
        for message in self.messages(at):
            if message.store_ms >= store_ms:
                return message.offset
            at = message.offset + message.message_bytes
        return at

    def check_start(self, offset: int) -> None:
        """Raise ValueError if an offset is inside of a message."""
        if offset <= self._files.min_offset:
            return
        at, size = self._files.start_of(offset), _PIECE_BYTES
        while at < offset and (piece := self._piece(at, min(size, offset - at))) is not None:
            found = walk(bytes(piece.data), at, check=False)
            if found.consumed == 0 and size >= offset - at:
                break
            size = _PIECE_BYTES if found.consumed else 2 * size
            at += found.consumed
        if at != offset:
            raise ValueError(f"{offset} is not the start of a message in {self._files.folder}")

    def _piece(self, offset: int, size: int) -> _Piece | None:
        """Return up to `size` bytes at an offset, of one file; None at the end.  Raises: CorruptError for a gap."""
        while True:
            offset = max(offset, self._files.min_offset)
            try:
                start = self._files.start_of(offset)
                rest_bytes = start + self._files.file_bytes(start) - offset
                if rest_bytes <= 0 and start != self._files.offsets[-1]:
                    path = self._files.path_of(start)
                    raise CorruptError(path, offset - start, "gap", "the next file is missing")
                limit = rest_bytes if self._end is None else min(rest_bytes, self._end - offset)
                if limit <= 0:
                    return None
                data = self._files.read(min(size, limit), offset)
                return _Piece(start, offset, memoryview(data), rest_bytes, len(data) == limit)
            except NotFoundError:
                self._files.refresh()
                if offset >= self._files.min_offset:
                    return None


_HEAD_BYTES = 64
_MAGICS = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC = re.compile(b"|".join(map(re.escape, _MAGICS)))


class LogEnd:
    """Finds the end of the log in `files`; each search resumes at the last end."""

    def __init__(self, files: FilesReader) -> None:
        self._files = files
        self._end: int | None = None
        self._last_ms = 0  # store time of the last message before the end
        self._seen = (0, b"")  # an end, and the bytes there, after which there is no later message

    def is_before_last_file(self, offset: int) -> bool:
        """Return whether an offset is before the last file, so that the end does not matter."""
        return bool(self._files.offsets) and offset <= self._files.offsets[-1] and offset <= self._start()

    def find(self) -> int:
        """Return the present end of the messages in the log."""
        self._files.refresh()
        if self._end is None or self._end < self._files.min_offset:
            self._end = self._start()
        size = _PIECE_BYTES
        while True:
            try:
                start = self._files.start_of(self._end)
                rest_bytes = start + self._files.file_bytes(start) - self._end
                if not any(self._files.read(BLANK.size, self._end)):
                    return self._end  # the common case: no new message
                data = self._files.read(min(size, max(rest_bytes, 0)), self._end)
            except NotFoundError:
                return self._end
            found = walk(data, self._end, check=False)
            self._end += found.consumed
            self._last_ms = found.store_ms or self._last_ms
            rest = data[found.consumed :]
            if found.stop is WalkStop.BLANK and ends_file(rest, rest_bytes - found.consumed):
                self._end = start + self._files.file_bytes(start)
            elif found.stop is WalkStop.SHORT and len(data) < rest_bytes:
                size = _PIECE_BYTES if found.consumed else 2 * size
            elif found.stop is WalkStop.END and data:
                size = _PIECE_BYTES
            elif not self._skip_damage():
                return self._end

    def _start(self) -> int:
        """Return the start of the last file that starts with a message; RocketMQ creates files ahead."""
        for start in reversed(self._files.offsets):
            if any(self._files.read(BLANK.size, start)):
                return start
        return self._files.min_offset

    def _skip_damage(self) -> bool:
        """Move past damage to the next message, if it was stored after the last one; return whether there is one.

        An older message is a remnant from before the end was cut off.
        """
        assert self._end is not None
        head = self._files.read(_HEAD_BYTES, self._end)
        if not any(head[: BLANK.size]) or (self._end, head) == self._seen:
            return False
        start = self._files.start_of(self._end)
        path, stop = self._files.path_of(start), start + self._files.file_bytes(start)
        at = self._end + 1
        while at < stop:
            data = self._files.read(min(_PIECE_BYTES, stop - at), at)
            for match in _MAGIC.finditer(data):
                place = at + match.start() - MESSAGE.offset("magic")
                try:
                    size = int.from_bytes(self._files.read(4, place), "big")
                    message = parse_message_at(
                        self._files.read(min(size, stop - place), place), place, path, place - start
                    )
                except CorruptError:
                    continue
                if message.store_ms >= self._last_ms:
                    self._end = place
                    return True
                self._seen = (self._end, head)
                return False
            at += max(len(data) - len(_MAGICS[0]) + 1, 1)
        self._seen = (self._end, head)
        return False
