"""Which files of a journal lie in its folder, oldest first.  Reads, and changes nothing.

A look at a journal's folder from outside: which files count, oldest first, while another process may have it.

Takes no lock and writes nothing.  What is relied on:
- a file's use ends with another header, which is written before anything else of the next use; or it is removed, moved
  to the quarantine, or another file gets its name;
- of several files that nobody needs the oldest goes first, each durably;
- names change behind a control file alone, which is there for as long as they do (see compaction.py).
So what was read of a file counts where its header is the same behind it as before, and a control file that comes or
goes during a listing makes the listing be done again.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field, replace
from functools import partial

from binlog.errors import BusyError, CorruptError, GoneError, NotFoundError, VersionError
from binlog.format.journal.file_header import (
    FILE_START_BYTES,
    JBM_HEADER,
    JOURNAL_HEADER,
    FileHeader,
    JournalLayout,
    is_cut_header,
    parse_file_header,
)
from binlog.format.journal.names import COMPACTED_END, CONTROL_FILE, LOCK_FILE, NEW_END, QUARANTINE_FOLDER, JournalNames
from binlog.format.problem import Problem, problem_of
from binlog.format.values import member
from binlog.journal.compaction.control_file import FileMoves, obstacles, parse_control, read_control
from binlog.journal.loading.recognition import LaidOut, recognise, recognised_for_reading
from binlog.storage.directory import Directory
from binlog.storage.files import list_folder, read_at


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One use of a file.

    name: under which it lies; that of a compaction that was interrupted lies beside the one it is to replace.
    number: in its name, the id of its first use.
    start: what it begins with, by which another use is told from this one.
    """

    folder: str
    name: str
    number: int
    header: FileHeader
    file_bytes: int
    inode: int
    start: bytes

    @property
    def path(self) -> str:
        """Where it lies."""
        return os.path.join(self.folder, self.name)


@dataclass(slots=True)
class Listing:
    """The files of a journal.

    files: those with a header.  short: names of files that have not even a header, with the ids of their first uses.
    refused: paths, and what is wrong with headers.  lost_ids: ids that files may have whose headers are damaged.
    """

    files: list[SeenFile] = field(default_factory=list)
    short: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[str, CorruptError | VersionError]] = field(default_factory=list)
    lost_ids: list[int] = field(default_factory=list)

    @property
    def layout(self) -> JournalLayout | None:
        """What the files say; None where there are none."""
        return self.files[0].header.layout if self.files else None

    def add(self, directory: Directory, name: str, number: int, layout: JournalLayout | None) -> None:
        """A file that lies under a name.  number: in the name it has, or is to get.

        Raises: NotFoundError; AccessError; ValueError where it says that the layout is another one.
        """
        path = directory.file_path(name)
        with directory.opened(name) as fd:
            status = os.fstat(fd)
            start = read_at(fd, FILE_START_BYTES, 0, path)
        if is_cut_header(start):
            self.short[name] = number
            return
        try:
            header = parse_file_header(start, path, layout)
        except (CorruptError, VersionError) as error:
            self.refused.append((path, error))
            self.lost_ids.append(JOURNAL_HEADER.unpack(start.ljust(JOURNAL_HEADER.size, b"\0"))["file_id"])
            return
        size = JOURNAL_HEADER.size if header.layout is JournalLayout.NATIVE else JBM_HEADER.size
        self.files.append(SeenFile(directory.path, name, number, header, status.st_size, status.st_ino, start[:size]))

    def finish(self) -> None:
        """Put them in their order.  Two layouts, or two files with an id: what is not as most are is left out."""
        self.files.sort(key=lambda file: file.header.file_id)
        layouts = [file.header.layout for file in self.files]
        most = max(sorted(set(layouts), key=layouts.index), key=layouts.count, default=None)
        for file in list(self.files):
            if file.header.layout is not most:
                text = f"the header is one of the layout {file.header.layout.value!r}, and others are of another"
                self._leave_out(file, "layout", text)
        for one, other in list(itertools.pairwise(self.files)):
            if one.header.file_id == other.header.file_id:
                text = f"its id is {one.header.file_id}, and so is that of {one.name}"
                self._leave_out(other, "file_id", text)

    def _leave_out(self, file: SeenFile, rule: str, text: str) -> None:
        self.refused.append((file.path, CorruptError(file.path, 0, rule, text)))
        self.files.remove(file)


_TRIES = 64


@dataclass(frozen=True, slots=True)
class Look:
    """What lies in a folder.

    layout: None without any file.  files: of the journal, oldest first, also those without a record.
    lost_ids: ids that files may have whose headers are damaged.
    unfinished: names of files that were being made, or compacted.  quarantine: of files that a load set aside.
    problems: what is wrong with headers and names.
    """

    path: str
    layout: JournalLayout | None
    files: tuple[SeenFile, ...]
    lost_ids: tuple[int, ...]
    unfinished: tuple[str, ...]
    quarantine: tuple[str, ...]
    problems: tuple[Problem, ...]


def look(path: str | os.PathLike[str], names: JournalNames, layout: JournalLayout | None = None) -> Look:
    """What lies in a folder, at one moment.

    layout: of files that say nothing of it; what their records have unless told.
    Raises: AccessError; NotFoundError where the folder is no journal; ValueError where the files say that the layout is
    another one; CorruptError where their records are of no layout that is known; BusyError where names change again and
    again; GoneError.
    """
    layout = None if layout is None else member(JournalLayout, layout, "layout")
    path = os.path.abspath(path)
    with Directory(path) as directory:
        listed, found, problems = _list_settled(directory, names, layout)
        if not found.files and not problems and LOCK_FILE not in listed:
            raise NotFoundError(f"{path} is no journal: it has no file named as {names.file(1)}")
    files = _recognise(found, layout)
    unfinished = tuple(name for name in listed if names.is_unfinished(name) or name == CONTROL_FILE + NEW_END)
    quarantine = tuple(list_folder(os.path.join(path, QUARANTINE_FOLDER)))
    layout = files[0].header.layout if files else None
    return Look(path, layout, files, tuple(found.lost_ids), unfinished, quarantine, tuple(problems))


def read_seen(file: SeenFile) -> bytes:
    """All of a file.  Raises: GoneError where this use of it is over; AccessError."""
    try:
        with Directory(file.folder) as directory, directory.opened(file.name) as fd:
            data = read_at(fd, file.file_bytes, 0, file.path)
            # Once more: a next use begins with another header, and what was read after that is no longer of this one.
            start = read_at(fd, len(file.start), 0, file.path)
            same = os.fstat(fd).st_ino == file.inode and start == data[: len(start)] == file.start
    except NotFoundError as error:
        raise GoneError(f"{file.path} is gone, since it was listed") from error
    if not same:
        raise GoneError(f"{file.path} is used for something else, since it was listed")
    return data


def _list_settled(
    directory: Directory, names: JournalNames, layout: JournalLayout | None
) -> tuple[list[str], Listing, list[Problem]]:
    """All names in the folder, and the files: of one moment."""
    told: list[Problem] = []
    for _ in range(_TRIES):
        control = read_control(directory)
        listed = sorted(directory.names())
        try:
            found, problems = _list(directory, names, layout, listed, control)
        except GoneError:
            continue
        # A file that was made meanwhile may come before one that was used again meanwhile, and is among these.
        numbers = [set(filter(names.number, each)) for each in (listed, directory.names())]
        if numbers[0] != numbers[1] or read_control(directory) != control:
            continue
        if problems == told:
            return listed, found, problems
        told = problems  # or of a header that was being written while it was read
    raise BusyError(f"the files of {directory.path} change faster than they can be looked at", holder=None)


def _recognise(found: Listing, layout: JournalLayout | None) -> tuple[SeenFile, ...]:
    """The files with the layout that their records have.  Raises: CorruptError; GoneError."""
    if found.layout in (None, JournalLayout.NATIVE):
        return tuple(found.files)
    told = recognise(LaidOut(file.path, file.header, file.number, partial(read_seen, file)) for file in found.files)
    layout = told.layout_for(layout) or recognised_for_reading(told)
    return tuple(replace(file, header=file.header._replace(layout=layout)) for file in found.files)


def _list(
    directory: Directory,
    names: JournalNames,
    layout: JournalLayout | None,
    listed: list[str],
    control: bytes | None,
) -> tuple[Listing, list[Problem]]:
    """The files with these names.  Raises: GoneError where one was removed meanwhile."""
    moves, problems = _moves(directory, names, control)
    renamed = {name for name, _ in moves.renamed}
    numbers = {name: number for name in (*listed, *renamed) if (number := names.number(name)) is not None}
    found = Listing()
    for name in sorted(numbers):
        try:
            found.add(directory, _lies(directory, name, renamed), numbers[name], layout)
        except NotFoundError as error:
            if name in listed:
                raise GoneError(f"{directory.file_path(name)} was removed since it was listed") from error
            # It is told that what a compaction wrote is not there.
    found.files[:] = [file for file in found.files if (file.name, file.header.file_id) not in moves.dead]
    for file in found.files:
        if file.number > file.header.file_id:  # names have the ids of first uses, and ids only grow
            text = f"the header says that its id is {file.header.file_id}, which is before that of its first use"
            problems.append(Problem(file.path, 0, "name", text))
    found.finish()
    short = "it ends before its header does"
    problems += [Problem(directory.file_path(name), 0, "short", short) for name in found.short]
    problems += [problem_of(error, where) for where, error in found.refused]
    return found, problems


def _lies(directory: Directory, name: str, renamed: set[str]) -> str:
    """Under which name that file lies which has, or is to get, this one."""
    compacted = name + COMPACTED_END
    if name not in renamed:
        return name
    return compacted if directory.has(compacted) else name


def _moves(directory: Directory, names: JournalNames, control: bytes | None) -> tuple[FileMoves, list[Problem]]:
    """What a compaction was about to do, or does; nothing where its control file is damaged, or what it wrote."""
    nothing = FileMoves((), ())
    full = directory.file_path(CONTROL_FILE)
    try:
        moves = nothing if control is None else parse_control(control, full, names)
    except CorruptError as error:
        return nothing, [Problem(full, error.offset, "control", error.text)]
    try:
        problems = obstacles(directory, moves)
    except CorruptError as error:
        return moves, [problem_of(error, full)]
    return nothing if problems else moves, problems
