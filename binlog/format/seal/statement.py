"""Statements: signed texts about a sealed log, of events other than appends.

Statements are numbered from 0, and each has the hash of the one before, so none can be left out.  A checkpoint has the
count of statements and the hash of the last one.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import parse_count, parse_hash
from binlog.format.seal.note import check_name, encode_base64, parse_notes
from binlog.format.seal.tree import HASH_BYTES

NO_STATEMENT = bytes(HASH_BYTES)
"""In place of the hash of the statement before the first one."""

_FIRST_LINE = "binlog seal statement v1"
_VALUES_TEXT_MAX = 1 << 13


class Kind(enum.StrEnum):
    """The kinds of statements, with their values."""

    START = "start"  # the sealer runs.  every: seconds between two checkpoints
    STOP = "stop"  # it was stopped by its operator
    GAP = "gap"  # no sealer ran.  begin, end: times, seconds since 1970 UTC
    CLOCK = "clock"  # the system's clock was set.  before, after: times, seconds since 1970 UTC
    PRUNE = "prune"  # retention may remove the records before a leaf.  leaf; ref: of it, in the first file to stay
    HOLD = "hold"  # retention may not remove a leaf or any later one.  name; leaf; ref
    RELEASE = "release"  # a hold ends.  name
    LOSS = "loss"  # records are no longer in the log.  leaf, end: the lost leaves; ref: of leaf `end`
    REPAIR = "repair"  # fillers are in the place of records.  leaf, end: their leaves
    LATE = "late"  # a record was added to a file after the next one was begun.  ref; hash: of its leaf
    BRANCH = "branch"  # a copy of another sealed log.  origin, records: of its last checkpoint; checkpoint
    END = "end"  # no record will be added any more


# All kinds may also have: by, the name of a user; why, a text.
_NUMBERS = {
    Kind.START: (),
    Kind.STOP: (),
    Kind.GAP: ("begin", "end"),
    Kind.CLOCK: ("before", "after"),
    Kind.PRUNE: ("leaf",),
    Kind.HOLD: ("leaf",),
    Kind.RELEASE: (),
    Kind.LOSS: ("leaf", "end"),
    Kind.REPAIR: ("leaf", "end"),
    Kind.LATE: (),
    Kind.BRANCH: ("records",),
    Kind.END: (),
}
_TEXTS = {
    Kind.PRUNE: ("ref",),
    Kind.HOLD: ("name", "ref"),
    Kind.RELEASE: ("name",),
    Kind.LOSS: ("ref",),
    Kind.LATE: ("ref", "hash"),
    Kind.BRANCH: ("origin", "checkpoint"),
}

Value = str | int | float


class Statement(NamedTuple):
    """A statement.

    origin: of the log.  number: counted from 0.  previous: the hash of the statement before.
    size: records that were sealed when it was made.  seconds: when, since 1970 UTC.  values: see Kind.
    """

    origin: str
    number: int
    previous: bytes
    size: int
    seconds: int
    kind: Kind
    values: Mapping[str, Value]

    def text(self) -> str:
        """Return the text to be signed."""
        values = json.dumps(dict(self.values), sort_keys=True, separators=(",", ":"))
        numbers = (str(self.number), encode_base64(self.previous), str(self.size), str(self.seconds))
        return "".join(line + "\n" for line in (_FIRST_LINE, self.origin, *numbers, self.kind, values))

    def hash(self) -> bytes:
        """Return the hash that the next statement and the checkpoints have."""
        return sha256(self.text().encode()).digest()

    def __str__(self) -> str:
        """Return the kind and the values as a line for people."""
        values = [f"{name} {value}" for name, value in self.values.items() if value != "" and name != "checkpoint"]
        return f"{self.kind}{': ' if values else ''}{', '.join(values)}"

    def integer(self, name: str) -> int:
        """Return a value that is a number; `parse_statement` has checked that it exists."""
        return int(self.values[name])

    def ref(self) -> Ref:
        """Return the value `ref`."""
        return Ref.parse(str(self.values["ref"]))


def parse_statement(text: str) -> Statement:
    """Return a statement, given the text of its note.  Raises: SealError."""
    lines = text.split("\n")
    if len(lines) != len(Statement._fields) + 2 or lines[0] != _FIRST_LINE or lines.pop():
        raise SealError("not a statement of a seal")
    _, origin, number, previous, size, seconds, kind, values = lines
    if len(values) > _VALUES_TEXT_MAX:
        raise SealError(f"the values of a statement have {len(values)} bytes; the limit is {_VALUES_TEXT_MAX}")
    try:
        found = json.loads(values)
        statement = Statement(
            check_name(origin),
            parse_count(number),
            parse_hash(previous),
            parse_count(size),
            parse_count(seconds),
            Kind(kind),
            found,
        )
    except (ValueError, RecursionError) as error:
        raise SealError(f"a statement of a seal is malformed: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(value, str | int | float) for value in found.values()):
        raise SealError("the values of a statement are texts and numbers")
    for name in _NUMBERS[statement.kind]:
        parse_count(str(found.get(name)))
    for name in _TEXTS.get(statement.kind, ()):
        if not isinstance(found.get(name), str):
            raise SealError(f"a statement of the kind {kind} has no value {name}")
    if "ref" in found:
        try:
            Ref.parse(str(found["ref"]))
        except ValueError as error:
            raise SealError(f"a statement has no ref: {error}") from error
    return statement


def broken_text(origin: str, seconds: int, error: str) -> str:
    """Return the text of the note that tells anchors that a log differs from its seal."""
    return "".join(line + "\n" for line in ("binlog seal broken v1", origin, str(seconds), " ".join(error.split())))


def parse_statements(data: bytes) -> list[Statement]:
    """Return the statements of a file, of which no signature is checked.  Raises: SealError."""
    return [parse_statement(note.text) for note in parse_notes(data)]


class Loss(NamedTuple):
    """Leaves that are no longer in the log.  ref: where the log continues, with leaf `end`."""

    first: int
    end: int
    ref: Ref


def losses_of(statements: Iterable[Statement]) -> list[Loss]:
    """Return the losses that statements tell."""
    return [
        Loss(each.integer("leaf"), each.integer("end"), each.ref()) for each in statements if each.kind is Kind.LOSS
    ]


def repairs_of(statements: Iterable[Statement]) -> list[tuple[int, int]]:
    """Return the leaves in whose place fillers are, as statements tell: the first ones, and those after the last."""
    return [(each.integer("leaf"), each.integer("end")) for each in statements if each.kind is Kind.REPAIR]


def holds_of(statements: Iterable[Statement]) -> dict[str, Statement]:
    """Return the holds that have not ended, by name."""
    found: dict[str, Statement] = {}
    for each in statements:
        if each.kind is Kind.HOLD:
            found[str(each.values["name"])] = each
        elif each.kind is Kind.RELEASE:
            found.pop(str(each.values["name"]), None)
    return found


def prune_limit(statements: Iterable[Statement]) -> Statement | None:
    """Return the statement that lets retention remove the most records; None if no record may be removed."""
    pruned = [each for each in statements if each.kind is Kind.PRUNE]
    return max(pruned, key=lambda each: each.integer("leaf")) if pruned else None
