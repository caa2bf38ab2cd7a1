"""Looking at every message of a commit log, and at what lies between and behind them.

How much of a store must be whole, however it was left, and while a process writes to it.
"""

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
class Settled:
    """Up to where: an offset of the commit log, or the time at which a message was stored, None for all of it.

    What lies behind is in flight: it is being written, or a crash kept it from the disk and recovery will see to it.
    cut_ms: if RocketMQ had the store last, when its last message was stored.  What lies behind that may be what
    RocketMQ cut off, which it neither erases nor takes out of queues and key index.
    """

    end: int | None = None
    until_ms: int | None = None
    cut_ms: int | None = None

    @classmethod
    def of(cls, state: StoreState) -> Settled:
        """That of a store in this state."""
        if state.clean:
            foreign = state.news is None and state.checkpoint is not None
            return cls(cut_ms=state.checkpoint.log_ms if foreign and state.checkpoint is not None else None)
        if state.owned and state.news is not None:
            return cls(end=state.news.readable_end)
        return cls(until_ms=0 if state.checkpoint is None else state.checkpoint.recovery_ms)

    @property
    def all(self) -> bool:
        """Whether everything is."""
        return self.end is None and self.until_ms is None


class Lost:
    """Stretches of the commit log that are damaged: what queues and key index should have of them nobody can say.

    removed_end: up to where the log was removed while it was gone through.
    """

    def __init__(self) -> None:
        self.removed_end = 0
        self._stretches: list[tuple[int, int]] = []

    def add(self, start: int, stop: int) -> None:
        """From `start` to before `stop`, which lies behind all that were added."""
        self._stretches.append((start, stop))

    def __contains__(self, offset: int) -> bool:
        before = bisect_right(self._stretches, offset, key=lambda stretch: stretch[0])
        return before > 0 and offset < self._stretches[before - 1][1]


_PIECE_BYTES = 4 << 20
_LENGTH_BYTES = 4
_OFFSET_BYTES = 8
_MAGICS = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC))
_MAGIC = re.compile(b"|".join(map(re.escape, _MAGICS)))


class LogCheck:
    """Goes once through the commit log in `files`, as far as it is settled.

    problems: what is wrong is added to it.  lost: stretches that are damaged are added to it.
    take: is given the messages, those that are whole, some megabytes at a time.
    """

    def __init__(
        self,
        files: FilesReader,
        settled: Settled,
        problems: list[Problem],
        lost: Lost,
        take: Callable[[Walk], None],
    ) -> None:
        self.end = files.min_offset  # of what was gone through
        self.last_ms = 0  # when the last message was stored
        self._files = files
        self._settled = settled
        self._limit = settled.end
        self._problems = problems
        self._lost = lost
        self._take = take

    def run(self) -> None:
        """Go through it."""
        done = False
        while not done:
            try:
                done = self._run()
            except NotFoundError:
                # Retention removes files from the first one on: what was gone through does not matter any more.
                self._files.refresh()
        if self._limit is not None and self.end < self._limit:
            text = f"the log ends at {self.end}, and readers were told of messages up to {self._limit}"
            self._tell(self.end, "end", text)

    def _run(self) -> bool:
        """From where it came to; whether it came to the end."""
        for start, stop in self._stretches(self.end):
            if self.end < start:
                self._lost.add(self.end, start)  # the gap is told where names are looked at
                if start == self._files.min_offset:
                    self._lost.removed_end = start
                self.end = start
            if not self._check_file(start, stop):
                break
        return True

    def _stretches(self, offset: int) -> Iterator[tuple[int, int]]:
        """From where to where each file goes that has bytes at the offset or behind it."""
        for start, after in itertools.pairwise([*self._files.offsets, 2**63]):
            stop = min(start + self._files.file_bytes(start), after)
            if offset < stop:
                yield start, stop

    def _check_file(self, start: int, stop: int) -> bool:
        """From where it came to, to the end of the file; whether the log may go on behind it."""
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
            if not self._pass(start, stop, rest):
                return False
            if self.end > stop:
                return True
        return True

    def _take_messages(self, data: bytes, found: Walk) -> None:
        """Those that a walk has found, and that are settled; moves to the end of them."""
        base = self.end
        for head in heads(memoryview(data)[: found.consumed]):
            if self._settled.until_ms is not None and head.store_ms > self._settled.until_ms:
                self._limit = base + head.at
                found = walk(data[: head.at], base, check=False)
                break
            if head.store_ms < self.last_ms:
                text = f"the message was stored at {head.store_ms}, and the one before it at {self.last_ms}"
                self._tell(base + head.at, "store_ms", text)
            self.last_ms = head.store_ms
        self.end = base + found.consumed
        self._take(found)

    def _pass(self, start: int, stop: int, rest: memoryview) -> bool:
        """Tell what lies in place of a message, and move to the next one; whether there is any."""
        place = self.end
        zeros = not any(rest[: BLANK.size])
        other = self._next_other_than_zero(place) if zeros else place
        if other is None and self._limit is None:
            return False  # the log ends here, as it should
        after = None if other is None else self._next_message(place + 1)
        if after is None and self._limit is not None:
            after = self._limit
        if self._settled.until_ms is not None and not self._is_settled(after):
            return False
        if self._settled.cut_ms is not None and self._was_cut_off(after):
            return False
        self._files.refresh()
        if place < self._files.min_offset:
            raise NotFoundError(f"the file with {place} was removed")
        where_end = None if after is None or after > stop else after - start
        if not zeros:
            problem = problem_of(self._error(start, stop, place), self._files.path_of(start))
            self._problems.append(problem._replace(end=where_end))
        elif after is not None:
            text = f"zeros in place of messages, which go on at {after}"
            self._problems.append(Problem(self._files.path_of(start), place - start, "zeros", text, where_end))
        elif other is not None:
            self._tell(other, "end", f"the log ends at {place}, and something else than zeros lies behind its end")
        if after is None:
            return False
        self._lost.add(place, after)
        self.end = after
        return True

    def _was_cut_off(self, place: int | None) -> bool:
        """Whether RocketMQ has cut off what lies here: all it stored comes before, and the next message is older."""
        message = None if place is None else self._message(place)
        is_older = message is None or message.store_ms < self.last_ms
        return is_older and self.last_ms >= (self._settled.cut_ms or 0) > 0

    def _is_settled(self, place: int | None) -> bool:
        """Whether a message lies there that is settled, and so everything before it."""
        message = None if place is None else self._message(place)
        return message is not None and message.store_ms <= (self._settled.until_ms or 0)

    def _error(self, start: int, stop: int, place: int) -> CorruptError:
        """Why no message lies there."""
        path, at = self._files.path_of(start), place - start
        message_bytes = int.from_bytes(self._files.read(_LENGTH_BYTES, place), "big")
        limit = stop if self._limit is None else min(stop, self._limit)
        data = self._files.read(min(message_bytes, limit - place), place)
        try:
            parse_message_at(data, place, path, at)
        except CorruptError as error:
            return error
        return CorruptError(path, at, "message", "no message can be that")

    def _next_other_than_zero(self, offset: int) -> int | None:
        for at, data in self._pieces(offset):
            if data.count(0) < len(data):
                return at + len(data) - len(data.lstrip(b"\0"))
        return None

    def _next_message(self, offset: int) -> int | None:
        """Where the next message lies, or marker of a file's end, at an offset or behind it."""
        for at, data in self._pieces(offset):
            for match in _MAGIC.finditer(data):
                place = at + match.start() - MESSAGE.offset("magic")
                if place >= offset and self._begins(place, match[0] == _MAGICS[-1]):
                    return place
        return None

    def _begins(self, place: int, blank: bool) -> bool:
        """Whether a message, or the marker of a file's end, begins there."""
        if self._settled.until_ms is not None:
            # Whether anything is settled says the time of a message that is sound.
            return not blank and self._message(place) is not None
        if not blank:
            return self._says_so(place)  # if it is damaged, that is told in its turn
        start = self._files.start_of(place)
        return ends_file(self._files.read(BLANK.size, place), start + self._files.file_bytes(start) - place)

    def _says_so(self, place: int) -> bool:
        """Whether what lies there says of itself that it does."""
        said = self._files.read(_OFFSET_BYTES, place + MESSAGE.offset("offset"))
        return int.from_bytes(said, "big") == place

    def _message(self, place: int) -> StoredMessage | None:
        """The message that lies there; None where none does, and where it is damaged."""
        if not self._says_so(place):
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
        """What lies from an offset on, each piece with where it lies; two of a file have a few bytes in common."""
        common = len(_MAGICS[0]) - 1
        for start, stop in self._stretches(offset):
            at = max(offset, start)
            if self._limit is not None:
                stop = min(stop, self._limit)
            while at < stop:
                data = self._files.read(min(_PIECE_BYTES, stop - at), at)
                yield at, data
                at += len(data) if at + len(data) >= stop or len(data) <= common else len(data) - common

    def _tell(self, place: int, rule: str, text: str) -> None:
        path, at = place_of(self._files, place)
        self._problems.append(Problem(path, at, rule, text))


def place_of(files: FilesReader, offset: int) -> tuple[str, int]:
    """The file that holds an offset, or the last one before it, and where in it that is; the folder, where none is."""
    try:
        start = files.start_of(offset)
    except NotFoundError:
        return files.folder, 0
    return files.path_of(start), offset - start
