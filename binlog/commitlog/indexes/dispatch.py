"""Dispatching: a thread adds the messages of the commit log to the queues and the key index; another flushes these.

No append waits for a dispatch.  After a flush of everything, the checkpoint records how much is on the disk.
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
# Publishing takes some system calls, and each of them may let another thread run.
_PUBLISH_SECONDS = 0.01
_PAUSE_SECONDS = 0.001  # as in RocketMQ; without it each message is dispatched alone, and appends wait for the GIL


class Dispatcher:
    """Adds each message to the queues and the key index, in the order of the log.

    offset: the end of the dispatched messages.  store_ms: the store time of the last one.
    limit: returns the end of the messages that may be dispatched now.  dispatched: called after more were dispatched.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        limit: Callable[[], int],
        dispatched: Callable[[], None],
        unhealthy: set[str] | None = None,
    ) -> None:
        self.offset = 0
        self.store_ms = 0
        self._index = index
        self._log = log
        self._queues = queues
        self._limit = limit
        self._dispatched = dispatched
        self.service = Service("dispatch", _SECONDS, self.run, pause_seconds=_PAUSE_SECONDS, unhealthy=unhealthy)

    def stop(self) -> None:
        """Dispatch the remaining messages, and end.  Raises: the error of a dispatch."""
        self.service.stop()
        self.service.check()
        self.run()

    def run(self) -> None:
        """Dispatch all messages up to the limit."""
        published_at, published = time.monotonic(), self.offset
        for end, found in self._log.walk_range(self.offset, self._limit(), check=False):
            self.dispatch(found)
            self.offset = end
            if time.monotonic() - published_at >= _PUBLISH_SECONDS:
                self._dispatched()
                published_at, published = time.monotonic(), end
        if self.offset != published:
            self._dispatched()

    def dispatch(self, found: Walk) -> None:
        """Dispatch some messages; the queues and the index ignore those that they have."""
        for run in found.runs:
            queue = self._queues.get_or_create(run.topic.decode("utf-8", "replace"), run.queue_id)
            queue.put(run.first_queue_offset, run.units)
        self._index.put(found.keys)
        self.store_ms = found.store_ms or self.store_ms


class IndexFlusher:
    """Flushes the queues and the key index at its pace, and writes the checkpoint.

    Invariant: everything that the checkpoint covers was synced before the checkpoint was written.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        dispatcher: Dispatcher,
        directory: Directory,
        pace: Pace,
        unhealthy: set[str] | None = None,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._directory = directory
        self._pacing = Pacing(pace)
        self.service = Service("queues", pace.seconds, self._work, unhealthy=unhealthy)

    def stop(self) -> None:
        """Flush everything, write the checkpoint, and end.  Raises: the error of a flush."""
        self.service.stop()
        self.service.check()
        self.flush(0)

    def _work(self) -> None:
        self.flush(self._pacing.least_pages())

    def flush(self, least_pages: int) -> None:
        """Flush each queue if that is due; after a thorough flush, with `least_pages` 0, write the checkpoint."""
        log_ms, dispatched_ms = self._log.flushed_ms, self._dispatcher.store_ms
        for queue in self._queues:
            while queue.files.flush(least_pages):
                pass
        if least_pages == 0:
            self._index.flush()
            index_ms = 0 if self._index.empty else dispatched_ms
            self._write(StoreCheckpoint(log_ms=log_ms, queues_ms=dispatched_ms, index_ms=index_ms))

    def read(self) -> StoreCheckpoint:
        """Return the checkpoint in the file; zeros if there is none."""
        return read_checkpoint(self._directory) or StoreCheckpoint()

    def reset(self) -> None:
        """Reset the checkpoint durably, because the queues and the key index are about to be rebuilt."""
        self._write(StoreCheckpoint())

    def _write(self, checkpoint: StoreCheckpoint) -> None:
        path = self._directory.file_path(CHECKPOINT_FILE)
        if not self._directory.has(CHECKPOINT_FILE):
            self._directory.make(CHECKPOINT_FILE)
            self._directory.sync()
        with OpenFile(self._directory, CHECKPOINT_FILE, writable=True) as fd:
            write_at(fd, checkpoint.pack(), 0, path)
            sync(fd, path)
