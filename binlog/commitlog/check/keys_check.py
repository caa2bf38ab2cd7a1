"""The comparison of the key index with the commit log: each key must have an entry, in the order of the log.

The check steps through the entries and the keys of the log together.  If they differ, the next ones show whether an
entry is missing, extra, or wrong.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from binlog.commitlog.check.key_entries_check import IndexedKey, KeyIndexEntries
from binlog.commitlog.check.log_check import DamagedRanges, VerifiedExtent
from binlog.commitlog.files.files_reader import FilesReader, message_at
from binlog.commitlog.indexes.key_lookup import keys_of
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.indexes import key_hash, seconds_between, tag_hash
from binlog.format.commitlog.message import DAMAGED_CONTENT
from binlog.format.commitlog.message_parts import TAGS, parse_properties
from binlog.format.problem import Problem


class _Key(NamedTuple):
    """A key of a message in the log."""

    hash: int
    offset: int
    store_ms: int


class KeysCheck:
    """Compares the entries of a key index with the keys of the commit log.

    problems: receives the problems found.
    """

    def __init__(
        self,
        entries: KeyIndexEntries,
        log: FilesReader,
        verified: VerifiedExtent,
        problems: list[Problem],
        damaged: DamagedRanges,
    ) -> None:
        self._folder = entries.folder
        self._entries = entries.entries()
        self._log = log
        self._verified = verified
        self._problems = problems
        self._damaged = damaged
        self._keys: deque[_Key] = deque()
        self._entries_ahead: deque[IndexedKey] = deque()
        self._missing: list[_Key] = []
        self._last: tuple[int, set[int]] = (-1, set())  # the last message, and the hashes of its keys

    def take(self, keys: memoryview) -> None:
        """Take the next keys of the log, as a Walk has them."""
        words = keys.tolist()
        self._keys.extend(map(_Key, words[::3], words[1::3], words[2::3]))
        while len(self._keys) > 1:
            self._match()

    def finish(self, end: int) -> None:
        """Compare the rest, after `take` got all keys of the messages up to `end`."""
        while self._keys:
            self._match()
        self._report_missing()
        while (entry := self._entry(0)) is not None:
            self._entries_ahead.popleft()
            due = (self._verified.all and self._verified.cut_ms is None) or entry.offset < end
            if due and not self._is_allowed(entry):
                self._report_extra(entry)

    def _entry(self, number: int) -> IndexedKey | None:
        """Return the entry `number` places ahead; None after the last.  Skips entries of damaged messages."""
        while len(self._entries_ahead) <= number:
            entry = next(self._entries, None)
            if entry is None:
                return None
            # RocketMQ puts the keys of its last message again when it recovers, so their entries may occur twice.
            if entry.offset not in self._damaged and not (
                entry.offset == self._last[0] and entry.hash in self._last[1]
            ):
                self._entries_ahead.append(entry)
        return self._entries_ahead[number]

    def _match(self) -> None:
        """Consume a key, an entry, or one of each."""
        key, entry = self._keys[0], self._entry(0)
        if entry is not None and _is_entry_of(entry, key):
            self._report_missing()
            self._compare(key, entry)
            self._keys.popleft()
            self._entries_ahead.popleft()
        elif entry is not None and self._is_allowed(entry):
            self._entries_ahead.popleft()
        elif entry is None or self._is_missing(key, entry):
            self._missing.append(key)
            self._keys.popleft()
        elif self._is_extra(key, entry):
            self._report_extra(entry)
            self._entries_ahead.popleft()
        else:
            text = f"hash {entry.hash}, message {entry.offset}; expected hash {key.hash}, message {key.offset}"
            self._report(entry, text)
            self._keys.popleft()
            self._entries_ahead.popleft()

    def _is_allowed(self, entry: IndexedKey) -> bool:
        """Return whether an entry is allowed although the log has no such key."""
        return self._is_removed(entry.offset) or self._is_tag(entry) or self._was_cut_off(entry)

    def _was_cut_off(self, entry: IndexedKey) -> bool:
        """Return whether RocketMQ cut off its message: the entry leads to no message, or to one without its key."""
        if self._verified.cut_ms is None:
            return False
        try:
            message = message_at(self._log, entry.offset)
        except NotFoundError:
            return True
        except CorruptError as error:
            return error.rule not in DAMAGED_CONTENT
        return entry.hash not in [key_hash(message.topic, key) for key in keys_of(message)]

    def _is_removed(self, offset: int) -> bool:
        """Return whether retention has removed the message at an offset in the meantime."""
        self._log.refresh()
        return 0 <= offset < self._log.min_offset

    def _is_tag(self, entry: IndexedKey) -> bool:
        """Return whether the entry is for the tag of a message, which RocketMQ adds since version 5.5."""
        try:
            message = message_at(self._log, entry.offset)
        except (CorruptError, NotFoundError):
            return False  # the entry or its message is reported
        tag = parse_properties(message.properties).get(TAGS)
        return bool(tag) and entry.hash == tag_hash(message.topic, tag or "")

    def _is_missing(self, key: _Key, entry: IndexedKey) -> bool:
        """Return whether the entry belongs to a later key."""
        after = self._entry(1)
        if len(self._keys) > 1:
            if _is_entry_of(entry, self._keys[1]):
                return True
            if after is not None and _is_entry_of(after, self._keys[1]):
                return False
        elif entry.hash == key.hash:
            return False
        return entry.offset > key.offset and (after is None or after.offset >= entry.offset)

    def _is_extra(self, key: _Key, entry: IndexedKey) -> bool:
        """Return whether the entry of the key comes later."""
        after = self._entry(1)
        return after is not None and _is_entry_of(after, key)

    def _compare(self, key: _Key, entry: IndexedKey) -> None:
        if key.offset != self._last[0]:
            self._last = key.offset, set()
        self._last[1].add(key.hash)
        seconds = [seconds_between(begin_ms, key.store_ms) for begin_ms in entry.begins_ms]
        if entry.seconds not in seconds:
            self._report(entry, f"{entry.seconds} seconds after the first message instead of {seconds[0]}")
        for name, value in entry.bounds:
            if value != key.store_ms:
                text = f"{name} is {value}, but the message was stored at {key.store_ms}"
                self._problems.append(Problem(entry.path, entry.bounds_at[name], "index_header", text))

    def _report(self, entry: IndexedKey, text: str) -> None:
        self._problems.append(Problem(entry.path, entry.at, "entry", f"entry {entry.number}: {text}"))

    def _report_extra(self, entry: IndexedKey) -> None:
        self._report(entry, f"hash {entry.hash}, message {entry.offset}; the log has no such key")

    def _report_missing(self) -> None:
        """Report consecutive missing keys as one problem."""
        missing, self._missing = self._missing, []
        entry = self._entry(0)
        if entry is None and not self._verified.all and self._verified.until_ms is not None:
            return  # recovery puts these keys again
        self._log.refresh()
        # Retention may have removed some messages in the meantime.
        missing = [key for key in missing if key.offset >= self._log.min_offset]
        if missing:
            first, last = missing[0].offset, missing[-1].offset
            path, at = (self._folder, 0) if entry is None else (entry.path, entry.at)
            text = f"{len(missing)} keys of messages from {first} to {last} of the commit log have no entry"
            self._problems.append(Problem(path, at, "key", text))


def _is_entry_of(entry: IndexedKey, key: _Key) -> bool:
    return entry.hash == key.hash and entry.offset == key.offset
