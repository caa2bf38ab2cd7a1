"""Which files of a journal lie in its folder, oldest first.  Reads, and changes nothing."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field

from binlog.errors import CorruptError, VersionError
from binlog.format.journal.file_header import (
    FILE_START_BYTES,
    JBM_HEADER,
    JOURNAL_HEADER,
    FileHeader,
    JournalLayout,
    is_cut_header,
    parse_file_header,
)
from binlog.storage.directory import Directory
from binlog.storage.files import read_at


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
