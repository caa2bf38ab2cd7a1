"""The in-memory state of a queue: which messages are taken, and which is the next.

The next message is the one with the highest priority, and of these the one with the lowest key.
"""

from __future__ import annotations

from binlog.format.pagestore.index import QueueEntry
from binlog.pagestore.pages.cache import Cache
from binlog.pagestore.pages.queue_index import QueueIndex

# Lower than any priority.
_NOTHING = -1


class Queue:
    """A queue over its index, which only this object changes.

    taken: keys of messages that a transaction has.  unreadable: keys in `taken` of messages that could not be read;
    they are skipped until the store is opened again, or until they are removed.
    is_stale: a change of the index was undone, and the index could not be read again yet.  Until then only these sets
    are valid.
    """

    def __init__(self, name: str, cache: Cache, first_page: int) -> None:
        """Read its index.  Raises: CorruptError; AccessError."""
        self.name = name
        self._cache = cache
        self.taken: set[int] = set()
        self.unreadable: set[int] = set()
        self.is_stale = False
        self._read(first_page)

    def _read(self, first_page: int) -> None:
        self.index = QueueIndex(self.name, self._cache, first_page)
        self._waiting: dict[int, int] = {}
        for part in self.index.parts:
            for priority, count in part.waiting.items():
                self._waiting[priority] = self._waiting.get(priority, 0) + count
        # No waiting message of a priority has a smaller key.
        self._from = dict.fromkeys(self._waiting, 0)

    def read_again(self) -> None:
        """Read the index again after a change was undone.

        Raises: CorruptError; AccessError, after which the queue is stale.
        """
        self.is_stale = True
        self._read(self.index.first_page)
        taken = [(key, self.index.entry(key, self._cache).priority) for key in self.taken]
        self.is_stale = False
        for key, priority in taken:
            self._count(key, priority, -1)

    @property
    def waiting_count(self) -> int:
        """The number of messages that are not taken."""
        return sum(self._waiting.values())

    def next(self) -> QueueEntry | None:
        """Return the next message that is not taken, or None.  Raises: CorruptError; AccessError."""
        priority = _NOTHING
        for each, count in self._waiting.items():
            if count and each > priority:
                priority = each
        if priority == _NOTHING:
            return None
        key = self._from[priority]
        part_index = self.index.part_index(key)
        while True:
            part = self.index.parts[part_index]
            if part.waiting.get(priority):
                entry = self.index.next_entry(part, key, priority, self.taken, self._cache)
                if entry is not None:
                    self._from[priority] = entry.key
                    return entry
            part_index += 1
            key = self.index.parts[part_index].first_key

    def take(self, entry: QueueEntry) -> None:
        """Take a message for a transaction."""
        key, priority = entry.key, entry.priority
        self.taken.add(key)
        self._count(key, priority, -1)
        if self._from[priority] == key:
            self._from[priority] = key + 1

    def skip_unreadable(self, entry: QueueEntry) -> None:
        """Skip a message that could not be read, so that it is not the next one again."""
        self.take(entry)
        self.unreadable.add(entry.key)

    def give_back(self, entry: QueueEntry) -> None:
        """Make a message available again."""
        self.taken.remove(entry.key)
        if self.is_stale:
            return
        self._count(entry.key, entry.priority, 1)
        self._from[entry.priority] = min(self._from[entry.priority], entry.key)

    def added(self, entry: QueueEntry) -> None:
        """Note that the index has a new entry."""
        priority = entry.priority
        if not self._waiting.get(priority):
            self._waiting[priority] = 0
            self._from[priority] = entry.key
        self._waiting[priority] += 1

    def removed(self, key: int) -> None:
        """Note that an entry of a taken message was removed."""
        self.taken.remove(key)

    def _count(self, key: int, priority: int, count: int) -> None:
        part = self.index.parts[self.index.part_index(key)]
        part.waiting[priority] += count
        self._waiting[priority] += count
