"""All consume queues of a store: a folder for each topic, and in it one for each queue."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from binlog.commitlog.consume_queue import ConsumeQueue
from binlog.errors import CorruptError
from binlog.format.commitlog.consume_queue import UNITS_IN_FILE
from binlog.format.commitlog.names import is_queue_name, is_topic
from binlog.storage.files import list_folder
from binlog.storage.open_files import OpenFiles


def list_queues(folder: str, topic: str | None = None) -> list[tuple[str, int]]:
    """The topic and id of each queue that has a folder below this one, of one topic or of all.  Raises: AccessError."""
    topics = [name for name in (list_folder(folder) if topic is None else [topic]) if is_topic(name)]
    found = [(name, queue) for name in topics for queue in list_folder(os.path.join(folder, name))]
    return sorted((name, int(queue)) for name, queue in found if is_queue_name(queue))


class ConsumeQueues:
    """The queues below a folder of a store.  Any thread may look one up; one at a time may make one."""

    def __init__(self, files: OpenFiles, folder: str, units_in_file: int = UNITS_IN_FILE) -> None:
        self._files = files
        self._folder = folder
        self._units_in_file = units_in_file
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._mutex = threading.Lock()

    def load(self) -> None:
        """Open those that are there.  Raises: CorruptError where a file has another size."""
        for topic, queue_id in list_queues(self._path):
            self.get_or_make(topic, queue_id).load()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, or None where no message was ever put in it."""
        return self._queues.get((topic, queue_id))

    def get_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, whose folder is made where it is missing.

        Raises: CorruptError for what can be no topic, which only bytes that nobody checked can name.
        """
        found = self._queues.get((topic, queue_id))
        if found is not None:
            return found
        if not is_topic(topic) or queue_id < 0:
            raise CorruptError(self._path, 0, "topic", f"queue {queue_id} of the topic {topic!r} can have no folder")
        with self._mutex:
            folder = self._folder
            for name in (topic, str(queue_id)):
                folder = os.path.join(folder, name)
                self._files.directory.make_folder(folder)
            return self._queues.setdefault((topic, queue_id), ConsumeQueue(self._files, folder, self._units_in_file))

    @property
    def _path(self) -> str:
        return self._files.directory.file_path(self._folder)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def items(self) -> list[tuple[tuple[str, int], ConsumeQueue]]:
        """Each with its topic and id."""
        return list(self._queues.items())

    def close(self) -> None:
        """Unmap all files."""
        for queue in self:
            queue.close()
