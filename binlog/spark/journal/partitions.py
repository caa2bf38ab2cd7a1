"""How a read of a journal is divided into tasks: by files, of which small ones go together.

What a query's filters say of its records, so that what none of them can pass is neither read nor sent.

What the bytes of a journal's columns are called in rows, and which columns are null for which kinds of records.
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
"""What each byte is called; None where a row has null."""

_ENDS = (RecordKind.PREPARE, RecordKind.COMMIT, RecordKind.ROLLBACK)
_BODIES = (RecordKind.ADD, RecordKind.UPDATE, RecordKind.ADD_TX, RecordKind.UPDATE_TX)
_TRANSACTIONAL = (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX, *_ENDS)

# By the column of a row that is null for some kinds: the kinds for which it is not.
KINDS_WITH: dict[str, Collection[int]] = {
    "id": [kind for kind in RecordKind if kind not in _ENDS],
    "transaction": _TRANSACTIONAL,
    "user_type": _BODIES,
    "data": (*_BODIES, RecordKind.DELETE_TX, RecordKind.PREPARE),
}


def _names(of: Mapping[Any, str]) -> Names:
    return tuple(of.get(byte) for byte in range(BYTES))


# By the column of a row.
NAMES: dict[str, Names] = {
    "kind": _names({kind: kind.name.lower() for kind in RecordKind}),
    "state": _names({state: state.name.lower() for state in RecordState}),
}

# What a transaction came to, by the state of any record of it; where that is not here, it is committed.
_TRANSACTIONS = {
    RecordState.OPEN: "open",
    RecordState.PREPARED: "prepared",
    RecordState.ROLLED_BACK: "rolled_back",
    RecordState.FAILED: "failed",
}


def transaction_states(kind: int) -> Names:
    """What the transaction of a record of a kind came to, by the record's state."""
    if kind not in _TRANSACTIONAL:
        return _names({})
    ended = "rolled_back" if kind == RecordKind.ROLLBACK else "committed"
    names = {state: _TRANSACTIONS.get(state, ended) for state in RecordState}
    if kind == RecordKind.PREPARE:
        del names[RecordState.VOID]  # another one told what came of it
    return _names(names)


NUMBERS = ("id", "transaction", "offset")


class WantedRecords(Filters):
    """Which records are wanted of a journal."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("file", "file_id", *NUMBERS, *NAMES)

    def has_bound(self, column: str) -> bool:
        """Whether a filter says anything of a column."""
        return self.of(column) != ANY

    def named(self, column: str) -> bytes:
        """For each byte of a column that has names, 1 where a record with it may be wanted, and 0 elsewhere.

        As `bytes.translate` takes it.
        """
        has_bound = self.has_bound(column)
        return bytes(not has_bound or (name is not None and self.allows(column, name)) for name in NAMES[column])

    def may_match(self, file: FileSurvey) -> bool:
        """Whether any record of a file may be wanted."""
        return (
            self.allows("file", file.part.name)
            and self.allows("file_id", file.part.header.file_id)
            and self._overlaps("id", file.record_ids)
            and self._overlaps("transaction", file.tx_ids)
            and any(file.kinds.translate(self.named("kind")))
            and any(file.states.translate(self.named("state")))
        )

    def _overlaps(self, column: str, there: tuple[int, int]) -> bool:
        """Whether anything from one number to another may be wanted."""
        lowest, highest = self.of(column)
        return (lowest is None or lowest <= there[1]) and (highest is None or highest >= there[0])


_LONG_MAX = 2**63 - 1


class Damage(NamedTuple):
    """What is wrong, as a row tells it; file_id: where that is known."""

    file: str
    file_id: int | None
    offset: int
    end: int | None
    reason: str


@dataclass(frozen=True)
class JournalPart:
    """The records of a file; or what is wrong in the whole journal, which the driver has found out."""

    file: FilePart | None
    damage: tuple[Damage, ...] = ()

    @property
    def size(self) -> int:
        """How many bytes are read."""
        return 0 if self.file is None else self.file.end


def plan(options: JournalReadOptions, wanted: WantedRecords) -> list[Task[JournalPart]]:
    """The tasks for what is in the journal now.

    Blocks: for as long as going through all its records takes, as their states come of all of them.
    Raises: AccessError, BusyError, GoneError, NotFoundError, VersionError; ValueError for another layout; CorruptError
    where damage is to be an error.
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
    hint = "mode=PERMISSIVE has a row for each such place, and reads the rest"
    raise CorruptError(first.path, first.offset, first.rule, f"{first.text}{more}; {hint}")


def _damage(problem: Problem, found: JournalSurvey) -> Damage:
    name = os.path.basename(problem.path)
    ids = {file.part.name: file.part.header.file_id for file in found.files}
    return Damage(name, ids.get(name), problem.offset, problem.end, f"{problem.text} [{problem.rule}]")
