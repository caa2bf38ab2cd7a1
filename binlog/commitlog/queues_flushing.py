"""Putting consume queues and key index on the disk now and then, and then the checkpoint that says so."""

from __future__ import annotations

from binlog.commitlog.commit_log import CommitLog
from binlog.commitlog.consume_queues import ConsumeQueues
from binlog.commitlog.dispatch import Dispatcher
from binlog.commitlog.flush_services import Pace, Pacing
from binlog.commitlog.key_index import KeyIndex
from binlog.commitlog.service import Service
from binlog.commitlog.store_state import read_checkpoint
from binlog.format.commitlog.checkpoint import StoreCheckpoint
from binlog.format.commitlog.names import CHECKPOINT_FILE
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.files import sync, write_at


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
