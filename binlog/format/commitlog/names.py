"""The names of a store's files."""

from __future__ import annotations

import re

COMMIT_LOG_FOLDER = "commitlog"
QUEUES_FOLDER = "consumequeue"
INDEX_FOLDER = "index"
CONFIG_FOLDER = "config"
CHECKPOINT_FILE = "checkpoint"
ABORT_FILE = "abort"
LOCK_FILE = "lock"
DELAY_OFFSETS_FILE = "delayOffset.json"

_OFFSET = re.compile(r"[0-9]{20}", re.ASCII)
_INDEX = re.compile(r"[0-9]{17}", re.ASCII)


def mapped_file_name(offset: int) -> str:
    """`00000000001073741824` for 1073741824: where the file starts, counted through all of them."""
    return f"{offset:020d}"


def mapped_file_offset(name: str) -> int | None:
    """The offset in a mapped file's name, or None for any other name."""
    return int(name) if _OFFSET.fullmatch(name) else None


def is_index_name(name: str) -> bool:
    """Whether it is the name of a key index: when it was made, as yyyyMMddHHmmssSSS."""
    return _INDEX.fullmatch(name) is not None
