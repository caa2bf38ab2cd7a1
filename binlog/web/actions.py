"""The dead letters of a consumer group, and changes of the group, for the page.

Each function takes the JSON object of a request, which anyone may have written, and returns that of the answer.
Raises: ValueError for a request that is not as it must be; as GroupControl.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

import binlog
from binlog.consumers import DeadLetter, GroupControl, drop_dead_letters, read_dead_letters
from binlog.web.shown import JsonObject

_LETTERS_MAX = 200
_SEQUENCES_MAX = 10_000
_TEXT_MAX = 2000
_SEQUENCE_MAX = 2**63 - 1


def dead_letters(directory: str, group: str) -> JsonObject:
    """Return the newest dead letters of a group, the newest first, and how many there are."""
    count = 0
    newest: deque[DeadLetter] = deque(maxlen=_LETTERS_MAX)
    for letter in read_dead_letters(directory, group):
        newest.append(letter)
        count += 1
    return {"count": count, "letters": [_letter(each) for each in reversed(newest)]}


def retry(directory: str, asked: JsonObject) -> JsonObject:
    """Deliver dead letters again.  sequences: of their messages."""
    sequences = asked.get("sequences")
    if not isinstance(sequences, list) or not 1 <= len(sequences) <= _SEQUENCES_MAX:
        raise ValueError(f"sequences: a list of 1 to {_SEQUENCES_MAX} numbers")
    if not all(type(each) is int and 0 <= each <= _SEQUENCE_MAX for each in sequences):
        raise ValueError("sequences: each is a whole number")
    with GroupControl(directory, _group(asked)) as control:
        impossible = control.retry_dead(sequences)
    return {"count": len(set(sequences)) - len(impossible), "impossible": impossible}


def drop(directory: str, asked: JsonObject) -> JsonObject:
    """Remove all dead letters."""
    dropped = drop_dead_letters(directory, _group(asked))
    return {"count": sum(file.record_count or 0 for file in dropped)}


def reset(directory: str, asked: JsonObject) -> JsonObject:
    """Deliver the messages from a place on again.

    to: a sequence number, a ref, `beginning` or `end`, as text.  keep_outstanding: as of GroupControl.reset.
    """
    to, keep = asked.get("to"), asked.get("keep_outstanding", False)
    if not isinstance(to, str) or not isinstance(keep, bool):
        raise ValueError("to: a text; keep_outstanding: true or false")
    place = to.strip()
    is_number = place.isascii() and place.isdigit() and len(place) < len(str(_SEQUENCE_MAX))
    with GroupControl(directory, _group(asked)) as control:
        return {"sequence": control.reset(int(place) if is_number else place, keep_outstanding=keep)}


CHANGES: dict[str, Callable[[str, JsonObject], JsonObject]] = {"retry": retry, "drop": drop, "reset": reset}


def _group(asked: JsonObject) -> str:
    group = asked.get("group")
    if not isinstance(group, str):
        raise ValueError("group: the name of a consumer group")
    return group


def _letter(letter: DeadLetter) -> JsonObject:
    """Return a dead letter; a long body is cut."""
    body = letter.body[:_TEXT_MAX].decode("utf-8", "backslashreplace")
    return {
        "sequence": letter.sequence,
        "ref": str(letter.ref),
        "origin": letter.origin,
        "time": _time_text(letter.time_ns),
        "reason": letter.reason,
        "deliveries": letter.deliveries,
        "deaths": letter.deaths,
        "key": None if letter.key is None else letter.key[:_TEXT_MAX].decode("utf-8", "backslashreplace"),
        "text": body,
        "is_cut": len(letter.body) > _TEXT_MAX,
    }


def _time_text(time_ns: int) -> str | None:
    """Format a time in UTC; None if it is out of range."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def ref_of(text: str) -> binlog.Ref:
    """Parse a ref.  Raises: ValueError."""
    ref = binlog.Ref.parse(text)
    ref.validate()
    return ref
