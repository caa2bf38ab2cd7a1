"""Comparing the key index with the commit log: each key must be in it, in the order of the log, and must be found.

Entries and the log's keys are gone through side by side.  Where the two differ, the ones that come next tell whether an
entry is missing, is one too many, or is wrong.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from binlog.commitlog.check.key_entries_check import IndexedKey, KeyIndexEntries
from binlog.commitlog.check.log_check import Lost, Settled
from binlog.commitlog.files.files_reader import FilesReader, message_at
from binlog.commitlog.indexes.key_lookup import keys_of
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.indexes import key_hash, seconds_between, tag_hash
from binlog.format.commitlog.message import DAMAGED_CONTENT
from binlog.format.commitlog.message_parts import TAGS, parse_properties
from binlog.format.problem import Problem


class _Key(NamedTuple):
    """A key of a message, as the log has it."""

    hash: int
    offset: int
    store_ms: int


class KeysCheck:
    """The entries of a key index, and the commit log in `log`.

    problems: what is wrong is added to it.
    """

    def __init__(
        self, entries: KeyIndexEntries, log: FilesReader, settled: Settled, problems: list[Problem], lost: Lost
    ) -> None:
        self._folder = entries.folder
        self._entries = entries.entries()
        self._log = log
        self._settled = settled
        self._problems = problems
        self._lost = lost
        self._keys: deque[_Key] = deque()
        self._ahead: deque[IndexedKey] = deque()
        self._missing: list[_Key] = []
        self._last: tuple[int, set[int]] = (-1, set())  # the message whose keys came last, and their hashes

    def take(self, keys: memoryview) -> None:
        """Keys, as a Walk has them."""
        words = keys.tolist()
        self._keys.extend(map(_Key, words[::3], words[1::3], words[2::3]))
        while len(self._keys) > 1:
            self._match()

    def finish(self, end: int) -> None:
        """Once all keys were given, those of the messages up to `end`."""
        while self._keys:
            self._match()
        self._tell_missing()
        while (entry := self._entry(0)) is not None:
            self._ahead.popleft()
            due = (self._settled.all and self._settled.cut_ms is None) or entry.offset < end
            if due and not self._means_nothing(entry):
                self._tell_extra(entry)

    def _entry(self, number: int) -> IndexedKey | None:
        """The next entry but so many; None behind the last one.  Passes over those of damaged messages."""
        while len(self._ahead) <= number:
            entry = next(self._entries, None)
            if entry is None:
                return None
            # RocketMQ puts the keys of its last message again when it recovers: they are found twice.
            if entry.offset not in self._lost and not (entry.offset == self._last[0] and entry.hash in self._last[1]):
                self._ahead.append(entry)
        return self._ahead[number]

    def _match(self) -> None:
        """Pass over a key, an entry, or one of each."""
        key, entry = self._keys[0], self._entry(0)
        if entry is not None and _same(entry, key):
            self._tell_missing()
            self._found(key, entry)
            self._keys.popleft()
            self._ahead.popleft()
        elif entry is not None and self._means_nothing(entry):
            self._ahead.popleft()
        elif entry is None or self._is_missing(key, entry):
            self._missing.append(key)
            self._keys.popleft()
        elif self._is_extra(key, entry):
            self._tell_extra(entry)
            self._ahead.popleft()
        else:
            text = f"hash {entry.hash}, message {entry.offset}; the log has hash {key.hash}, message {key.offset}"
            self._tell(entry, text)
            self._keys.popleft()
            self._ahead.popleft()

    def _means_nothing(self, entry: IndexedKey) -> bool:
        """Whether it is right that the log's keys have no such entry."""
        return self._is_removed(entry.offset) or self._is_tag(entry) or self._was_cut_off(entry)

    def _was_cut_off(self, entry: IndexedKey) -> bool:
        """Whether RocketMQ cut its message off: then it leads to no message, or to one without its key."""
        if self._settled.cut_ms is None:
            return False
        try:
            message = message_at(self._log, entry.offset)
        except NotFoundError:
            return True
        except CorruptError as error:
            return error.rule not in DAMAGED_CONTENT
        return entry.hash not in [key_hash(message.topic, key) for key in keys_of(message)]

    def _is_removed(self, offset: int) -> bool:
        """Whether retention has removed a message since."""
        self._log.refresh()
        return 0 <= offset < self._log.min_offset

    def _is_tag(self, entry: IndexedKey) -> bool:
        """Whether it is that of its message's tag, which RocketMQ puts since version 5.5; nobody here looks for it."""
        try:
            message = message_at(self._log, entry.offset)
        except (CorruptError, NotFoundError):
            return False  # then it is told of, or its message is
        tag = parse_properties(message.properties).get(TAGS)
        return bool(tag) and entry.hash == tag_hash(message.topic, tag or "")

    def _is_missing(self, key: _Key, entry: IndexedKey) -> bool:
        """Whether the entry is that of a later key."""
        after = self._entry(1)
        if len(self._keys) > 1:
            if _same(entry, self._keys[1]):
                return True
            if after is not None and _same(after, self._keys[1]):
                return False
        elif entry.hash == key.hash:
            return False
        return entry.offset > key.offset and (after is None or after.offset >= entry.offset)

    def _is_extra(self, key: _Key, entry: IndexedKey) -> bool:
        """Whether the key's own entry comes later."""
        after = self._entry(1)
        return after is not None and _same(after, key)

    def _found(self, key: _Key, entry: IndexedKey) -> None:
        if key.offset != self._last[0]:
            self._last = key.offset, set()
        self._last[1].add(key.hash)
        seconds = [seconds_between(begin_ms, key.store_ms) for begin_ms in entry.begins_ms]
        if entry.seconds not in seconds:
            self._tell(entry, f"{entry.seconds} seconds after the first message, and they are {seconds[0]}")
        for name, said in entry.bounds:
            if said != key.store_ms:
                text = f"{name} is {said}, and that message was stored at {key.store_ms}"
                self._problems.append(Problem(entry.path, entry.bounds_at[name], "index_header", text))

    def _tell(self, entry: IndexedKey, text: str) -> None:
        self._problems.append(Problem(entry.path, entry.at, "entry", f"entry {entry.number}: {text}"))

    def _tell_extra(self, entry: IndexedKey) -> None:
        self._tell(entry, f"hash {entry.hash}, message {entry.offset}; the log has no such key there")

    def _tell_missing(self) -> None:
        """Those that follow one another as one problem."""
        missing, self._missing = self._missing, []
        entry = self._entry(0)
        if entry is None and not self._settled.all and self._settled.until_ms is not None:
            return  # recovery puts them again
        self._log.refresh()
        # Retention may have removed some since.
        missing = [key for key in missing if key.offset >= self._log.min_offset]
        if missing:
            first, last = missing[0].offset, missing[-1].offset
            path, at = (self._folder, 0) if entry is None else (entry.path, entry.at)
            text = f"{len(missing)} keys of messages from {first} to {last} of the commit log have no entry"
            self._problems.append(Problem(path, at, "key", text))


def _same(entry: IndexedKey, key: _Key) -> bool:
    return entry.hash == key.hash and entry.offset == key.offset
