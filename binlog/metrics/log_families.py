"""The families of samples of logs: their files, durability, followers, consumer groups and seals."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from binlog.errors import BinlogError
from binlog.metrics.families import Family, Kind
from binlog.watching import FollowerStat, GroupView, LogView, SealView, view_log

_NS = 10**9
_FILE_STATES = ("open", "closed", "archived")


def log_families(paths: Iterable[str | os.PathLike[str]], positions: Iterable[str] = ()) -> list[Family]:
    """Return the families of the logs in these directories.

    positions: paths of position files outside of a log's directory; each is a follower of every log.
    Reads headers, position files, and the state of groups and seals, but no record.
    A log, group or seal that cannot be read has a sample that says so (`binlog_up`, `binlog_group_up`,
    `binlog_seal_up`), and no others.  A value that is not known has no sample.
    """
    table = _Table()
    for path in dict.fromkeys(os.fspath(path) for path in paths):  # a text with a sample twice is invalid
        try:
            view = view_log(path, positions)
        except BinlogError:
            table.up.add(0, log=path)
            continue
        table.up.add(1, log=path)
        table.add_log(view, path)
        for follower in view.followers:
            table.add_follower(follower, path)
        for group in view.groups:
            table.add_group(group, path)
        if view.seal is not None:
            table.add_seal(view.seal, path)
    table.time.add(time.time_ns() / _NS)
    return table.families


class _Table:
    """The families, to which the samples of each log are added."""

    def __init__(self) -> None:
        self.families: list[Family] = []
        self.up = self._gauge("up", "Whether the log could be read.")
        self.time = self._gauge("metrics_timestamp_seconds", "When these metrics were made.")

        self._records = self._counter("records", "Records appended since the log was made.")
        self._stored = self._gauge("stored_records", "Records in the files of the log.")
        self._used = self._gauge("used_bytes", "Bytes of the records in the files, with their lengths and headers.")
        self._appended = self._gauge("last_append_timestamp_seconds", "When the newest record was appended.")
        self._oldest = self._gauge("oldest_file_timestamp_seconds", "When the oldest file was made.")
        self._recoveries = self._counter("recoveries", "Recoveries of the log after a crash or a failed sync.")
        self._poisoned = self._gauge("poisoned", "Whether a write or a sync failed, and no writer reopened the log.")
        self._foreign = self._gauge("foreign_writers", "Whether other programs append to the log too.")
        self._files = self._gauge("files", "Files of the log, by state.")
        self._disk = self._gauge("disk_bytes", "Bytes on the disk, by kind of file.")
        self._unsynced = self._gauge("unsynced_bytes", "Bytes that are flushed, and not known to be synced.")
        self._staged = self._gauge("staged_bytes", "Bytes in shared memory that are not in the log yet.")
        self._memory = self._gauge("memory_bytes", "Bytes of shared memory that the log uses.")
        self._free = self._gauge("filesystem_free_bytes", "Bytes that the file system of the log still takes.")
        self._size = self._gauge("filesystem_size_bytes", "Size of the file system of the log.")

        self._follower_up = self._gauge("follower_up", "Whether the follower's position is one in the log.")
        self._follower_records = self._gauge("follower_lag_records", "Records that the follower has yet to read.")
        self._follower_bytes = self._gauge("follower_lag_bytes", "Bytes that the follower has yet to read.")
        self._follower_seconds = self._gauge(
            "follower_lag_seconds", "How long ago the next record of the follower was appended; 0 at the end."
        )
        self._follower_time = self._gauge(
            "follower_updated_timestamp_seconds", "When the follower stored its position."
        )

        self._group_up = self._gauge("group_up", "Whether the consumer group could be read.")
        self._group_lag = self._gauge("group_lag_messages", "Messages that the group is not done with.")
        self._group_seconds = self._gauge(
            "group_lag_seconds", "How long the first of these messages has been in the log."
        )
        self._group_members = self._gauge("group_members", "Members of the group, by state.")
        self._group_items = self._gauge("group_items", "Messages that were delivered or have a due time, by state.")
        self._group_paused = self._gauge("group_paused", "Whether the group is paused.")
        self._group_held = self._gauge("group_held_bytes", "Bytes of closed files that retention keeps for the group.")
        self._group_deliveries = self._counter("group_deliveries", "Deliveries of messages that began.")
        self._group_done = self._counter("group_done", "Messages that were acknowledged.")
        self._group_failed = self._counter("group_failed_deliveries", "Deliveries without an ack, by reason.")
        self._group_expired = self._counter("group_expired", "Messages that expired before they were done.")
        self._group_letters = self._counter("group_dead_letters", "Messages that became dead letters.")
        self._group_gone = self._counter("group_gone", "Messages that retention removed before they were done.")
        self._group_resets = self._counter("group_resets", "Resets of the group.")

        self._seal_up = self._gauge("seal_up", "Whether the seal could be read.")
        self._seal_records = self._counter("seal_records", "Records that the latest checkpoint covers.")
        self._seal_unsealed = self._gauge("seal_unsealed_records", "Records that no checkpoint covers yet.")
        self._seal_unsealed_bytes = self._gauge("seal_unsealed_bytes", "Bytes that no checkpoint covers yet.")
        self._seal_time = self._gauge("seal_timestamp_seconds", "When the latest checkpoint was written.")
        self._seal_cut = self._gauge("seal_cut", "Whether the log ends before its seal.")
        self._anchor_records = self._counter("seal_anchor_records", "Records of the last checkpoint at the anchor.")
        self._anchor_time = self._gauge("seal_anchor_timestamp_seconds", "When the anchor got its last checkpoint.")

    def _gauge(self, name: str, text: str) -> Family:
        return self._family(name, Kind.GAUGE, text)

    def _counter(self, name: str, text: str) -> Family:
        return self._family(name, Kind.COUNTER, text)

    def _family(self, name: str, kind: Kind, text: str) -> Family:
        unit = next((unit for unit in ("bytes", "seconds") if name.endswith(f"_{unit}")), "")
        self.families.append(Family(f"binlog_{name}", kind, text, unit))
        return self.families[-1]

    def add_log(self, view: LogView, log: str) -> None:
        """Add the samples of a log's files."""
        stat = view.log
        self._records.add(stat.end_sequence, log=log)
        self._stored.add(stat.record_count, log=log)
        self._used.add(stat.used_bytes, log=log)
        self._appended.add(_seconds(stat.appended_ns), log=log)
        self._oldest.add(_seconds(stat.files[0].created_ns if stat.files else None), log=log)
        self._recoveries.add(stat.epoch, log=log)
        self._poisoned.add(int(stat.is_poisoned), log=log)
        self._foreign.add(int(stat.has_foreign_writers), log=log)
        states = Counter("archived" if file.archived else "closed" if file.closed else "open" for file in stat.files)
        for state in _FILE_STATES:
            self._files.add(states[state], log=log, state=state)
        of_files = sum(file.disk_bytes for file in stat.files if not file.archived)
        for kind, size in (
            ("log", of_files),
            ("archive", stat.archive_bytes),
            ("index", stat.index_bytes),
            ("quarantined", stat.damaged_bytes),
            ("prepared", stat.new_bytes),
        ):
            self._disk.add(size, log=log, kind=kind)
        self._unsynced.add(stat.unsynced_bytes, log=log)
        self._staged.add(stat.staged_bytes, log=log)
        self._memory.add(stat.memory_bytes, log=log)
        with suppress(FileNotFoundError):  # the log was removed meanwhile
            system = os.statvfs(stat.path)
            self._free.add(system.f_bavail * system.f_frsize, log=log)
            self._size.add(system.f_blocks * system.f_frsize, log=log)

    def add_follower(self, follower: FollowerStat, log: str) -> None:
        """Add the samples of a follower."""
        labels = {"log": log, "follower": follower.name}
        self._follower_up.add(int(follower.problem is None), **labels)
        self._follower_records.add(follower.lag_records, **labels)
        self._follower_bytes.add(follower.lag_bytes, **labels)
        self._follower_seconds.add(follower.lag_seconds, **labels)
        self._follower_time.add(_seconds(follower.updated_ns), **labels)

    def add_group(self, group: GroupView, log: str) -> None:
        """Add the samples of a consumer group."""
        labels = {"log": log, "group": group.name}
        stat = group.stat
        self._group_up.add(int(stat is not None), **labels)
        if stat is None:
            return
        self._group_lag.add(stat.lag, **labels)
        self._group_seconds.add(stat.lag_seconds, **labels)
        dead = sum(member.is_alive is False for member in stat.members)
        self._group_members.add(len(stat.members) - dead, **labels, state="alive")
        self._group_members.add(dead, **labels, state="dead")
        for state in ("ready", "delayed", "blocked", "in_hand", "dying"):
            self._group_items.add(getattr(stat, state), **labels, state=state)
        self._group_paused.add(int(stat.is_paused), **labels)
        self._group_held.add(stat.held_bytes, **labels)
        counters = stat.counters
        self._group_deliveries.add(counters.started, **labels)
        self._group_done.add(counters.done, **labels)
        self._group_failed.add(counters.failed, **labels, reason="failed")
        self._group_failed.add(counters.died, **labels, reason="died")
        self._group_expired.add(counters.expired, **labels)
        self._group_letters.add(counters.dead, **labels)
        self._group_gone.add(counters.gone, **labels)
        self._group_resets.add(stat.epoch, **labels)

    def add_seal(self, seal: SealView, log: str) -> None:
        """Add the samples of a log's seal."""
        stat = seal.stat
        self._seal_up.add(int(stat is not None), log=log)
        if stat is None:
            return
        self._seal_records.add(stat.size, log=log)
        self._seal_unsealed.add(seal.unsealed_records, log=log)
        self._seal_unsealed_bytes.add(stat.unsealed_bytes, log=log)
        self._seal_time.add(_seconds(stat.signed_ns), log=log)
        self._seal_cut.add(int(seal.is_cut), log=log)
        for name, anchored in stat.anchored.items():
            self._anchor_records.add(anchored.size, log=log, anchor=name)
            self._anchor_time.add(anchored.seconds, log=log, anchor=name)


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / _NS
