"""Removing what is old from a store, oldest files first, and refusing messages while the disk is nearly full.

RocketMQ's rules: files go that nobody has written for 72 hours, once a day at four; where the disk is 75 % full, at any
time, and from 85 % on however young they are; ten files at most in a run, every ten seconds.  From 90 % on nothing is
appended.
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
    """What is removed when; ratios are of the space in use to that which could be.

    hours: a file that was not written for so long has expired.  at_hour: of the day, local time, when expired files are
    removed; None for any.  expire_ratio: they are at any time from there on; force_ratio: files go though they have not
    expired; full_ratio: messages are refused.
    files_max: in a run.  seconds: between two runs.  pause_seconds: between two files.
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
    """Removes what the retention says, in a thread of its own.

    told: up to where queues and key index were told of messages: none of these goes before.
    removed: called after files were removed.  The commit log's files decide; queues and key index follow.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        retention: Retention,
        told: Callable[[], int],
        removed: Callable[[], None],
        concerns: set[str] | None = None,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._retention = retention
        self._told = told
        self._removed = removed
        self._full: float | None = None
        self._running = threading.Lock()
        self._concerns = set[str]() if concerns is None else concerns
        self.service = Service("retention", retention.seconds, self._work, concerns=concerns)

    def stop(self) -> None:
        """End.  Raises: what removing raised."""
        self.service.stop()
        self.service.check()

    def check(self) -> None:
        """Raises: FullError while the disk is so full that nothing may be appended."""
        if self._full is not None:
            raise FullError(f"{self._log.files.folder}: {self._full:.0%} of the disk is in use; nothing is appended")

    def _work(self) -> None:
        self.run(manual=False)

    def run(self, *, manual: bool) -> int:
        """Remove what is due; how many files of the commit log went.  manual: whatever the hour."""
        with self._running:
            return self._run(manual=manual)

    def _run(self, *, manual: bool) -> int:
        retention = self._retention
        ratio = self._ratio()
        self._full = ratio if ratio >= retention.full_ratio else None
        (self._concerns.discard if self._full is None else self._concerns.add)("full")
        now = time.time()
        timely = retention.at_hour is None or time.localtime(now).tm_hour == retention.at_hour
        count = 0
        if manual or timely or ratio >= retention.expire_ratio:
            before = now - 3600 * retention.hours
            forced = ratio >= retention.force_ratio
            # Who flushes, or tells, goes on where it was, and would find nothing there.
            done = min(self._log.files.flushed_where, self._told())
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
        with own_errors(self._log.files.folder, "asking how full the disk is"):
            found = os.statvfs(self._log.files.folder)
        # As df(1) and RocketMQ have it: blocks that only root may take are neither used nor to be had.
        used = found.f_blocks - found.f_bfree
        return used / (used + found.f_bavail) if used else 0.0
