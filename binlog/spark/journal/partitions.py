"""Divide a read of a journal into tasks, by files, and name the values in its columns.

The filters of a query exclude files and records, so that these are neither read nor sent.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from binlog import Problem
from binlog.errors import CorruptError
from binlog.journal import FilePart, FileSurvey, JournalSurvey, RecordKind, RecordState, survey_journal
from binlog.spark.filters import ANY, Filters
from binlog.spark.journal.options import JournalReadOptions
from binlog.spark.tasks import Task, pack_tasks, target_bytes

BYTES = 256

Names = tuple[str | None, ...]
"""The name of each byte value; None if the row has null."""

_ENDS = (RecordKind.PREPARE, RecordKind.COMMIT, RecordKind.ROLLBACK)
_BODIES = (RecordKind.ADD, RecordKind.UPDATE, RecordKind.ADD_TX, RecordKind.UPDATE_TX)
_TRANSACTIONAL = (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX, *_ENDS)

# The kinds of records that have a value in a column.
KINDS_WITH: dict[str, Collection[int]] = {
    "id": [kind for kind in RecordKind if kind not in _ENDS],
    "transaction": _TRANSACTIONAL,
    "user_type": _BODIES,
    "data": (*_BODIES, RecordKind.DELETE_TX, RecordKind.PREPARE),
}


def _names(of: Mapping[Any, str]) -> Names:
    return tuple(of.get(byte) for byte in range(BYTES))


# The names of the byte values in a column.
NAMES: dict[str, Names] = {
    "kind": _names({kind: kind.name.lower() for kind in RecordKind}),
    "state": _names({state: state.name.lower() for state in RecordState}),
}

# The state of a transaction, by the state of any of its records; otherwise it is committed.
_TRANSACTIONS = {
    RecordState.OPEN: "open",
    RecordState.PREPARED: "prepared",
    RecordState.ROLLED_BACK: "rolled_back",
    RecordState.FAILED: "failed",
}


def transaction_states(kind: int) -> Names:
    """Return the transaction's state by the record's state, for a kind of record."""
    if kind not in _TRANSACTIONAL:
        return _names({})
    ended = "rolled_back" if kind == RecordKind.ROLLBACK else "committed"
    names = {state: _TRANSACTIONS.get(state, ended) for state in RecordState}
    if kind == RecordKind.PREPARE:
        del names[RecordState.VOID]  # another PREPARE decided the outcome
    return _names(names)


NUMBERS = ("id", "transaction", "offset")


class WantedRecords(Filters):
    """The bounds of a query's filters on a journal."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("file", "file_id", *NUMBERS, *NAMES)

    def has_bound(self, column: str) -> bool:
        """Return whether a filter bounds a column."""
        return self.of(column) != ANY

    def named(self, column: str) -> bytes:
        """Return, for each byte value of a column of names, 1 if records with it may be wanted and 0 if not.

        The result is a table for `bytes.translate`.
        """
        has_bound = self.has_bound(column)
        return bytes(not has_bound or (name is not None and self.allows(column, name)) for name in NAMES[column])

    def may_match(self, file: FileSurvey) -> bool:
        """Return whether any record of a file may be wanted."""
        return (
            self.allows("file", file.part.name)
            and self.allows("file_id", file.part.header.file_id)
            and self._overlaps("id", file.record_ids)
            and self._overlaps("transaction", file.tx_ids)
            and any(file.kinds.translate(self.named("kind")))
            and any(file.states.translate(self.named("state")))
        )

    def _overlaps(self, column: str, there: tuple[int, int]) -> bool:
        """Return whether a range of numbers contains a wanted one."""
        lowest, highest = self.of(column)
        return (lowest is None or lowest <= there[1]) and (highest is None or highest >= there[0])


_LONG_MAX = 2**63 - 1


class Damage(NamedTuple):
    """A problem as a row reports it.  file_id: if it is known."""

    file: str
    file_id: int | None
    offset: int
    end: int | None
    reason: str


@dataclass(frozen=True)
class JournalPart:
    """The records of a file, or the problems of the whole journal, which the driver has found."""

    file: FilePart | None
    damage: tuple[Damage, ...] = ()

    @property
    def size(self) -> int:
        """The bytes to read."""
        return 0 if self.file is None else self.file.end


def plan(options: JournalReadOptions, wanted: WantedRecords) -> list[Task[JournalPart]]:
    """Return the tasks for the journal's current contents.

    Blocks while all records are read, because the state of each depends on the others.
    Raises: AccessError, BusyError, GoneError, NotFoundError, VersionError; ValueError for another layout; CorruptError
    for damage, unless permissive.
    """
    found = survey_journal(options.path, prefix=options.prefix, extension=options.extension, layout=options.layout)
    if found.problems and not options.permissive:
        _refuse(found.problems)
    for file in found.files:
        if file.part.header.file_id > _LONG_MAX:
            text = f"the file's id {file.part.header.file_id} is more than a LONG can hold"
            raise CorruptError(file.part.path, 0, "file_id", text)
    parts = [JournalPart(file.part) for file in found.files if wanted.may_match(file)]
    if found.problems:
        parts.append(JournalPart(None, tuple(_damage(problem, found) for problem in found.problems)))
    return pack_tasks(parts, target_bytes(parts, options))


def _refuse(problems: Sequence[Problem]) -> None:
    first = problems[0]
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    hint = "mode=PERMISSIVE returns a row for each problem and reads the rest"
    raise CorruptError(first.path, first.offset, first.rule, f"{first.text}{more}; {hint}")


def _damage(problem: Problem, found: JournalSurvey) -> Damage:
    name = os.path.basename(problem.path)
    ids = {file.part.name: file.part.header.file_id for file in found.files}
    return Damage(name, ids.get(name), problem.offset, problem.end, f"{problem.text} [{problem.rule}]")
