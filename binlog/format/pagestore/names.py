"""The names of a page store's files: those of SwiftMQ's, and the two maps that ours has."""

from __future__ import annotations

PAGE_FILE = "page.db"
LOG_FILE = "transaction.log"
LOCK_FILE = "pagestore.lock"
DELIVERIES_FILE = "messages.given"
# Of a file that is being made; it is renamed once it is whole.
NEW_END = ".new"
# Of the pages of a backup that is being made.
BACKUP_END = ".backup"
# Of the generations with even numbers, and of the others.
MAP_FILES = ("pages-0.free", "pages-1.free")


def map_name(generation: int) -> str:
    """The name of the map of free pages that a generation of the log begins with."""
    return MAP_FILES[generation % len(MAP_FILES)]
