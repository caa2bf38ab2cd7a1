"""What a repair does to an archive: its index is completed, or made again, and so is what its frames tell.

Its records it leaves as they are.  Of a damaged frame nothing can be had, and the frames beside it are read without a
repair.  If the frame of the header, our facts or the table of frames are damaged, and what was there is known, then the
archive is written again beside itself, synced, and takes its own name.
"""

from __future__ import annotations

import os

from binlog.format.archive_file import pack_end
from binlog.format.log_header import LogHeader
from binlog.format.names import archive_draft_name, archive_file_name
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import settled_header
from binlog.log.index import opened_index
from binlog.log.index_building import complete_index
from binlog.log.index_check import Contradiction, IndexCheck
from binlog.log.opened_file import OpenedFile
from binlog.storage.archive_content import ArchiveContent
from binlog.storage.file_access import access_like
from binlog.storage.files import read_at

_COPY_BYTES = 1 << 20


def repair_archive(directory: LogDirectory, number: int, *, dry_run: bool) -> list[tuple[str, int, str, str]]:
    """Do it, or only tell; (path, offset, action, text) for what was done.  Wants the lock of repairs.

    Raises: NotFoundError; CorruptError, VersionError where the archive cannot be read.
    """
    with directory.log_file(number) as file:
        if file.archive is None:
            return []  # it was put back as a file, which the next repair sees to
        header = settled_header(file.content, number, file.path)
        done = _repair_parts(directory, file, number, dry_run=dry_run)
        contradicts = _contradicts(directory, file, header)
        if contradicts is None or next(_archive(file).lost_frames(), None) is not None:
            return done
        if not dry_run:
            complete_index(directory, header, file.fd, content=file.content, anew=contradicts)
            if _contradicts(directory, file, header) is not None:
                # Its last entries follow one another, so it was completed behind them, and one before them is wrong.
                complete_index(directory, header, file.fd, content=file.content, anew=True)
        text = "the index made anew" if contradicts else "the index completed"
        return [*done, (file.path, header.first_offset, "index", text)]


def _repair_parts(
    directory: LogDirectory, file: OpenedFile, number: int, *, dry_run: bool
) -> list[tuple[str, int, str, str]]:
    """Write an archive again of which a part is damaged that its frames tell."""
    archive = _archive(file)
    end, faults = archive.end, list(archive.faults)
    if not faults:
        return []
    if not dry_run:
        name = archive_draft_name(number)
        status = os.fstat(file.fd)
        directory.remove(name)
        try:
            with directory.created(name, access_like(status)) as draft:
                draft.write(archive.start, 0)
                at, frames_end = len(archive.start), end.table.places[-1]
                while at < frames_end:
                    data = read_at(file.fd, min(_COPY_BYTES, frames_end - at), at, file.path)
                    draft.write(data, at)
                    at += len(data)
                draft.write(pack_end(number=end.number, uuid=end.uuid, frames=end.table.frames()), at)
                os.utime(draft.content, ns=(status.st_atime_ns, status.st_mtime_ns))
                draft.sync()
                directory.rename(name, archive_file_name(number))
        finally:
            directory.remove(name)
    return [(file.path, 0, "archive", f"the archive written again: {'; '.join(faults)}")]


def _archive(file: OpenedFile) -> ArchiveContent:
    assert file.archive is not None
    return file.archive


def _contradicts(directory: LogDirectory, file: OpenedFile, header: LogHeader) -> bool | None:
    """Whether the index contradicts the archive, or there is none; None where it is complete."""
    with opened_index(directory, header.number) as index:
        if index is None:
            return True
        check = IndexCheck(index, file.content, header, file.path)
        contradicts = index.blank or any(isinstance(found, Contradiction) for found in check.run())
        return None if not contradicts and check.end == header.tail else contradicts
