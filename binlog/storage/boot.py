"""The id of the current boot of the kernel."""

from __future__ import annotations

from functools import cache

from binlog.errors import AccessError
from binlog.format.log_header import LOG_HEADER
from binlog.storage.failures import own_errors

BOOT_BYTES = next(field.size for field in LOG_HEADER.fields if field.name == "boot_id")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> bytes:
    """Return as many bytes of `whole_boot_id` as the header of a log file keeps.

    A different id means "verify again", and nothing more.  Raises: AccessError if /proc is not mounted.
    """
    return whole_boot_id()[:BOOT_BYTES]


@cache
def whole_boot_id() -> bytes:
    """Return 16 bytes that differ after each boot (random(4)).  Raises: AccessError if /proc is not mounted."""
    with own_errors(_BOOT_ID, "reading the boot id"):
        try:
            return bytes.fromhex(_read().strip().replace("-", ""))
        except FileNotFoundError as error:
            text = f"{_BOOT_ID} does not exist, and a writer needs it; mount /proc (mount -t proc proc /proc)"
            raise AccessError(text, errno=error.errno, path=_BOOT_ID) from error


def _read() -> str:
    with open(_BOOT_ID, encoding="ascii") as file:
        return file.read()


def is_this_boot(stored: bytes) -> bool:
    """Return whether a stored boot id is that of this boot.  For readers: without /proc it is False."""
    try:
        return stored == boot_id()
    except AccessError:
        return False
