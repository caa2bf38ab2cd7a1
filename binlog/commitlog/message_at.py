"""Reading a message of a commit log that another process may be writing."""

from __future__ import annotations

from binlog.commitlog.files_reader import FilesReader
from binlog.errors import NotFoundError
from binlog.format.commitlog.message import StoredMessage, parse_message_at

LENGTH_BYTES = 4


def message_at(log: FilesReader, offset: int) -> StoredMessage:
    """The message that lies at an offset.

    Raises: NotFoundError where none is so low or so high; CorruptError where none begins there.
    """
    start = log.start_of(offset)
    size = int.from_bytes(log.read(LENGTH_BYTES, offset), "big")
    if size == 0:
        raise NotFoundError(f"{log.folder}: no message at {offset}")
    rest = start + log.file_bytes(start) - offset
    return parse_message_at(log.read(min(size, rest), offset), offset, log.path_of(start), offset - start)
