"""Where files go that are made and thrown away by the thousand."""

from __future__ import annotations

import os
import shutil

_MEMORY = "/dev/shm"
_FREE_BYTES_MIN = 1 << 30


def folder_in_memory() -> str | None:
    """A folder whose files lie in memory; None if there is none, or if it has little room: a container has 64 MiB."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _FREE_BYTES_MIN:
        return None
    return _MEMORY
