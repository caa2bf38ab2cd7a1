"""A sealed log for tampering, and what an attacker with write access to its directory can make of it."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import binlog
from binlog.format.seal.note import Note
from binlog.format.seal.state import SEAL_FOLDER, SealedFile
from binlog.format.seal.tree import leaf_hash
from binlog.seal import Sealer, SigningKey, begin_seal
from binlog.seal.folder import SealFolder

Files = list[list[bytes]]
"""The records of each log file."""


class SealedLog:
    """A sealed log of three files, of which the first is an archive.

    path: of the log.  older: a copy of the whole directory from when it had fewer records.  files: its records.
    anchored: its last checkpoint, as an anchor has it.
    """

    def __init__(self, folder: Path, key: SigningKey, chance: random.Random) -> None:
        self.path, self.older = folder / "log", folder / "older"
        self._key = key
        self.files: Files = [
            [b"%d.%d " % (number, place) + chance.randbytes(chance.choice((0, 5, 60))) for place in range(count)]
            for number, count in enumerate(chance.choices(range(100, 400), k=3))
        ]
        half = len(self.files[2]) // 2
        with binlog.Writer(self.path, mode="flush") as writer:
            begin_seal(self.path, key)
            for records in self.files[:2]:
                writer.append_many(records)
                writer.cutover()
            writer.append_many(self.files[2][:half])
        binlog.archive(self.path, keep_last=1)
        self._seal()
        shutil.copytree(self.path, self.older)
        with binlog.Writer(self.path, mode="flush") as writer:
            writer.append_many(self.files[2][half:])
        self.anchored = self._seal()
        self.uuid = uuid.UUID(str(binlog.stat(self.path).files[0].uuid))

    def _seal(self) -> Note:
        with binlog.Writer(self.path) as writer:
            writer.sync()
        with Sealer(self.path, self._key) as sealer:
            return sealer.seal()


def make_again(path: Path, identity: uuid.UUID, files: Sequence[Sequence[bytes]]) -> None:
    """Replace the log's files by new ones with these records and the log's own UUID; all checksums fit.

    The first file is an archive again, if others follow.
    """
    for old in path.glob("0*"):
        old.unlink()
    with _uuid(identity), binlog.Writer(path, mode="flush") as writer:
        for number, records in enumerate(files):
            if number:
                writer.cutover()
            if records:
                writer.append_many(records)
        writer.sync()
    if len(files) > 1:
        binlog.archive(path, keep_last=len(files) - 2)


def forge_hashes(path: Path, files: Sequence[Sequence[bytes]]) -> None:
    """Replace the hashes and the table of files of a seal by those of other records."""
    shutil.rmtree(path / SEAL_FOLDER / "hashes")
    (path / SEAL_FOLDER / "hashes").mkdir()
    (path / SEAL_FOLDER / "files").unlink(missing_ok=True)
    with SealFolder(path) as folder:
        folder.hashes(0).append(b"".join(leaf_hash(record) for records in files for record in records))
        leaf, found = 0, []
        for number, records in enumerate(files, 1):
            if records:
                found.append(SealedFile(number, leaf))
            leaf += len(records)
        folder.write_files(0, found)


@contextmanager
def _uuid(identity: uuid.UUID) -> Iterator[None]:
    """Let a new log have this UUID, in a block."""
    with mock.patch("binlog.log.files.prepared_file.uuid.uuid4", return_value=identity):
        yield
