"""A sealed log for tampering, and what an attacker with write access to its directory can make of it."""

from __future__ import annotations

import copy
import enum
import random
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import binlog
from binlog.format.seal.note import Note
from binlog.format.seal.state import SEAL_FOLDER, SealedFile
from binlog.format.seal.tree import leaf_hash
from binlog.seal import Sealer, SigningKey, begin_seal, hold, prune
from binlog.seal.folder import SealFolder
from stress.tamper.times import HOUR, date_file

Files = list[list[bytes]]
"""The records of each log file."""


class Life(enum.Enum):
    """What happened to a sealed log besides appends."""

    NOTHING = "nothing"
    PRUNED = "the first file was removed, and a statement allows that"
    HELD = "a statement allows to remove the first two files, and then a hold forbids it"
    LOST = "the last records were lost, and the loss accepted"


# Hours before now: when each file was made, when the records before its middle were added, and those after.
_MADE = (-10.0, -9.0, -4.0)
_FIRST_HALF = (-10.0, -6.0, -3.0)
_SECOND_HALF = (-10.0, -6.0, -1.5)
_CHUNKS = 4


class SealedLog:
    """A sealed log of three files, of which the first is an archive; it was made in the course of ten hours.

    path: of the log.  older: a copy of the whole directory from when it had fewer records.  files: its records, if
    nothing happened to it.  anchored: its last checkpoint, as an anchor has it.
    """

    def __init__(self, folder: Path, key: SigningKey, chance: random.Random, life: Life = Life.NOTHING) -> None:
        self.path, self.older = folder / "log", folder / "older"
        self.key, self.life = key, life
        self.files: Files = [
            [b"%d.%d " % (number, place) + chance.randbytes(chance.choice((0, 5, 60))) for place in range(count)]
            for number, count in enumerate(chance.choices(range(100, 400), k=3))
        ]
        half = len(self.files[2]) // 2
        with hours_from_now(_FIRST_HALF[0]):
            binlog.Writer(self.path, mode="flush").close()
            begin_seal(self.path, key)
        self._append(self.files[0], _FIRST_HALF[0], cutover=True)
        self._append(self.files[1], _FIRST_HALF[1], cutover=True)
        self.anchored = self._append(self.files[2][:half], _FIRST_HALF[2])
        shutil.copytree(self.path, self.older)
        self.anchored = self._append(self.files[2][half:], _SECOND_HALF[2])
        self.uuid = uuid.UUID(str(binlog.stat(self.path).files[0].uuid))
        with hours_from_now(-1):
            self._live()
        self._date_files(half)
        binlog.archive(self.path, keep_last=1)
        binlog.archive(self.older, keep_last=1)

    def copied(self, folder: Path) -> SealedLog:
        """Return a copy in a folder, which need not exist."""
        made = copy.copy(self)
        made.path, made.older = folder / "log", folder / "older"
        shutil.copytree(self.path, made.path)
        shutil.copytree(self.older, made.older)
        return made

    def _append(self, records: Sequence[bytes], hours: float, *, cutover: bool = False) -> Note:
        """Append records, with a checkpoint before and one after."""
        with hours_from_now(hours), binlog.Writer(self.path, mode="flush") as writer:
            with Sealer(self.path, self.key) as sealer:
                sealer.seal()
            count = -(-len(records) // _CHUNKS)
            for start in range(0, len(records), count):
                writer.append_many(records[start : start + count])
            if cutover:
                writer.cutover()
            return self._seal()

    def _seal(self) -> Note:
        with binlog.Writer(self.path) as writer:
            writer.sync()
        with Sealer(self.path, self.key) as sealer:
            return sealer.seal()

    def _live(self) -> None:
        if self.life is Life.PRUNED:
            prune(self.path, self.key, before="2:256")
        elif self.life is Life.HELD:
            prune(self.path, self.key, before="3:256", remove=False)
            hold(self.path, self.key, "inquiry")
        elif self.life is Life.LOST:
            replace_files(self.path, self.older)
            with binlog.Writer(self.path) as writer:
                writer.append_many([b"after the loss %d" % number for number in range(50)])
            with Sealer(self.path, self.key, accept_loss="the disk lied") as sealer:
                self.anchored = sealer.seal()
        self.anchored = self._seal()

    def _date_files(self, half: int) -> None:
        """Give the files the times of the appends, which were all made just now."""
        now, begun = time.time(), 0
        for number, records in enumerate(self.files, 1):
            middle = begun + half if number == 3 else begun

            def dated(sequence: int, number: int = number, middle: int = middle) -> float:
                return now + HOUR * (_FIRST_HALF if sequence < middle else _SECOND_HALF)[number - 1]

            if (self.path / f"{number:08d}.dat").exists():
                date_file(self.path, number, now + HOUR * _MADE[number - 1], dated)
            begun += len(records)


def replace_files(path: Path, by: Path) -> None:
    """Replace the files of a log by those of another directory; the seal stays."""
    for old in path.glob("0*"):
        old.unlink()
    for new in by.glob("0*"):
        shutil.copy(new, path)


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
    with mock.patch("binlog.log.files.prepared_file.new_log_uuid", return_value=identity.bytes):
        yield


@contextmanager
def hours_from_now(hours: float) -> Iterator[None]:
    """Let the seal's clock be that many hours ahead, in a block."""
    real = time.time

    def shifted() -> float:
        return real() + hours * HOUR

    with mock.patch("time.time", shifted):
        yield
