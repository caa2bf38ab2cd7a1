"""Anchor, the base class; and the anchors that only keep a checkpoint: a directory, the syslog, a command."""

from __future__ import annotations

import os
import re
import syslog
from abc import ABC, abstractmethod
from collections.abc import Callable

from binlog.errors import NotFoundError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import Note, Signature
from binlog.seal.commands import run_command
from binlog.seal.note_file import NoteFile
from binlog.storage.directory import Directory

ProofFrom = Callable[[int], list[bytes]]
"""Returns the proof that the tree of an older size is the beginning of the published one."""


class Anchor(ABC):
    """A place that gets the checkpoints of a log.

    name: as in the option that made it; for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def publish(self, note: Note, proof_from: ProofFrom) -> tuple[Signature, ...]:
        """Hand over a checkpoint, and return the signatures of witnesses that came back.

        Blocks for some seconds at most.
        Raises: SealError if the anchor knows a checkpoint that contradicts this one; OSError, or an error of binlog, if
        it cannot be reached.
        """

    def latest(self, origin: str) -> Note | None:
        """Return the latest checkpoint that the anchor has of a log, if it can tell.  Raises: as `publish`."""
        return None

    def alarm(self, note: Note) -> None:
        """Keep a note that the log differs from its seal (`broken_text`), if the anchor can.  Raises: as `publish`."""
        return


class DirectoryAnchor(Anchor):
    """A file in a directory, to which each checkpoint is appended, durably.

    Best on another machine's disk, with the file made append-only (`chattr +a`), or on storage that forbids changes.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"dir:{path}")
        self._path = os.path.abspath(path)

    def publish(self, note: Note, proof_from: ProofFrom) -> tuple[Signature, ...]:
        name = _file_name(parse_checkpoint(note.text).origin)
        with Directory(self._path) as directory:
            NoteFile(directory, name).append(note)
        return ()

    def latest(self, origin: str) -> Note | None:
        name = _file_name(origin)
        try:
            with Directory(self._path) as directory:
                return NoteFile(directory, name).last()
        except NotFoundError:
            return None

    def alarm(self, note: Note) -> None:
        name = _file_name(note.text.splitlines()[1]).replace(".checkpoints", ".broken")
        with Directory(self._path) as directory:
            NoteFile(directory, name).append(note)


class SyslogAnchor(Anchor):
    """A line in the system's log: origin, size, root and signature; it goes wherever the lines of that log go."""

    def __init__(self) -> None:
        super().__init__("syslog")

    def publish(self, note: Note, proof_from: ProofFrom) -> tuple[Signature, ...]:
        lines = note.text.splitlines() + [each.line() for each in note.signatures]
        syslog.syslog(syslog.LOG_NOTICE | syslog.LOG_AUTH, "binlog checkpoint " + " ".join(lines))
        return ()

    def alarm(self, note: Note) -> None:
        syslog.syslog(syslog.LOG_CRIT | syslog.LOG_AUTH, " ".join(note.text.splitlines()))


class CommandAnchor(Anchor):
    """A command of a shell that gets the checkpoint on its standard input; it has failed if it does not exit with 0."""

    def __init__(self, command: str) -> None:
        super().__init__(f"exec:{command}")
        self._command = command

    def publish(self, note: Note, proof_from: ProofFrom) -> tuple[Signature, ...]:
        run_command(self._command, str(note).encode())
        return ()


def _file_name(origin: str) -> str:
    """Return a name for an origin, without letters that mean something in a path."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", origin).lstrip(".") + ".checkpoints"
