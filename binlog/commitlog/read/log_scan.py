"""Reading the messages of a commit log in the order in which they lie there, whatever their topic.

Finds where a commit log ends whose owner tells readers nothing, as RocketMQ does not.

RocketMQ cuts a damaged end off by going on before it: what lay behind stays in the file, with valid messages in it, and
queues and key index go on leading to them.  Whoever has no owner to ask must therefore go through the last file.
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
    """What lies at an offset of the log, in the file that starts at `start`.

    rest_bytes: from there to the end of the file.  complete: no more of that file may be read.
    """

    start: int
    offset: int
    data: memoryview
    rest_bytes: int
    complete: bool


class LogScan:
    """The commit log in `files`.

    end: up to where it may be read; None for up to where it ends, which is at the first zeros in place of a message.
    Messages of a file that is removed meanwhile are left out.
    """

    def __init__(self, files: FilesReader, end: int | None) -> None:
        self._files = files
        self._end = end

    def messages(self, offset: int) -> Iterator[StoredMessage]:
        """The messages from the one at an offset on.  Raises: CorruptError where there should be one, and is none."""
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
        """Where the first message lies that was stored at a time or after it; where they end, for none."""
        self._files.refresh()
        at = self._files.min_offset
        for start in self._files.offsets:
            first = next(self.messages(start), None)
            if first is None or first.store_ms >= store_ms:
                break
            at = start
        # By its pieces first, of which little is looked at.
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

    def check_place(self, offset: int) -> None:
        """Raise ValueError where a message lies about an offset, and not at it."""
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
            raise ValueError(f"{offset} does not lie on a message of {self._files.folder}")

    def _piece(self, offset: int, size: int) -> _Piece | None:
        """Up to so many bytes from an offset on, of one file; None at the end.  Raises: CorruptError for a gap."""
        while True:
            offset = max(offset, self._files.min_offset)
            try:
                start = self._files.start_of(offset)
                rest_bytes = start + self._files.file_bytes(start) - offset
                if rest_bytes <= 0 and start != self._files.offsets[-1]:
                    path = self._files.path_of(start)
                    raise CorruptError(path, offset - start, "gap", "the file behind it is missing")
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
    """The end of the log in `files`; each look goes on from the one before."""

    def __init__(self, files: FilesReader) -> None:
        self._files = files
        self._end: int | None = None
        self._last_ms = 0  # when the last message before the end was stored
        self._seen = (0, b"")  # an end, and what lies there, behind which no message comes

    def is_before_last_file(self, offset: int) -> bool:
        """Whether an offset lies before the last file, so that the end need not be looked for."""
        return bool(self._files.offsets) and offset <= self._files.offsets[-1] and offset <= self._start()

    def find(self) -> int:
        """Return up to where the log has messages now."""
        self._files.refresh()
        if self._end is None or self._end < self._files.min_offset:
            self._end = self._start()
        size = _PIECE_BYTES
        while True:
            try:
                start = self._files.start_of(self._end)
                rest_bytes = start + self._files.file_bytes(start) - self._end
                if not any(self._files.read(BLANK.size, self._end)):
                    return self._end  # what mostly lies there: nothing more has come
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
            elif not self._pass_damage():
                return self._end

    def _start(self) -> int:
        """Where the last file starts that begins with a message; RocketMQ makes files ahead."""
        for start in reversed(self._files.offsets):
            if any(self._files.read(BLANK.size, start)):
                return start
        return self._files.min_offset

    def _pass_damage(self) -> bool:
        """Move past a damaged message to the next one that was stored after the last; whether there is one.

        One that was stored before it lay there before the end was cut off.
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
