"""The file system of a directory: its kind, the operations of a log, and how long a sync takes.

Facts relied on:
- proc(5), mountinfo: the fifth field is the mount point, with spaces as \\040; the field after " - " is the type.
- open(2), O_DIRECT: the buffer, the offset and the size of a write must be aligned.
- fallocate(2): FALLOC_FL_PUNCH_HOLE needs FALLOC_FL_KEEP_SIZE.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator

from binlog.doctor.findings import Finding, Verdict
from binlog.errors import AccessError, BinlogError
from binlog.storage.directory import Directory
from binlog.storage.files import sync, write_at
from binlog.storage.locking.locks import try_lock, unlock

_AREA = "directory"
_PREFIX = ".binlog-doctor-"
_BLOCK_BYTES = 4096
_PUNCH_HOLE_AND_KEEP_SIZE = 0x2 | 0x1
_FREE_BYTES_MIN = 64 << 20
_TRIAL_BYTES = 1 << 20
_MAKE_SPACE = "remove files, or `binlog prune`"
_IN_MEMORY = frozenset(("tmpfs", "ramfs"))
# A sync is timed as a log makes it: of a file whose space is allocated and written before.
_SYNC_SUBJECT = "time of a sync"
_SYNCS = 50
# No disk stores 4 KiB in less.
_SUSPICIOUS_US = 20
_SLOW_US = 10_000


def examine_file_system(directory: Directory) -> Iterator[Finding]:
    """Yield the findings about the kind of the file system and its free space, which need no permission to write."""
    kind = mount_type(directory.path)
    try:
        directory.refuse_remote()
    except AccessError as error:
        remedy = "use a local disk; or --file-system any, if all programs that append run on this machine"
        yield Finding(_AREA, "file system", Verdict.REFUSED, kind, str(error), remedy)
    else:
        if kind in _IN_MEMORY:
            reason = "its files are in memory, and end with the machine's power"
            yield Finding(_AREA, "file system", Verdict.DOUBTFUL, kind, reason, "use a directory on a disk")
        else:
            yield Finding(_AREA, "file system", Verdict.OK, kind)
    yield _free_space(directory)


def _free_space(directory: Directory) -> Finding:
    free = _free_bytes(directory)
    value = f"{free >> 20} MiB"
    if free < _BLOCK_BYTES:
        reason = "an append raises FullError until there is space"
        return Finding(_AREA, "free space", Verdict.REFUSED, value, reason, _MAKE_SPACE)
    if free < _FREE_BYTES_MIN:
        reason = "a log allocates up to 64 MiB ahead of its records"
        return Finding(_AREA, "free space", Verdict.DOUBTFUL, value, reason, _MAKE_SPACE)
    return Finding(_AREA, "free space", Verdict.OK, value)


def _free_bytes(directory: Directory) -> int:
    status = os.fstatvfs(directory.fd)
    return status.f_bavail * status.f_frsize


def mount_type(path: str) -> str:
    """Return the type of the file system that is mounted at or above a path: "ext4"."""
    real = os.path.realpath(path)
    best, kind = "", "not known"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                point = before.split()[4].replace("\\040", " ")
                # Of several at one point, the last one is visible.
                if len(point) >= len(best) and (real == point or real.startswith(point.rstrip("/") + "/")):
                    best, kind = point, after.split()[0]
    except OSError:
        return kind
    return kind


def try_file_system(directory: Directory) -> Iterator[Finding]:
    """Yield a finding for each operation, tried in a temporary folder; only one if the directory is not writable."""
    if _free_bytes(directory) < _TRIAL_BYTES:
        yield Finding(_AREA, "operations", Verdict.DOUBTFUL, "not tried", "there is no space")
        return
    # SIGTERM may raise an exception at any place, but only once.  So the name is chosen before the folder exists, and a
    # second removal follows the first.
    path = directory.file_path(_PREFIX + os.urandom(8).hex())
    try:
        try:
            os.mkdir(path, 0o700)
            with Directory(path) as folder:
                yield from _tried(folder)
        finally:
            shutil.rmtree(path, ignore_errors=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = f"no file can be made: {error.strerror}; the disk has no inodes left, or a quota is reached"
            yield Finding(_AREA, "operations", Verdict.REFUSED, "not tried", reason, "remove files, or raise the quota")
            return
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        reason = f"the directory is not writable: {error.strerror}; this user can read a log, but not append"
        remedy = "run this as a user who may append"
        yield Finding(_AREA, "operations", Verdict.DOUBTFUL, "not tried", reason, remedy)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _tried(folder: Directory) -> Iterator[Finding]:
    needed: list[tuple[str, Callable[[Directory], None]]] = [
        ("fdatasync", _sync),
        ("locks", _lock),
        ("link", _link),
    ]
    for name, attempt in needed:
        try:
            attempt(folder)
        except (OSError, BinlogError) as error:
            remedy = "use a directory on another file system"
            yield Finding(_AREA, name, Verdict.REFUSED, "does not work", f"binlog needs it: {error}", remedy)
        else:
            yield Finding(_AREA, name, Verdict.OK, "works")
    for name, attempt in (("O_DIRECT", _write_directly), ("hole punching", _punch_hole)):
        try:
            attempt(folder)
        except OSError as error:
            text = f"does not work ({error.strerror}); binlog does not need it"
            yield Finding(_AREA, name, Verdict.OK, text)
        else:
            yield Finding(_AREA, name, Verdict.OK, "works; binlog does not need it")
    try:
        yield _time_syncs(folder)
    except BinlogError as error:
        yield Finding(_AREA, _SYNC_SUBJECT, Verdict.REFUSED, "failed", str(error), "check the disk")


def _sync(folder: Directory) -> None:
    with folder.created("sync") as file:
        write_at(file.content, bytes(_BLOCK_BYTES), 0, file.path)
        sync(file.content, file.path)
    folder.sync()


def _lock(folder: Directory) -> None:
    """Lock a file through one descriptor, so that another one cannot."""
    folder.make("lock")
    with folder.opened("lock", writable=True) as first, folder.opened("lock", writable=True) as second:
        if not try_lock(first):
            raise OSError(errno.ENOLCK, "a free file could not be locked")
        if try_lock(second):
            raise OSError(errno.ENOLCK, "two descriptors have the lock at once")
        unlock(first)
        if not try_lock(second):
            raise OSError(errno.ENOLCK, "a lock was not released")


def _link(folder: Directory) -> None:
    folder.make("old")
    if not folder.link("old", "new") or folder.has("old"):
        raise OSError(errno.EIO, "a link did not replace the name")


def _write_directly(folder: Directory) -> None:
    fd = os.open("direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_CLOEXEC, 0o600, dir_fd=folder.fd)
    try:
        with mmap.mmap(-1, _BLOCK_BYTES) as aligned:
            os.pwrite(fd, aligned, 0)
    finally:
        os.close(fd)


def _punch_hole(folder: Directory) -> None:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    with folder.created("hole") as file:
        write_at(file.content, bytes(2 * _BLOCK_BYTES), 0, file.path)
        arguments = (ctypes.c_int64(0), ctypes.c_int64(_BLOCK_BYTES))
        if fallocate(file.content, _PUNCH_HOLE_AND_KEEP_SIZE, *arguments) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _time_syncs(folder: Directory) -> Finding:
    """Write and sync 4 KiB fifty times in a directory, and return the finding.  Raises: FullError, PoisonedError."""
    times_us = []
    with folder.created("time") as file:
        write_at(file.content, bytes(_SYNCS * _BLOCK_BYTES), 0, file.path)
        sync(file.content, file.path)
        for number in range(_SYNCS):
            start = time.perf_counter_ns()
            write_at(file.content, b"b" * _BLOCK_BYTES, number * _BLOCK_BYTES, file.path)
            sync(file.content, file.path)
            times_us.append((time.perf_counter_ns() - start) / 1000)
    return sync_finding(statistics.median(times_us), max(times_us))


def sync_finding(median_us: float, worst_us: float) -> Finding:
    """Return the finding for the median and the worst time of a sync, in microseconds."""
    value = f"median {median_us:.0f} us, worst {worst_us:.0f} us, of {_SYNCS} syncs of 4 KiB"
    if median_us < _SUSPICIOUS_US:
        reason = "no disk is that fast: the disk, or a virtual machine's host, may not honour a sync"
        remedy = "check the write cache of the disk, and the cache mode of the virtual disk"
        return Finding(_AREA, _SYNC_SUBJECT, Verdict.DOUBTFUL, value, reason, remedy)
    if median_us > _SLOW_US:
        reason = "each append in Mode.SYNC takes at least as long; many writers share one sync"
        remedy = "append_many, Mode.FLUSH, or a disk with a protected write cache"
        return Finding(_AREA, _SYNC_SUBJECT, Verdict.SLOW, value, reason, remedy)
    return Finding(_AREA, _SYNC_SUBJECT, Verdict.OK, value)
