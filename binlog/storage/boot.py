"""The id of the current boot of the kernel."""

from __future__ import annotations

import uuid
from functools import cache
from pathlib import Path

from binlog.errors import AccessError
from binlog.storage.failures import own_errors

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> bytes:
    """Return 16 bytes that differ after each boot (random(4)).

    A different id means "verify again", and nothing more.
    Raises: AccessError if /proc is not mounted.
    """
    path = str(_BOOT_ID)
    with own_errors(path, "reading the boot id"):
        try:
            return uuid.UUID(_BOOT_ID.read_text(encoding="ascii").strip()).bytes
        except FileNotFoundError as error:
            text = f"{path} does not exist, and a writer needs it; mount /proc (mount -t proc proc /proc)"
            raise AccessError(text, errno=error.errno, path=path) from error


def is_this_boot(stored: bytes) -> bool:
    """Return whether a stored boot id is that of this boot.  For readers: without /proc it is False."""
    try:
        return stored == boot_id()
    except AccessError:
        return False
