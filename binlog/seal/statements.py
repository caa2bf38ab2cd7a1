"""StatementLog: the statements about a sealed log, in the file `statements` of its seal.

Several processes may add statements: the sealer, and the commands of an operator.  Each reads those of the others
first, under a lock of the file.
"""

from __future__ import annotations

import time

from binlog.errors import SealError
from binlog.format.seal.checkpoint import Checkpoint
from binlog.format.seal.note import Note, VerifierKey
from binlog.format.seal.state import STATEMENTS_FILE
from binlog.format.seal.statement import NO_STATEMENT, Kind, Statement, Value, parse_statement
from binlog.seal.folder import SealFolder
from binlog.seal.keys import Signer, signed_note, verified_keys
from binlog.seal.note_file import NoteFile


class StatementLog:
    """The statements of a seal.  known: those read so far, in order; each is signed and continues the one before."""

    def __init__(self, folder: SealFolder, key: VerifierKey) -> None:
        self._file = NoteFile(folder.directory, STATEMENTS_FILE)
        self._key = key
        self._read_bytes = self._synced_bytes = -1
        self.known: list[Statement] = []

    def refresh(self) -> bool:
        """Read the statements of other processes; return whether there were new ones.

        Raises: SealError if a statement is malformed, is not signed by the key, or does not continue the one before;
        AccessError.
        """
        size = self._file.size()
        if size == self._read_bytes:
            return False
        before = len(self.known)
        for number, note in enumerate(self._file.notes()):
            if number < before and self.known[number].text() == note.text:
                continue
            self._add(note)
        self._read_bytes = size
        return len(self.known) > before

    def _add(self, note: Note) -> None:
        if not verified_keys(note, [self._key]):
            raise SealError("a statement is not signed by the key")
        statement = parse_statement(note.text)
        expected = (self._key.name, len(self.known), self.last_hash())
        if (statement.origin, statement.number, statement.previous) != expected:
            raise SealError(f"statement {statement.number} does not continue the one before it")
        self.known.append(statement)

    def add(self, key: Signer, kind: Kind, size: int, **values: Value) -> Statement:
        """Add a statement, durably, and return it.  size: records that are sealed.

        Raises: as `refresh`; FullError; PoisonedError.
        """
        with self._file.locked():
            self.refresh()
            seconds = max([int(time.time()), *(each.seconds for each in self.known[-1:])])
            statement = Statement(self._key.name, len(self.known), self.last_hash(), size, seconds, kind, values)
            parse_statement(statement.text())
            self._file.append(signed_note(statement.text(), [key]))
            self.refresh()
            self._synced_bytes = self._read_bytes
        return statement

    def sync(self) -> None:
        """Make those that are known durable: a checkpoint counts them, and the process that added one may have died.

        Raises: PoisonedError; AccessError.
        """
        if self._synced_bytes != self._read_bytes:
            self._file.sync()
            self._synced_bytes = self._read_bytes

    def last_hash(self, count: int | None = None) -> bytes:
        """Return the hash of the last statement, or of the last of the first `count`."""
        count = len(self.known) if count is None else count
        return self.known[count - 1].hash() if count else NO_STATEMENT

    def check(self, head: Checkpoint) -> None:
        """Raise SealError if a checkpoint counts statements that are missing, or other ones."""
        count, last = head.statements
        if count > len(self.known) or self.last_hash(count) != last:
            raise SealError(f"the checkpoint counts {count} statements, of which some are missing or changed")
