"""Telling queues and key index what was appended to the commit log, in a thread, so that no append waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.commitlog.commit_log import CommitLog
from binlog.commitlog.consume_queues import ConsumeQueues
from binlog.commitlog.key_index import KeyIndex
from binlog.commitlog.service import Service
from binlog.format.commitlog.compiled import Walk

_SECONDS = 0.1
# Saying it takes some system calls, and after each of them another thread has its turn.
_SAYING_SECONDS = 0.01
_PAUSE_SECONDS = 0.001  # as RocketMQ's; without it, each message would be told by itself, and appends wait for that


class Dispatcher:
    """Tells the queues and the index of each message, in the order of the log.

    offset: up to where they were told.  store_ms: when the last one was stored of which they were told.
    limit: up to where they may be told now.  told: called whenever more was told.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        limit: Callable[[], int],
        told: Callable[[], None],
        concerns: set[str] | None = None,
    ) -> None:
        self.offset = 0
        self.store_ms = 0
        self._index = index
        self._log = log
        self._queues = queues
        self._limit = limit
        self._told = told
        self.service = Service("dispatch", _SECONDS, self.run, pause_seconds=_PAUSE_SECONDS, concerns=concerns)

    def stop(self) -> None:
        """Tell what is left, and end.  Raises: what telling raised."""
        self.service.stop()
        self.service.check()
        self.run()

    def run(self) -> None:
        """Tell all up to the limit."""
        said_at, said = time.monotonic(), self.offset
        for end, found in self._log.walks(self.offset, self._limit(), check=False):
            self.tell(found)
            self.offset = end
            if time.monotonic() - said_at >= _SAYING_SECONDS:
                self._told()
                said_at, said = time.monotonic(), end
        if self.offset != said:
            self._told()

    def tell(self, found: Walk) -> None:
        """Tell of some messages; of those that are known nobody takes notice."""
        for run in found.runs:
            queue = self._queues.get_or_make(run.topic.decode("utf-8", "replace"), run.queue_id)
            queue.put(run.first_queue_offset, run.units)
        self._index.put(found.keys)
        self.store_ms = found.store_ms or self.store_ms
