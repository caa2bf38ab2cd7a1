"""The check of every message of a commit log, and of the bytes between and after them."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from binlog.commitlog.files.files_reader import FilesReader
from binlog.commitlog.recovery.store_state import StoreState
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.compiled import Walk, WalkStop, walk
from binlog.format.commitlog.message import (
    BLANK,
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE,
    StoredMessage,
    ends_file,
    heads,
    parse_message_at,
)
from binlog.format.problem import Problem, problem_of


@dataclass(frozen=True, slots=True)
class VerifiedExtent:
    """How far a store must be valid: up to an offset, or a store time; completely if both are None.

    Everything later is in flight: the owner is writing it, or a crash kept it from the disk and recovery will handle
    it.
    cut_ms: if RocketMQ had the store last, the store time of its last message.  Later messages may have been cut off by
        RocketMQ, which neither erases them nor removes them from the queues and the key index.
    """

    end: int | None = None
    until_ms: int | None = None
    cut_ms: int | None = None

    @classmethod
    def of(cls, state: StoreState) -> VerifiedExtent:
        """Return the extent for a store in this state."""
        if state.clean:
            foreign = state.reader_state is None and state.checkpoint is not None
            return cls(cut_ms=state.checkpoint.log_ms if foreign and state.checkpoint is not None else None)
        if state.owned and state.reader_state is not None:
            return cls(end=state.reader_state.readable_end)
        return cls(until_ms=0 if state.checkpoint is None else state.checkpoint.recovery_ms)

    @property
    def all(self) -> bool:
        """Return whether the whole store must be valid."""
        return self.end is None and self.until_ms is None


class DamagedRanges:
    """Damaged ranges of the commit log; queues and key index are not compared with these.

    removed_end: the end of the part that retention removed during the check.
    """

    def __init__(self) -> None:
        self.removed_end = 0
        self._ranges: list[tuple[int, int]] = []

    def add(self, start: int, stop: int) -> None:
        """Add the range from `start` up to `stop`, after all ranges so far."""
        self._ranges.append((start, stop))

    def __contains__(self, offset: int) -> bool:
        before = bisect_right(self._ranges, offset, key=lambda each: each[0])
        return before > 0 and offset < self._ranges[before - 1][1]


_PIECE_BYTES = 4 << 20
_LENGTH_BYTES = 4
_OFFSET_BYTES = 8
_MAGICS = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC))
_MAGIC = re.compile(b"|".join(map(re.escape, _MAGICS)))


class LogCheck:
    """Checks the commit log in `files` once, as far as it must be valid.

    problems: receives the problems found.  damaged: receives the damaged ranges.
    take: receives the walks of the valid messages, some megabytes at a time.
    """

    def __init__(
        self,
        files: FilesReader,
        verified: VerifiedExtent,
        problems: list[Problem],
        damaged: DamagedRanges,
        take: Callable[[Walk], None],
    ) -> None:
        self.end = files.min_offset  # of the checked part
        self.last_ms = 0  # store time of the last message
        self._files = files
        self._verified = verified
        self._limit = verified.end
        self._problems = problems
        self._damaged = damaged
        self._take = take

    def run(self) -> None:
        """Check the log."""
        done = False
        while not done:
            try:
                done = self._run()
            except NotFoundError:
                # Retention removes files from the start, so the part that was checked no longer matters.
                self._files.refresh()
        if self._limit is not None and self.end < self._limit:
            text = f"the log ends at {self.end}, but readers may read up to {self._limit}"
            self._report(self.end, "end", text)

    def _run(self) -> bool:
        """Resume at `end`; return whether the check is complete."""
        for start, stop in self._file_ranges(self.end):
            if self.end < start:
                self._damaged.add(self.end, start)  # check_files reports the gap
                if start == self._files.min_offset:
                    self._damaged.removed_end = start
                self.end = start
            if not self._check_file(start, stop):
                break
        return True

    def _file_ranges(self, offset: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of each file with bytes at or after the offset."""
        for start, after in itertools.pairwise([*self._files.offsets, 2**63]):
            stop = min(start + self._files.file_bytes(start), after)
            if offset < stop:
                yield start, stop

    def _check_file(self, start: int, stop: int) -> bool:
        """Resume at `end` and check to the end of the file; return whether the log may continue after it."""
        size = _PIECE_BYTES
        while self.end < stop:
            limit = stop if self._limit is None else min(stop, self._limit)
            if self.end >= limit:
                return False
            data = self._files.read(min(size, limit - self.end), self.end)
            size = _PIECE_BYTES
            found = walk(data, self.end, check=True)
            self._take_messages(data, found)
            rest = memoryview(data)[found.consumed :]
            if self._limit is not None and self.end >= self._limit:
                return False
            if found.stop is WalkStop.END and data:
                continue
            if ends_file(rest, stop - self.end):
                self.end = stop
                continue
            if found.stop is WalkStop.SHORT and self.end + len(rest) < limit:
                wanted = int.from_bytes(rest[:_LENGTH_BYTES], "big")
                if len(rest) < BLANK.size:
                    continue
                if wanted <= limit - self.end:
                    size = max(wanted, _PIECE_BYTES)
                    continue
            if not self._skip_damage(start, stop, rest):
                return False
            if self.end > stop:
                return True
        return True

    def _take_messages(self, data: bytes, found: Walk) -> None:
        """Take the walked messages that must be valid, and move `end` after them."""
        base = self.end
        for head in heads(memoryview(data)[: found.consumed]):
            if self._verified.until_ms is not None and head.store_ms > self._verified.until_ms:
                self._limit = base + head.at
                found = walk(data[: head.at], base, check=False)
                break
            if head.store_ms < self.last_ms:
                text = f"the message was stored at {head.store_ms}, but the one before it at {self.last_ms}"
                self._report(base + head.at, "store_ms", text)
            self.last_ms = head.store_ms
        self.end = base + found.consumed
        self._take(found)

    def _skip_damage(self, start: int, stop: int, rest: memoryview) -> bool:
        """Report the bytes that are not a message, and move to the next message; return whether there is one."""
        place = self.end
        zeros = not any(rest[: BLANK.size])
        other = self._next_nonzero(place) if zeros else place
        if other is None and self._limit is None:
            return False  # the regular end of the log
        after = None if other is None else self._next_message(place + 1)
        if after is None and self._limit is not None:
            after = self._limit
        if self._verified.until_ms is not None and not self._is_verified(after):
            return False
        if self._verified.cut_ms is not None and self._was_cut_off(after):
            return False
        self._files.refresh()
        if place < self._files.min_offset:
            raise NotFoundError(f"the file with {place} was removed")
        where_end = None if after is None or after > stop else after - start
        if not zeros:
            problem = problem_of(self._error(start, stop, place), self._files.path_of(start))
            self._problems.append(problem._replace(end=where_end))
        elif after is not None:
            text = f"zeros in place of messages, up to {after}"
            self._problems.append(Problem(self._files.path_of(start), place - start, "zeros", text, where_end))
        elif other is not None:
            self._report(other, "end", f"the log ends at {place}, but its rest is not zero")
        if after is None:
            return False
        self._damaged.add(place, after)
        self.end = after
        return True

    def _was_cut_off(self, place: int | None) -> bool:
        """Return whether RocketMQ has cut off this part: `last_ms` is its last message, and the next one is older."""
        message = None if place is None else self._message(place)
        is_older = message is None or message.store_ms < self.last_ms
        return is_older and self.last_ms >= (self._verified.cut_ms or 0) > 0

    def _is_verified(self, place: int | None) -> bool:
        """Return whether a message at `place`, and so everything before it, must be valid."""
        message = None if place is None else self._message(place)
        return message is not None and message.store_ms <= (self._verified.until_ms or 0)

    def _error(self, start: int, stop: int, place: int) -> CorruptError:
        """Return the reason why there is no valid message at `place`."""
        path, at = self._files.path_of(start), place - start
        message_bytes = int.from_bytes(self._files.read(_LENGTH_BYTES, place), "big")
        limit = stop if self._limit is None else min(stop, self._limit)
        data = self._files.read(min(message_bytes, limit - place), place)
        try:
            parse_message_at(data, place, path, at)
        except CorruptError as error:
            return error
        return CorruptError(path, at, "message", "not a message")

    def _next_nonzero(self, offset: int) -> int | None:
        for at, data in self._pieces(offset):
            if data.count(0) < len(data):
                return at + len(data) - len(data.lstrip(b"\0"))
        return None

    def _next_message(self, offset: int) -> int | None:
        """Return the next offset, from `offset` on, of a message or of the blank at the end of a file."""
        for at, data in self._pieces(offset):
            for match in _MAGIC.finditer(data):
                place = at + match.start() - MESSAGE.offset("magic")
                if place >= offset and self._is_start(place, match[0] == _MAGICS[-1]):
                    return place
        return None

    def _is_start(self, place: int, blank: bool) -> bool:
        """Return whether a message, or the blank at the end of a file, starts at `place`."""
        if self._verified.until_ms is not None:
            # Only a valid message has a store time that tells whether this part must be valid.
            return not blank and self._message(place) is not None
        if not blank:
            return self._has_own_offset(place)  # if the message is damaged, it is reported later
        start = self._files.start_of(place)
        return ends_file(self._files.read(BLANK.size, place), start + self._files.file_bytes(start) - place)

    def _has_own_offset(self, place: int) -> bool:
        """Return whether the message at `place` contains this offset."""
        said = self._files.read(_OFFSET_BYTES, place + MESSAGE.offset("offset"))
        return int.from_bytes(said, "big") == place

    def _message(self, place: int) -> StoredMessage | None:
        """Return the valid message at `place`; None if there is none."""
        if not self._has_own_offset(place):
            return None
        start = self._files.start_of(place)
        message_bytes = int.from_bytes(self._files.read(_LENGTH_BYTES, place), "big")
        rest = start + self._files.file_bytes(start) - place
        if message_bytes > rest:
            return None
        try:
            return parse_message_at(self._files.read(message_bytes, place), place, "", 0)
        except CorruptError:
            return None

    def _pieces(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Yield pieces of the log from `offset` on, with their offsets; pieces of a file overlap by a few bytes."""
        common = len(_MAGICS[0]) - 1
        for start, stop in self._file_ranges(offset):
            at = max(offset, start)
            if self._limit is not None:
                stop = min(stop, self._limit)
            while at < stop:
                data = self._files.read(min(_PIECE_BYTES, stop - at), at)
                yield at, data
                at += len(data) if at + len(data) >= stop or len(data) <= common else len(data) - common

    def _report(self, place: int, rule: str, text: str) -> None:
        path, at = locate(self._files, place)
        self._problems.append(Problem(path, at, rule, text))


def locate(files: FilesReader, offset: int) -> tuple[str, int]:
    """Return file and position of an offset; of the last file before it if none holds it, or else the folder and 0."""
    try:
        start = files.start_of(offset)
    except NotFoundError:
        return files.folder, 0
    return files.path_of(start), offset - start
