"""Whether anybody has a file open for writing, in whatever process or container of this kernel.

Facts relied on:
- fcntl(2), F_SETLEASE: a read lease is given, to a descriptor opened read-only, only where nobody has the file open for
  writing; to the file's owner, or with CAP_LEASE.
- fcntl(2), F_SETSIG: whoever opens the file for writing while the lease is held has us sent a signal, by default SIGIO,
  which would end the process; SIGURG is ignored by default (signal(7)).
"""

from __future__ import annotations

import errno
import fcntl
import signal

from binlog.errors import AccessError
from binlog.storage.directory import Directory
from binlog.storage.failures import failure


def has_writers(directory: Directory, name: str) -> bool:
    """Whether anybody, this process included, has the file open for writing.

    Raises: NotFoundError; AccessError where that is not ours to ask.
    """
    path = directory.file_path(name)
    with directory.opened(name) as fd:
        try:
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EINVAL):
                text = "only its owner, on a file system with leases, can tell whether another program has it open"
                raise AccessError(f"{path}: {text}", errno=error.errno, path=path) from error
            raise failure(error.errno or 0, path, "asking for a lease") from error
    return False
