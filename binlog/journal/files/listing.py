"""Listing the files of a journal, oldest first, even while another process has it open.

Takes no lock and writes nothing.  It relies on these facts:
- A use of a file ends when a new header is written, before any other byte of the next use; or when the file is removed,
  moved to the quarantine, or replaced by a rename.
- Dead files are freed oldest first, each durably.
- Files are renamed only while a control file exists (see compactor.py).
So the bytes of a file are valid if its header is the same after the read as before.  If a control file appears or
disappears during a listing, the listing is repeated.
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
from binlog.journal.compaction.control_file import FileMoves, find_obstacles, parse_control, read_control
from binlog.journal.loading.recognition import JbmFile, layout_for_reading, recognise
from binlog.storage.directory import Directory
from binlog.storage.files import list_folder, read_at


@dataclass(frozen=True, slots=True)
class FileUse:
    """One use of a file.

    name: its current name; the file of an interrupted compaction still has the suffix `.cmp`.
    number: from its final name; the id of the first use of the file.
    start: its first bytes, which tell this use from another one.
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
        """Its path."""
        return os.path.join(self.folder, self.name)


@dataclass(slots=True)
class Listing:
    """The files of a journal.

    files: those with a valid header.  short: names of files that end before their header does, with their numbers.
    refused: paths of files with an invalid header, and the reasons.  unreadable_ids: ids that those files may have.
    """

    files: list[FileUse] = field(default_factory=list)
    short: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[str, CorruptError | VersionError]] = field(default_factory=list)
    unreadable_ids: list[int] = field(default_factory=list)

    @property
    def layout(self) -> JournalLayout | None:
        """The layout of the files; None if no file has a header."""
        return self.files[0].header.layout if self.files else None

    def add(self, directory: Directory, name: str, number: int, layout: JournalLayout | None) -> None:
        """Add a file by its current name.  number: from its final name.

        Raises: NotFoundError; AccessError; ValueError if its layout differs from the given one.
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
            self.unreadable_ids.append(JOURNAL_HEADER.unpack(start.ljust(JOURNAL_HEADER.size, b"\0"))["file_id"])
            return
        size = JOURNAL_HEADER.size if header.layout is JournalLayout.NATIVE else JBM_HEADER.size
        self.files.append(FileUse(directory.path, name, number, header, status.st_size, status.st_ino, start[:size]))

    def finish(self) -> None:
        """Sort the files, and refuse files of a minority layout, and the second of two files with the same id."""
        self.files.sort(key=lambda file: file.header.file_id)
        layouts = [file.header.layout for file in self.files]
        most = max(sorted(set(layouts), key=layouts.index), key=layouts.count, default=None)
        for file in list(self.files):
            if file.header.layout is not most:
                text = f"the header is one of the layout {file.header.layout.value!r}, and others are of another"
                self._refuse(file, "layout", text)
        for one, other in list(itertools.pairwise(self.files)):
            if one.header.file_id == other.header.file_id:
                text = f"its id is {one.header.file_id}, and so is that of {one.name}"
                self._refuse(other, "file_id", text)

    def _refuse(self, file: FileUse, rule: str, text: str) -> None:
        self.refused.append((file.path, CorruptError(file.path, 0, rule, text)))
        self.files.remove(file)


_TRIES = 64


@dataclass(frozen=True, slots=True)
class FolderView:
    """The contents of a journal's folder at one moment.

    layout: None if no file has a header.  files: oldest first, with and without records.
    unreadable_ids: ids that files with a damaged header may have.
    unfinished: names of files that are being created, or written by a compaction, or were left by a crash.
    quarantine: names of files that loads have moved there.  problems: of headers and names.
    """

    path: str
    layout: JournalLayout | None
    files: tuple[FileUse, ...]
    unreadable_ids: tuple[int, ...]
    unfinished: tuple[str, ...]
    quarantine: tuple[str, ...]
    problems: tuple[Problem, ...]


def view_folder(path: str | os.PathLike[str], names: JournalNames, layout: JournalLayout | None = None) -> FolderView:
    """List a journal's folder as it is at one moment.

    layout: of files with a four-byte header; by default, recognised by their records.
    Raises: AccessError; NotFoundError if the folder is no journal; ValueError if the headers show another layout;
    CorruptError if the records are of no known layout; BusyError if names change faster than they can be listed;
    GoneError.
    """
    layout = None if layout is None else member(JournalLayout, layout, "layout")
    path = os.path.abspath(path)
    with Directory(path) as directory:
        listed, listing, problems = _list_stable(directory, names, layout)
        if not listing.files and not problems and LOCK_FILE not in listed:
            raise NotFoundError(f"{path} is no journal: it has no file named as {names.file(1)}")
    files = _recognise(listing, layout)
    unfinished = tuple(name for name in listed if names.is_unfinished(name) or name == CONTROL_FILE + NEW_END)
    quarantine = tuple(list_folder(os.path.join(path, QUARANTINE_FOLDER)))
    layout = files[0].header.layout if files else None
    return FolderView(path, layout, files, tuple(listing.unreadable_ids), unfinished, quarantine, tuple(problems))


def read_use(file: FileUse) -> bytes:
    """Read all of a file.  Raises: GoneError if this use of it has ended; AccessError."""
    try:
        with Directory(file.folder) as directory, directory.opened(file.name) as fd:
            data = read_at(fd, file.file_bytes, 0, file.path)
            # Read the header again: if it has changed, some of the data may belong to the next use.
            start = read_at(fd, len(file.start), 0, file.path)
            same = os.fstat(fd).st_ino == file.inode and start == data[: len(start)] == file.start
    except NotFoundError as error:
        raise GoneError(f"{file.path} was removed since it was listed") from error
    if not same:
        raise GoneError(f"{file.path} was reused or replaced since it was listed")
    return data


def _list_stable(
    directory: Directory, names: JournalNames, layout: JournalLayout | None
) -> tuple[list[str], Listing, list[Problem]]:
    """List until names, files and problems are those of one moment."""
    before: list[Problem] = []
    for _ in range(_TRIES):
        control = read_control(directory)
        listed = sorted(directory.names())
        try:
            listing, problems = _list(directory, names, layout, listed, control)
        except GoneError:
            continue
        # A reused file has a new id.  If a file was created meanwhile, its id may be lower, and it must not be missing.
        numbers = [set(filter(names.number, each)) for each in (listed, directory.names())]
        if numbers[0] != numbers[1] or read_control(directory) != control:
            continue
        if problems == before:
            return listed, listing, problems
        before = problems  # a header may just have been written: report problems only if they stay
    raise BusyError(f"the files of {directory.path} change faster than they can be listed", holder=None)


def _recognise(listing: Listing, layout: JournalLayout | None) -> tuple[FileUse, ...]:
    """Return the files with their layout, recognised if needed.  Raises: CorruptError; GoneError."""
    if listing.layout in (None, JournalLayout.NATIVE):
        return tuple(listing.files)
    recognition = recognise(
        JbmFile(file.path, file.header, file.number, partial(read_use, file)) for file in listing.files
    )
    layout = recognition.confirm_layout(layout) or layout_for_reading(recognition)
    return tuple(replace(file, header=file.header._replace(layout=layout)) for file in listing.files)


def _list(
    directory: Directory,
    names: JournalNames,
    layout: JournalLayout | None,
    listed: list[str],
    control: bytes | None,
) -> tuple[Listing, list[Problem]]:
    """List the files with these names, as if a compaction in progress were complete.  Raises: GoneError."""
    moves, problems = _moves(directory, names, control)
    renamed = {name for name, _ in moves.renamed}
    numbers = {name: number for name in (*listed, *renamed) if (number := names.number(name)) is not None}
    listing = Listing()
    # A dead file may be freed during the listing, and then gets the largest id.  If its old use is seen and left out,
    # no use after its new one may be seen: records in the middle would be missing.  So the dead files are listed last,
    # in the reverse of the order in which they are freed.
    dead = [name for name, _ in reversed(moves.dead) if name in numbers]
    for name in [*sorted(numbers.keys() - set(dead)), *dead]:
        try:
            listing.add(directory, _current_name(directory, name, renamed), numbers[name], layout)
        except NotFoundError as error:
            if name in listed:
                raise GoneError(f"{directory.file_path(name)} was removed since it was listed") from error
            # Otherwise the file of a compaction is missing, which `find_obstacles` reports.
    listing.files[:] = [file for file in listing.files if (file.name, file.header.file_id) not in moves.dead]
    for file in listing.files:
        if file.number > file.header.file_id:  # the number is the id of the first use, and ids only grow
            text = f"the header says that its id is {file.header.file_id}, which is before that of its first use"
            problems.append(Problem(file.path, 0, "name", text))
    listing.finish()
    short = "it ends before its header does"
    problems += [Problem(directory.file_path(name), 0, "short", short) for name in listing.short]
    problems += [problem_of(error, refused) for refused, error in listing.refused]
    return listing, problems


def _current_name(directory: Directory, name: str, renamed: set[str]) -> str:
    """Return the name that a file has now, given its final name."""
    compacted = name + COMPACTED_END
    if name not in renamed:
        return name
    return compacted if directory.has(compacted) else name


def _moves(directory: Directory, names: JournalNames, control: bytes | None) -> tuple[FileMoves, list[Problem]]:
    """Return the moves of a compaction in progress; none if its control file or a new file is damaged."""
    nothing = FileMoves((), ())
    full = directory.file_path(CONTROL_FILE)
    try:
        moves = nothing if control is None else parse_control(control, full, names)
    except CorruptError as error:
        return nothing, [Problem(full, error.offset, "control", error.text)]
    try:
        problems = find_obstacles(directory, moves)
    except CorruptError as error:
        return moves, [problem_of(error, full)]
    return nothing if problems else moves, problems
