"""Follower: reads the records of one log as they are appended, from a start or a stored position on."""

from __future__ import annotations

from collections.abc import Iterator

import binlog
from binlog.cli.exits import CommandError, ExitCode, opening, print_error
from binlog.cli.log.position import Position
from binlog.cli.looking.filters import Matches
from binlog.cli.looking.sources import LogSource
from binlog.errors import ClosedError, GoneError

FollowStart = binlog.Ref | binlog.Start | None


class Follower:
    """A reader of one log, and the position after the records that were printed.

    position: of a file that keeps it between runs.  if_pruned: `fail`, or `oldest` to continue with the oldest record.
    """

    def __init__(self, source: LogSource, position: Position | None, if_pruned: str) -> None:
        self.source = source
        self._position = position
        self._if_pruned = if_pruned
        self._reader: binlog.Reader | None = None

    @property
    def stored(self) -> binlog.Ref | None:
        """The position that an earlier run stored."""
        return None if self._position is None else self._position.start

    @property
    def reader(self) -> binlog.Reader:
        """The open reader.  Raises: ClosedError."""
        if self._reader is None:
            raise ClosedError("the follower is closed")
        return self._reader

    def start(self, start: FollowStart) -> None:
        """Open the log at a start; None: at that of the window.  Raises: CommandError."""
        with opening():
            if start is binlog.Start.END:
                # A reader at the end of a log without files would skip the first records of the first file.
                start = binlog.stat(self.source.directory).tail or binlog.Start.BEGINNING
            self._open(self.source.start() if start is None else start)

    def resume(self) -> None:
        """Open the log at the stored position.  Raises: CommandError."""
        assert self._position is not None
        stored = self._position.start
        assert stored is not None
        try:
            with opening():
                self._open(stored)
        except CommandError as error:
            if isinstance(error.__cause__, GoneError):
                self._continue_at_oldest(stored, error.__cause__, error.code)
                return
            if isinstance(error.__cause__, ValueError):
                text = f"{error}; the position is not of this log: remove {self._position.path} to start over"
                raise CommandError(text, error.code) from error
            raise

    def new(self) -> Iterator[Matches]:
        """Yield the records that match and were not read yet.

        The position after some of them is stored when the next ones are asked for, once the caller has printed them.
        Raises: CommandError if retention removed records that were not read; as binlog.Reader.
        """
        while batch := self._read():
            yield from self.source.matches(batch)
            self._store(self.reader.next_ref)
        self._store(self.reader.next_ref)

    def wait(self, seconds: float) -> bool:
        """Wait for records, and return whether there are any, or an error that `new` will meet."""
        try:
            return self.reader.wait(seconds)
        except GoneError:
            return True

    def close(self) -> None:
        """Close the reader."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _read(self) -> binlog.Batch:
        while True:
            try:
                return self.reader.read_batch()
            except GoneError as error:
                self._continue_at_oldest(self.reader.next_ref, error, ExitCode.FAILED)

    def _open(self, start: binlog.Ref | binlog.Start) -> None:
        self._reader = binlog.Reader(self.source.directory, start, verify=self.source.verify)

    def _continue_at_oldest(self, ref: binlog.Ref, error: GoneError, code: ExitCode) -> None:
        """Continue with the oldest record, and report what was missed."""
        if self._if_pruned == "fail":
            text = f"{error}; use '--if-pruned oldest' to continue with the oldest record"
            raise CommandError(text, code) from error
        self.close()
        with opening():
            self._open(binlog.Start.BEGINNING)
        oldest = self.reader.next_ref
        if oldest.number <= ref.number:
            print_error(f"{error}; continuing with the oldest record there, {oldest}")
            return
        last = oldest.number - 1
        files = f"file {ref.number}" if last == ref.number else f"files {ref.number} to {last}"
        print_error(f"skipped the records from {ref} up to {oldest}: retention removed {files}")

    def _store(self, ref: binlog.Ref) -> None:
        if self._position is not None:
            self._position.store(ref)
