"""Copying a log as it is at one moment, while other processes append to it.

The moment is while the open file's lock is held.  The writer commits the staged records, and reads the open file's
header and the small files in the directory.  Bytes before a file's tail never change, so they are copied after that.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from contextlib import closing, suppress
from dataclasses import dataclass

from binlog.errors import AccessError, NotFoundError
from binlog.format.log_header import HEADER_BYTES, parse_log_header
from binlog.format.names import (
    INGEST_FILE,
    damaged_file_range,
    index_file_name,
    is_import_file,
    is_producer_file,
    log_file_name,
)
from binlog.format.record import Ref
from binlog.format.values import member
from binlog.log.append.session import Session
from binlog.log.append.writable_file import WritableFile
from binlog.log.directory import LogDirectory
from binlog.log.options import WriterOptions
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.file_access import access_like
from binlog.storage.files import FileSystem, read_at

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Backup:
    """A copy that was made.

    path: of the copy.  first_number: of its oldest file.  tail: the ref of the next record.  bytes: of its log files
    and archives.
    """

    path: str
    first_number: int
    tail: Ref
    bytes: int


@dataclass(frozen=True)
class _Moment:
    """The bytes that were read under the lock.  header: the open file's first bytes.  small: the small files, by
    name."""

    number: int
    fd: int
    header: bytes
    tail: int
    small: dict[str, bytes]


def backup(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    lock_timeout: float | None = None,
    file_system: FileSystem | str = FileSystem.LOCAL,
) -> Backup:
    """Copy the log in a directory as it is at one moment, and describe the copy.

    out: the copy's directory, which must be empty or not exist.  It gets its name once the copy is complete, durably.
    lock_timeout: seconds to wait for the open file's lock; None waits forever.  file_system: as for a Writer.

    Other processes may append, cut over, archive and prune meanwhile, in any mode; they wait while a header and some
    small files are read.  The copy has every record that was acknowledged before the call, staged ones too.  It has the
    log's files, archives, indexes, producer files, and quarantined bytes; it is a log of its own, to read and to append
    to.  Needs permission to append to the log.
    Raises: NotFoundError if there is no log; AccessError; FullError; BusyError; CorruptError; PoisonedError.
    """
    file_system = member(FileSystem, file_system, "file_system")
    target = os.path.abspath(os.fspath(out))
    with LogDirectory(path) as directory:
        directory.log_numbers()
        _check_free(target)
        with closing(Session(directory, WriterOptions(lock_timeout=lock_timeout, file_system=file_system))) as session:
            moment = session.while_locked(lambda file: _read_moment(directory, file))
        return _copy(directory, moment, target)


def _check_free(target: str) -> None:
    with own_errors(target, "listing the copy's directory"):
        try:
            taken = bool(os.listdir(target))
        except FileNotFoundError:
            return
    if taken:
        raise AccessError(f"{target} already exists, and is not empty", errno=errno.ENOTEMPTY, path=target)


def _read_moment(directory: LogDirectory, file: WritableFile) -> _Moment:
    header = file.header()
    small = {}
    for name in directory.names():
        if name in (INGEST_FILE, index_file_name(file.number)) or is_producer_file(name) or is_import_file(name):
            small[name] = directory.read(name)
    data = read_at(file.fd, HEADER_BYTES, 0, file.path)
    return _Moment(file.number, directory.open(log_file_name(file.number)), data, header.tail, small)


def _copy(directory: LogDirectory, moment: _Moment, target: str) -> Backup:
    partial = f"{target}.{secrets.token_hex(4)}.partial"
    source = os.fstat(directory.fd)
    with own_errors(partial, "making the copy's directory"):
        os.mkdir(partial, 0o700)
    try:
        with Directory(partial) as copy:
            first, size = _copy_files(directory, moment, copy)
            with own_errors(partial, "setting owner and mode"):
                if os.geteuid() == 0:
                    os.fchown(copy.fd, source.st_uid, source.st_gid)
                os.fchmod(copy.fd, stat.S_IMODE(source.st_mode))
            copy.sync()
            with own_errors(target, "naming the copy"):
                os.rename(partial, target)
            copy.sync_parent()
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return Backup(path=target, first_number=first, tail=Ref(moment.number, moment.tail), bytes=size)


def _copy_files(directory: LogDirectory, moment: _Moment, copy: Directory) -> tuple[int, int]:
    """Copy the files, the newest first because prune removes the oldest; return the first number, and the bytes."""
    open_name = log_file_name(moment.number)
    size = _copy_range(moment.fd, moment.header, moment.tail, copy, open_name)
    for name, data in moment.small.items():
        with copy.created(name, access_like(os.fstat(moment.fd))) as out:
            out.write(data, 0)
            out.sync()
    number = moment.number
    while number > 1:
        try:
            size += _copy_closed(directory, number - 1, copy)
        except NotFoundError:
            break  # the log begins here, or the file was pruned meanwhile
        number -= 1
    for name in directory.names():
        kept = damaged_file_range(name)
        if kept is not None and number <= kept[0] <= moment.number:
            _copy_whole(directory, name, copy)
    return number, size


def _copy_closed(directory: LogDirectory, number: int, copy: Directory) -> int:
    with directory.log_file(number) as file:
        if file.archive is not None:
            size = _copy_whole(directory, os.path.basename(file.path), copy)
        else:
            data = read_at(file.fd, HEADER_BYTES, 0, file.path)
            header = parse_log_header(data, path=file.path, number=number)
            size = _copy_range(file.fd, data, header.tail, copy, log_file_name(number))
    with suppress(NotFoundError):  # the file has no index, or was pruned meanwhile
        _copy_whole(directory, index_file_name(number), copy)
    return size


def _copy_whole(directory: LogDirectory, name: str, copy: Directory) -> int:
    with directory.opened(name) as fd:
        return _copy_range(fd, b"", os.fstat(fd).st_size, copy, name)


def _copy_range(fd: int, head: bytes, end: int, copy: Directory, name: str) -> int:
    """Copy a file up to `end`, with `head` as its first bytes; return its size."""
    status = os.fstat(fd)
    with copy.created(name, access_like(status)) as out:
        out.write(head, 0)
        at = len(head)
        while at < end and (data := read_at(fd, min(_COPY_BYTES, end - at), at, out.path)):
            out.write(data, at)
            at += len(data)
        out.sync()
        os.utime(out.content, ns=(status.st_atime_ns, status.st_mtime_ns))
    return at
