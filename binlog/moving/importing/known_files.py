"""The files that were imported into a log, and the place that each of them is imported up to.

A file is a producer of the log, and the number of its last batch is the offset up to which it is imported.  So one
append adds the records and moves the place.  A small file next to the log says which file that is: device, inode and
path, and two marks, of the last place and of the one that the next append moves to.  It is written before that append.

An open file is one of them only if its bytes before the place have the hash of the mark.  So a file that was truncated
or written again, and another one that got its inode, is a new file.  In addition, one of these must hold:

1. It has the same device and inode: it was renamed, or not.
2. It has the same path and inode: a device may get another number when the machine boots.
3. The file that was imported is still found under its path, and has other bytes now: it was copied, and then truncated
   or written again, as logrotate's `copytruncate` does.

Otherwise it is another file that begins with the same lines.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from binlog import Writer
from binlog.errors import CorruptError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.names import import_file_name, is_import_file
from binlog.log.directory import LogDirectory
from binlog.log.recovery.file_operations import replace_file
from binlog.moving.importing.input_reader import Mark, Prefix, prefixes
from binlog.storage.file_access import FileAccess

_BYTES_MAX = 1 << 16


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """A file that is imported.  producer: its name in the log.  marks: the last place, and perhaps the next one."""

    producer: str
    path: str
    device: int
    inode: int
    marks: tuple[Mark, ...]

    def has_identity_of(self, other: KnownFile) -> bool:
        """Return whether it is the same file by the rules 1 and 2, apart from its bytes."""
        same = (self.device, self.inode) == (other.device, other.inode)
        return same or (self.path, self.inode) == (other.path, other.inode)


def described_file(path: str, fd: int) -> KnownFile:
    """Return an open file as one that was never imported."""
    status = os.fstat(fd)
    return KnownFile(
        producer=f"import:{secrets.token_hex(8)}",
        path=os.path.abspath(path),
        device=status.st_dev,
        inode=status.st_ino,
        marks=(Prefix().mark,),
    )


class KnownFiles:
    """The files that were imported into a log.  The caller excludes other imports.

    access: owner and mode of the small files.
    """

    def __init__(self, directory: LogDirectory, access: FileAccess) -> None:
        self._directory = directory
        self._access = access

    def store(self, file: KnownFile) -> None:
        """Store a known file, durably."""
        name = import_file_name(file.producer)
        text = json.dumps(asdict(file), separators=(",", ":")).encode()
        replace_file(self._directory, name, f".{name}", pack_text(text), self._access)

    def find(self, fd: int, described: KnownFile, writer: Writer) -> tuple[KnownFile, Prefix]:
        """Return the known file that an open file is, and its part that is imported; `described` if it is none.

        Reads the file up to the place.  Raises: CorruptError, AccessError; as `Writer.last_producer_batch`.
        """
        known = list(self._all())
        found = {each.offset: each for each in prefixes(fd, {mark.offset for file in known for mark in file.marks})}
        best = described, Prefix()
        for file in known:
            place = _place(file, found, writer)
            if place is None or place.offset < best[1].offset:
                continue
            if file.has_identity_of(described) or (place.offset and self._was_copied(file, place.mark)):
                best = file, place
        file, place = best
        now = replace(described, producer=file.producer, marks=(place.mark,))
        if file is not described and now != file:
            # Rules 2 and 3 may not recognise it again, once the file at the old path is gone.
            self.store(now)
        return now, place

    def _was_copied(self, file: KnownFile, mark: Mark) -> bool:
        """Return whether the file is still under its path, with other bytes than those that were imported."""
        try:
            fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) != (file.device, file.inode):
                return False
            return [each.mark for each in prefixes(fd, {mark.offset})] != [mark]
        finally:
            os.close(fd)

    def _all(self) -> Iterable[KnownFile]:
        for name in sorted(filter(is_import_file, self._directory.names())):
            yield self._read(name)

    def _read(self, name: str) -> KnownFile:
        path = self._directory.file_path(name)
        try:
            found = json.loads(parse_text(self._directory.read(name, _BYTES_MAX))[0])
            marks = tuple(Mark(int(offset), str(digest)) for offset, digest in found.pop("marks"))
            file = KnownFile(**found, marks=marks)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            text = f"it is not the place of an import ({error}); without it, the file is imported from its beginning"
            raise CorruptError(path, 0, "import", text) from error
        if import_file_name(file.producer) != name:
            raise CorruptError(
                path, 0, "import", f"it is of the producer {file.producer!r}, whose file has another name"
            )
        return file


def _place(file: KnownFile, found: dict[int, Prefix], writer: Writer) -> Prefix | None:
    """Return the part of the open file that is imported if it is this known file; None if its bytes are others."""
    fitting = [found[mark.offset] for mark in file.marks if mark.offset in found and found[mark.offset].mark == mark]
    if not fitting:
        return None
    last = writer.last_producer_batch(file.producer)
    offset = 0 if last is None else last.sequence
    return next((place for place in fitting if place.offset == offset), None)
