"""Appending what a source gives exactly once, however often it is given again.

A source numbers its turns.  The last one that is in the log stands in a file beside it; the one that is being appended
stands in another, durably, before the turn's records are published.  After a death that file alone does not tell
whether they were, for others may have appended since.  So while a turn is being appended the log file's header says so
(Flag.ONCE), and the records are published and the flag taken back in one write.  Invariants:

- Where the flag is set and the lock is free, whoever appended died, and nobody has appended since: every writer looks
  at the flag under the lock before anything else, settles all turns by whether their bytes are there, and then takes it
  back.
- Where the flag is not set, a turn that stands as being appended is in the log.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from binlog.errors import CorruptError, NotFoundError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.log_header import LogHeader
from binlog.format.names import NEXT_SUFFIX, NUMBER_MAX, is_next_file, is_once_file, next_file_name, once_file_name
from binlog.format.record import COUNT_MAX, OFFSET_MAX, Ref
from binlog.log.files.header import settled_header
from binlog.log.recovery.evidence import FileEvidence
from binlog.log.recovery.file_operations import Directory, replace_file
from binlog.storage.file_access import FileAccess
from binlog.storage.files import ByteSource

_BYTES_MAX = 1 << 16
_UNCHECKED = b"{"
"""What begins a file of before these had a checksum.  No flipped bit makes it of a hex digit, or one of it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a source gave at once, and where in the log it lies.

    source: its name.  turn: which of its turns, counted upwards.  number, start, end: the file, and the range there.
    crc: CRC-32C of those bytes.
    """

    source: str
    turn: int
    record_count: int
    number: int
    start: int
    end: int
    crc: int

    @property
    def ref(self) -> Ref:
        """Where the first record lies."""
        return Ref(self.number, self.start)


def turn_of(values: object) -> Turn:
    """The turn that parsed JSON says.  Raises: ValueError."""
    if not isinstance(values, dict) or set(values) != set(Turn.__slots__):
        raise ValueError("it has not the keys of a turn")
    source, *numbers = (values[name] for name in Turn.__slots__)
    if not isinstance(source, str) or not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("its values are not those of a turn")
    turn = Turn(source, *numbers)
    within = 1 <= turn.number <= NUMBER_MAX and turn.start <= turn.end <= OFFSET_MAX
    if not within or turn.crc >= 1 << 32 or turn.record_count > COUNT_MAX:
        raise ValueError("it lies nowhere in a log")
    return turn


class Turns:
    """The turns that stand beside a log.  access: of the files in which they stand.

    What changes them wants the open file's lock held."""

    def __init__(self, directory: Directory, access: FileAccess) -> None:
        self._directory = directory
        self._access = access

    def last(self, source: str) -> Turn | None:
        """The last turn of a source that is in the log.  Nothing of that source may be being appended."""
        return self._read(once_file_name(source))

    def begin(self, turn: Turn) -> None:
        """Have it stand as being appended, durably."""
        self._write(turn, next_file_name(once_file_name(turn.source)))

    def record(self, turn: Turn) -> None:
        """Record a turn that is in the log as the last one of its source, durably, unless a later one is recorded."""
        last = self.last(turn.source)
        if last is None or last.turn < turn.turn:
            self._write(turn, once_file_name(turn.source))

    def _write(self, turn: Turn, name: str) -> None:
        data = pack_text(json.dumps(asdict(turn)).encode())
        replace_file(self._directory, name, f".{name}", data, self._access)

    def finish(self, source: str) -> None:
        """Have the one that is being appended stand as the last, durably."""
        name = once_file_name(source)
        self._directory.rename(next_file_name(name), name)

    def settle(self, header: LogHeader, content: ByteSource, path: str) -> None:
        """Settle every turn that stands as being appended.

        header, content, path: of the open file, which was found and put right.
        """
        for name in filter(is_next_file, self._directory.names()):
            turn = self._read(name)
            if turn is None:
                continue
            if self._is_there(turn, header, content, path):
                self.finish(turn.source)
            else:
                self._directory.remove(name)
                # Before the flag is taken back: else a power cut might bring the name back after others have appended.
                self._directory.sync()

    def _is_there(self, turn: Turn, header: LogHeader, content: ByteSource, path: str) -> bool:
        """Whether a turn's records are in the log, by their bytes.

        Where another program has appended in the middle of it, or cut over, others lie in their place.
        """
        if turn.number == header.number:
            return _holds(turn, header, FileEvidence(content, path))
        if turn.number > header.number:
            return False
        try:
            with self._directory.log_file(turn.number) as file:
                before = settled_header(file.content, turn.number, file.path)
                return _holds(turn, before, FileEvidence(file.content, file.path))
        except NotFoundError:
            return True  # retention removed it, and that is for closed files

    def mend(self) -> list[str]:
        """Write again each file of which a bit is flipped, durably; their names.  What else is wrong is left."""
        found = [name for name, problem in damaged_turns(self._directory).items() if problem is None]
        for name in found:
            turn = self._read(name)
            if turn is not None:
                self._write(turn, name)
        return found

    def _read(self, name: str) -> Turn | None:
        found = read_turn(self._directory, name)
        return None if found is None else found[0]


def _holds(turn: Turn, header: LogHeader, evidence: FileEvidence) -> bool:
    return header.tail >= turn.end and evidence.crc_holds(turn.start, turn.end, turn.crc)


def damaged_turns(directory: Directory) -> dict[str, CorruptError | None]:
    """The files of turns of which something is wrong, by name: the error, or None if a bit is flipped, and known."""
    found: dict[str, CorruptError | None] = {}
    for name in sorted(filter(is_once_file, directory.names())):
        try:
            read = read_turn(directory, name)
        except CorruptError as error:
            found[name] = error
        else:
            if read is not None and read[1]:
                found[name] = None
    return found


def read_turn(directory: Directory, name: str) -> tuple[Turn, bool] | None:
    """The turn that a file says, and whether a flipped bit of it was put right in memory; None for no such file.

    Raises: CorruptError; AccessError.
    """
    path = os.path.join(directory.path, name)
    try:
        data, is_mended = directory.read(name, _BYTES_MAX), False
    except NotFoundError:
        return None
    try:
        if not data.startswith(_UNCHECKED):
            data, is_mended = parse_text(data)
        turn = turn_of(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, 0, "once", f"it is no turn ({error})") from error
    if once_file_name(turn.source) != name.removesuffix(NEXT_SUFFIX):
        raise CorruptError(path, 0, "once", f"it is of {turn.source!r}")
    return turn, is_mended
