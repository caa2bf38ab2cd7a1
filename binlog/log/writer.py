"""The writer of a log: the object that a program appends through."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, Self, TypedDict, overload

from binlog._codec import frame_records
from binlog.errors import BinlogError, BusyError, ClosedError, FullError, UnknownOutcomeError
from binlog.format.record import COUNT_MAX, LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, Ref, frame
from binlog.format.values import byte_count, duration_of, member, plain_bytes, seconds_of
from binlog.log.append.background import BackgroundThread
from binlog.log.append.leading_thread import LeadingThread, Place
from binlog.log.append.producers import ProducerBatch
from binlog.log.append.session import Session
from binlog.log.append.writer_stat import WriterStat, writer_stat
from binlog.log.batch import Batch, Refs
from binlog.log.directory import LogDirectory
from binlog.log.options import Background, WriterOptions, WriterSealer
from binlog.storage.commit_file import RECORD_BYTES_COPIED, Append
from binlog.storage.files import FileSystem, make_directory
from binlog.storage.mode import Mode
from binlog.storage.native import fork_generation

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import TypeVar

    from binlog.log.append.batch_appends import BatchAppends
    from binlog.log.ingest.external_file import ExternalFile

    _Place = TypeVar("_Place", default=Ref)

    class Options(TypedDict, total=False):
        """The options of a Writer, for functions that pass them on."""

        strict: bool
        background: Background | None
        record_bytes_max: int | str
        prepare_bytes: int | str
        cutover_bytes: int | str | None
        cutover_seconds: float | timedelta | str | None
        lock_timeout: float | timedelta | str | None
        permissions: int | None
        file_system: FileSystem | str
        sealer: WriterSealer | None

else:
    from typing import TypeVar

    _Place = TypeVar("_Place")

_DEFAULTS = WriterOptions()

# In Python 3.11 an enum's attributes are slow to fetch, and an append takes a few microseconds.
_SYNC, _FLUSH, _STAGE = Mode.SYNC, Mode.FLUSH, Mode.STAGE

Record = bytes | bytearray | memoryview
Timeout = float | timedelta | str | None

_SECONDS_MAX = 10**9


class Writer(Generic[_Place]):
    """Appends records to the log in a directory.  Any number of writers may do so, in any threads and processes.

    path: the directory; it is created if it is missing, in a parent that exists.
    mode: how far a record is when `append` returns, unless the call names another mode.
    strict: sync the tail as well before an append returns, the classic order.  If another program appends to the log,
        all writers do so.
    background: when records that no caller waits for are flushed and synced; see Background.
    record_bytes_max: the largest record accepted; 64 MiB by default, at most 2**31-1.
    prepare_bytes: the largest step in which space is allocated after the tail.
    cutover_bytes, cutover_seconds: cut over automatically if the open file has this many bytes, or has records and this
        age; None for no limit. "1G", "12h" and a timedelta are accepted too.  An append never fails because of a
        cutover.
    lock_timeout: seconds to wait for the lock before BusyError, in the order of arrival; None waits forever.  If
        another process has begun the append's commit by then, the writer waits for that, 5 s at most, and then raises
        UnknownOutcomeError.
    permissions: the exact mode of new files; None for the mode of the newest file, or 0640 for the first.
    file_system: FileSystem.ANY accepts a directory on a file system that other machines may share.
    sealer: seals the log from a thread of this process, if no other process does; see binlog.seal.ElectedSealer.

    If an earlier write or sync failed, opening closes the file at the last confirmed commit, quarantines the rest, and
    continues in the next file.
    Threads may share a writer, and both sides of a fork may use it.  Leaving its `with` block closes it.
    Raises: AccessError, CorruptError, VersionError, BusyError, FullError, PoisonedError.
    """

    @overload
    def __init__(
        self: Writer[Ref],
        path: str | os.PathLike[str],
        *,
        mode: Literal[Mode.SYNC, Mode.FLUSH] = Mode.SYNC,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: Writer[None], path: str | os.PathLike[str], *, mode: Literal[Mode.STAGE], **options: Unpack[Options]
    ) -> None: ...
    @overload
    def __init__(
        self: Writer[Ref | None], path: str | os.PathLike[str], *, mode: Mode | str, **options: Unpack[Options]
    ) -> None: ...
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode | str = Mode.SYNC,
        strict: bool = False,
        background: Background | None = None,
        record_bytes_max: int | str = _DEFAULTS.record_bytes_max,
        prepare_bytes: int | str = _DEFAULTS.prepare_bytes,
        cutover_bytes: int | str | None = None,
        cutover_seconds: float | timedelta | str | None = None,
        lock_timeout: float | timedelta | str | None = None,
        permissions: int | None = None,
        file_system: FileSystem | str = FileSystem.LOCAL,
        sealer: WriterSealer | None = None,
    ) -> None:
        mode = member(Mode, mode, "mode")
        file_system = member(FileSystem, file_system, "file_system")
        record_bytes_max = byte_count(record_bytes_max, "record_bytes_max")
        prepare_bytes = byte_count(prepare_bytes, "prepare_bytes")
        if cutover_bytes is not None:
            cutover_bytes = byte_count(cutover_bytes, "cutover_bytes")
        if cutover_seconds is not None:
            cutover_seconds = seconds_of(cutover_seconds, "cutover_seconds")
        if lock_timeout is not None:
            lock_timeout = seconds_of(lock_timeout, "lock_timeout")
        if background is not None and not isinstance(background, Background):
            raise TypeError(f"background is a binlog.Background, not {background!r}")
        if permissions is not None and not isinstance(permissions, int):
            raise TypeError(f"permissions are a number such as 0o640, not {permissions!r}")
        if not 0 <= record_bytes_max <= RECORD_BYTES_FORMAT_MAX:
            raise ValueError(f"record_bytes_max is 0 to {RECORD_BYTES_FORMAT_MAX}, not {record_bytes_max}")
        if prepare_bytes < 4096:
            raise ValueError(f"prepare_bytes is 4096 or more, not {prepare_bytes}")
        if cutover_bytes is not None and cutover_bytes < 1:
            raise ValueError(f"cutover_bytes is 1 or more, not {cutover_bytes}")
        if cutover_seconds is not None and not 0 < cutover_seconds <= _SECONDS_MAX:
            raise ValueError(f"cutover_seconds is more than 0, and {_SECONDS_MAX} at most, not {cutover_seconds}")
        if permissions is not None and not 0 <= permissions <= 0o7777:
            raise ValueError(f"permissions are 0 to 0o7777, not {permissions:#o}")
        self._mode = mode
        self._record_bytes_max = record_bytes_max
        self._options = WriterOptions(
            mode=self._mode,
            strict=strict,
            background=background if background is not None else Background(),
            record_bytes_max=record_bytes_max,
            prepare_bytes=prepare_bytes,
            cutover_bytes=cutover_bytes,
            cutover_seconds=cutover_seconds,
            lock_timeout=lock_timeout,
            permissions=permissions,
            file_system=file_system,
        )
        self._limited = self._options.limited
        path = os.fspath(path)
        make_directory(path)
        self._directory = LogDirectory(path)
        self._background: BackgroundThread | None = None
        self._leading: LeadingThread | None = None
        self._leadings: dict[int, LeadingThread] = {}  # by the number of forks
        self._sealer = sealer
        self._begin_session()
        if sealer is not None:
            sealer.start(path)

    @overload
    def append(self, record: Record, *, mode: None = None, timeout: Timeout = None) -> _Place: ...
    @overload
    def append(self, record: Record, *, mode: Literal[Mode.SYNC, Mode.FLUSH], timeout: Timeout = None) -> Ref: ...
    @overload
    def append(self, record: Record, *, mode: Literal[Mode.STAGE], timeout: Timeout = None) -> None: ...
    @overload
    def append(self, record: Record, *, mode: Mode | str | None, timeout: Timeout = None) -> Ref | _Place | None: ...
    def append(self, record: Record, *, mode: Mode | str | None = None, timeout: Timeout = None) -> Ref | _Place | None:
        """Append one record and return its ref; None in Mode.STAGE, because a staged record has no place yet.

        record: 0 to record_bytes_max bytes, stored exactly as given.
        Durable on return in Mode.SYNC; see docs/durability.md for the other modes.
        Blocks until the current group has committed, then for one sync.  Ctrl-C ends the call; the record may still
        appear.
        timeout: seconds, after which the call ends whatever it waits for: a lock, a stopped process, a sync, or in
            Mode.STAGE room in shared memory.  None waits forever, or for the writer's `lock_timeout`.  Then BusyError
            means that the record will not be in the log, so that a retry cannot repeat it, and UnknownOutcomeError
            that it may be.  Another thread of the writer commits such a record, which takes some 30 us longer.
        Raises: FullError, ClosedError, BusyError, PoisonedError, CorruptError, AccessError, UnknownOutcomeError.
        """
        begun = self._append_quickly(record, mode, timeout)
        if begun is None:
            return None  # it is staged
        if type(begun) is Ref:
            if self._limited:
                self._session.cut_over_at_limit(begun, len(record) + LENGTH_BYTES)
            return None if (mode or self._mode) is _STAGE else begun
        if type(record) is not bytes:
            return self.append(plain_bytes(record), mode=mode, timeout=timeout)
        return self._append_slowly(record, mode, timeout, begun)

    def _append_slowly(
        self, record: bytes, mode: Mode | str | None, timeout: Timeout, begun: Append | Literal[False]
    ) -> Ref | None:
        """Finish the append that FastPath.append began, or do one that it could not do."""
        mode = self._mode if mode is None else member(Mode, mode, "mode")
        try:
            place = self._place_of(record, mode, timeout, begun)
        except (BusyError, UnknownOutcomeError) as error:
            self._count_failure(error)
            raise
        if place is None:
            return None
        self._session.fast_path.count_append(mode, 1, len(record))
        return None if mode is _STAGE else Ref(*place)

    def _place_of(self, record: bytes, mode: Mode, timeout: Timeout, begun: Append | Literal[False]) -> Place | None:
        """Append, and return the place; None if the fast path has staged the record after all."""
        if timeout is not None:
            limit = duration_of(timeout, "timeout")
            self._session_now(mode)
            if mode is _STAGE and self._append_quickly(record, mode, float(limit)) is None:
                return None
            return self._append_within(self._checked(record), 1, mode, limit, framed=False)
        if begun is not False:
            return self._session.finish(begun, record)
        if len(record) > self._record_bytes_max:
            self._refuse_size(len(record))
        session = self._open_session()
        if mode is not _SYNC:
            self._start_background(session)
        large = len(record) > RECORD_BYTES_COPIED
        data = frame(record) if large else record
        return session.append(data, 1, _SYNC if mode is _SYNC else _FLUSH, framed=large)

    def _count_failure(self, error: BinlogError) -> None:
        counters = self._session.fast_path
        (counters.count_busy if isinstance(error, BusyError) else counters.count_unknown)()

    def _append_within(
        self, data: bytes | memoryview, record_count: int, mode: Mode, timeout: float, *, framed: bool
    ) -> Place:
        """Append within a time limit in seconds; Mode.STAGE counts as Mode.FLUSH."""
        session = self._session_now(mode)
        mode = _SYNC if mode is _SYNC else _FLUSH
        return self._leading_thread().append(session, data, record_count, mode, framed=framed, timeout=timeout)

    def _leading_thread(self) -> LeadingThread:
        """Return this process's thread for appends with a time limit, started."""
        leading, generation = self._leading, fork_generation()
        if leading is None or leading.generation != generation:
            made = LeadingThread(self._opener())
            # If several threads make one at the same time, all use the first; `setdefault` cannot be interrupted.
            leading = self._leading = self._leadings.setdefault(generation, made)
            if leading is not made:
                made.stop()
        return leading

    def _session_now(self, mode: Mode) -> Session | None:
        """Return the session, None if this process is a forked child that has not opened the log yet."""
        session = self._session
        if session.closed:
            raise ClosedError("the writer is closed")
        if session.generation != fork_generation():
            return None
        if mode is not _SYNC:
            self._start_background(session)
        return session

    def _opener(self) -> Callable[[bool], Session]:
        """Return a function that opens the session, and starts the background thread if told."""
        here = weakref.ref(self)

        def open_session(needs_background: bool) -> Session:
            writer = here()
            if writer is None:
                raise ClosedError("the writer was dropped")
            session = writer._open_session()
            if needs_background:
                writer._start_background(session)
            return session

        return open_session

    def append_many(
        self, records: Iterable[Record], *, mode: Mode | str | None = None, timeout: Timeout = None
    ) -> Refs:
        """Append records together and return their refs; Mode.STAGE counts as Mode.FLUSH.

        The records are contiguous, in one file, and become visible at once.  After a crash all of them are in the log
        or none.  Durable on return in Mode.SYNC.
        Blocks and raises: as `append`; so does its timeout.
        """
        if isinstance(records, bytes | bytearray | memoryview | str):
            raise TypeError("append_many takes several records, as a list of them; append takes one")
        copied = list(records)
        framed = frame_records(copied, self._record_bytes_max)
        if framed is None:
            framed = frame_records([self._checked(record) for record in copied], self._record_bytes_max)
        assert framed is not None
        data, starts = framed
        if not copied:
            self._open_session()
            return Refs(0, 0, starts)
        return Refs(*self._append_together(data, len(copied), mode, timeout), starts)

    def append_batch(self, batch: Batch, *, mode: Mode | str | None = None) -> Ref:
        """Append the records of a batch together, like `append_many`, without a Python object for each record.

        Returns the ref of the first one; the others follow as in the batch.
        Raises: ValueError if the batch's offsets do not match its data; otherwise as `append_many`.
        """
        data = batch.framed(record_bytes_max=self._record_bytes_max)
        if not len(batch):
            raise ValueError("a batch without records has no ref")
        return Ref(*self._append_together(data, len(batch), mode, None))

    def append_batches(self, batches: Iterable[Batch]) -> Ref | None:
        """Append the records of batches, all or none of them, even gigabytes.

        Returns the ref of the first record, None for no records.  The records are contiguous, in one file, become
        visible at once, and are durable on return.
        Blocks: all other appends, until it has read the batches.
        Raises: StateError if another program made the open file; ValueError if a batch's offsets do not match its data;
        otherwise as `append`.
        """
        found = self._counted(self._batch_appends().append_batches(batches))
        return found.ref if found is not None and found.record_count else None

    def append_idempotent(self, batches: Iterable[Batch], *, producer: str, sequence: int) -> ProducerBatch | None:
        """Append a producer's batch, like `append_batches`, but once however often the producer retries.

        producer: its name.  sequence: the batch's number, from 0 on, rising from batch to batch.
        If the batch or a later one is in the log, the call appends nothing and returns None.  That holds even if this
        process or the machine died in the call that appended it.
        After UnknownOutcomeError, PoisonedError or Ctrl-C the same call resolves the earlier one.  Blocks and raises:
        as `append_batches`.
        """
        _check_sequence(sequence)
        return self._counted(self._batch_appends().append_batches(batches, producer=producer, sequence=sequence))

    def ingest(
        self, files: Iterable[ExternalFile], *, producer: str | None = None, sequence: int = 0
    ) -> ProducerBatch | None:
        """Add the records of external files, all or none, in this order; once, if they are a producer's batch.

        If all files are durable, belong to this user and are on the log's file system, under the same mount, they
        become the next files of the log: nothing is read or copied, and other writers wait for a few syncs a file.
        Readers may see the first files some milliseconds before the last one.  Once the first one is in the log, the
        others follow even if this process dies: another writer places them.  Otherwise the records are copied to the
        open file, as by `append_batches`.
        producer, sequence: as in `append_idempotent`; without a producer, a second call is not recognized as a retry.
        Returns the place of the records in the first file; None if the batch is in the log already.
        Durable on return.  The external files are consumed, even if the call fails.
        Raises: as `append_batches`, or as `append_idempotent`; UnknownOutcomeError if the log cannot take the next file
        now and will later; ValueError if a file is given twice; NotFoundError or AccessError if a file is missing or
        has changed, with nothing appended.
        """
        if producer is not None:
            _check_sequence(sequence)
        return self._counted(self._batch_appends().ingest(list(files), producer=producer, sequence=sequence))

    def last_producer_batch(self, producer: str) -> ProducerBatch | None:
        """Return the last batch of a producer that is in the log, or None.  Blocks and raises as `append`."""
        return self._batch_appends().last_producer_batch(producer)

    def _batch_appends(self) -> BatchAppends:
        from binlog.log.append.batch_appends import BatchAppends  # most programs append no such batches

        return BatchAppends(self._open_session())

    def _append_together(
        self, data: bytes | memoryview, record_count: int, mode: Mode | str | None, timeout: Timeout
    ) -> Place:
        """Append framed records together; Mode.STAGE counts as Mode.FLUSH."""
        mode = self._mode if mode is None else member(Mode, mode, "mode")
        if mode is _STAGE:
            mode = _FLUSH
        try:
            if timeout is not None:
                place = self._append_within(data, record_count, mode, duration_of(timeout, "timeout"), framed=True)
            else:
                session = self._open_session()
                if mode is not _SYNC:
                    self._start_background(session)
                place = session.append(data, record_count, _SYNC if mode is _SYNC else _FLUSH, framed=True)
        except (BusyError, UnknownOutcomeError) as error:
            self._count_failure(error)
            raise
        self._session.fast_path.count_append(mode, record_count, len(data) - record_count * LENGTH_BYTES)
        return place

    def _counted(self, batch: ProducerBatch | None) -> ProducerBatch | None:
        if batch is not None:
            size = batch.end - batch.start - batch.record_count * LENGTH_BYTES
            self._session.fast_path.count_append(_SYNC, batch.record_count, size)
        return batch

    def cutover(self, *, expected: int | None = None) -> int:
        """Close the open file, continue in the next one, and return the number of the open file.

        expected: cut over only if the open file has this number, so that many callers cause one cutover.
        Durable on return.  Raises: FullError, ClosedError, BusyError, PoisonedError, CorruptError, AccessError.
        """
        return self._open_session().cutover(expected)

    def sync(self) -> None:
        """Wait until every earlier append, of any writer and in any mode, is durable.

        Raises: as `append`.
        """
        self._open_session().drain(confirm=True)

    def stat(self) -> WriterStat:
        """Return the counters of this writer in this process.  Takes no lock, and works on a closed writer too."""
        is_here = self._session.generation == fork_generation()
        return writer_stat(self._session) if is_here else WriterStat()

    @property
    def path(self) -> str:
        """The log's directory, as given."""
        return self._directory.path

    def close(self) -> None:
        """Close the writer after everything appended is durable, in any mode; a second call does nothing.

        Blocks: until another thread's call has ended, then for a sync if one is due.
        Raises: as `append`; the writer is closed then too.
        """
        try:
            self._session.close()
        finally:
            if self._session.closed:
                if self._background is not None:
                    self._background.stop()
                if self._leading is not None:
                    self._leading.stop()
                if self._sealer is not None:
                    self._sealer.stop()
                self._directory.close()

    def __enter__(self) -> Self:
        self._open_session()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<binlog.Writer {self._directory.path!r}{' closed' if self._session.closed else ''}>"

    def _open_session(self) -> Session:
        if self._session.closed:
            raise ClosedError("the writer is closed")
        if self._session.generation != fork_generation():
            # A forked child: the parent's descriptors are closed here, and its mutex may stay locked forever.
            self._background = None  # its thread stayed in the parent
            self._begin_session()
        return self._session

    def _begin_session(self) -> None:
        session = Session(self._directory, self._options)
        if self._options.limited:
            self._start_background(session)
        self._session, self._append_quickly = session, session.fast_path.append

    def _start_background(self, session: Session) -> None:
        """Start the background thread, unless it runs."""
        if not session.fast_path.has_background:
            self._background = BackgroundThread(session, self._options.background)
            session.fast_path.has_background = True

    def _checked(self, record: Record) -> bytes:
        record = plain_bytes(record)
        if len(record) > self._record_bytes_max:
            self._refuse_size(len(record))
        return record

    def _refuse_size(self, size: int) -> NoReturn:
        limit = self._record_bytes_max
        raise FullError(f"a record of {size} bytes; the limit is {limit}", limit=limit, size=size)


def _check_sequence(sequence: object) -> None:
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        raise TypeError(f"a sequence is a whole number, not {type(sequence).__name__}")
    if not 0 <= sequence <= COUNT_MAX:
        raise ValueError(f"a sequence is 0 to {COUNT_MAX}, not {sequence}")
