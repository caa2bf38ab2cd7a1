"""Appending to a log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from binlog.errors import ClosedError, FullError
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, frame, frame_all
from binlog.format.ref import Ref
from binlog.log.directory import LogDirectory
from binlog.log.session import Session, WriterOptions
from binlog.storage.files import FileSystem, make_directory
from binlog.storage.group_commit import COPY_BYTES_MAX, Mode
from binlog.storage.native import fork_generation

RECORD_BYTES_MAX = 64 << 20
PREPARE_BYTES = 64 << 20

Record = bytes | bytearray | memoryview


class Writer:
    """Appends records to the log in a directory; one of any number, in any threads and processes.

    path: the directory, made where it is missing (its parent must be there).
    mode: how far a record is when `append` returns, unless a call says otherwise.
    strict: sync the tail as well before an append returns, the classic order; a log that another program writes too is
        strict by itself.
    record_bytes_max: the largest record accepted, 64 MiB unless told, 2**31-1 at most.
    prepare_bytes: the largest step in which space is allocated ahead of the tail.
    lock_timeout: seconds to wait for another program's lock before BusyError; None waits for ever.
    permissions: of new files, exactly; None for 0640 less the umask.
    file_system: FileSystem.ANY accepts a directory on a file system that other machines may share.

    A writer may be shared by threads and used on both sides of a fork.  Leaving its `with` block closes it.
    Raises: AccessError, CorruptError, VersionError, BusyError, FullError, PoisonedError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = Mode.SYNC,
        strict: bool = False,
        record_bytes_max: int = RECORD_BYTES_MAX,
        prepare_bytes: int = PREPARE_BYTES,
        lock_timeout: float | None = None,
        permissions: int | None = None,
        file_system: FileSystem = FileSystem.LOCAL,
    ) -> None:
        if not 0 <= record_bytes_max <= RECORD_BYTES_FORMAT_MAX:
            raise ValueError(f"record_bytes_max is 0 to {RECORD_BYTES_FORMAT_MAX}, not {record_bytes_max}")
        if prepare_bytes < 4096:
            raise ValueError(f"prepare_bytes is 4096 or more, not {prepare_bytes}")
        if permissions is not None and not 0 <= permissions <= 0o7777:
            raise ValueError(f"permissions are 0 to 0o7777, not {permissions:#o}")
        self._options = WriterOptions(
            mode=Mode(mode),
            strict=strict,
            record_bytes_max=record_bytes_max,
            prepare_bytes=prepare_bytes,
            lock_timeout=lock_timeout,
            permissions=permissions,
            file_system=file_system,
        )
        path = os.fspath(path)
        make_directory(path)
        self._directory = LogDirectory(path)
        self._session: Session | None = Session(self._directory, self._options)

    def append(self, record: Record, *, mode: Mode | None = None) -> Ref:
        """Append one record and return where it lies.

        record: 0..record_bytes_max bytes, stored exactly as given.
        Durable on return in Mode.SYNC, and visible to every reader.
        Blocks: for the group in progress, then for one sync.  Ctrl-C meanwhile ends the call; the record may appear.
        Raises: FullError, ClosedError, BusyError, PoisonedError, CorruptError, AccessError, UnknownOutcomeError.
        """
        session = self._open_session()
        record = self._check(record)
        if len(record) < COPY_BYTES_MAX - LENGTH_BYTES:
            place = session.append(record, 1, mode or self._options.mode, framed=False)
        else:
            place = session.append(frame(record), 1, mode or self._options.mode, framed=True)
        return Ref(*place)

    def append_many(self, records: Iterable[Record], *, mode: Mode | None = None) -> list[Ref]:
        """Append records together and return where each lies.

        They lie in one file, one after the other, become visible at once, and after a crash either all of them are
        there or none.  Durable on return in Mode.SYNC.
        Blocks and raises: as `append`.
        """
        checked = [self._check(record) for record in records]
        session = self._open_session()
        if not checked:
            return []
        number, offset = session.append(frame_all(checked), len(checked), mode or self._options.mode, framed=True)
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
        """Wait until everything appended before, whoever did and in whatever mode, is on stable storage.

        Raises: as `append`.
        """
        self._open_session().drain(confirm=True)

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

    def _open_session(self) -> Session:
        session = self._session
        if session is None:
            raise ClosedError("the writer is closed")
        if session.generation != fork_generation():
            # A forked child: the parent's descriptors are closed here, and its mutex may be held for ever.
            session = self._session = Session(self._directory, self._options)
        return session

    def _check(self, record: Record) -> bytes | memoryview:
        if not isinstance(record, bytes):
            record = memoryview(record).cast("B")
        if len(record) > self._options.record_bytes_max:
            limit = self._options.record_bytes_max
            raise FullError(f"a record of {len(record)} bytes; the limit is {limit}", limit=limit, size=len(record))
        return record
