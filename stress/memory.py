"""A folder in memory, for files that are made and removed by the thousand."""

from __future__ import annotations

import os
import shutil

_MEMORY = "/dev/shm"
_FREE_BYTES_MIN = 1 << 30


def folder_in_memory() -> str | None:
    """Return a folder in memory, or None if there is none, or it has little room: a container has 64 MiB."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _FREE_BYTES_MIN:
        return None
    return _MEMORY
