"""The state of the log in a directory: its writers, its poison, and the permissions of this user."""

from __future__ import annotations

import os
import stat as stat_modes
from collections.abc import Iterator

import binlog
from binlog.doctor.findings import Finding, Verdict
from binlog.errors import AccessError, BinlogError
from binlog.format.log_header import Flag, LogHeader
from binlog.log.directory import LogDirectory
from binlog.log.files.header import validated_header
from binlog.storage.file_access import user_name
from binlog.storage.locking.locks import has_writers

_AREA = "log"


def examine_log(path: str) -> Iterator[Finding]:
    """Yield the findings about the log in a directory; one, if it has none, or if it cannot be read."""
    try:
        log = binlog.stat(path)
        if not log.files:
            yield Finding(_AREA, "log", Verdict.OK, "the directory has no log yet")
            return
        yield Finding(_AREA, "log", Verdict.OK, f"{len(log.files)} files, the newest is number {log.files[-1].number}")
        yield _permissions(path, log.files[-1])
        with LogDirectory(path) as directory:
            yield from _header(directory, log)
    except AccessError as error:
        yield Finding(_AREA, "log", Verdict.REFUSED, "cannot be read", str(error), "run this as the owner of its files")
    except BinlogError as error:
        remedy = "`binlog check`, then `binlog repair`"
        yield Finding(_AREA, "log", Verdict.REFUSED, "cannot be read", str(error), remedy)


def _permissions(path: str, newest: binlog.FileStat) -> Finding:
    status = os.stat(newest.path)
    owner, mode = user_name(status.st_uid), stat_modes.S_IMODE(status.st_mode)
    value = f"files of {owner}, mode {mode:04o}"
    if status.st_uid != os.geteuid():
        value += f"; this user is {user_name(os.geteuid())}"
    if os.access(newest.path, os.R_OK | os.W_OK) and os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Finding(_AREA, "permissions", Verdict.OK, value)
    remedy = f"run this as {owner}; or make the log with permissions=0o660, and add this user to its group"
    return Finding(_AREA, "permissions", Verdict.DOUBTFUL, value, "this user can read the log, but not append", remedy)


def _header(directory: LogDirectory, log: binlog.LogStat) -> Iterator[Finding]:
    newest = log.files[-1]
    with directory.log_file(newest.number) as file:
        header = validated_header(file.content, newest.number, file.path)
    yield _poison(header)
    if header.has_foreign_writers or not header.is_native:
        reason = "another program writes to the log too; in a file that it made, readers poll every 50 ms"
        yield Finding(_AREA, "foreign writers", Verdict.SLOW, "yes", reason, "`binlog cutover` begins a file of binlog")
    else:
        yield Finding(_AREA, "foreign writers", Verdict.OK, "none")
        if not newest.closed and not newest.archived:
            yield _writers(directory, log, os.path.basename(newest.path))


def _poison(header: LogHeader) -> Finding:
    if not header.flags & Flag.POISON:
        return Finding(_AREA, "poison", Verdict.OK, "no write or sync has failed")
    value = f"a write or sync failed: {os.strerror(header.poison_errno)}"
    remedy = "check the disk, end all writers, and open the log again: recovery closes the file"
    return Finding(_AREA, "poison", Verdict.REFUSED, value, "every writer refuses to append", remedy)


def _writers(directory: LogDirectory, log: binlog.LogStat, name: str) -> Finding:
    """Return the finding whether the log has writers, and whether they share this /dev/shm."""
    try:
        open_for_writing = has_writers(directory, name)
    except AccessError as error:
        return Finding(_AREA, "writers", Verdict.OK, "not known", str(error))
    if not open_for_writing:
        return Finding(_AREA, "writers", Verdict.OK, "none")
    if log.memory_bytes is not None:
        return Finding(_AREA, "writers", Verdict.OK, "at least one, with a staging area in this /dev/shm")
    reason = "a writer has no staging area in this /dev/shm: it uses that of another container, or none"
    remedy = "let the containers share /dev/shm (--ipc), and see /dev/shm above"
    return Finding(_AREA, "writers", Verdict.SLOW, "at least one, in another /dev/shm", reason, remedy)
