"""A queue in memory: which of its messages somebody has, and which is the next.

The next one is that of the highest priority, and of these that with the lowest key.
"""

from __future__ import annotations

from binlog.format.pagestore.index import QueueEntry
from binlog.pagestore.pages.cache import Cache
from binlog.pagestore.pages.queue_index import QueueIndex

# Below all priorities.
_NOTHING = -1


class Queue:
    """Over an index, which changes only through this.

    taken: keys of messages that a transaction has.  unreadable: those among them that nobody has: they could not be
    read, and are passed over until the store is opened anew, or somebody removes them.
    is_stale: a change of the index was undone, and it could not be read again yet; only these sets are right then.
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
        # No message of a priority with a smaller key waits.
        self._from = dict.fromkeys(self._waiting, 0)

    def read_again(self) -> None:
        """A change of the index was undone.  Raises: CorruptError; AccessError; then it is stale."""
        self.is_stale = True
        self._read(self.index.first_page)
        taken = [(key, self.index.entry(key, self._cache).priority) for key in self.taken]
        self.is_stale = False
        for key, priority in taken:
            self._count(key, priority, -1)

    @property
    def waiting_count(self) -> int:
        """Messages that nobody has taken."""
        return sum(self._waiting.values())

    def next(self) -> QueueEntry | None:
        """The next message that nobody has taken.  Raises: CorruptError; AccessError."""
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
        """A transaction has it from now on."""
        key, priority = entry.key, entry.priority
        self.taken.add(key)
        self._count(key, priority, -1)
        if self._from[priority] == key:
            self._from[priority] = key + 1

    def skip_unreadable(self, entry: QueueEntry) -> None:
        """It could not be read, and is not to be the next one again and again."""
        self.take(entry)
        self.unreadable.add(entry.key)

    def give_back(self, entry: QueueEntry) -> None:
        """It waits again."""
        self.taken.remove(entry.key)
        if self.is_stale:
            return
        self._count(entry.key, entry.priority, 1)
        self._from[entry.priority] = min(self._from[entry.priority], entry.key)

    def added(self, entry: QueueEntry) -> None:
        """The index has a new entry."""
        priority = entry.priority
        if not self._waiting.get(priority):
            self._waiting[priority] = 0
            self._from[priority] = entry.key
        self._waiting[priority] += 1

    def removed(self, key: int) -> None:
        """The index has the entry no more; a transaction had it."""
        self.taken.remove(key)

    def _count(self, key: int, priority: int, count: int) -> None:
        part = self.index.parts[self.index.part_index(key)]
        part.waiting[priority] += count
        self._waiting[priority] += count
