"""Retention: removes the oldest files of a store, and refuses messages while the disk is nearly full.

The rules are RocketMQ's.  A file expires 72 hours after its last write; expired files are removed once a day at four,
or at any time if the disk is 75 % full.  From 85 % on, unexpired files are removed too.  A run removes at most ten
files, and there is a run every ten seconds.  From 90 % on, no message is appended.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.append.service import Service
from binlog.commitlog.indexes.consume_queue import ConsumeQueues
from binlog.commitlog.indexes.key_index import KeyIndex
from binlog.errors import FullError
from binlog.storage.failures import own_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """When files are removed; ratios are used space to usable space.

    hours: how long after its last write a file expires.  at_hour: the hour of the day, in local time, in which expired
    files are removed; None for any.  expire_ratio: from here on they are removed at any time.  force_ratio: from here
    on unexpired files are removed.  full_ratio: from here on messages are refused.
    files_max: most files of a run.  seconds: between two runs.  pause_seconds: between two files.
    """

    hours: float = 72.0
    at_hour: int | None = 4
    expire_ratio: float = 0.75
    force_ratio: float = 0.85
    full_ratio: float = 0.90
    files_max: int = 10
    seconds: float = 10.0
    pause_seconds: float = 0.1


class Cleaner:
    """Removes expired files, in its own thread.

    dispatched: returns the end of the messages that the queues and the key index have; no file after it is removed.
    removed: called after files were removed.  Files of the commit log are chosen by time; the queues and the key index
        then drop what refers to removed messages.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        retention: Retention,
        dispatched: Callable[[], int],
        removed: Callable[[], None],
        unhealthy: set[str] | None = None,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._retention = retention
        self._dispatched = dispatched
        self._removed = removed
        self._full: float | None = None
        self._running = threading.Lock()
        self._unhealthy = set[str]() if unhealthy is None else unhealthy
        self.service = Service("retention", retention.seconds, self._work, unhealthy=unhealthy)

    def stop(self) -> None:
        """End the thread.  Raises: the error of the last run."""
        self.service.stop()
        self.service.check()

    def check(self) -> None:
        """Raise FullError while the disk is too full for appends."""
        if self._full is not None:
            raise FullError(
                f"{self._log.files.folder}: {self._full:.0%} of the disk is in use; free some space to append"
            )

    def _work(self) -> None:
        self.run(manual=False)

    def run(self, *, manual: bool) -> int:
        """Remove files that are due; return how many of the commit log.  manual: at any hour."""
        with self._running:
            return self._run(manual=manual)

    def _run(self, *, manual: bool) -> int:
        retention = self._retention
        ratio = self._ratio()
        self._full = ratio if ratio >= retention.full_ratio else None
        (self._unhealthy.discard if self._full is None else self._unhealthy.add)("full")
        now = time.time()
        timely = retention.at_hour is None or time.localtime(now).tm_hour == retention.at_hour
        count = 0
        if manual or timely or ratio >= retention.expire_ratio:
            before = now - 3600 * retention.hours
            forced = ratio >= retention.force_ratio
            # Flushing and dispatching resume at their positions, so the files there must stay.
            done = min(self._log.files.flushed_where, self._dispatched())
            count += self._log.files.remove_first(
                lambda file: file.end <= done and (forced or file.modified < before),
                retention.files_max,
                retention.pause_seconds,
            )
        if count:
            start = self._log.files.min_offset
            for queue in self._queues:
                queue.remove_files(start)
            self._index.remove_before(start)
            self._removed()
        return count

    def _ratio(self) -> float:
        with own_errors(self._log.files.folder, "reading the free space of the disk"):
            found = os.statvfs(self._log.files.folder)
        # As in df(1) and RocketMQ, blocks reserved for root count neither as used nor as usable.
        used = found.f_blocks - found.f_bfree
        return used / (used + found.f_bavail) if used else 0.0
