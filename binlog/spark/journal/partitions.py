"""How a read of a journal is divided into tasks: by files, of which small ones go together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from binlog import Problem
from binlog.errors import CorruptError
from binlog.journal import FilePart, JournalSurvey, survey_journal
from binlog.spark.journal.options import JournalReadOptions
from binlog.spark.journal.pushdown import WantedRecords
from binlog.spark.tasks import Task, put_together, target_bytes

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
    parts = [JournalPart(file.part) for file in found.files if wanted.anything_of(file)]
    if found.problems:
        parts.append(JournalPart(None, tuple(_damage(problem, found) for problem in found.problems)))
    return put_together(parts, target_bytes(parts, options))


def _refuse(problems: Sequence[Problem]) -> None:
    first = problems[0]
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    hint = "mode=PERMISSIVE has a row for each such place, and reads the rest"
    raise CorruptError(first.path, first.offset, first.rule, f"{first.text}{more}; {hint}")


def _damage(problem: Problem, found: JournalSurvey) -> Damage:
    name = os.path.basename(problem.path)
    ids = {file.part.name: file.part.header.file_id for file in found.files}
    return Damage(name, ids.get(name), problem.offset, problem.end, f"{problem.text} [{problem.rule}]")
