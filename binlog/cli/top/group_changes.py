"""The changes of a consumer group that `binlog top` makes, with the consequence of each, as text."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import binlog
from binlog.cli.amounts import count_text, things_text
from binlog.cli.exits import advice
from binlog.consumers import DeadLetter, GroupControl, GroupStat, drop_dead_letters, read_dead_letters
from binlog.errors import BinlogError

LETTERS_MAX = 5000


def why_not(directory: str, name: str) -> str | None:
    """Return why this process may not change a group, or None if it may."""
    try:
        GroupControl(directory, name).close()
    except BinlogError as error:
        return f"{error}{advice(error)}"
    return None


def last_letters(directory: str, name: str) -> list[DeadLetter]:
    """Return the last dead letters of a group, the newest first.  Raises: as read_dead_letters."""
    return list(deque(read_dead_letters(directory, name), LETTERS_MAX))[::-1]


def retry(directory: str, name: str, letter: DeadLetter) -> str:
    """Deliver a dead letter to its group again; return the outcome.  Raises: as GroupControl."""
    assert letter.sequence is not None
    with GroupControl(directory, name) as control:
        impossible = control.retry_dead([letter.sequence])
    if impossible:
        return f"message {letter.sequence} cannot be delivered: it is outstanding, or retention removed it"
    return f"message {letter.sequence} is delivered again"


def dropped_with(letters: Sequence[DeadLetter], letter: DeadLetter) -> list[DeadLetter]:
    """Return the dead letters that are removed with one: those of its file, and of all earlier files."""
    return [each for each in letters if each.ref.number <= letter.ref.number]


def drop(directory: str, name: str, letter: DeadLetter) -> str:
    """Remove a dead letter, with those of its file and of earlier files; return the outcome.

    Raises: as drop_dead_letters.
    """
    later = (each.ref for each in read_dead_letters(directory, name) if each.ref.number > letter.ref.number)
    dropped = drop_dead_letters(directory, name, before=next(later, None))
    count = sum(file.record_count or 0 for file in dropped)
    return f"removed {things_text(count, 'dead letter')}"


def drop_text(letters: Sequence[DeadLetter], letter: DeadLetter) -> str:
    """Return the consequence of `drop`."""
    others = len(dropped_with(letters, letter)) - 1
    text = "It cannot be delivered again afterwards."
    if others:
        return (
            f"Dead letters are removed by whole files, the oldest first, so {things_text(others, 'other one')} "
            f"{'is' if others == 1 else 'are'} removed too. None of them can be delivered again afterwards."
        )
    return text


def place_of(log: binlog.LogStat, text: str) -> int:
    """Return the sequence number of a place: a number, `beginning` or `end`.  Raises: ValueError for any other."""
    end = log.end_sequence
    if not log.files or end is None:
        raise ValueError("the log has no messages, or another program appends to it")
    word = text.strip().lower()
    if word == binlog.Start.END.value:
        return end
    if word == binlog.Start.BEGINNING.value:
        return log.files[0].first_sequence or 0
    if word.isascii() and word.isdigit() and int(word) <= end:
        return int(word)
    raise ValueError(f"{text!r} is not 'beginning', 'end', or a sequence number up to {end}")


def reset_text(stat: GroupStat, sequence: int) -> str:
    """Return the consequence of resetting a group to a message."""
    if sequence < stat.next:
        text = f"{_span(sequence, stat.next)} delivered again, even if they are done."
    elif sequence > stat.next:
        text = f"{_span(stat.next, sequence)} skipped: no member gets them."
    else:
        text = f"The group continues with message {sequence}."
    if stat.floor < min(sequence, stat.next):
        text += f" Messages before {min(sequence, stat.next)} that are not done are skipped."
    if stat.in_hand:
        text += (
            f" Members have {things_text(stat.in_hand, 'message')} in hand, and their acknowledgements will be refused."
        )
    return text


def reset(directory: str, name: str, sequence: int) -> str:
    """Reset a group to a message; return the outcome.  Raises: as GroupControl.reset."""
    with GroupControl(directory, name) as control:
        control.reset(sequence)
    return f"the group continues with message {sequence}"


def _span(first: int, end: int) -> str:
    if end - first == 1:
        return f"Message {first} is"
    return f"Messages {first} to {end - 1} ({count_text(end - first)}) are"
