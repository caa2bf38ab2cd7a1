"""Telling queues and key index what was appended to the commit log, in a thread, so that no append waits for it.

Putting consume queues and key index on the disk now and then, and then the checkpoint that says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.append.flush_services import Pace, Pacing
from binlog.commitlog.append.service import Service
from binlog.commitlog.indexes.consume_queue import ConsumeQueues
from binlog.commitlog.indexes.key_index import KeyIndex
from binlog.commitlog.recovery.store_state import read_checkpoint
from binlog.format.commitlog.compiled import Walk
from binlog.format.commitlog.names import CHECKPOINT_FILE
from binlog.format.commitlog.store_files import StoreCheckpoint
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.files import sync, write_at

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


class QueuesFlushing:
    """Flushes queues and index at its pace, and keeps the checkpoint.

    Invariant: what the checkpoint says of them was synced before the checkpoint was written.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        dispatcher: Dispatcher,
        directory: Directory,
        pace: Pace,
        concerns: set[str] | None = None,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._directory = directory
        self._pacing = Pacing(pace)
        self.service = Service("queues", pace.seconds, self._work, concerns=concerns)

    def stop(self) -> None:
        """Flush all, write the checkpoint, and end.  Raises: what flushing raised."""
        self.service.stop()
        self.service.check()
        self.flush(0)

    def _work(self) -> None:
        self.flush(self._pacing.least_pages())

    def flush(self, least_pages: int) -> None:
        """Flush each queue where that is due; after a thorough one, with `least_pages` of 0, write the checkpoint."""
        log_ms, told_ms = self._log.flushed_ms, self._dispatcher.store_ms
        for queue in self._queues:
            while queue.files.flush(least_pages):
                pass
        if least_pages == 0:
            self._index.flush()
            index_ms = 0 if self._index.empty else told_ms
            self._write(StoreCheckpoint(log_ms=log_ms, queues_ms=told_ms, index_ms=index_ms))

    def read(self) -> StoreCheckpoint:
        """What the file says; zeros where there is none."""
        return read_checkpoint(self._directory) or StoreCheckpoint()

    def forget(self) -> None:
        """Have the checkpoint say that nothing is on the disk, durably: queues and key index are to be made anew."""
        self._write(StoreCheckpoint())

    def _write(self, checkpoint: StoreCheckpoint) -> None:
        path = self._directory.file_path(CHECKPOINT_FILE)
        if not self._directory.has(CHECKPOINT_FILE):
            self._directory.make(CHECKPOINT_FILE)
            self._directory.sync()
        with OpenFile(self._directory, CHECKPOINT_FILE, writable=True) as fd:
            write_at(fd, checkpoint.pack(), 0, path)
            sync(fd, path)
