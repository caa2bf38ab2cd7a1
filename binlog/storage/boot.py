"""Which boot of the kernel this is."""

from __future__ import annotations

import uuid
from functools import cache
from pathlib import Path

from binlog.storage.failures import own_errors

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> bytes:
    """16 bytes that differ after each boot (random(4)).  It says "verify again"; it judges nothing by itself."""
    with own_errors(str(_BOOT_ID), "reading the boot id"):
        return uuid.UUID(_BOOT_ID.read_text(encoding="ascii").strip()).bytes
