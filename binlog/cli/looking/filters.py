"""Filters: which records of a batch to print.

Most records of a large log do not match, and parsing each of them would take minutes.  So a check of the bytes finds
the records that may match (the candidates), and only these are parsed.  It may let a record through that does not
match, but drops none that does, unless a key is in it twice: see Batch.json_candidates.

A pattern that is plain text is searched in all bytes of a batch at once.  No match of it spans two records, because the
length between them begins with a byte below 5 (a record has at most 64 MiB), which is in no such pattern.
"""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import binlog
from binlog.cli.looking.event_fields import (
    MISSING,
    SEVERITY_MAX,
    Event,
    field_of,
    parse_event,
    severity_of,
    text_of,
)

# Of the length before each record in the data of a batch.
LENGTH_BYTES = 4

# Characters that every writer of JSON writes as they are, or as \u00....
_PLAIN = re.compile(r"[A-Za-z0-9_ .:@=,;+-]*")
# Not 0, which is also written as -0.
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]*")
_LITERAL = re.compile(rb"[A-Za-z0-9_ :@=,;\"'/<>!%&-]+")


@dataclass(frozen=True)
class Matches:
    """The records of a batch that match, in order.  Those that do not match are not held, unless it is a whole batch.

    number: of their file.  offset: of the batch in it.  starts: of each record in the batch.
    sequences: of each; None if another program made the file.  records: the bytes of each.
    events: of each; empty if they are not parsed.
    """

    number: int
    offset: int
    starts: Sequence[int]
    sequences: Sequence[int] | None
    records: Sequence[bytes] | binlog.Batch
    events: Sequence[Event] = ()

    @classmethod
    def whole(cls, batch: binlog.Batch) -> Matches:
        """Return all records of a batch."""
        sequences = None if batch.first_sequence is None else _from(batch.first_sequence, range(len(batch)))
        return cls(batch.number, batch.offset, batch.offsets[:-1], sequences, batch)

    @classmethod
    def some(cls, batch: binlog.Batch, indexes: Sequence[int], events: Sequence[Event] = ()) -> Matches:
        """Return the records of a batch with these indexes.  events: of each, or none."""
        data, offsets = batch.data, batch.offsets
        sequences = None if batch.first_sequence is None else _from(batch.first_sequence, indexes)
        records = [bytes(data[offsets[index] + LENGTH_BYTES : offsets[index + 1]]) for index in indexes]
        return cls(batch.number, batch.offset, [offsets[index] for index in indexes], sequences, records, events)

    def __len__(self) -> int:
        return len(self.records)

    def without_events(self) -> Matches:
        """Return the same records, not parsed: an event takes some ten times the memory of its text."""
        return replace(self, events=())

    def last(self, count: int) -> Matches:
        """Return the last `count` of them."""
        if len(self) <= count:
            return self
        kept = slice(len(self) - count, None)
        sequences = None if self.sequences is None else self.sequences[kept]
        records = list(self.records)[kept]
        return Matches(self.number, self.offset, self.starts[kept], sequences, records, self.events[kept])


class Filters:
    """The conditions that a record must meet, all of them.

    severity_min: the lowest severity of an event.  loggers: globs, of which the event's logger matches one.
    fields: names and values of fields of an event.  patterns: each is found in the record.  excluded: none is.
    """

    def __init__(
        self,
        *,
        severity_min: int | None = None,
        loggers: Sequence[str] = (),
        fields: Sequence[tuple[str, str]] = (),
        patterns: Sequence[re.Pattern[bytes]] = (),
        excluded: Sequence[re.Pattern[bytes]] = (),
    ) -> None:
        self._severity_min = severity_min
        self._loggers = re.compile("|".join(fnmatch.translate(glob) for glob in loggers)) if loggers else None
        self._fields = fields
        self._patterns = patterns
        self._excluded = excluded
        self._of_events = severity_min is not None or bool(loggers or fields)
        self._members = _members(severity_min, loggers, fields)
        self._literal = _literal(patterns)
        self._pass_all = not (self._of_events or patterns or excluded)

    def matches(self, batch: binlog.Batch, span: range | None = None) -> Matches:
        """Return the records of a batch that match.  span: indexes to choose from; all by default."""
        span = range(len(batch)) if span is None else span
        if self._pass_all or not span:
            return Matches.whole(batch) if len(span) == len(batch) else Matches.some(batch, span)
        data, offsets = bytes(batch.data), batch.offsets
        indexes: list[int] = []
        events: list[Event] = []
        for index in self._candidates(batch, data, span):
            record = data[offsets[index] + LENGTH_BYTES : offsets[index + 1]]
            if not all(pattern.search(record) for pattern in self._patterns):
                continue
            if any(pattern.search(record) for pattern in self._excluded):
                continue
            if self._of_events:
                event = parse_event(record)
                if event is None or not self._accepts(event):
                    continue
                events.append(event)
            indexes.append(index)
        return Matches.some(batch, indexes, events)

    def _candidates(self, batch: binlog.Batch, data: bytes, span: range) -> Sequence[int]:
        """Return the indexes of the records that may match, ascending."""
        if self._members:
            return batch.json_candidates(self._members, span.start, span.stop)
        if self._literal is None:
            return span
        return _containing(self._literal, data, batch.offsets.tolist(), span)

    def _accepts(self, event: Event) -> bool:
        if self._severity_min is not None and (severity_of(event) or 0) < self._severity_min:
            return False
        if self._loggers is not None:
            logger = event.get("logger")
            if not isinstance(logger, str) or self._loggers.fullmatch(logger) is None:
                return False
        for name, wanted in self._fields:
            value = field_of(event, name)
            if value is MISSING or text_of(value) != wanted:
                return False
        return True


def _from(first: int, indexes: Sequence[int]) -> Sequence[int]:
    if isinstance(indexes, range):
        return range(first + indexes.start, first + indexes.stop)
    return [first + index for index in indexes]


def _containing(pattern: re.Pattern[bytes], data: bytes, starts: list[int], span: range) -> list[int]:
    """Return the indexes of the records in which a pattern is found, by one search of all of them."""
    indexes: list[int] = []
    index, end = span.start, 0
    for match in pattern.finditer(data, starts[span.start], starts[span.stop]):
        place = match.start()
        if place >= end:
            index = bisect_right(starts, place, index) - 1
            end = starts[index + 1]
            indexes.append(index)
    return indexes


def _literal(patterns: Sequence[re.Pattern[bytes]]) -> re.Pattern[bytes] | None:
    """Return a pattern that matches nothing but its own text, so that one search of many records finds it."""
    for pattern in patterns:
        if _LITERAL.fullmatch(pattern.pattern) and not pattern.flags & re.IGNORECASE:
            return pattern
    return None


def _members(
    severity_min: int | None, loggers: Sequence[str], fields: Sequence[tuple[str, str]]
) -> list[binlog.JsonMember]:
    """Return the members that every event has that matches."""
    members = []
    if severity_min is not None:
        numbers = [str(number).encode() for number in range(severity_min, SEVERITY_MAX + 1)]
        members.append(binlog.JsonMember(b'"severity"', tuple(numbers)))
    if loggers:
        members.append(binlog.JsonMember(b'"logger"', tuple(_start_of(glob) for glob in loggers)))
    for name, value in fields:
        key = name.rpartition(".")[2]
        if _PLAIN.fullmatch(key):
            plain = value.encode() if _is_written_as_is(value) else None
            starts = [] if plain is None else [plain, b'"' + plain]
            members.append(binlog.JsonMember(key.encode() + b'"', tuple(starts), top_level=False))
    return members


def _start_of(glob: str) -> bytes:
    """Return what the JSON text of a string begins with if it matches a glob; all of it if the glob has no wildcard."""
    if _PLAIN.fullmatch(glob):
        return b'"' + glob.encode() + b'"'
    prefix = re.split(r"[*?\[]", glob, maxsplit=1)[0]
    return b'"' + (prefix.encode() if _PLAIN.fullmatch(prefix) else b"")


def _is_written_as_is(value: str) -> bool:
    """Return whether every JSON text of this value contains it: a number other than a whole one has several texts."""
    if not _PLAIN.fullmatch(value):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return _WHOLE_NUMBER.fullmatch(value) is not None
