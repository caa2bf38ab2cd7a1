"""Checking a log: its files, and its consumer groups."""

from __future__ import annotations

import os

from binlog.errors import BinlogError, NotFoundError
from binlog.format.problem import Problem, problem_of
from binlog.log.maintain import check as log_check
from binlog.log.maintain.stat import file_sizes


def check(path: str | os.PathLike[str], *, number: int | None = None) -> list[Problem]:
    """Return every problem found in the log in a directory and in its consumer groups; an empty list for none.

    number: check only this file, whether it follows the one before it, and if it is the last one, whether the next
    exists, and the groups.  Such calls for each of `file_sizes`, in parallel, find together the same as one for the
    whole log.
    Reads every record's length, every byte that an index covers, and every frame of an archive, whose offsets are those
    of the log file; of each group its whole log, and some messages.  Takes no lock and writes nothing.
    Raises: NotFoundError if the directory does not exist or has no log; AccessError if it cannot be read.
    """
    problems = log_check.check(path, number=number)
    if os.path.isdir(os.path.join(path, "groups")) and number in (None, max(file_sizes(path), default=None)):
        problems += _check_groups(path)
    return problems


def _check_groups(path: str | os.PathLike[str]) -> list[Problem]:
    # Imported here, because most logs have no group.
    from binlog.consumers.inspection.check import check_group
    from binlog.consumers.retention import group_names

    problems: list[Problem] = []
    for name in group_names(path):
        try:
            problems += check_group(path, name)
        except NotFoundError:
            continue  # it was deleted meanwhile
        except BinlogError as error:
            problems.append(problem_of(error, os.path.join(path, "groups", name)))
    return problems
