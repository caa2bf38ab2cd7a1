"""Whom a command is to be run as, where its own user may not do it."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import sys

from binlog.errors import AccessError


def advice(error: BaseException) -> str:
    """Return the line that works, to follow the error's message; nothing if no other user is known to help."""
    user = _user(error)
    if user is None or os.geteuid() == 0:
        return ""
    command = shlex.join(["binlog", *sys.argv[1:]])
    return f"; try: sudo {command}" if user == "root" else f"; try: sudo -u {shlex.quote(user)} {command}"


def _user(error: BaseException) -> str | None:
    if not isinstance(error, AccessError):
        return None
    if error.run_as is not None or error.errno not in (errno.EACCES, errno.EPERM):
        return error.run_as
    try:
        owner = os.stat(error.filename).st_uid
    except (OSError, TypeError):
        return None
    if owner == os.geteuid():
        return None
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"#{owner}"
