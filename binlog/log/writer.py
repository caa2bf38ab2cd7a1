"""Appending to a log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from binlog.errors import ClosedError, FullError
from binlog.format.log_header import LogHeader
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, frame_all
from binlog.format.ref import Ref
from binlog.log.directory import LogDirectory
from binlog.log.session import Session, WriterOptions
from binlog.log.writable_file import WritableFile
from binlog.storage.files import FileSystem, make_directory
from binlog.storage.native import fork_generation

RECORD_BYTES_MAX = 64 << 20
PREPARE_BYTES = 64 << 20

_Result = TypeVar("_Result")
Record = bytes | bytearray | memoryview


class Writer:
    """Appends records to the log in a directory; one of any number, in any threads and processes.

    path: the directory, made where it is missing (its parent must be there).
    record_bytes_max: the largest record accepted, 64 MiB unless told, 2**31-1 at most.
    prepare_bytes: the largest step in which space is allocated ahead of the tail.
    lock_timeout: seconds to wait for another program's lock before BusyError; None waits for ever.
    mode: permissions of new files, exactly; None for 0640 less the umask.
    file_system: FileSystem.ANY accepts a directory on a file system that other machines may share.

    A writer may be shared by threads and used on both sides of a fork.  Leaving its `with` block closes it.
    Raises: AccessError, CorruptError, VersionError, BusyError, FullError, PoisonedError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        record_bytes_max: int = RECORD_BYTES_MAX,
        prepare_bytes: int = PREPARE_BYTES,
        lock_timeout: float | None = None,
        mode: int | None = None,
        file_system: FileSystem = FileSystem.LOCAL,
    ) -> None:
        if not 0 <= record_bytes_max <= RECORD_BYTES_FORMAT_MAX:
            raise ValueError(f"record_bytes_max is 0 to {RECORD_BYTES_FORMAT_MAX}, not {record_bytes_max}")
        if prepare_bytes < 4096:
            raise ValueError(f"prepare_bytes is 4096 or more, not {prepare_bytes}")
        self._options = WriterOptions(
            record_bytes_max=record_bytes_max,
            prepare_bytes=prepare_bytes,
            lock_timeout=lock_timeout,
            mode=mode,
            file_system=file_system,
        )
        if mode is not None and not 0 <= mode <= 0o7777:
            raise ValueError(f"mode is 0 to 0o7777, not {mode:#o}")
        path = os.fspath(path)
        make_directory(path)
        self._directory = LogDirectory(path)
        self._session: Session | None = Session(self._directory, self._options)

    def append(self, record: Record) -> Ref:
        """Append one record and return where it lies.

        record: 0..record_bytes_max bytes, stored exactly as given.
        Durable on return, and then visible to every reader.
        Blocks: for the file's lock, then for two syncs.  Ctrl-C meanwhile ends the call; the record may appear.
        Raises: FullError, ClosedError, BusyError, PoisonedError, CorruptError, AccessError.
        """
        return self.append_many((record,))[0]

    def append_many(self, records: Iterable[Record]) -> list[Ref]:
        """Append records together and return where each lies.

        Durable on return.  They lie in one file, one after the other, become visible at once, and after a crash
        either all of them are there or none.
        Blocks and raises: as `append`.
        """
        checked = [self._check(record) for record in records]
        if not checked:
            self._open_session()
            return []
        data = frame_all(checked)

        def append(file: WritableFile, header: LogHeader) -> tuple[int, int]:
            header = file.adopted(header)
            file.append(header, data, len(checked))
            return file.number, header.tail

        number, offset = self._run(append)
        refs = []
        for record in checked:
            refs.append(Ref(number, offset))
            offset += LENGTH_BYTES + len(record)
        return refs

    def cutover(self, *, expected: int | None = None) -> int:
        """Close the open file and go on in the next; return the number now open.

        expected: cut over only where this is the open file's number, so that many callers give one cutover.
        Durable on return.  Raises: FullError, ClosedError, BusyError, PoisonedError, CorruptError, AccessError.
        """
        return self._open_session().cutover(expected)

    def sync(self) -> None:
        """Wait until everything in the open file, whoever wrote it, is on stable storage.  Raises: as `append`."""
        self._run(lambda file, header: file.sync())

    def close(self) -> None:
        """Close the writer.  What was appended is durable already; a second call does nothing.

        Blocks: for a call of another thread that is in progress.
        """
        session, self._session = self._session, None
        if session is not None and session.generation == fork_generation():
            session.close()
        self._directory.close()

    def __enter__(self) -> Self:
        self._open_session()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<binlog.Writer {self._directory.path!r}{' closed' if self._session is None else ''}>"

    def _run(self, action: Callable[[WritableFile, LogHeader], _Result]) -> _Result:
        return self._open_session().run(action)

    def _open_session(self) -> Session:
        session = self._session
        if session is None:
            raise ClosedError("the writer is closed")
        if session.generation != fork_generation():
            # A forked child: the parent's descriptors are closed here, and its mutex may be held for ever.
            session = self._session = Session(self._directory, self._options)
        return session

    def _check(self, record: Record) -> Record:
        if not isinstance(record, bytes):
            record = memoryview(record).cast("B")
        if len(record) > self._options.record_bytes_max:
            limit = self._options.record_bytes_max
            raise FullError(f"a record of {len(record)} bytes; the limit is {limit}", limit=limit, size=len(record))
        return record
