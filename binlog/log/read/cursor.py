"""Cursor: the position of a reader, which moves through a file and on to the next one."""

from __future__ import annotations

import time
from functools import partial

from binlog.errors import AccessError, CorruptError, GoneError, NotFoundError
from binlog.format.log_header import FIRST_OFFSET, LOG_HEADER, LogHeader
from binlog.format.names import NUMBER_FIRST
from binlog.format.record import Ref
from binlog.log.batch import RawBatch
from binlog.log.directory import LogDirectory
from binlog.log.files.sequences import gap_error, missing_between, missing_next_error
from binlog.log.read.file_reader import FileReader
from binlog.log.read.position import AfterCloseRecords, FilePosition
from binlog.log.read.start import Sequence, Since, Start, StartPosition, find_sequence, find_time
from binlog.storage.waiting.bell_watcher import green_sleep
from binlog.storage.waiting.doorbell import Doorbell, Wait

# How long a waiting reader relies on the doorbell alone: other programs do not ring it, and a writer may die between
# raising it and waking the waiters.
_WAIT_SECONDS_MAX = 5.0
# The same if other programs are known to write to the log, or if no file exists yet to wait on.
_WAIT_SECONDS_MAX_FOREIGN = 0.05


# How often a reader at the end of an open file checks that the file and the directory still have their names, and
# whether a next file exists: one may, if the files of a log were copied at two moments.
_CHECK_SECONDS = 1.0


class Cursor:
    """The position of a reader in a log.  It owns the directory and the files that it opens."""

    def __init__(
        self, directory: LogDirectory, start: StartPosition, *, follow: bool, record_bytes_max: int, verify: bool
    ) -> None:
        self.directory = directory
        self._start = start
        self.follow = follow
        self._record_bytes_max = record_bytes_max
        self._verify = verify
        self._place: FilePosition | None = None
        self._after_close = AfterCloseRecords()
        self._read_from: FilePosition | None = None
        self._checked = time.monotonic()
        self._waited_for: FileReader | None = None
        self._is_intact = False  # the last `ready` saw that the descriptor still is the file's
        if not self._open_start() and not isinstance(start, Ref):
            # The end of a log without files is its beginning: every record comes after it, and after now.
            if isinstance(start, Sequence) and start.number:
                raise ValueError(f"sequence {start.number}: the log has no records so far")
            self._start = Start.BEGINNING

    def read(self, records_max: int, bytes_max: int, buffer: bytes | None = None) -> RawBatch | None:
        """Return the next records of one file, or None if there are none; then `advance` moves past them.

        buffer: bytes that no other object has; the data may be read into them.
        Raises: as Reader.read_batch.
        """
        try:
            place = self._place
            if place is None or place.offset >= place.file.header_cache.tail:
                refreshed = False
                if place is not None and not place.file.header_cache.closed:
                    found = place.file.read_new(place.offset, place.sequence, records_max, bytes_max)
                    if not isinstance(found, bool):
                        self._read_from = place
                        return found
                    refreshed = not found
                place = self._find_ready(refreshed=refreshed)
                if place is None:
                    return None
            self._read_from = place
            return place.file.read(place.offset, place.sequence, records_max, bytes_max, buffer)
        except (CorruptError, AccessError):
            if not self._reopen_lost():  # true if the bytes were read from another file
                raise
        return self.read(records_max, bytes_max)

    def advance(self, offset: int, sequence: int | None) -> None:
        """Move to `offset`, the end of some of the records of the last `read`."""
        if self._read_from is not None:
            self._read_from.advance(offset, sequence)

    def skip(self, ref: Ref, end: int) -> bool:
        """Move from a record to its end; return False, and do nothing, if it is not the next record in order."""
        place = self._place
        if place is None or place.offset != ref.offset or place.file.number != ref.number:
            return False
        place.advance(end, None if place.sequence is None else place.sequence + 1)
        return True

    def read_to(self, ref: Ref, end: int) -> RawBatch | None:
        """Return the records up to the end of a published one, as `read`; None as Reader.read_to."""
        place = self._place
        if place is None or place.file.number != ref.number or not place.offset <= ref.offset:
            return None
        self._read_from = place
        return place.file.read_published(place.offset, end, place.sequence)

    @property
    def in_order(self) -> bool:
        """Whether the last `read` was in order, and not of records that follow a file's close."""
        return self._read_from is self._place

    def ready(self) -> bool:
        """Return whether `read` would return records, or raise.

        `Reader.wait` calls this at least every `wait_seconds_max`, whether the doorbell rang or not.  That is five
        seconds, or 50 ms if other programs are known to write to the log.  So a lost wake-up delays a record by five
        seconds at most.  `publish` in native/log/commit.c rings the doorbell, in the write that moves the tail, and
        `lead` in native/log/group.c then wakes the waiters.  Around a cutover `WritableFile.close_at` rings it, and
        `WritableFile.wake` wakes them.  `Recovery` rings it when it writes the header.

        If a wait lasts longer although records were appended, the doorbell is not the cause.  Either this function
        found no record, or the wait did not reach it:

        - The records are not published: they are only staged, or their leader failed, is stopped, or waits for a lock.
          `stat` returns the tail that readers may read up to.
        - Another program appended them to a file that was just closed.  `AfterCloseRecords` reads such files again
          every five seconds, so that a wait may take twice as long.  It reads only files that this cursor has left.
        - Another program moved the tail, but all bytes up to it are zeros (`is_unproven`).  Readers stop before them
          until a writer has repaired the file.
        - The writer has another directory open, such as a copy.  If the reader's path now leads to that one,
          `_check_still_named` raises GoneError; if the two paths differ, nothing can tell.
        - The directory is filled by `ship`, which copies closed files only.
        - The next file belongs to another log, because files of two logs were copied into one directory.  Then
          `_is_next_in_use` does not continue in it; `check` reports it.
        - Another thread is in a call of the same Reader, and has the lock of its CallGuard.
        - The log is on a network file system, or its writers are on another machine.  Their doorbell does not reach
          this one, and its kernel may return cached bytes for a while.
        - A read of the disk does not return.
        - The process is stopped, or under gevent or eventlet no other greenlet yields.
        """
        self._is_intact = False
        try:
            return self._find_ready() is not None
        except (CorruptError, AccessError):
            if not self._reopen_lost():
                raise
        return self._find_ready() is not None

    @property
    def finished(self) -> bool:
        """Whether no record can follow: the file is closed and read to its end, and follow is False."""
        place = self._place
        return not self.follow and place is not None and place.file.header_cache.closed and not place.has_more

    @property
    def position(self) -> Ref:
        """The ref of the next record in order."""
        self._reopen_lost()
        place = self._place
        if place is None:
            return self._start if isinstance(self._start, Ref) else Ref(NUMBER_FIRST, FIRST_OFFSET)
        if not place.refresh() and place.file.header_cache.closed:
            number = place.file.header_cache.next_number
            try:
                return Ref(number, self.directory.read_header(number).first_offset)
            except NotFoundError:
                pass  # by rule the position is the closed file's tail until the next file exists
        return Ref(place.file.number, place.offset)

    @property
    def wait_seconds_max(self) -> float:
        """How long to wait at most before calling `ready` again."""
        place = self._place
        is_foreign = (
            place is None or place.file.header_cache.has_foreign_writers or self._after_close.has_foreign_writers
        )
        return _WAIT_SECONDS_MAX_FOREIGN if is_foreign else _WAIT_SECONDS_MAX

    def prepare_wait(self, timeout: float) -> tuple[Wait, int, int | None]:
        """Return a callable that waits for records, with their file number and first sequence number.

        Call it right after `ready` returned False.  It waits for `timeout` seconds at most, and may return early.  If
        it does not return records, pass its result to `end_wait`.
        """
        place = self._place
        self._waited_for = self._bell_file
        if place is None or self._waited_for is None:
            return partial(_sleep, timeout), 0, None
        self._read_from = place
        # If a program closed all descriptors, the number may now be of a copy of this log, with the same header.
        if not self._is_intact and not place.file.intact:
            self._reopen_lost()
            self._waited_for = None
            return _nothing, 0, None
        return place.file.prepare_wait(timeout, place.offset), place.file.number, place.sequence

    @property
    def _bell_file(self) -> FileReader | None:
        """The file whose doorbell would ring; None if there is none yet, or only closed ones that were shipped here."""
        place = self._place
        return None if place is None or (self.follow and place.file.header_cache.closed) else place.file

    def end_wait(self, result: int | None) -> None:
        """Take the result of a wait that returned no records."""
        file, self._waited_for = self._waited_for, None
        if file is not None:
            file.end_wait(result)

    def doorbell_and_seen(self) -> tuple[Doorbell, int] | None:
        """Return the doorbell to wait on and its value, right after `ready` returned False; None without an open
        file."""
        file = self._bell_file
        return None if file is None else file.doorbell_and_seen()

    def wake(self) -> None:
        """End the wait of another thread.  If the thread is only about to wait, it takes another call."""
        place = self._place
        if place is not None:
            place.file.wake()

    def close(self) -> None:
        """Close every file, and the directory."""
        if self._place is not None:
            self._place.file.close()
        self._after_close.close()
        self.directory.close()

    def _find_ready(self, *, refreshed: bool = False) -> FilePosition | None:
        """Return the position of the next record, if there is one.  refreshed: the header was read just now."""
        while True:
            place = self._place
            if place is None:
                if not self._open_start():
                    return None
                continue
            # Read the header again after it was seen closed, because its tail may have moved just before.
            if not refreshed and (place.refresh() or (place.file.header_cache.closed and place.refresh())):
                return place
            refreshed = False
            after_close = self._after_close.refresh()
            if after_close is not None:
                return after_close
            if not place.file.header_cache.closed:
                if self._is_continued(place):
                    continue
                return None
            if not self.follow or not self._open_next(place, place.file.header_cache.next_number):
                return None

    def _reopen_lost(self) -> bool:
        """Reopen descriptors that other code of this process closed, as a daemon does; return whether there were any.

        Raises: GoneError.
        """
        place, lost = self._place, not self.directory.intact
        if lost:
            self.directory.check_path()
        if place is None or place.file.intact:
            return lost
        self.directory.check_path()
        try:
            file = self._open(place.file.number)
        except NotFoundError:
            raise GoneError(f"{place.file.path}: the file was removed while its descriptor was closed") from None
        self._after_close.close()
        self._after_close = AfterCloseRecords()
        self._place = FilePosition(file, place.offset, place.sequence)
        self._read_from = None
        return True

    def _is_continued(self, place: FilePosition) -> bool:
        """Return whether the log continues after a file whose header says that it is open.

        Checks once, then every second, and each time if the header names the next file.
        Raises: GoneError; CorruptError if records between it and the next file are missing.
        """
        now = time.monotonic()
        due = now - self._checked >= _CHECK_SECONDS
        if place.end_seen and not due and not place.file.header_cache.next_number:
            return False
        place.end_seen = False  # if this raises below, the next call raises again
        if self._is_next_in_use(place) or (due and self._check_still_named(place)):
            return True
        place.end_seen = self.follow  # without follow, a next file was not checked for
        if due:
            self._checked = now
        return False

    def _check_still_named(self, place: FilePosition) -> bool:
        """Raise GoneError if an open file has lost its name, because writers now append to another one.

        Returns True if there is more to read after all.
        """
        self._is_intact = place.file.intact
        if not self._is_intact:
            return self._reopen_lost()  # the descriptor is of another file, perhaps of a copy of this log
        if place.file.check_named():
            return False
        if place.refresh() or place.file.header_cache.closed:
            return True  # the file was closed meanwhile, and then pruned or archived
        text = "the open file was moved away or removed, or another one has its name"
        raise GoneError(f"{place.file.path}: {text}; what is appended now is not in it")

    def _is_next_in_use(self, place: FilePosition) -> bool:
        """Return whether the next file is in use, although this file's status is open.

        Raises: CorruptError if records between the two are missing.
        """
        cache = place.file.header_cache
        if cache.next_number:
            return self.directory.exists(cache.next_number) and cache.reconsider()
        number = place.file.number + 1
        if not self.directory.is_file(number):
            return False
        following = self.directory.read_header(number)
        if following.unused:
            return False
        # Read the header again: a cutover closes this file before the next one is in use.
        if cache.reconsider():
            return True
        self._check_gap(place.file, following)
        header = cache.header
        if not (self.follow and header.is_native and following.is_native and header.uuid == following.uuid):
            return False
        # This file was copied just before the cutover: it has all records, but not the close.
        return self._open_next(place, number)

    def _check_gap(self, file: FileReader, following: LogHeader) -> None:
        """Raise CorruptError if records between a file and the next one are missing."""
        if missing := missing_between(self.directory, file.header, file.content, following):
            raise gap_error(file.path, file.number, missing)

    def _open_next(self, place: FilePosition, number: int) -> bool:
        """Move to the next file; return False if the log ends here, because the next one was not shipped yet.

        Raises: GoneError; CorruptError.
        """
        header = place.file.header
        try:
            file = self._open(number)
        except NotFoundError:
            self.directory.check_path()
            if not self.directory.exists(place.file.number):
                text = f"file {number} and those before it were removed while they were being read"
                raise GoneError(f"{place.file.path}: {text}") from None
            if self.directory.ends_at(place.file.number):
                return False
            raise missing_next_error(place.file.path, header) from None
        try:
            if file.header.is_native and header.is_native and file.header.uuid != header.uuid:
                text = f"the file belongs to another log than {place.file.path}"
                raise CorruptError(file.path, LOG_HEADER.offset("uuid"), "uuid", text)
            self._check_gap(place.file, file.header)
        except BaseException:
            file.close()
            raise
        self._place = FilePosition.first(file)
        if place.file.archived:
            place.file.close()  # an archive never grows, and keeps a frame in memory
        else:
            place.file.rest()
            self._after_close.add(place)
        return True

    def _open(self, number: int) -> FileReader:
        return FileReader(self.directory, number, record_bytes_max=self._record_bytes_max, verify=self._verify)

    def _open_start(self) -> bool:
        """Open the first file to read; return False if the log has none yet."""
        while self._place is None:
            numbers = self.directory.numbers()
            if not numbers:
                self.directory.check_path()
                return False
            try:
                self._place = self._starting_place(numbers)
            except NotFoundError:
                continue  # pruned after the listing
        return True

    def _starting_place(self, numbers: list[int]) -> FilePosition:
        if isinstance(self._start, Ref):
            return self._place_of(self._start, numbers)
        if isinstance(self._start, Sequence):
            return find_sequence(self._start, self._in_use(numbers), self._open)
        if isinstance(self._start, Since):
            return find_time(self._start, self._in_use(numbers), self._open)
        if self._start is Start.END:
            file = self._open_newest(numbers)
            return FilePosition(
                file, file.header.tail, file.sequence_at(file.header.tail) if file.header.is_consistent else None
            )
        return FilePosition.first(self._open(numbers[0]))

    def _in_use(self, numbers: list[int]) -> list[int]:
        newest = self._open_newest(numbers)
        newest.close()
        return [number for number in numbers if number <= newest.number]

    def _open_newest(self, numbers: list[int]) -> FileReader:
        """Open the file that takes appends."""
        if len(numbers) > 1:
            # If a file is open, the next one is only prepared by a cutover that is in progress, or whose writer died.
            file = self._open(numbers[-2])
            if not file.header.closed and self.directory.read_header(numbers[-1]).unused:
                return file
            file.close()
        return self._open(numbers[-1])

    def _place_of(self, ref: Ref, numbers: list[int]) -> FilePosition:
        if ref.number not in numbers:
            if ref.number < numbers[0]:
                raise GoneError(f"{ref}: the log now starts with file {numbers[0]}")
            raise ValueError(f"{ref}: there is no such file; the newest is {numbers[-1]}")
        file = self._open(ref.number)
        try:
            return FilePosition(file, ref.offset, file.sequence_at(ref.offset))
        except BaseException:
            file.close()
            raise


def _sleep(seconds: float) -> None:
    (green_sleep() or time.sleep)(seconds)


def _nothing() -> None:
    """Take the place of a wait, so that the caller calls `ready` again at once."""
