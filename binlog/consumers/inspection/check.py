"""Checking a group: its log, its operations against their checkpoints, its messages, and its dead letters.

May run while members work.  Takes no lock, and writes nothing.  A member whose process died is not a problem: another
one records its death.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from binlog.consumers.inspection.replay import Replay, checkpoint_in, folder_of
from binlog.consumers.state.group_state import AppliedOperation
from binlog.consumers.state.settings import RULES
from binlog.consumers.state.state_reader import Checkpoint
from binlog.errors import BinlogError, CorruptError, GoneError, NotFoundError
from binlog.format.checksums import crc32c
from binlog.format.consumers.message import Message
from binlog.format.consumers.operation import MARK, Kind, Operation, Window, entries_of, parse_operation
from binlog.format.names import log_file_name
from binlog.format.problem import Problem, problem_of
from binlog.format.record import Ref
from binlog.log.batch import Entry
from binlog.log.maintain.check import check as check_log
from binlog.log.maintain.fillers import is_filler
from binlog.log.maintain.stat import stat
from binlog.log.read.start import Sequence
from binlog.log.reader import Reader

_DEAD = "dead"
# A reader continues up to the next window if no more messages than this are in between.
_READ_ON_MAX = 20_000


def check_group(path: str | os.PathLike[str], name: str) -> list[Problem]:
    """Return every problem found in a group of a log; an empty list for none.

    Applies all operations that the group's log still has, and reads the last message of each window that the log still
    has, and all dead letters.
    Raises: NotFoundError if the log has no such group; AccessError.
    """
    folder = folder_of(path, name)
    dead = os.path.join(folder, _DEAD)
    problems = []
    for log in (folder, dead):
        # A process may have died before it made the first file.
        with suppress(NotFoundError):
            problems += check_log(log)
    check = _GroupCheck(path, folder)
    letters_before = len(_letters(dead))
    # The log's own check has reported the damage that ends the reading.
    own = {(each.path, each.offset) for each in problems}
    problems += [each for each in check.run() if (each.path, each.offset) not in own]
    if check.is_complete:
        problems += check.dead_letters.check(dead, letters_before, is_whole=check.is_whole)
    return problems


class _GroupCheck:
    """One pass over the operations of a group.

    is_complete: all operations that its log has were applied.  is_whole: it has all since the group was created.
    """

    def __init__(self, path: str | os.PathLike[str], folder: str) -> None:
        self._folder = folder
        self._windows = _WindowCheck(path)
        self._window_problems: list[Problem] = []
        self._marked: dict[Ref, bytes] = {}
        self.dead_letters = _DeadLetterCheck()
        self.is_complete = self.is_whole = False

    def run(self) -> Iterator[Problem]:
        """Yield the problems."""
        try:
            with Replay(self._folder) as replay:
                for entry in replay.records():
                    yield from self._check_record(replay, entry)
                if replay.state.settings.rules != RULES:
                    text = f"the group has version {replay.state.settings.rules} of the rules; this one knows {RULES}"
                    yield Problem(self._folder, 0, "version", text)
                self.is_whole = replay.is_whole
            self.is_complete = True
            yield from self._window_problems
        except (NotFoundError, GoneError):
            return  # it is being made, or members removed old files meanwhile
        except CorruptError as error:
            yield problem_of(error, self._folder)
        finally:
            self._windows.close()

    def _check_record(self, replay: Replay, entry: Entry) -> Iterator[Problem]:
        state, (ref, record) = replay.state, entry
        known_end, epoch = state.known_end, state.epoch
        applied = state.apply(record)
        if applied is None:
            yield self._problem(ref, "group_operation", f"the record at {ref} is no operation of this group")
            return
        if not replay.is_certain:
            self.dead_letters.forget()
        elif applied.flags & MARK:
            self._marked[ref] = state.pack()
        if applied.checkpoint is not None:
            yield from self._check_checkpoint(ref, checkpoint_in(record, replay.seed))
        if state.epoch != epoch:
            self._window_problems.clear()  # after a reset the group does not rely on what it knew of the log
        if state.known_end != known_end or self.dead_letters.concerns(applied):
            operation = parse_operation(record, replay.seed)
            assert operation is not None
            if applied.outcome.counted:
                for window in entries_of(operation, Kind.WINDOW):
                    if (text := self._windows.check(window)) is not None:
                        self._window_problems.append(self._problem(ref, "group_window", text))
                if replay.is_certain:
                    self.dead_letters.add(operation, applied)

    def _check_checkpoint(self, ref: Ref, checkpoint: Checkpoint | None) -> Iterator[Problem]:
        ours = None if checkpoint is None else self._marked.pop(checkpoint.mark, None)
        if checkpoint is not None and ours is not None and ours != checkpoint.data:
            hashes = f"CRC-32C {crc32c(checkpoint.data):08x} and {crc32c(ours):08x}"
            text = f"the checkpoint of {checkpoint.mark} is another state than its operations give ({hashes})"
            yield self._problem(ref, "group_state", text)

    def _problem(self, ref: Ref, rule: str, text: str) -> Problem:
        return Problem(os.path.join(self._folder, log_file_name(ref.number)), ref.offset, rule, text)


class _WindowCheck:
    """Compares windows with the messages of the log.  path: of the log."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._reader: Reader | None = None
        self._next = 0  # the sequence that the reader returns next

    def check(self, window: Window) -> str | None:
        """Return what is wrong with a window; None if it is right, or its last message was removed or replaced."""
        last = window.first + window.message_count - 1
        try:
            entry = self._read(last)
        except ValueError:
            return f"the group has had message {last}, which the log does not have: it may be an older copy"
        except GoneError:
            return None
        except BinlogError:
            return None  # the check of the log reports it
        if entry is None:
            return f"the group has had message {last}, and the log ends before it: it may be an older copy"
        if is_filler(self._path, entry.ref, entry.data):
            return None
        if crc32c(entry.data) != window.last_crc:
            return f"message {last} at {entry.ref} is another one than the group has had: the log has another history"
        if entry.next_ref != Ref(*window.end):
            return f"message {last} ends at {entry.next_ref}, and it ended at {Ref(*window.end)} when the group had it"
        return None

    def _read(self, sequence: int) -> Entry | None:
        """Return a message, None if the log ends before it."""
        reader = self._reader
        self._reader = None  # in case of an exception
        if reader is None or not 0 <= sequence - self._next <= _READ_ON_MAX:
            if reader is not None:
                reader.close()
            reader = Reader(self._path, Sequence(sequence))
            self._next = sequence
        while len(batch := reader.read_batch(records_max=sequence - self._next + 1)):
            self._next += len(batch)
            if self._next > sequence:
                self._reader = reader
                return batch.entries()[-1]
        reader.close()
        return None

    def close(self) -> None:
        """Close the files."""
        if self._reader is not None:
            self._reader.close()


class _DeadLetterCheck:
    """Compares dead letters with the items that the group calls dead."""

    def __init__(self) -> None:
        self._assigned: dict[int, int] = {}  # the sequence of each number
        self._open: dict[int, int] = {}  # the number of each sequence that a member has in order to append it
        self._done: set[int] = set()  # numbers

    def concerns(self, applied: AppliedOperation) -> bool:
        """Whether an operation may be about a dead letter."""
        return bool(self._open) or any(each.letter for each in applied.outcome.assigned)

    def add(self, operation: Operation, applied: AppliedOperation) -> None:
        """Take note of an operation that counted."""
        done = {each.sequence for entries in entries_of(operation, Kind.DONE) for each in entries}
        refused = {each.sequence for each in applied.outcome.refused}
        for sequence in (done - refused) & self._open.keys():
            self._done.add(self._open.pop(sequence))
        if any(kind is Kind.RESET for kind, _ in operation.sections):
            self._open.clear()  # items that stay are assigned again
        for each in applied.outcome.assigned:
            if each.letter:
                self._assigned[each.letter], self._open[each.sequence] = each.sequence, each.letter

    def forget(self) -> None:
        """Forget the letters that members have, because an operation was lost."""
        self._open.clear()

    def check(self, path: str, count_before: int, *, is_whole: bool) -> Iterator[Problem]:
        """Yield the problems of the log of dead letters.

        count_before: how many there were before the operations were read: members may have appended more since.
        is_whole: all operations of the group are known.
        """
        found = _letters(path)
        # The first ones may have been dropped.  Dead letters are in the order of their numbers.
        done = [self._assigned[number] for number in sorted(self._done)][_dropped_count(path) :]
        missing = Counter(done) - Counter(sequence for _, sequence in found)
        for sequence in sorted(missing):
            text = f"the group has made message {sequence} a dead letter, which is missing"
            yield Problem(path, 0, "group_dead_letter", text)
        known = Counter(self._assigned.values())
        for ref, sequence in found[:count_before] if is_whole else ():
            known[sequence] -= 1
            if known[sequence] < 0:
                text = f"a dead letter of message {sequence}, which the group has not given up, or has here already"
                yield Problem(os.path.join(path, log_file_name(ref.number)), ref.offset, "group_dead_letter", text)


def _letters(path: str) -> list[tuple[Ref, int]]:
    """Return the place of each dead letter, with the sequence of its message; -1 if it does not say."""
    found: list[tuple[Ref, int]] = []
    try:
        with Reader(path) as reader:
            for ref, record in reader:
                if not is_filler(path, ref, record):
                    text = Message.parse(record).headers.get("binlog-sequence", b"")
                    found.append((ref, int(text) if text.isdigit() else -1))
    except BinlogError:
        pass  # there is none, or the check of this log reports it
    return found


def _dropped_count(path: str) -> int:
    """Return how many dead letters are not in the log any more."""
    try:
        files = stat(path).files
    except BinlogError:
        return 0
    return (files[0].first_sequence or 0) if files else 0
