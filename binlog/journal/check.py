"""Looking for everything that is wrong with a journal, and repairing nothing.

May run while its owner appends, reclaims and compacts.  After a crash nothing is told of what the next load does by
itself: a record that was being written, a compaction that was interrupted, transactions that nobody ended.
"""

from __future__ import annotations

import os

from binlog.errors import CorruptError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.problem import Problem, problem_of
from binlog.journal.inspection import Inspection, inspect_journal
from binlog.journal.record_states import odd_problems


def check_journal(
    path: str | os.PathLike[str],
    *,
    prefix: str = "journal",
    extension: str = "jnl",
    layout: JournalLayout | None = None,
) -> list[Problem]:
    """Every problem found in the journal in a folder; an empty list for none.

    prefix, extension: of its files' names.  layout: of files that say nothing of it, unless their records do.
    Reads every byte.  Takes no lock and writes nothing.
    Raises: AccessError where something cannot be read at all; NotFoundError where the folder is no journal; ValueError
    where the files are of another layout; BusyError where they are used again faster than they can be read.
    """
    try:
        return find_problems(inspect_journal(path, JournalNames(prefix, extension), layout))
    except CorruptError as error:  # no layout that is known
        return [problem_of(error, os.path.abspath(path))]


def find_problems(journal: Inspection) -> list[Problem]:
    """What is wrong with a journal that was read."""
    problems = list(journal.look.problems)
    for file in journal.files:
        problems += file.problems
    paths, columns = [file.seen.path for file in journal.files], [file.columns for file in journal.files]
    is_any_gone = _is_any_gone(journal) or any(file.problems for file in journal.files)
    return [*problems, *odd_problems(paths, columns, journal.states, is_any_gone=is_any_gone)]


def _is_any_gone(journal: Inspection) -> bool:
    """Whether there may have been files which are not there any more, or are used again.

    Also behind the last one that has records: a compaction keeps deletes of what was in those.
    """
    ids = {file.seen.header.file_id for file in journal.files}
    return len(ids) < max(ids, default=0)
