"""SealFolder: the files of a seal, in the folder `seal` of the log's directory."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress

import binlog
from binlog.errors import NotFoundError, SealError
from binlog.format.seal.note import NOTE_BYTES_MAX, Note, parse_note
from binlog.format.seal.state import (
    BEGINNING_FILE,
    CHECKPOINT_FILE,
    COSIGNED_FILE,
    FILES_FILE,
    HASH_FOLDER,
    SEAL_FOLDER,
    SEALED_FILE,
    STATE_BYTES_MAX,
    STATE_FILE,
    STATEMENTS_FILE,
    Beginning,
    SealedFile,
    SealState,
    parse_beginning,
    parse_sealed_files,
    parse_state,
)
from binlog.format.seal.statement import Loss, losses_of, parse_statements
from binlog.seal.hash_store import HashStore
from binlog.storage.directory import Directory
from binlog.storage.files import read_at, sync, truncate, write_at
from binlog.storage.handle import Closing

_PIECE_BYTES = 1 << 20


class SealFolder(Closing):
    """The files of a seal.  log_path: of the log.  directory: the folder."""

    def __init__(self, log_path: str | os.PathLike[str], directory: Directory | None = None) -> None:
        """Open the folder.  directory: the folder, if it is open; then the caller closes it.

        Raises: NotFoundError if the log has no seal; AccessError.
        """
        self.log_path = os.fspath(log_path)
        with ExitStack() as opened:
            if directory is None:
                directory = opened.enter_context(Directory(seal_path(log_path)))
            self.directory = directory
            self._hashes = opened.enter_context(Directory(directory.file_path(HASH_FOLDER), parent=directory))
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()

    def beginning(self) -> tuple[Note, Beginning]:
        """Return the note with which the seal begins, and its values.

        Raises: SealError; NotFoundError; AccessError.
        """
        note = parse_note(self.directory.read(BEGINNING_FILE, NOTE_BYTES_MAX + 1))
        return note, parse_beginning(note.text)

    def checkpoint(self, *, cosigned: bool = False) -> Note | None:
        """Return the latest checkpoint, or the latest that witnesses have signed too; None before the first.

        Raises: SealError; AccessError.
        """
        try:
            return parse_note(self.directory.read(COSIGNED_FILE if cosigned else CHECKPOINT_FILE, NOTE_BYTES_MAX + 1))
        except NotFoundError:
            return None

    def write_checkpoint(self, note: Note) -> None:
        """Replace the latest checkpoint, durably.  Raises: FullError; AccessError; PoisonedError."""
        self.replace(CHECKPOINT_FILE, str(note).encode())

    def state(self) -> SealState:
        """Return the sealer's state.  Raises: SealError; NotFoundError; AccessError."""
        return parse_state(self.directory.read(STATE_FILE, STATE_BYTES_MAX))

    def write_state(self, state: SealState) -> None:
        """Replace the sealer's state, durably.  Raises: FullError; AccessError; PoisonedError."""
        self.replace(STATE_FILE, state.pack())

    def losses(self) -> list[Loss]:
        """Return the losses that statements tell, whose signatures are not checked.  Raises: SealError; AccessError."""
        try:
            return losses_of(parse_statements(self.directory.read(STATEMENTS_FILE)))
        except NotFoundError:
            return []

    def hashes(self, size: int) -> HashStore:
        """Return the hashes of a tree of this size."""
        return HashStore(self._hashes, size)

    def files(self, count: int | None = None) -> list[SealedFile]:
        """Return the first `count` log files of the tree, or all.  Raises: SealError; AccessError."""
        data = b""
        with suppress(NotFoundError), self.directory.opened(FILES_FILE) as fd:
            # Up to zeros, with which a power cut or an attacker can make the file as large as a disk.
            while piece := read_at(fd, _PIECE_BYTES, len(data), self.directory.file_path(FILES_FILE)):
                data += piece
                if not any(piece[-SEALED_FILE.size :]):
                    break
        data = data if count is None else data[: count * SEALED_FILE.size]
        found = list(parse_sealed_files(data))
        if count is not None and len(found) != count:
            raise SealError(f"{self.directory.file_path(FILES_FILE)}: it has {len(found)} log files of {count}")
        return found

    def write_files(self, first: int, files: list[SealedFile]) -> None:
        """Write log files of the tree from entry `first` on, durably.

        Raises: FullError; AccessError; PoisonedError.
        """
        self.directory.make(FILES_FILE)
        path = self.directory.file_path(FILES_FILE)
        with self.directory.opened(FILES_FILE, writable=True) as fd:
            write_at(fd, b"".join(each.pack() for each in files), first * SEALED_FILE.size, path)
            sync(fd, path)
        self.directory.sync()

    def cut_files(self, count: int) -> None:
        """Keep only the first `count` log files of the tree, durably.  Raises: AccessError; PoisonedError."""
        path = self.directory.file_path(FILES_FILE)
        if self.directory.has(FILES_FILE):
            with self.directory.opened(FILES_FILE, writable=True) as fd:
                truncate(fd, count * SEALED_FILE.size, path)
                sync(fd, path)

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file, durably.  Raises: FullError; AccessError; PoisonedError."""
        self.directory.write_new(f".{name}", data)
        self.directory.rename(f".{name}", name)


def seal_path(log_path: str | os.PathLike[str]) -> str:
    """Return the path of the folder of a log's seal."""
    return os.path.join(log_path, SEAL_FOLDER)


def log_uuid(path: str | os.PathLike[str]) -> str:
    """Return a log's UUID in hexadecimal; empty if another program made all of its files."""
    return next((file.uuid for file in binlog.stat(path).files if file.uuid is not None), "")


def is_other_log(uuid: str, begun: str) -> bool:
    """Return whether two UUIDs are of two logs; a log has none as long as another program made all of its files."""
    return "" not in (uuid, begun) and uuid != begun
