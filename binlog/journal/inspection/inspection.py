"""Reading a whole journal from outside, as it was at one moment, while another process may append to it.

Files are read oldest first, and what is appended goes to the newest: so what was read of all is what there was at some
moment, unless one was used again before it was read, and then all is done again.  Some are read twice: one that was not
whole, once another one behind it has records, for it is whole then; and the last one of all.

Looking for everything that is wrong with a journal, and repairing nothing.

May run while its owner appends, reclaims and compacts.  After a crash nothing is told of what the next load does by
itself: a record that was being written, a compaction that was interrupted, transactions that nobody ended.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from binlog.errors import BusyError, CorruptError, GoneError
from binlog.format.checksums import crc32c
from binlog.format.journal.compiled import ColumnScan, scan_file
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.problem import Problem, problem_of
from binlog.journal.files.listing import Look, SeenFile, look, read_seen
from binlog.journal.loading.damage import file_problems, has_begun, is_cut, size_problems
from binlog.journal.loading.record_states import RecordStates, StatesInput, odd_problems, record_states

_TRIES = 64


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """A file with its records.

    crc: of its records, and of what lies between them.
    is_used: it has records, or had some that are damaged; others wait to be used, and may hold anything.
    """

    seen: SeenFile
    columns: ColumnScan
    crc: int
    is_used: bool
    is_ended: bool
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A journal at one moment.

    files: oldest first.  states: of their records, in the same order.
    """

    look: Look
    files: tuple[InspectedFile, ...]
    states: RecordStates

    @property
    def layout(self) -> JournalLayout | None:
        """None where there is no file."""
        return self.look.layout


def inspect_journal(
    path: str | os.PathLike[str], names: JournalNames, layout: JournalLayout | None = None
) -> Inspection:
    """Read all of a journal.  Takes no lock and writes nothing; damage is told, and the rest is there.

    layout: of files that say nothing of it, unless their records do.
    Raises: as `look`.
    """
    for _ in range(_TRIES):
        try:
            seen = look(path, names, layout)
            files = _read_all(seen)
        except GoneError:
            continue
        states = record_states((StatesInput(file.seen.header.record_id, file.columns) for file in files), seen.lost_ids)
        return Inspection(seen, files, states)
    raise BusyError(f"the files of {os.path.abspath(path)} are used again faster than they can be read", holder=None)


def records_crc(data: bytes, header: FileHeader, end: int) -> int:
    """Of a file's bytes, where its records end."""
    return crc32c(memoryview(data)[header.layout.header_bytes : end])


def _read_all(seen: Look) -> tuple[InspectedFile, ...]:
    files: list[InspectedFile] = []
    unsure = 0  # from there on the files may have been read too early
    last: tuple[int, bytes] | None = None
    for place, file in enumerate(seen.files):
        data = read_seen(file)
        files.append(_inspected(file, data))
        if files[-1].is_used:
            files[unsure:-1] = [_read_after(each) for each in files[unsure:-1]]
            unsure, last = place, (place, data)
    if last is not None:
        files[last[0]] = _without_cut_end(*_settled(files[last[0]], last[1]))
    return tuple(files)


def _inspected(file: SeenFile, data: bytes) -> InspectedFile:
    header = file.header
    columns = scan_file(data, header)
    is_ended = header.parse_end(data) is not None
    is_used = has_begun(header, data, columns) or is_ended
    problems = list(size_problems(file.path, header, file.file_bytes))
    if is_used:
        problems += file_problems(file.path, header, data, columns)
    return InspectedFile(file, columns, records_crc(data, header, columns.end), is_used, is_ended, tuple(problems))


def _read_after(file: InspectedFile) -> InspectedFile:
    """A file once another one behind it has records."""
    return file if file.is_ended else _inspected(file.seen, read_seen(file.seen))


def _settled(file: InspectedFile, data: bytes) -> tuple[InspectedFile, bytes]:
    """The last file as it was at one moment, with no problem but those that a second look tells too.

    A read beside a write may see the end of what is written and not yet its beginning, and a second read sees both.
    """
    for _ in range(_TRIES):
        now = read_seen(file.seen)
        if now == data:
            return file, data
        again = _inspected(file.seen, now)
        if again.columns.offset.startswith(file.columns.offset):
            # Where something else is by now it was being written.
            problems = [each for each in file.problems if data[each.offset : each.end] == now[each.offset : each.end]]
            return replace(file, problems=tuple(problems)), data
        file, data = again, now
    raise GoneError(f"{file.seen.path} changes faster than it can be read")


def _without_cut_end(file: InspectedFile, data: bytes) -> InspectedFile:
    """The last file, without telling of a record that its process did not finish: the next load sees to it."""
    header = file.seen.header
    left = [problem for problem in file.problems if problem.rule != "tail" or not is_cut(data, problem.offset, header)]
    return replace(file, problems=tuple(left))


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
