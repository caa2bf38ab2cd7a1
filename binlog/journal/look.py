"""A look at a journal's folder from outside: which files count, oldest first, while another process may have it.

Takes no lock and writes nothing.  What is relied on:
- a file's use ends with another header, which is written before anything else of the next use; or it is removed, moved
  to the attic, or another file gets its name;
- of several files that nobody needs the oldest goes first, each durably;
- names change behind a control file alone, which is there for as long as they do (see compaction.py).
So what was read of a file counts where its header is the same behind it as before, and a control file that comes or
goes during a listing makes the listing be done again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
from binlog.format.journal.names import ATTIC_FOLDER, COMPACTED_END, CONTROL_FILE, LOCK_FILE, NEW_END, JournalNames
from binlog.format.problem import Problem, problem_of
from binlog.format.values import member
from binlog.journal.control_file import CHANGED, FileMoves, changed_file, damaged_files, parse_control
from binlog.journal.recognition import LaidOut, recognise, recognised_for_reading
from binlog.storage.failures import own_errors
from binlog.storage.files import list_folder, open_file, open_named_directory, read_at

_TRIES = 64
_CONTROL_BYTES_MAX = 64 << 20


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


@dataclass(frozen=True, slots=True)
class Look:
    """What lies in a folder.

    layout: None without any file.  files: of the journal, oldest first, also those without a record.
    lost_ids: ids that files may have whose headers are damaged.
    unfinished: names of files that were being made, or compacted.  attic: of files that a load set aside.
    problems: what is wrong with headers and names.
    """

    path: str
    layout: JournalLayout | None
    files: tuple[SeenFile, ...]
    lost_ids: tuple[int, ...]
    unfinished: tuple[str, ...]
    attic: tuple[str, ...]
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Found:
    """What a listing comes to."""

    files: list[SeenFile] = field(default_factory=list)
    lost_ids: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def look(path: str | os.PathLike[str], names: JournalNames, layout: JournalLayout | None = None) -> Look:
    """What lies in a folder, at one moment.

    layout: of files that say nothing of it; what their records have unless told.
    Raises: AccessError; NotFoundError where the folder is no journal; ValueError where the files say that the layout is
    another one; CorruptError where their records are of no layout that is known; BusyError where names change again and
    again; GoneError.
    """
    layout = None if layout is None else member(JournalLayout, layout, "layout")
    path = os.path.abspath(path)
    with _directory(path) as directory_fd:
        listed, found = _list_settled(path, directory_fd, names, layout)
        if not found.files and not found.problems and LOCK_FILE not in listed:
            raise NotFoundError(f"{path} is no journal: it has no file named as {names.file(1)}")
    _check_alike(found)
    _recognise(path, found, layout)
    unfinished = tuple(name for name in listed if names.is_unfinished(name) or name == CONTROL_FILE + NEW_END)
    attic = tuple(list_folder(os.path.join(path, ATTIC_FOLDER)))
    return Look(
        path, found.files[0].header.layout if found.files else None, tuple(found.files), tuple(found.lost_ids),
        unfinished, attic, tuple(found.problems),
    )  # fmt: skip


def read_seen(file: SeenFile) -> bytes:
    """All of a file.  Raises: GoneError where this use of it is over; AccessError."""
    try:
        with _directory(file.folder) as directory_fd, _opened(file.folder, directory_fd, file.name) as fd:
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
    path: str, directory_fd: int, names: JournalNames, layout: JournalLayout | None
) -> tuple[list[str], _Found]:
    """All names in the folder, and the files: of one moment."""
    told: list[Problem] = []
    for _ in range(_TRIES):
        control = _control(path, directory_fd)
        listed = _names(path, directory_fd)
        try:
            found = _list(path, directory_fd, names, layout, listed, control)
        except GoneError:
            continue
        # A file that was made meanwhile may come before one that was used again meanwhile, and is among these.
        numbers = [set(filter(names.number, each)) for each in (listed, _names(path, directory_fd))]
        if numbers[0] != numbers[1] or _control(path, directory_fd) != control:
            continue
        if found.problems == told:
            return listed, found
        told = found.problems  # or of a header that was being written while it was read
    raise BusyError(f"the files of {path} change faster than they can be looked at", holder=None)


def _recognise(path: str, found: _Found, layout: JournalLayout | None) -> None:
    """Have the files the layout that their records have.  Raises: CorruptError; GoneError."""
    if not found.files or found.files[0].header.layout is JournalLayout.NATIVE:
        return
    told = recognise(LaidOut(file.path, file.header, file.number, partial(read_seen, file)) for file in found.files)
    if layout is None:
        layout = recognised_for_reading(told)
    elif (refusal := told.refusal(layout.value)) is not None:
        raise refusal
    found.files[:] = [replace(file, header=file.header._replace(layout=layout)) for file in found.files]


def _names(path: str, directory_fd: int) -> list[str]:
    with own_errors(path, "listing the folder"):
        return sorted(os.listdir(directory_fd))


def _list(
    path: str,
    directory_fd: int,
    names: JournalNames,
    layout: JournalLayout | None,
    listed: list[str],
    control: bytes | None,
) -> _Found:
    """The files with these names.  Raises: GoneError where one was removed meanwhile."""
    found = _Found()
    moves = _moves(path, directory_fd, names, control, found)
    renamed = {name for name, _ in moves.renamed}
    dead = dict(moves.dead)
    numbers = {name: number for name in (*listed, *renamed) if (number := names.number(name)) is not None}
    for name in sorted(numbers):
        try:
            file = _seen(path, directory_fd, _lies(directory_fd, name, renamed), numbers[name], layout, found)
        except NotFoundError as error:
            if name in listed:
                raise GoneError(f"{os.path.join(path, name)} was removed since it was listed") from error
            continue  # it is told that what a compaction wrote is not there
        if file is not None and dead.get(name) != file.header.file_id:
            found.files.append(file)
            _check_name(file, found)
    found.files.sort(key=lambda file: file.header.file_id)
    return found


def _lies(directory_fd: int, name: str, renamed: set[str]) -> str:
    """Under which name that file lies which has, or is to get, this one."""
    compacted = name + COMPACTED_END
    if name not in renamed:
        return name
    try:
        os.stat(compacted, dir_fd=directory_fd, follow_symlinks=False)
    except OSError:
        return name
    return compacted


def _seen(
    path: str, directory_fd: int, name: str, number: int, layout: JournalLayout | None, found: _Found
) -> SeenFile | None:
    """The file under a name; None, and a problem, where its header is none.  Raises: NotFoundError; ValueError."""
    with _opened(path, directory_fd, name) as fd:
        status = os.fstat(fd)
        start = read_at(fd, FILE_START_BYTES, 0, os.path.join(path, name))
    full = os.path.join(path, name)
    if is_cut_header(start):
        found.problems.append(Problem(full, 0, "short", f"it has {len(start)} bytes, and its header more"))
        return None
    try:
        header = parse_file_header(start, full, layout)
    except (CorruptError, VersionError) as error:
        found.problems.append(problem_of(error, full))
        found.lost_ids.append(JOURNAL_HEADER.unpack(start.ljust(JOURNAL_HEADER.size, b"\0"))["file_id"])
        return None
    size = JOURNAL_HEADER.size if header.layout is JournalLayout.NATIVE else JBM_HEADER.size
    return SeenFile(path, name, number, header, status.st_size, status.st_ino, start[:size])


def _check_name(file: SeenFile, found: _Found) -> None:
    """Names have the ids of first uses, and ids only grow."""
    if file.number > file.header.file_id:
        text = f"the header says that its id is {file.header.file_id}, which is before that of its first use"
        found.problems.append(Problem(file.path, 0, "name", text))


def _check_alike(found: _Found) -> None:
    """Two layouts, or two files with an id: what is not as most are, and what comes second, is left out."""
    layouts = [file.header.layout for file in found.files]
    most = max(sorted(set(layouts), key=layouts.index), key=layouts.count, default=None)
    for file in list(found.files):
        if file.header.layout is not most:
            text = f"the header is one of the layout {file.header.layout.value!r}, and others are of another"
            found.problems.append(Problem(file.path, 0, "layout", text))
            found.files.remove(file)
    for one, other in list(itertools.pairwise(found.files)):
        if one.header.file_id == other.header.file_id:
            text = f"its id is {one.header.file_id}, and so is that of {one.name}"
            found.problems.append(Problem(other.path, 0, "file_id", text))
            found.files.remove(other)


def _moves(path: str, directory_fd: int, names: JournalNames, control: bytes | None, found: _Found) -> FileMoves:
    """What a compaction was about to do, or does; nothing where its control file is damaged, or what it wrote."""
    nothing = FileMoves((), ())
    if control is None:
        return nothing
    full = os.path.join(path, CONTROL_FILE)
    try:
        moves = parse_control(control, full)
    except CorruptError as error:
        found.problems.append(Problem(full, error.offset, "control", error.text))
        return nothing
    if any(names.number(name) is None for name, _ in (*moves.renamed, *moves.dead)):
        found.problems.append(Problem(full, 0, "control", "it names files that are none of this journal"))
        return nothing
    try:
        if changed := changed_file(path, directory_fd, moves):
            found.problems.append(Problem(os.path.join(path, changed), 0, "compaction", CHANGED))
            return nothing
        damaged = damaged_files(path, directory_fd, moves)
    except CorruptError as error:
        found.problems.append(problem_of(error, full))
        return moves
    found.problems += damaged
    return nothing if damaged else moves


def _control(path: str, directory_fd: int) -> bytes | None:
    """The control file's bytes."""
    try:
        with _opened(path, directory_fd, CONTROL_FILE) as fd:
            return read_at(fd, _CONTROL_BYTES_MAX, 0, os.path.join(path, CONTROL_FILE))
    except NotFoundError:
        return None


@contextmanager
def _directory(path: str) -> Iterator[int]:
    fd = open_named_directory(path)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _opened(folder: str, directory_fd: int, name: str) -> Iterator[int]:
    fd = open_file(directory_fd, name, os.path.join(folder, name), writable=False)
    try:
        yield fd
    finally:
        os.close(fd)
